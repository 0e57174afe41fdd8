"""When the iterations of jobs end on a fabric in one state."""

from collections.abc import Sequence
from math import inf

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, PathBatch, Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.solver.quotient import NetworkState
from railweave.framework.solver.reduction import quotients
from railweave.framework.solver.simulation import FlowSimulation

BATCH = 1e-3
"""As `simulation.BATCH`: what is predicted is compared with margins of percents."""
MOST_TASKS = 400_000
"""Repetitions of transfers that are simulated, at most: 10 s without machine code. Larger demands are
predicted by the load of their busiest link alone, which is exact where nothing else delays them."""
MOST_TURNS = 8
"""Iterations of a short job during one of a long one, at most."""


def iteration_seconds(
    schedules: Sequence[Schedule], fabric: Fabric, state: NetworkState, packet: PacketFormat
) -> Float:
    """(jobs,): declared seconds of an iteration of each job, while all run at once; inf where a transfer has
    no path that is up.

    `schedules`: of one iteration of each job, between GPUs; of all pairs of `state.paths`, which are by (src,
    dst). Several jobs begin together, and one that ends early begins anew until each has ended once; what
    counts is the mean of a job's iterations.
    """
    if np.isinf(least := least_seconds(schedules, fabric, state, packet)).any():
        return least
    parts = quotients(schedules, fabric, (state,), packet)
    if sum(int(part.tasks.repeat.sum()) for part in parts) > MOST_TASKS:
        return least
    simulation = FlowSimulation(parts[0].networks[0], batch=BATCH)
    under_way = {simulation.add(part.tasks, 0.0): number for number, part in enumerate(parts)}
    turns, end_s = np.zeros(len(parts)), np.zeros(len(parts))
    while not turns.all():
        for ended in simulation.advance(inf):
            number = under_way.pop(ended)
            turns[number] += 1
            end_s[number] = simulation.end_s(ended).max(initial=0.0)
            if not turns.all() and turns[number] < MOST_TURNS:
                under_way[simulation.add(parts[number].tasks)] = number
    return end_s / turns


def least_seconds(
    schedules: Sequence[Schedule], fabric: Fabric, state: NetworkState, packet: PacketFormat
) -> Float:
    """(jobs,): what the busiest link of each job needs for all that an iteration sends over it, which no
    iteration is faster than. inf where a transfer has no path, or one over a link without capacity."""
    paths = state.paths
    numbers = paths.src * fabric.n_gpus + paths.dst
    lacks, result = np.diff(paths.pair_start) == 0, np.zeros(len(schedules))
    for i, schedule in enumerate(schedules):
        src, dst, _ = schedule.pairs()
        used, bits = np.searchsorted(numbers, src * fabric.n_gpus + dst), np.zeros(len(numbers))
        bits[used] = schedule.wire_bits(packet)
        load = loads(paths, bits, fabric.n_links)
        with np.errstate(divide="ignore", invalid="ignore"):
            seconds = np.where(load > 0, load / state.capacity_bps, 0.0)
        result[i] = inf if lacks[used].any() else float(seconds.max(initial=0.0))
    return result


def loads(paths: PathBatch, amount: Float, n_links: int) -> Float:
    """(L,): what crosses each link if pairs (P,) send these amounts."""
    of_path = amount[paths.path_pair] * paths.weight
    return np.bincount(paths.links, of_path[paths.hop_path], n_links).astype(np.float64)
