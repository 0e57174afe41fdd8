"""Packet loss, duplication and reordering: nftables rules at the egress of a link, before its queue.

Every kernel that runs a lab has nftables; some lack netem, which also duplicates twice together with a
shaper. On links with a latency netem exists anyway and drops packets in flight (`shaping.change_netem`).
Three details:

- A lost packet is not dropped but forwarded to the loopback, which discards it: the kernel reports a drop to
  the packet socket, and Open vSwitch then retries that packet or discards the rest of its batch. With `drop`,
  5 % loss became whole batches of 32 lost and none in between (measured).
- A duplicated packet passes the same rules again; a mark identifies the copy, once.
- A packet overtakes by its priority, in the first band of the queue (`shaping.BANDS`): the shaper serves the
  same bytes at the same rate, only their order changes. In an empty queue there is nothing to overtake.
"""

from dataclasses import dataclass

from railweave.framework.lab.switching.shaping import FIRST_BAND

PARTS = 1_000_000
COPY = 0x72770001
"""The mark of a copy while it passes the rules; removed before it leaves."""


@dataclass(frozen=True, slots=True)
class Impairment:
    """Shares of the packets of one link, 0..1."""

    loss: float = 0.0
    reorder: float = 0.0
    duplicate: float = 0.0


def script(interface: str, impairment: Impairment) -> str:
    """The input of `nft -f` that replaces the impairment of an interface by this one."""
    table = "netdev fault_" + interface.replace(".", "_").replace("-", "_")
    rules = [f"meta mark {COPY:#x} meta mark set 0 counter accept"] if impairment.duplicate else []
    if impairment.loss:
        rules.append(f'{_share(impairment.loss)} counter fwd to "lo"')
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
