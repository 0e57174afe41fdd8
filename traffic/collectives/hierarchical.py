"""Collectives in two levels: rings inside the HB domains, and rings along the rails.

In all but the pipelined one a rank enters a phase when its part of the last phase is complete, and no byte
leaves its rail in a rail phase. Source: rail-only paper, section 3.2 and equation 1 (a reduce-scatter is an
all-gather in reverse).
"""

from collections.abc import Sequence

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives import closed_forms
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.operations import AllGather, AllReduce, Operation, ReduceScatter
from railweave.traffic.collectives.rail_grid import DOMAIN_PHASES, RAIL_PHASES, REQUIRES, Grid, grid_of
from railweave.traffic.collectives.schedule_builder import (
    AddRing,
    Ready,
    Rings,
    ScheduleBuilder,
    Span,
    add_rings,
    chunk_spans,
    chunks,
    ring_all_gather,
    ring_reduce_scatter,
)

CHUNKS = 4


class OnRails(Operation):
    """The part of an algorithm over domains and rails that does not depend on its operation; `alternative` is
    the collective for other ranks and fabrics."""

    requires: tuple[str, ...] = REQUIRES
    alternative = ""

    def grid(self, fabric: Fabric, ranks: Sequence[int]) -> Grid:
        """The ranks as domains x rails. Raises as `check`."""
        return grid_of(fabric, ranks, self.name, self.alternative)

    def check(self, fabric: Fabric, ranks: Sequence[int]) -> None:
        self.grid(fabric, ranks)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Equation 1 of the rail-only paper for every all-gather and reduce-scatter (an all-reduce has two of
        each level), equation 21 for an all-to-all; D domains and K rails as the schedule used them."""
        return closed_forms.levels_s(fabric, schedule, packet)


class HierarchicalAllReduce(OnRails, AllReduce):
    """Reduce-scatter in the domain, reduce-scatter and all-gather of each shard along its rail, all-gather in
    the domain."""

    summary = (
        "reduce-scatter and all-gather in the domains and along the rails (rail-only paper, equation 1 twice)"
    )
    name, alternative = "all-reduce", "ring-all-reduce"

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        self._add_phases(builder, fabric, ranks, (0, count))

    def _add_phases(
        self,
        builder: ScheduleBuilder,
        fabric: Fabric,
        ranks: Sequence[int],
        span: Span,
        slot: int | None = None,
    ) -> None:
        """Add the four phases for one span of the buffer, phase i in time slot `slot` + i if slots are
        used."""
        grid = self.grid(fabric, ranks)
        domains, rails = grid.shape
        shards = chunk_spans(span[0], span[1] - span[0], rails)
        in_domain = [(row, [[shard] for shard in shards]) for row in grid.tolist()]
        along_rail = [
            (column, chunks(first, last - first, domains))
            for column, (first, last) in zip(grid.T.tolist(), shards, strict=True)
        ]
        ready: Ready = {rank: [] for rank in range(len(ranks))}
        phases: tuple[tuple[str, AddRing, Rings], ...] = (
            (DOMAIN_PHASES[0], ring_reduce_scatter, in_domain),
            (RAIL_PHASES[0], ring_reduce_scatter, along_rail),
            (RAIL_PHASES[1], ring_all_gather, along_rail),
            (DOMAIN_PHASES[1], ring_all_gather, in_domain),
        )
        for phase, (name, add_ring, rings) in enumerate(phases):
            add_rings(builder, name, add_ring, rings, ready, None if slot is None else slot + phase)


class PipelinedAllReduce(HierarchicalAllReduce):
    """The same four phases for each chunk of the buffer on its own: chunk c is in phase p in time slot c + p,
    so d and r links work at the same time.

    A chunk waits for nothing but its own last phase. Within a slot the phases take turns step by step, so
    that a link has something to send while the next step of another phase is still on its way.
    """

    summary = "all-reduce with its phases overlapped: chunks follow one another through domains and rails"
    name = "pipelined-all-reduce"
    parameters: tuple[Parameter, ...] = (
        Parameter("chunks", CHUNKS, "count", "parts of the buffer that follow one another", 1, 4096),
    )

    def __init__(self, chunks: int = CHUNKS) -> None:
        self._chunks = chunks

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        for slot, span in enumerate(chunk_spans(0, count, min(self._chunks, count))):
            self._add_phases(builder, fabric, ranks, span, slot)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Equation 1 twice for the busier level, and what chunks do not hide of the other one."""
        count = schedule.size_bytes // dtype_of(schedule.dtype).itemsize
        return closed_forms.pipelined_levels_s(fabric, schedule, packet, max(1, min(self._chunks, count)))


class HierarchicalAllGather(OnRails, AllGather):
    """Each rail gathers the shards of its GPUs, then each domain the shards of all rails.

    In the domain a message is one shard: those of a rail lie apart in the array, which is in the order of
    ranks.
    """

    summary = "all-gather along the rails, then in the domains (rail-only paper, equation 1)"
    name, alternative = "all-gather", "ring-all-gather"

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        in_domain, along_rail = _rings_of_shards(self.grid(fabric, ranks), count)
        ready: Ready = {rank: [] for rank in range(len(ranks))}
        add_rings(builder, RAIL_PHASES[1], ring_all_gather, along_rail, ready)
        add_rings(builder, DOMAIN_PHASES[1], ring_all_gather, in_domain, ready)


class HierarchicalReduceScatter(OnRails, ReduceScatter):
    """Each domain reduces to every GPU the shards of its rail, then each rail to every GPU its own shard: the
    hierarchical all-gather backwards."""

    summary = "reduce-scatter in the domains, then along the rails (rail-only paper, equation 1)"
    name, alternative = "reduce-scatter", "ring-reduce-scatter"

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        in_domain, along_rail = _rings_of_shards(self.grid(fabric, ranks), count)
        ready: Ready = {rank: [] for rank in range(len(ranks))}
        add_rings(builder, DOMAIN_PHASES[0], ring_reduce_scatter, in_domain, ready)
        add_rings(builder, RAIL_PHASES[0], ring_reduce_scatter, along_rail, ready)


def _rings_of_shards(grid: Grid, count: int) -> tuple[Rings, Rings]:
    """The rings of an array with one shard per rank: in a domain a chunk is the shards of a rail, along a
    rail one shard."""
    shards = chunk_spans(0, count, grid.size)
    of_rails = [[shards[rank] for rank in column] for column in grid.T.tolist()]
    along_rail = [(column, [[shards[rank]] for rank in column]) for column in grid.T.tolist()]
    return [(row, of_rails) for row in grid.tolist()], along_rail
