"""Closed forms: what the algorithms take on a healthy fabric, in seconds, with the headers of every packet.

Each is None where the fabric gives no formula. Bandwidth terms are those of the source; where links have a
latency, it counts once for every step that must wait for the one before.
"""

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.optical.plan import LightpathPlan
from railweave.traffic.collectives.rail_grid import LEVELS, RAIL_FABRICS


def ring_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat, steps: int) -> float | None:
    """steps x (the largest message at the slowest link + its latency), on a ring of all its GPUs, where every
    hop of the algorithm has links of its own. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce
    algorithms", 2009; Table I of arXiv 2211.15119 ("Ring")."""
    if not _all_of_a_ring(fabric, schedule):
        return None
    if schedule.n_transfers == 0:
        return 0.0
    return steps * (_longest_s(fabric, schedule, packet) + float(fabric.latency_s.max()))


def chain_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
    """(n - 2 + chunks) x (a chunk at the slowest link) + (n - 1) x latency, on a ring of all its GPUs: the
    last of the chunks leaves the root after the others, and crosses n - 1 links. Source: NCCL's ring
    broadcast."""
    if not _all_of_a_ring(fabric, schedule):
        return None
    if schedule.n_transfers == 0:
        return 0.0
    n = schedule.n_ranks
    chunks = schedule.n_transfers // (n - 1)
    return (n - 2 + chunks) * _longest_s(fabric, schedule, packet) + (n - 1) * float(fabric.latency_s.max())


def buckets_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
    """Per phase, k - 1 steps of its longest message at the slowest link, and its latency, on a torus or ring
    whose axes all have one length k > 2; elsewhere the parts of the buffer delay each other. Source: Jain and
    Sabharwal, "Optimal bucket algorithms for large MPI collectives on torus interconnects", 2010."""
    lengths = set(fabric.groups[0].shape)
    if fabric.kind not in ("torus", "ring") or len(lengths) > 1 or min(lengths) < 3:
        return None
    steps = min(lengths) - 1
    rate, latency = float(fabric.capacity_bps.min()), float(fabric.latency_s.max())
    longest = [int(schedule.size[schedule.phase == p].max()) for p in range(len(schedule.phase_names))]
    return sum(steps * (packet.wire_bytes(size) * 8 / rate + latency) for size in longest)


def levels_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
    """Phases in the domains and on the rails, one after another, on rail fabrics: in each, the messages of
    the busiest sender, every one as long as the longest, at the slowest d or r link; and for each of those
    that wait for one another the latency of the two links of its path. Source: rail-only paper, equation 1
    (all-gather; an all-reduce is two of them, section 3.2) and equation 21 (all-to-all, appendix D)."""
    if fabric.kind not in RAIL_FABRICS:
        return None
    total_latency_s = 0.0
    for level, kind in LEVELS:
        latency = float(fabric.latency_s[fabric.link_kind == fabric.kinds.index(kind)].max())
        for phase, name in enumerate(schedule.phase_names):
            if latency > 0 and name.endswith(level):
                total_latency_s += longest_chain(schedule, phase) * 2 * latency
    return sum(_by_level_s(fabric, schedule, packet).values()) + total_latency_s


def pipelined_levels_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat, chunks: int) -> float | None:
    """The work of the busier level, and what no other chunk hides of the other one: with busier rails, one
    chunk's work in the domains (before the first chunk's rails and after the last one's); with busier
    domains, one chunk's work on the rails, which other chunks hide from 3 chunks on. None where links have a
    latency, of which other chunks hide an unknown part. Source: equation 1 of the rail-only paper for each
    level; the overlap is ours."""
    if fabric.kind not in RAIL_FABRICS or fabric.latency_s.any():
        return None
    level = _by_level_s(fabric, schedule, packet)
    domain, rail = level["domain"], level["rail"]
    if rail >= domain:
        return rail + domain / chunks
    return domain + (rail / chunks if chunks < 3 else 0.0)


def exchanges_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
    """The longest message of every phase and the latency of its two links, one phase after another, on rail
    fabrics where all partners share a domain or a rail (powers of two of both). Source: Thakur, Rabenseifner
    and Gropp, "Optimization of collective communication operations in MPICH", 2005, section 4.5."""
    if fabric.kind not in RAIL_FABRICS or schedule.n_ranks != fabric.n_gpus:
        return None
    src, dst = fabric.gpu_coordinates[schedule.src], fabric.gpu_coordinates[schedule.dst]
    rates, latencies = np.zeros(schedule.n_transfers), np.zeros(schedule.n_transfers)
    for axis, (_, kind) in enumerate(LEVELS):
        of_kind, shared = fabric.link_kind == fabric.kinds.index(kind), src[:, axis] == dst[:, axis]
        rates[shared] = fabric.capacity_bps[of_kind].min()
        latencies[shared] = 2 * fabric.latency_s[of_kind].max()
    if not np.all(rates > 0):
        return None
    bits = 8 * np.array([packet.wire_bytes(size) for size in schedule.size.tolist()])
    seconds = bits / rates + latencies
    phases = range(len(schedule.phase_names))
    return sum((float(seconds[schedule.phase == phase].max()) for phase in phases), 0.0)


def lightpaths_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat, plan: LightpathPlan) -> float:
    """Item times x a shard at the slowest link, and per step the latency of its longest lightpath.
    Source: equation 3 of arXiv 2211.15119, without reconfiguration, which the emulation does not have."""
    if schedule.n_transfers == 0:
        return 0.0
    longest_hops: NDArray[np.int64] = np.zeros(plan.n_steps, np.int64)
    np.maximum.at(longest_hops, plan.step, plan.hops)
    item_s = _longest_s(fabric, schedule, packet)
    return plan.item_times * item_s + int(longest_hops.sum()) * float(fabric.latency_s.max())


def longest_chain(schedule: Schedule, phase: int) -> int:
    """The most transfers of a phase that follow one another, each waiting for the one before."""
    length = np.zeros(schedule.n_transfers, np.int64)
    for transfer in np.flatnonzero(schedule.phase == phase):
        before = schedule.after[schedule.after_start[transfer] : schedule.after_start[transfer + 1]]
        length[transfer] = 1 + length[before].max(initial=0)
    return int(length.max(initial=0))


def _all_of_a_ring(fabric: Fabric, schedule: Schedule) -> bool:
    return fabric.kind == "ring" and schedule.n_ranks == fabric.n_gpus


def _longest_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float:
    """Seconds of the largest message at the slowest link."""
    return packet.wire_bytes(int(schedule.size.max())) * 8 / float(fabric.capacity_bps.min())


def _by_level_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> dict[str, float]:
    """Seconds of all phases of each level, `domain` and `rail`, without latencies."""
    total = {level: 0.0 for level, _ in LEVELS}
    for level, kind in LEVELS:
        rate = float(fabric.capacity_bps[fabric.link_kind == fabric.kinds.index(kind)].min())
        for phase, name in enumerate(schedule.phase_names):
            transfers = np.flatnonzero(schedule.phase == phase)
            if name.endswith(level) and transfers.size:
                messages = int(np.max(np.bincount(schedule.src[transfers])))
                total[level] += messages * packet.wire_bytes(int(schedule.size[transfers].max())) * 8 / rate
    return total
