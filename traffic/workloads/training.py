"""The messages of one training iteration: their offsets and sizes in the buffers of the ranks, the order in
which a pipeline stage processes its microbatches (1F1B, plain and interleaved), and who waits for what."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from railweave.framework.model.arrays import Int32, Int64
from railweave.framework.papers.training.pipeline import Pass, one_forward_one_backward
from railweave.framework.papers.training.placement import Placement
from railweave.framework.papers.training.traffic_matrix import TrainingJob, reduced_bytes, traffic, volumes
from railweave.traffic.collectives.entries import Entries, columns, parts_of
from railweave.traffic.collectives.hierarchical import add_all_reduce
from railweave.traffic.collectives.ring_blocks import Rings, add_rings, none_ready

GRADIENTS = "gradients"


@dataclass(frozen=True, slots=True)
class Layout:
    """Lengths in elements: `chunk` of a tensor group's array per rank, `edge` between stages, `gradients`.

    A buffer has space of its own for every (direction, microbatch, chunk of the model): the activations from
    the stage before, the array that the tensor group gathers, and the one that it reduces. The gradients
    follow. So no message overwrites data that another one has yet to read.
    """

    m: int
    v: int
    t: int
    chunk: int
    edge: int
    gradients: int

    @property
    def place(self) -> int:
        return self.edge + 2 * self.t * self.chunk

    @property
    def first_gradient(self) -> int:
        return 2 * self.m * self.v * self.place

    @property
    def count(self) -> int:
        return self.first_gradient + self.gradients

    def edge_at(self, forward: bool, microbatch: int, chunk: int) -> int:
        """First element of what the stage before sends (backward: the stage after)."""
        return (((0 if forward else 1) * self.m + microbatch) * self.v + chunk) * self.place

    def gathered_at(self, forward: bool, microbatch: int, chunk: int) -> int:
        """First element of the array that the tensor group gathers."""
        return self.edge_at(forward, microbatch, chunk) + self.edge

    def reduced_at(self, forward: bool, microbatch: int, chunk: int) -> int:
        """First element of the array that the tensor group reduces and scatters."""
        return self.gathered_at(forward, microbatch, chunk) + self.t * self.chunk


def emulated_microbatches(m: int, p: int, v: int, most: int) -> int:
    """At most `most` of the job's m, each representing several; whole rounds of p where stages interleave."""
    few = min(m, most)
    return few if v == 1 else max(p, few // p * p)


def layout(job: TrainingJob, placed: Placement, busiest: int, microbatches: int) -> Layout:
    """Sizes with which the busiest GPU sends about `busiest` elements in all.

    Every message of the job has at least one element, so that small kinds do not vanish.
    """
    scale = share(job, placed, busiest)
    per, represented = volumes(job), job.m / microbatches
    chunk = represented * per.tensor / 2 / (placed.t - 1) if placed.t > 1 else 0.0
    gradients = reduced_bytes(job, placed) if placed.d > 1 else 0.0

    def elements(size: float, least: int) -> int:
        return max(least, round(size * scale)) if size > 0 and scale > 0 else 0

    edge = elements(represented * per.edge, 1) if placed.p > 1 else 0
    return Layout(microbatches, job.v, placed.t, elements(chunk, 1), edge, elements(gradients, placed.d))


def share(job: TrainingJob, placed: Placement, busiest: int) -> float:
    """`busiest` over the bytes that the busiest GPU sends in an iteration; 0 if that is nothing."""
    most = float(traffic(job, placed).sent.max(initial=0.0))
    return busiest / most if most > 0 else 0.0


def symmetries(placed: Placement) -> Int32:
    """(g, n_ranks): by one along the tensor groups, and along each of the two levels of data parallelism."""
    grid = placed.gpu.reshape(-1, placed.dh, placed.p, placed.t)
    moves = np.empty((3, grid.size), np.int32)
    for move, axis in zip(moves, (0, 1, 3), strict=True):
        move[grid] = np.roll(grid, -1, axis)
    changes = (moves != np.arange(grid.size)).any(axis=1)
    return np.asarray(moves[changes], np.int32)


class Iteration:
    """Adds one iteration to a schedule. `rank` (d, p, t): the rank at each place of the job. A pass of one
    microbatch computes for `forward_s` or `backward_s` between gathering and reducing."""

    def __init__(
        self,
        entries: Entries,
        placed: Placement,
        sizes: Layout,
        rank: Int64,
        forward_s: float = 0.0,
        backward_s: float = 0.0,
    ) -> None:
        self._entries, self._placed, self._sizes, self._rank = entries, placed, sizes, rank
        self._compute_s = {True: forward_s, False: backward_s}
        self._ready = none_ready(entries.n_ranks)
        self._sent: dict[tuple[int, Pass], Int64] = {}
        """What must be complete of a stage's pass before its ranks send its output: (d t, w)."""
        self._slot = 0

    def add_all(self) -> None:
        """Add all passes of every stage in its own order, each once its input has been sent; then the
        gradients: each shard is all-reduced over its data-parallel group, in the domain, along the rail, and
        back."""
        placed, sizes = self._placed, self._sizes
        self._entries.phase("pipeline")  # tensor and pipeline messages overlap, so they are one phase
        remaining = [one_forward_one_backward(s, placed.p, sizes.m, sizes.v)[::-1] for s in range(placed.p)]
        while any(remaining):
            before = sum(map(len, remaining))
            for stage, passes in enumerate(remaining):
                while passes and self._add_pass(stage, passes[-1]):
                    passes.pop()
            assert sum(map(len, remaining)) < before, "a pipeline that waits for itself"
        for stage, tensor in product(range(placed.p), range(placed.t)) if sizes.gradients else ():
            grid = self._rank[:, stage, tensor].reshape(-1, placed.dh)
            span = sizes.first_gradient, sizes.gradients
            self._ready = add_all_reduce(self._entries, grid, span, self._ready, name=GRADIENTS)

    def _add_pass(self, stage: int, current: Pass) -> bool:
        """Receive from the stage before, gather, compute and reduce in the tensor groups; False if the stage
        before has not sent yet."""
        source = self._source(stage, current)
        if source is not None and source not in self._sent:
            return False
        sizes, members = self._sizes, self._rank[:, stage]
        received = None if source is None else self._received(members, source, current)
        self._ring(members, sizes.gathered_at(*current), reduce=False, received=received)
        if received is None or members.shape[1] > 1:  # the ring has waited for it
            received = np.empty((members.size, 0), np.int64)
        computed = self._entries.wait(
            members,
            columns(self._ready[members.ravel()], received),
            seconds=self._compute_s[current.forward],
            slot=self._slots(members),
        )
        self._ready[members.ravel()] = np.column_stack((computed, np.full_like(computed, -1)))
        self._ring(members, sizes.reduced_at(*current), reduce=True)
        self._sent[stage, current] = self._ready[members.ravel()]
        return True

    def _received(self, members: Int64, source: tuple[int, Pass], current: Pass) -> Int64:
        """(d t, w): what brings the input of a pass; where the stage before is the same, its end."""
        (origin, sent), sizes = source, self._sizes
        senders, after = self._rank[:, origin], self._sent[source]
        if np.array_equal(senders, members):
            return after
        edge = self._entries.add(
            senders,
            members,
            first=sizes.edge_at(*sent),
            to=sizes.edge_at(*current),
            length=sizes.edge,
            after=columns(after),
            slot=self._slots(members),
        )
        return edge[:, None]

    def _ring(self, members: Int64, first: int, *, reduce: bool, received: Int64 | None = None) -> None:
        """Half a ring in every tensor group, over an array of its ranks' chunks, once a pass has
        `received` its input."""
        chunk, n = self._sizes.chunk, members.shape[1]
        rings = Rings(members, parts_of([first], [chunk * n], n).each, np.zeros(len(members), np.int64))
        slot = self._slots(members)
        self._ready = add_rings(self._entries, rings, self._ready, reduce=reduce, slot=slot, also=received)

    def _slots(self, members: Int64) -> Int64:
        """(d, t): the next slot of every data-parallel rank, whose passes stand together."""
        self._slot += 1
        blocks = 8 * self._placed.p * self._sizes.m * self._sizes.v  # 4 of every pass, forward and backward
        data = np.arange(len(members)) * (blocks + 1)
        return np.broadcast_to(data[:, None] + self._slot, members.shape)

    def _source(self, stage: int, current: Pass) -> tuple[int, Pass] | None:
        """The stage and pass whose output is the input of this pass; None for the first of all."""
        p, v = self._placed.p, self._sizes.v
        virtual = current.chunk * p + stage
        if not current.forward and virtual == p * v - 1:
            return stage, current._replace(forward=True)
        before = virtual - 1 if current.forward else virtual + 1
        return (before % p, current._replace(chunk=before // p)) if before >= 0 else None
