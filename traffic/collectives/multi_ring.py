"""All-reduce over rings in all dimensions and directions of a torus at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives import closed_forms
from railweave.traffic.collectives.operations import AllReduce, check_ranks
from railweave.traffic.collectives.schedule_builder import (
    Ready,
    ScheduleBuilder,
    add_rings,
    chunk_spans,
    ring_all_gather,
    ring_reduce_scatter,
)


class MultiRingAllReduce(AllReduce):
    """2d rings for each GPU of a torus of d axes: the buffer has 2d parts, one for each axis and direction.

    The part of axis a and direction s is reduce-scattered over the lines of axis a in direction s, then over
    those of axis a + 1, and so on in the cycle of axes (x, y, z, x, ...), each time what is left of it; then
    it is gathered over the same lines in the opposite order. In phase i the part of axis a is on axis a + i,
    so no two parts ever use the same link in one phase. If all axes have one length, all links work all the
    time and the time is the physical limit S (n - 1) / (d n B). A ring has one axis, and a one-way ring one
    direction.

    Source: the multiport "bucket" algorithm: Jain and Sabharwal, "Optimal bucket algorithms for large MPI
    collectives on torus interconnects", 2010.
    """

    summary = "2d concurrent rings on a torus of d axes: every axis, both directions (bucket algorithm)"
    name = "multi-ring-all-reduce"
    serves: tuple[str, ...] = ("torus", "ring")

    def check(self, fabric: Fabric, ranks: Sequence[int]) -> None:
        check_ranks(fabric, ranks)
        if fabric.kind not in self.serves:
            raise UnsupportedFabricError(
                f"multi-ring-all-reduce needs the straight lines of a {' or '.join(self.serves)}, not "
                f"{fabric.kind}. Use `--collective ring-all-reduce`."
            )
        if len(ranks) != fabric.n_gpus:
            raise ExperimentError(
                f"multi-ring-all-reduce uses whole lines of the {fabric.kind}, so it needs all of its "
                f"{fabric.n_gpus} GPUs, not {len(ranks)}. Use `ring-all-reduce` for a part."
            )

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        rank_of = np.empty(len(ranks), np.int64)
        rank_of[np.asarray(ranks)] = np.arange(len(ranks))
        torus = rank_of.reshape(fabric.groups[0].shape)
        axes, directions = torus.ndim, 2 if fabric.usable.all() else 1
        parts = [(axis, direction) for axis in range(axes) for direction in range(directions)]
        spans = chunk_spans(0, count, len(parts))
        held = [{rank: span for rank in range(len(ranks))} for span in spans]
        before: list[list[dict[int, tuple[int, int]]]] = []
        ready: list[Ready] = [{rank: [] for rank in range(len(ranks))} for _ in parts]
        for phase in range(axes):
            before.append([dict(of_part) for of_part in held])
            for part, (axis, direction) in enumerate(parts):
                for line in _lines(torus, (axis + phase) % axes, direction):
                    first, last = held[part][line[0]]
                    shards = chunk_spans(first, last - first, len(line))
                    held[part].update(zip(line, shards, strict=True))
                    rings = [(line, [[shard] for shard in shards])]
                    add_rings(builder, f"reduce-scatter {phase + 1}", ring_reduce_scatter, rings, ready[part])
        for phase in reversed(range(axes)):
            for part, (axis, direction) in enumerate(parts):
                for line in _lines(torus, (axis + phase) % axes, direction):
                    chunks = [[held[part][rank]] for rank in line]
                    add_rings(
                        builder, f"all-gather {axes - phase}", ring_all_gather, [(line, chunks)], ready[part]
                    )
            held = before.pop()

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """The bucket algorithm's, for axes of one length."""
        return closed_forms.buckets_s(fabric, schedule, packet)


def _lines(torus: NDArray[np.int64], axis: int, direction: int) -> list[list[int]]:
    """The ranks along every line of an axis, in the + (0) or - (1) direction; `torus`: the rank at each
    place."""
    lines = np.moveaxis(torus, axis, -1).reshape(-1, torus.shape[axis])
    return [line[::-1] if direction else line for line in lines.tolist()]
