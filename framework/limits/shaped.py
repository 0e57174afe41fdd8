"""The physical limit of a run whose links are token buckets.

A Linux HTB class (net/sched/sch_htb.c) counts tokens in nanoseconds. They grow with time up to the bucket (`burst`), a
packet leaves when they are 0 or more, and costs its own time at the link's rate, which may take them below 0. Debts are
kept for 60 s, over idle times as well. So before the last of the packets that leave in T seconds, the packets before it
cost at most T + bucket: **rate x (T + bucket) and one packet pass, however often the link fell idle in between**. A
schedule that waits for every step gains up to a packet at each step on its own closed form, because the first
packet after a gap leaves at once; but the time of the gap is lost to the link, and a cut counts that time.

What else a link may pass: changing the rate changes nothing of this (tokens are time); taking the carrier away resets
the class (`htb_reset`), which may then send a packet in debt; a packet's cost is cut to whole nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.faults import ResolvedFault
from railweave.framework.limits import cut_bound_s
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.arrays import Bool, Float

BUCKET_S = 50e-6
"""What the lab's buckets hold, as time at the link's rate: `CATCH_UP_S` of framework/lab/shaping.py."""
TICK_S = 1e-9
"""The cost of a packet is cut to whole nanoseconds."""


def shaped_bound_s(
    fabric: Fabric, collective: str, size_bytes: float, packet: PacketFormat, *,
    capacity_bps: Float, resets: int = 0, root: int | None = None,
) -> float:  # fmt: skip
    """Seconds that no run over token buckets can beat; inf where it cannot end, 0 where nothing is known.

    capacity_bps: (n_links,) the best rate that each link had, 0 for one that was down all the time. resets: how often a
    carrier went or came meanwhile. root: see `cut_bound_s`, which raises what this raises.
    """
    packet_s = 8.0 * packet.full_packet_bytes / np.maximum(capacity_bps, 1e-9)
    fastest = capacity_bps * packet_s / np.maximum(packet_s - TICK_S, TICK_S)
    bound = cut_bound_s(
        fabric, collective, size_bytes, packet,
        capacity_bps=fastest, free_packets_per_link=1 + resets, root=root,
    )  # fmt: skip
    return max(0.0, bound - BUCKET_S)


def carriers(
    n_links: int, fired: Sequence[tuple[float, ResolvedFault]], begin_s: float, end_s: float
) -> tuple[Bool, int]:
    """((n_links,) the links that were down from begin to end; how many carriers went or came between them).

    fired: when each fault happened, on the clock of `begin_s` and `end_s`. A killed switch counts as a carrier, since
    its ports may be made anew.
    """
    down, resets = np.zeros(n_links, np.bool_), 0
    for t_s, fault in sorted(fired, key=lambda one: one[0]):
        if t_s > end_s:
            break
        if fault.verb in ("degrade", "loss", "reorder", "duplicate") or fault.process == "controller":
            continue
        resets += t_s >= begin_s
        if fault.verb == "down":
            down[fault.links] |= t_s <= begin_s
        else:
            down[fault.links] = False
    return down, resets
