"""The messages of one training iteration in an order that its pipeline allows."""

from __future__ import annotations

from collections.abc import Sequence

from railweave.framework.llm.placement import Placement
from railweave.framework.model.arrays import Int64
from railweave.traffic.collectives.plan import Plan, chunk_bounds, ring_all_gather, ring_reduce_scatter
from railweave.traffic.workloads.layout import Layout
from railweave.traffic.workloads.pipeline import Pass, one_forward_one_backward

Ready = dict[int, list[int]]


class Iteration:
    """Plans one iteration. `rank` (d, p, t): the rank that each place of the job has."""

    def __init__(self, plan: Plan, placed: Placement, sizes: Layout, rank: Int64) -> None:
        self._plan, self._placed, self._sizes = plan, placed, sizes
        self._rank = rank.tolist()
        self._ready: Ready = {int(r): [] for r in rank.ravel()}
        self._came: dict[tuple[int, int, Pass], list[list[int]]] = {}

    def fill(self) -> None:
        """All passes of every stage in its own order, each when what it needs has been sent; then the gradients."""
        p = self._placed.p
        self._plan.phase("pipeline")  # tensor and pipeline messages overlap, so they are one phase
        for data in range(self._placed.d):
            left = [one_forward_one_backward(s, p, self._sizes.m, self._sizes.v)[::-1] for s in range(p)]
            while any(left):
                before = sum(map(len, left))
                for stage, passes in enumerate(left):
                    while passes and self._may_start(data, stage, passes[-1]):
                        self._pass(data, stage, passes.pop())
                assert sum(map(len, left)) < before, "a pipeline that waits for itself"
        if self._sizes.gradients:
            self._plan.phase("gradients")
            self._synchronise()

    # -- passes ----------------------------------------------------------------------------------------
    def _source(self, stage: int, one: Pass) -> tuple[int, Pass] | None:
        """The stage and pass whose output this pass works on; None for the first of all."""
        p, v = self._placed.p, self._sizes.v
        virtual = one.chunk * p + stage
        if one.forward:
            before = virtual - 1
        elif virtual == p * v - 1:
            return stage, Pass(True, one.microbatch, one.chunk)
        else:
            before = virtual + 1
        if before < 0:
            return None
        return before % p, Pass(one.forward, one.microbatch, before // p)

    def _may_start(self, data: int, stage: int, one: Pass) -> bool:
        source = self._source(stage, one)
        return source is None or (data, source[0], source[1]) in self._came

    def _pass(self, data: int, stage: int, one: Pass) -> None:
        """Take in what came, gather and reduce in the tensor group, hand on to the next stage."""
        members: list[int] = self._rank[data][stage]
        entry = [list(self._ready[rank]) for rank in members]
        source = self._source(stage, one)
        if source is not None:
            origin, sent = source
            for i, (src, after) in enumerate(
                zip(self._rank[data][origin], self._came[data, origin, sent], strict=True)
            ):
                entry[i] += after if src == members[i] else [self._hand_on(src, members[i], sent, one, after)]
        done = self._tensor(members, one, entry)
        for rank, after in zip(members, done, strict=True):
            self._ready[rank] = after
        self._came[data, stage, one] = done

    def _hand_on(self, src: int, dst: int, sent: Pass, one: Pass, after: Sequence[int]) -> int:
        """The message from one stage's pass to the next stage's."""
        first = self._sizes.edge_at(sent.forward, sent.microbatch, sent.chunk)
        to = self._sizes.edge_at(one.forward, one.microbatch, one.chunk)
        return self._plan.add(src, dst, first, first + self._sizes.edge, reduce=False, after=after, to=to)

    def _tensor(self, members: list[int], one: Pass, entry: list[list[int]]) -> list[list[int]]:
        """An all-gather and a reduce-scatter of the tensor group; what must be complete for the pass to be over."""
        if len(members) == 1:
            return entry
        length = self._sizes.chunk * len(members)
        where = one.forward, one.microbatch, one.chunk
        bounds = chunk_bounds(self._sizes.gathered_at(*where), length, len(members))
        entry = ring_all_gather(self._plan, members, bounds, entry)
        bounds = chunk_bounds(self._sizes.reduced_at(*where), length, len(members))
        return ring_reduce_scatter(self._plan, members, bounds, entry)

    # -- gradients -------------------------------------------------------------------------------------
    def _synchronise(self) -> None:
        """All-reduce each shard over its data-parallel group: in the domain, along the rail, and back."""
        placed, sizes = self._placed, self._sizes
        dh, dl = placed.dh, placed.d // placed.dh
        shards = chunk_bounds(sizes.first_gradient, sizes.gradients, dh)
        pieces = [chunk_bounds(shards[k], shards[k + 1] - shards[k], dl) for k in range(dh)]
        for stage in range(placed.p):
            for tensor in range(placed.t):
                at = [[self._rank[o * dh + i][stage][tensor] for i in range(dh)] for o in range(dl)]
                rows = [(row, shards) for row in at]
                columns = [([row[k] for row in at], pieces[k]) for k in range(dh)]
                for ring, rings in (
                    (ring_reduce_scatter, rows),
                    (ring_reduce_scatter, columns),
                    (ring_all_gather, columns),
                    (ring_all_gather, rows),
                ):
                    for members, bounds in rings:
                        if len(members) == 1:
                            continue
                        done = ring(self._plan, members, bounds, [self._ready[r] for r in members])
                        for rank, after in zip(members, done, strict=True):
                            self._ready[rank] = after
