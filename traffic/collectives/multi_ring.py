"""All-reduce over rings in all dimensions and directions of a torus at once."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.entries import Entries, Parts, parts_of
from railweave.traffic.collectives.operations import AllReduce
from railweave.traffic.collectives.ring_blocks import Rings, add_rings, none_ready


class MultiRingAllReduce(AllReduce):
    """2d rings for each GPU of a torus of d axes: the buffer has 2d parts, one for each axis and direction.

    The part of axis a and direction s is reduce-scattered over the lines of axis a in direction s, then over
    those of axis a + 1, and so on in the cycle of axes (x, y, z, x, ...), each time the remaining part; then
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
        super().check(fabric, ranks)
        if len(ranks) != fabric.n_gpus:
            raise ExperimentError(
                f"multi-ring-all-reduce uses whole lines of the {fabric.kind}, so it needs all of its "
                f"{fabric.n_gpus} GPUs, not {len(ranks)}. Use `ring-all-reduce` for a part."
            )

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        torus = np.argsort(np.asarray(ranks)).reshape(fabric.groups[0].shape)
        axes, directions = torus.ndim, 2 if fabric.usable.all() else 1
        parts = [(axis, direction) for axis in range(axes) for direction in range(directions)]
        spans = [
            Parts(np.full(len(ranks), first), np.full(len(ranks), length))
            for first, length in zip(*parts_of(0, count, len(parts)), strict=True)
        ]
        ready = [none_ready(len(ranks)) for _ in parts]
        phases = []
        for phase in range(axes):
            rings = []
            for part, (axis, direction) in enumerate(parts):
                lines = np.moveaxis(torus, (axis + phase) % axes, -1)[..., :: -1 if direction else 1]
                members = lines.reshape(-1, lines.shape[-1])
                span = spans[part].first[members[:, 0]], spans[part].length[members[:, 0]]
                shards = parts_of(*span, members.shape[1])
                for array, values in zip(spans[part], shards, strict=True):
                    array[members] = values
                rings.append(Rings(members, shards.each))
            phases.append(rings)
        for operation, in_order in (("reduce-scatter", phases), ("all-gather", phases[::-1])):
            for number, rings in enumerate(in_order, 1):
                for part, ring in enumerate(rings):
                    if ring.members.shape[1] > 1:
                        entries.phase(f"{operation} {number}")
                    ready[part] = add_rings(entries, ring, ready[part], reduce=operation == "reduce-scatter")

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Per phase, k - 1 steps of its longest message at the slowest link, and its latency, on a torus or
        ring whose axes all have one length k > 2; elsewhere the parts of the buffer delay each other. Source:
        as the class."""
        lengths = set(fabric.groups[0].shape)
        if fabric.kind not in self.serves or len(lengths) > 1 or min(lengths) < 3:
            return None
        steps = min(lengths) - 1
        rate, latency = float(fabric.capacity_bps.min()), float(fabric.latency_s.max())
        longest = [int(schedule.size[schedule.phase == p].max()) for p in range(len(schedule.phase_names))]
        return sum(steps * (packet.wire_bytes(size) * 8 / rate + latency) for size in longest)
