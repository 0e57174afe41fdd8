"""All-reduce by halving what a pair still has to reduce, then doubling what it knows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.all_reduce import AllReduce, check_ranks, element_count
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.levels import RAIL_FABRICS, one_hop
from railweave.traffic.collectives.plan import Plan


class HalvingDoublingAllReduce(AllReduce):
    """Recursive halving, then recursive doubling, in 2 log2 p steps over the largest power of two p <= n.

    Partners are 1, 2, 4, ... apart, so the largest messages go to the nearest ranks. The n - p ranks that are too
    many are folded in: of the first 2 (n - p), each even one gives its buffer to the odd one after it, rests, and
    gets the result back. Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication
    operations in MPICH", 2005, section 4.5.
    """

    summary = "recursive halving and doubling, 2 log2 n steps; other numbers of ranks are folded; any fabric"

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        check_ranks(fabric, ranks)
        count = element_count(size_bytes, dtype, redop)
        plan = Plan(len(ranks), dtype_of(dtype).itemsize)
        if count and len(ranks) > 1:
            _plan(plan, len(ranks), count)
        return plan.schedule("halving-doubling-all-reduce", count, dtype, redop)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """The longest message of every step with its headers and the latency of its two links, one step after
        another, on rail fabrics where all partners share a domain or a rail (rails and ranks a power of two); None
        elsewhere."""
        if fabric.kind not in RAIL_FABRICS or schedule.n_ranks != fabric.n_gpus:
            return None
        rates, latencies = one_hop(fabric, schedule.src, schedule.dst)
        if not np.all(rates > 0):
            return None
        bits = 8 * np.array([packet.wire_bytes(size) for size in schedule.size.tolist()])
        seconds, total = bits / rates + latencies, 0.0
        for phase in range(len(schedule.phase_names)):
            total += float(seconds[schedule.phase == phase].max())
        return total


def _plan(plan: Plan, n: int, count: int) -> None:
    power = 1 << n.bit_length() - 1
    extra = n - power
    active = [*range(1, 2 * extra, 2), *range(2 * extra, n)]
    arrived: list[list[int]] = [[] for _ in range(n)]
    if extra:
        plan.phase("fold")
        for odd in range(1, 2 * extra, 2):
            arrived[odd] = [plan.add(odd - 1, odd, 0, count, reduce=True, after=[])]
    held = [(0, count)] * power
    kept: list[list[tuple[int, int]]] = []
    apart = [1 << step for step in range(power.bit_length() - 1)]
    for distance in apart:
        plan.phase(f"halve, {distance} apart")
        kept.append(held)
        parts = [_half(*held[i], upper=bool(i & distance)) for i in range(power)]
        _exchange(plan, active, distance, [parts[i ^ distance] for i in range(power)], arrived, reduce=True)
        held = parts
    for distance in reversed(apart):
        plan.phase(f"double, {distance} apart")
        _exchange(plan, active, distance, held, arrived, reduce=False)
        held = kept.pop()
    if extra:
        plan.phase("unfold")
        for odd in range(1, 2 * extra, 2):
            plan.add(odd, odd - 1, 0, count, reduce=False, after=arrived[odd])


def _half(first: int, last: int, *, upper: bool) -> tuple[int, int]:
    middle = (first + last) // 2
    return (middle, last) if upper else (first, middle)


def _exchange(
    plan: Plan, active: Sequence[int], distance: int, send: Sequence[tuple[int, int]], arrived: list[list[int]],
    *, reduce: bool,
) -> None:  # fmt: skip
    """Each active rank sends its part to its partner, once all that has come to it so far is there."""
    sent = [
        plan.add(rank, active[i ^ distance], *send[i], reduce=reduce, after=arrived[rank])
        for i, rank in enumerate(active)
    ]
    for i, rank in enumerate(active):
        arrived[rank] = [*arrived[rank], sent[i ^ distance]]
