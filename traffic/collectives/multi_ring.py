"""All-reduce over rings in all dimensions and directions of a torus at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.all_reduce import AllReduce, check_ranks, element_count
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.plan import Plan, chunk_bounds, ring_all_gather, ring_reduce_scatter

AXES = "xyz"
ONE_WAY = "unused"
"""Kind of the links of a one-way ring that carry nothing."""


class MultiRingAllReduce(AllReduce):
    """2d rings for each GPU of a torus of d axes: the buffer has 2d parts, one for each axis and direction.

    Which rings: the part of axis a and direction s is reduce-scattered over the lines of axis a in direction s,
    then over those of axis a + 1, and so on round the axes (x, y, z, x, ...), each time what is left of it; then
    it is gathered over the same lines in the opposite order. In phase i the part of axis a is on axis a + i, so no
    two parts ever want the same link in one phase. If all axes have one length, all links work all the time and
    the time is the physical limit S (n - 1) / (d n B). A ring has one axis, and a one-way ring one direction.

    Source: the multiport "bucket" algorithm: Jain and Sabharwal, "Optimal bucket algorithms for large MPI
    collectives on torus interconnects", 2010.
    """

    summary = "2d concurrent rings on a torus of d axes: every axis, both directions (bucket algorithm)"
    serves: tuple[str, ...] = ("torus", "ring")

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        check_ranks(fabric, ranks)
        self._check(fabric, ranks)
        count = element_count(size_bytes, dtype, redop)
        plan = Plan(len(ranks), dtype_of(dtype).itemsize)
        if count:
            shape = fabric.groups[0].shape
            where = np.empty(len(ranks), np.int64)
            where[np.asarray(ranks)] = np.arange(len(ranks))
            _plan(plan, where.reshape(shape), count, 1 if ONE_WAY in fabric.kinds else 2)
        return plan.schedule("multi-ring-all-reduce", count, dtype, redop)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Per phase, k - 1 steps of its longest message with its headers at the slowest link, and its latency; for
        axes of one length k > 2, since parts run into each other elsewhere (None)."""
        if fabric.kind not in self.serves:
            return None
        lengths = set(fabric.groups[0].shape)
        if len(lengths) > 1 or min(lengths) < 3:
            return None
        steps = min(lengths) - 1
        rate, latency = float(fabric.capacity_bps.min()), float(fabric.latency_s.max())
        longest = [int(schedule.size[schedule.phase == p].max()) for p in range(len(schedule.phase_names))]
        return sum(steps * (packet.wire_bytes(size) * 8 / rate + latency) for size in longest)

    def _check(self, fabric: Fabric, ranks: Sequence[int]) -> None:
        if fabric.kind not in self.serves:
            raise UnsupportedFabricError(
                f"multi-ring-all-reduce needs the straight lines of a {' or '.join(self.serves)}, not "
                f"{fabric.kind}. Use `--collective ring-all-reduce`."
            )
        if len(ranks) != fabric.n_gpus:
            raise ExperimentError(
                f"multi-ring-all-reduce runs round whole lines of the {fabric.kind}, so it needs all of its "
                f"{fabric.n_gpus} GPUs, not {len(ranks)}. Use `ring-all-reduce` for a part."
            )


def _plan(plan: Plan, where: NDArray[np.int64], count: int, directions: int) -> None:
    """`where`: the rank at each place of the torus."""
    axes, n = where.ndim, where.size
    parts = [(axis, direction) for axis in range(axes) for direction in range(directions)]
    cuts = chunk_bounds(0, count, len(parts))
    held = [[(cuts[part], cuts[part + 1])] * n for part in range(len(parts))]
    whole: list[list[list[tuple[int, int]]]] = []
    ready: list[list[list[int]]] = [[[] for _ in range(n)] for _ in parts]
    for phase in range(axes):
        plan.phase(f"reduce-scatter {phase + 1}")
        whole.append([list(spans) for spans in held])
        for part, (first_axis, direction) in enumerate(parts):
            for line in _lines(where, (first_axis + phase) % axes, direction):
                start, end = held[part][line[0]]
                bounds = chunk_bounds(start, end - start, len(line))
                done = ring_reduce_scatter(plan, line, bounds, [ready[part][rank] for rank in line])
                for i, rank in enumerate(line):
                    ready[part][rank] = done[i]
                    held[part][rank] = bounds[i], bounds[i + 1]
    for phase in reversed(range(axes)):
        plan.phase(f"all-gather {axes - phase}")
        before = whole.pop()
        for part, (first_axis, direction) in enumerate(parts):
            for line in _lines(where, (first_axis + phase) % axes, direction):
                start, end = before[part][line[0]]
                bounds = chunk_bounds(start, end - start, len(line))
                done = ring_all_gather(plan, line, bounds, [ready[part][rank] for rank in line])
                for i, rank in enumerate(line):
                    ready[part][rank] = done[i]
        held = before


def _lines(where: NDArray[np.int64], axis: int, direction: int) -> list[list[int]]:
    """The ranks along every line of an axis, in the + (0) or - (1) direction."""
    lines = np.moveaxis(where, axis, -1).reshape(-1, where.shape[axis])
    return [[int(rank) for rank in (line[::-1] if direction else line)] for line in lines]
