"""Duplication, reordering and wrong ICRCs: nftables rules at the egress of a link, before its queue.

Every kernel that runs a lab has nftables; some lack netem, which also duplicates twice together with a
shaper. Details:

- A duplicated packet passes the same rules again; a mark identifies the copy, once.
- A packet overtakes by its priority, in the first band of the queue (`shaping.BANDS`): the shaper serves the
  same bytes at the same rate, only their order changes. In an empty queue there is nothing to overtake.
- A packet with a wrong ICRC is right in all that switches look at; the four bytes behind its BTH are
  overwritten. UDP has no checksum here, as RoCEv2 has it.
"""

from dataclasses import dataclass

from railweave.framework.lab.switching.shaping import FIRST_BAND
from railweave.framework.model.addressing import ROCE_PORT

PARTS = 1_000_000
"""Shares are drawn in parts of a million, as the kernel's number generator gives them."""
COPY = 0x72770001
"""The mark of a copy while it passes the rules; removed before it leaves."""

BEHIND_BTH = "160,32"
"""Offset from the UDP header, and length, in bits."""
DAMAGE = 0xDEADBEEF
"""What is written behind the BTH of a damaged packet: its ICRC does not fit any more."""


@dataclass(frozen=True, slots=True)
class Impairment:
    """Shares of the packets of one link, 0..1."""

    reorder: float = 0.0
    duplicate: float = 0.0
    wrong_icrc: float = 0.0


def script(interface: str, impairment: Impairment) -> str:
    """The input of `nft -f` that replaces the impairment at the egress of an interface by this one."""
    table = "netdev fault_" + interface.replace(".", "_").replace("-", "_")
    rules = [f"meta mark {COPY:#x} meta mark set 0 counter accept"] if impairment.duplicate else []
    if impairment.wrong_icrc:
        rules.append(
            f"udp dport {ROCE_PORT} {_share(impairment.wrong_icrc)} @th,{BEHIND_BTH} set {DAMAGE:#x} counter"
        )
    if impairment.reorder:
        rules.append(f"{_share(impairment.reorder)} counter meta priority set {FIRST_BAND}")
    if impairment.duplicate:
        rules.append(
            f"{_share(impairment.duplicate)} meta mark set {COPY:#x} "
            f'dup to "{interface}" meta mark set 0 counter'
        )
    clean = f"table {table} {{ }}\ndelete table {table}\n"
    if not rules:
        return clean
    chain = "\n".join(rules)
    hook = f'type filter hook egress device "{interface}" priority 0'
    return f"{clean}table {table} {{ chain out {{ {hook}\n{chain}\n}}\n}}\n"


def _share(share: float) -> str:
    return f"numgen random mod {PARTS} < {round(share * PARTS)}"
