"""Collectives around one ring of all ranks, in their order; on any fabric."""

from collections.abc import Sequence

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives import closed_forms
from railweave.traffic.collectives.operations import AllGather, AllReduce, ReduceScatter
from railweave.traffic.collectives.schedule_builder import (
    ScheduleBuilder,
    chunks,
    ring_all_gather,
    ring_reduce_scatter,
)

SUMMARY = "one ring over all ranks, in their order; any fabric"


class RingAllReduce(AllReduce):
    """Reduce-scatter, then all-gather, around the ranks in their order: 2 (n - 1) steps of size / n.

    Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009; NCCL's ring.
    """

    summary = SUMMARY
    name = "ring-all-reduce"

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        n = len(ranks)
        builder.phase("reduce-scatter")
        parts = ring_reduce_scatter(builder, range(n), chunks(0, count, n), [[]] * n)
        builder.phase("all-gather")
        ring_all_gather(builder, range(n), chunks(0, count, n), parts)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """2 (n - 1) steps, on rings."""
        return closed_forms.ring_s(fabric, schedule, packet, 2 * (schedule.n_ranks - 1))


class RingAllGather(AllGather):
    """Each rank passes the shard it received last on to the next rank, in n - 1 steps of one shard.

    A rank waits for nothing but the shard it passes on; all shards being equal, that is the step of Table I.
    Source: Table I of arXiv 2211.15119 ("Ring"); NCCL's ring.
    """

    summary = SUMMARY
    name = "ring-all-gather"

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        builder.phase("ring")
        ring_all_gather(builder, range(len(ranks)), chunks(0, count, len(ranks)), [[]] * len(ranks))

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """n - 1 steps, on rings."""
        return closed_forms.ring_s(fabric, schedule, packet, schedule.n_ranks - 1)


class RingReduceScatter(ReduceScatter):
    """Each rank adds its version to the shard it received last and passes it on, in n - 1 steps of one shard.

    Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009; NCCL's ring.
    """

    summary = SUMMARY
    name = "ring-reduce-scatter"

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        builder.phase("ring")
        ring_reduce_scatter(builder, range(len(ranks)), chunks(0, count, len(ranks)), [[]] * len(ranks))

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """n - 1 steps, on rings."""
        return closed_forms.ring_s(fabric, schedule, packet, schedule.n_ranks - 1)
