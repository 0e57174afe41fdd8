"""Collectives around one ring of all ranks, in their order; on any fabric."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Fabric, HealthSnapshot, PacketFormat, Schedule
from railweave.traffic.collectives.arithmetic import count_of, nonzero_input
from railweave.traffic.collectives.entries import Entries, parts_of
from railweave.traffic.collectives.operations import AllGather, ByHealth, Operation, ReduceScatter, longest_s
from railweave.traffic.collectives.ring_blocks import Rings, add_rings, none_ready
from railweave.traffic.collectives.slow_ranks import add_around, slow_members, speeds


class OneRing(Operation):
    """The part of an algorithm around one ring that does not depend on its operation. `halves`: the name of
    the phase of each half of the ring, and whether it reduces."""

    summary = "one ring over all ranks, in their order; any fabric"
    halves: tuple[tuple[str, bool], ...] = ()

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        n = len(ranks)
        ring = Rings(np.arange(n)[None], parts_of([0], [count], n).each)
        ready = none_ready(n)
        for phase, reduce in self.halves:
            entries.phase(phase)
            ready = add_rings(entries, ring, ready, reduce=reduce)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Steps x (the largest message at the slowest link + its latency), on a ring of all its GPUs, where
        every hop of the algorithm has links of its own; a rank sends one message in each step. Source:
        Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009; Table I of arXiv 2211.15119
        ("Ring")."""
        if fabric.kind != "ring" or schedule.n_ranks != fabric.n_gpus:
            return None
        steps = schedule.n_transfers // schedule.n_ranks
        return steps * (longest_s(fabric, schedule, packet) + float(fabric.latency_s.max()))


class RingAllReduce(OneRing, ByHealth):
    """Reduce-scatter, then all-gather, around the ranks in their order: 2 (n - 1) steps of size / n.

    Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009; NCCL's ring.
    """

    name = "ring-all-reduce"
    halves = (("reduce-scatter", True), ("all-gather", False))

    def add_by_health(
        self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int, health: HealthSnapshot
    ) -> None:
        """Slow ranks keep out of the ring where that pays."""
        _, out = slow_members(speeds(fabric, ranks, health))
        if not out.any():
            return self.add_transfers(entries, fabric, ranks, count)
        names, ready = (self.halves[0][0], self.halves[1][0]), none_ready(len(ranks))
        add_around(entries, np.arange(len(ranks)), out, (0, count), ready, names)


class RingAllGather(OneRing, AllGather):
    """Each rank passes the shard it received last on to the next rank, in n - 1 steps of one shard.

    A rank waits for nothing but the shard it passes on; all shards being equal, that is the step of Table I.
    Source: Table I of arXiv 2211.15119 ("Ring"); NCCL's ring.
    """

    name = "ring-all-gather"
    halves = (("ring", False),)


class RingReduceScatter(OneRing, ReduceScatter):
    """Each rank adds its version to the shard it received last and passes it on, in n - 1 steps of one shard.

    Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009; NCCL's ring.
    """

    name = "ring-reduce-scatter"
    halves = (("ring", True),)


class SendRecv(OneRing):
    """Every rank sends its buffer to the next one and receives that of the one before it, in the cycle of
    ranks.

    The size is one rank's buffer, rounded down to whole elements (nccl-tests, sendrecv). Every rank's memory
    has two of them: what it receives, then what it sends. `redop` does not matter.
    """

    summary = "every rank to the next and from the one before, at once; any fabric"
    kind = name = "send-recv"
    regions = 2
    least_ranks = 2

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        entries.phase("send-recv")
        rank = np.arange(len(ranks))
        entries.add(rank, (rank + 1) % len(ranks), first=count, to=0, length=count)

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(2 count,) per rank: 0, then what it sends, without a 0 in it."""
        count = count_of(schedule)
        sent = [nonzero_input(schedule, rank, count, seed) for rank in range(schedule.n_ranks)]
        return [np.concatenate([np.zeros_like(data), data]) for data in sent]

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): what the rank before sent."""
        return inputs[rank - 1][count_of(schedule) :]
