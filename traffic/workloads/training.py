"""The messages of one training iteration, in an order that its pipeline allows."""

from collections.abc import Sequence

from railweave.framework.model.arrays import Int64
from railweave.framework.training.placement import Placement
from railweave.traffic.collectives.schedule_builder import (
    Ready,
    ScheduleBuilder,
    add_rings,
    chunk_spans,
    chunks,
    ring_all_gather,
    ring_reduce_scatter,
)
from railweave.traffic.workloads.layout import Layout
from railweave.traffic.workloads.pipeline import Pass, one_forward_one_backward

GRADIENTS = "gradients"


class Iteration:
    """Adds one iteration to a schedule. `rank` (d, p, t): the rank at each place of the job."""

    def __init__(self, builder: ScheduleBuilder, placed: Placement, sizes: Layout, rank: Int64) -> None:
        self._builder, self._placed, self._sizes = builder, placed, sizes
        self._rank = rank.tolist()
        self._ready: Ready = {int(r): [] for r in rank.ravel()}
        self._sent: dict[tuple[int, int, Pass], list[list[int]]] = {}

    def add_all(self) -> None:
        """Add all passes of every stage in its own order, each once its input has been sent; then the
        gradients."""
        p = self._placed.p
        self._builder.phase("pipeline")  # tensor and pipeline messages overlap, so they are one phase
        for data in range(self._placed.d):
            remaining = [one_forward_one_backward(s, p, self._sizes.m, self._sizes.v)[::-1] for s in range(p)]
            while any(remaining):
                before = sum(map(len, remaining))
                for stage, passes in enumerate(remaining):
                    while passes and self._may_start(data, stage, passes[-1]):
                        self._pass(data, stage, passes.pop())
                assert sum(map(len, remaining)) < before, "a pipeline that waits for itself"
        if self._sizes.gradients:
            self._builder.phase(GRADIENTS)
            self._synchronise()

    # -- passes ----------------------------------------------------------------------------------------
    def _source(self, stage: int, current: Pass) -> tuple[int, Pass] | None:
        """The stage and pass whose output is the input of this pass; None for the first of all."""
        p, v = self._placed.p, self._sizes.v
        virtual = current.chunk * p + stage
        if current.forward:
            before = virtual - 1
        elif virtual == p * v - 1:
            return stage, Pass(True, current.microbatch, current.chunk)
        else:
            before = virtual + 1
        if before < 0:
            return None
        return before % p, Pass(current.forward, current.microbatch, before // p)

    def _may_start(self, data: int, stage: int, current: Pass) -> bool:
        source = self._source(stage, current)
        return source is None or (data, source[0], source[1]) in self._sent

    def _pass(self, data: int, stage: int, current: Pass) -> None:
        """Receive from the stage before, gather and reduce in the tensor group."""
        members: list[int] = self._rank[data][stage]
        entry = [list(self._ready[rank]) for rank in members]
        source = self._source(stage, current)
        if source is not None:
            origin, sent = source
            for i, (src, after) in enumerate(
                zip(self._rank[data][origin], self._sent[data, origin, sent], strict=True)
            ):
                entry[i] += (
                    after if src == members[i] else [self._hand_on(src, members[i], sent, current, after)]
                )
        done = self._tensor(members, current, entry)
        for rank, after in zip(members, done, strict=True):
            self._ready[rank] = after
        self._sent[data, stage, current] = done

    def _hand_on(self, src: int, dst: int, sent: Pass, current: Pass, after: Sequence[int]) -> int:
        """The message from one stage's pass to the next stage's."""
        first = self._sizes.edge_at(sent.forward, sent.microbatch, sent.chunk)
        to = self._sizes.edge_at(current.forward, current.microbatch, current.chunk)
        span = first, first + self._sizes.edge
        return self._builder.transfer(src, dst, span, reduce=False, after=after, to=to)

    def _tensor(self, members: list[int], current: Pass, entry: list[list[int]]) -> list[list[int]]:
        """Add an all-gather and a reduce-scatter of the tensor group; for each member, what completes its
        pass."""
        if len(members) == 1:
            return entry
        n, place = len(members), (current.forward, current.microbatch, current.chunk)
        gathered = chunks(self._sizes.gathered_at(*place), self._sizes.chunk * n, n)
        entry = ring_all_gather(self._builder, members, gathered, entry)
        reduced = chunks(self._sizes.reduced_at(*place), self._sizes.chunk * n, n)
        return ring_reduce_scatter(self._builder, members, reduced, entry)

    # -- gradients -------------------------------------------------------------------------------------
    def _synchronise(self) -> None:
        """All-reduce each shard over its data-parallel group: in the domain, along the rail, and back."""
        placed, sizes = self._placed, self._sizes
        dh, dl = placed.dh, placed.d // placed.dh
        shards = chunk_spans(sizes.first_gradient, sizes.gradients, dh)
        pieces = [chunks(first, last - first, dl) for first, last in shards]
        for stage in range(placed.p):
            for tensor in range(placed.t):
                grid = [[self._rank[o * dh + i][stage][tensor] for i in range(dh)] for o in range(dl)]
                rows = [(row, [[shard] for shard in shards]) for row in grid]
                columns = [([row[k] for row in grid], pieces[k]) for k in range(dh)]
                for ring, rings in (
                    (ring_reduce_scatter, rows),
                    (ring_reduce_scatter, columns),
                    (ring_all_gather, columns),
                    (ring_all_gather, rows),
                ):
                    add_rings(self._builder, GRADIENTS, ring, rings, self._ready)
