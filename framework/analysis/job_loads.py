"""What one job puts on every link: counters of ports do not tell jobs apart, routes do."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, RouteTable, Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.routing.loads import link_loads


def job_loads(
    fabric: Fabric,
    schedule: Schedule,
    packet: PacketFormat,
    end_s: Float,
    tables: Sequence[tuple[float, RouteTable]],
) -> Float:
    """(n_links,): wire bytes of an iteration's data, each transfer on the routes in use when it landed.
    Acknowledgements, and what is sent again, are not in it. `schedule`: between GPUs.

    `end_s` as in IterationResult; `tables` as for `critical_path`.
    """
    load, wire_bytes = np.zeros(fabric.n_links), schedule.in_all(packet.wire_bytes_of)
    if not len(end_s):
        end_s = np.full(schedule.n_entries, np.inf)
    changes = [-np.inf, *(since_s for since_s, _ in tables[1:]), np.inf]
    for (_, table), (since_s, until_s) in zip(tables, pairwise(changes), strict=True):
        then = (end_s > since_s) & (end_s <= until_s) & schedule.is_transfer
        if then.any():
            src, dst = (ends[then].astype(np.int64) for ends in (schedule.src, schedule.dst))
            pairs, pair = np.unique(src * fabric.n_gpus + dst, return_inverse=True)
            amount = np.bincount(pair, wire_bytes[then], len(pairs)).astype(np.float64)
            load += link_loads(fabric, table, *np.divmod(pairs, fabric.n_gpus), amount).load
    return load
