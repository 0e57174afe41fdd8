"""The physical limit of a run whose links are token buckets.

A Linux HTB class (net/sched/sch_htb.c) counts tokens in nanoseconds. They grow with time up to the bucket
(`burst`), a packet leaves when they are 0 or more, and costs its own time at the link's rate, which may take
them below 0. A debt is kept for 60 s, through idle times too. So the packets before the last one that leaves
within T seconds cost at most T + bucket: **rate x (T + bucket) and one packet pass, however often the link
was idle**. A schedule that waits after every step beats its closed form by up to a packet per step, because
the first packet after a gap leaves at once; but the link loses the time of the gap, and a cut counts that
time.

Changing the rate changes none of this (tokens are time). Losing the carrier resets the class (`htb_reset`),
which may then send one more packet in debt. A packet's cost is cut to whole nanoseconds.
"""

from collections.abc import Sequence

import numpy as np

from railweave.framework.analysis.limits import tightest_cut
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.arrays import Bool, Float

BUCKET_S = 50e-6
"""Size of the lab's buckets as time at the link's rate: `CATCH_UP_S` of
framework/lab/switching/shaping.py."""
TICK_S = 1e-9
"""The cost of a packet is cut to whole nanoseconds."""


def shaped_bound_s(
    fabric: Fabric,
    collective: str,
    size_bytes: float,
    packet: PacketFormat,
    *,
    capacity_bps: Float,
    resets: int = 0,
    root: int | None = None,
    ranks: Sequence[int] | None = None,
) -> float:
    """The lower bound in seconds for runs over token buckets; inf where a run cannot end, 0 where no bound is
    known.

    capacity_bps: (n_links,) the highest rate that each link had, 0 if it was down all the time. resets:
    changes of carriers in this time. root, ranks: see `tightest_cut`.
    """
    packet_s = 8.0 * packet.full_packet_bytes / np.maximum(capacity_bps, 1e-9)
    fastest = capacity_bps * packet_s / np.maximum(packet_s - TICK_S, TICK_S)
    bound = tightest_cut(
        fabric,
        collective,
        size_bytes,
        packet,
        capacity_bps=fastest,
        free_packets_per_link=1 + resets,
        ranks=ranks,
        root=root,
    )
    return max(0.0, bound.seconds - BUCKET_S)


def carriers(
    n_links: int, fired: Sequence[tuple[float, ResolvedFault]], begin_s: float, end_s: float
) -> tuple[Bool, int]:
    """((n_links,) the links that were down from begin to end, the number of carrier changes between them).

    fired: when each fault happened, on the clock of `begin_s` and `end_s`. A killed switch counts as a
    change, since its ports may be created anew.
    """
    down, resets = np.zeros(n_links, np.bool_), 0
    for t_s, fault in sorted(fired, key=lambda event: event[0]):
        if t_s > end_s:
            break
        if (
            fault.verb in ("degrade", "loss", "corrupt", "reorder", "duplicate")
            or fault.process == "controller"
        ):
            continue
        resets += (t_s >= begin_s) * (1 if fault.circuits is None else 2)  # dark, and light again
        if fault.verb == "down":
            down[fault.links] |= t_s <= begin_s
        else:
            down[fault.links] = False
    return down, resets
