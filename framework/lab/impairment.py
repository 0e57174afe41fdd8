"""Packets lost, sent twice, or let past those that wait: nftables rules where a link's packets leave, before its queue.

nftables serves every kernel that a lab runs on; netem is missing from some, and duplicates twice where it stands with
a shaper. Where a link has a latency netem is there, and it loses packets on their way (`shaping.travel`). Three things
are less simple than they look:

- A lost packet is forwarded to the loopback, which throws it away, and not dropped: the kernel tells a packet socket
  of a drop, and Open vSwitch then tries that packet again, or gives up the rest of its batch. With `drop`, 5 % asked
  became whole batches of 32 lost and nothing between (measured).
- A packet that is sent twice comes through the same rules again; a mark tells the copy, once.
- A packet overtakes by its priority, in the first band of the queue (`shaping.BANDS`): the shaper serves the same
  bytes at the same rate, only their order changes. Where nothing waits there is nothing to overtake.
"""

from __future__ import annotations

from dataclasses import dataclass

from railweave.framework.lab.shaping import FIRST_BAND

PARTS = 1_000_000
COPY = 0x72770001
"""The mark of a copy on its way through the rules; taken off before it leaves."""


@dataclass(frozen=True, slots=True)
class Impairment:
    """Shares of the packets of one link, 0..1."""

    loss: float = 0.0
    reorder: float = 0.0
    duplicate: float = 0.0

    @property
    def any(self) -> bool:
        return max(self.loss, self.reorder, self.duplicate) > 0


def table_name(interface: str) -> str:
    return "netdev fault_" + interface.replace(".", "_").replace("-", "_")


def script(interface: str, impairment: Impairment) -> str:
    """What `nft -f` takes to put this impairment in place of what there is on an interface."""
    table = table_name(interface)
    clean = f"table {table} {{ }}\ndelete table {table}\n"
    if not impairment.any:
        return clean
    rules = [f"meta mark {COPY:#x} meta mark set 0 counter accept"] if impairment.duplicate else []
    if impairment.loss:
        rules.append(f'{_share(impairment.loss)} counter fwd to "lo"')
    if impairment.reorder:
        rules.append(f"{_share(impairment.reorder)} counter meta priority set {FIRST_BAND}")
    if impairment.duplicate:
        rules.append(
            f'{_share(impairment.duplicate)} meta mark set {COPY:#x} dup to "{interface}" meta mark set 0 counter'
        )
    chain = "\n".join(rules)
    hook = f'type filter hook egress device "{interface}" priority 0'
    return f"{clean}table {table} {{ chain out {{ {hook}\n{chain}\n}}\n}}\n"


def _share(share: float) -> str:
    return f"numgen random mod {PARTS} < {round(share * PARTS)}"
