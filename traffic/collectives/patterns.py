"""Messages that are sent at once: a permutation of the ranks and an all-to-all of unequal messages, which a
seed draws, and many ranks that send to one."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from railweave.framework.analysis.link_loads import derangement
from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.arithmetic import count_of, nonzero_input
from railweave.traffic.collectives.entries import Entries
from railweave.traffic.collectives.operations import Operation, Sharded

EQUAL, EXPONENTIAL = "equal", "exponential"
SEED = Parameter("seed", 1, "count", "seed of the draw", minimum=0, maximum=2**63 - 1)


class PatternMessages(NamedTuple):
    """From rank to rank, from element to element: arrays of one entry a message, and the elements of a
    buffer."""

    src: Int64
    dst: Int64
    first: Int64
    to: Int64
    length: Int64
    buffer_count: int


class AtOnce(Operation):
    """Base of the patterns: messages that wait for nothing, one at most from a rank to another. Every rank's
    buffer has two regions: what it receives, then what it sends. `redop` does not matter."""

    def messages(self, n_ranks: int, count: int) -> PatternMessages:
        """The messages of `count` elements, 1 or more, among 2 ranks or more."""
        raise NotImplementedError

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """As of Operation, with a buffer as large as the messages need."""
        self.check(fabric, ranks)
        itemsize, n = np.dtype(dtype).itemsize, len(ranks)
        count = self.element_count(size_bytes, itemsize, n)
        entries, buffer_count = Entries(n, itemsize), 0
        if count and n > 1:
            entries.phase(self.name)
            src, dst, first, to, length, buffer_count = self.messages(n, count)
            entries.add(src, dst, first=first, to=to, length=length, slot=np.arange(len(src)))
        return entries.build(self.name, count, dtype, redop, buffer_count=buffer_count)


class Permutation(AtOnce):
    """Every rank sends its buffer to one rank and receives that of another; all permutations without fixed
    points are equally likely. The size is one rank's buffer, as of send-recv; with exponential `sizes`, their
    mean. `railweave loads --pattern permutation` draws the same permutation."""

    summary = "every rank to one other, drawn at random (seed), at once; any fabric"
    kind = name = "permutation"
    least_ranks = 2
    parameters: tuple[Parameter, ...] = (
        Parameter("sizes", EQUAL, "text", "whether messages are equal", choices=(EQUAL, EXPONENTIAL)),
        SEED,
    )

    def __init__(self, sizes: str = EQUAL, seed: int = 1) -> None:
        self._sizes, self._seed = sizes, seed

    def lengths(self, n_ranks: int, count: int) -> Int64:
        """(n_ranks,): elements that each rank sends; at least one of `count`, 1 or more."""
        if self._sizes == EQUAL:
            return np.full(n_ranks, count)
        drawn = np.random.default_rng([self._seed, 1]).exponential(count, n_ranks)
        return np.maximum(np.rint(drawn), min(count, 1)).astype(np.int64)

    def messages(self, n_ranks: int, count: int) -> PatternMessages:
        src, length = np.arange(n_ranks), self.lengths(n_ranks, count)
        most = int(length.max())
        first = np.full(n_ranks, most)
        return PatternMessages(src, derangement(n_ranks, self._seed), first, 0 * first, length, 2 * most)

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(longest + own,) per rank: 0 as far as the longest message, then what it sends, without a 0 in
        it."""
        length = self.lengths(schedule.n_ranks, count_of(schedule))
        sent = [nonzero_input(schedule, rank, n, seed) for rank, n in enumerate(length.tolist())]
        return [np.pad(array, (int(length.max()), 0)) for array in sent]

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): what the rank before it in the permutation sent."""
        sender = int(np.argsort(derangement(schedule.n_ranks, self._seed))[rank])
        return inputs[sender][int(self.lengths(schedule.n_ranks, count_of(schedule)).max()) :]


class Incast(AtOnce):
    """Every rank but the first sends its buffer to the first, all at once. The size is what each sends, as of
    send-recv."""

    summary = "every rank to the first one, at once; any fabric"
    kind = name = "incast"
    least_ranks = 2

    def messages(self, n_ranks: int, count: int) -> PatternMessages:
        src = np.arange(1, n_ranks)
        first = np.full(n_ranks - 1, (n_ranks - 1) * count)
        length = np.full(n_ranks - 1, count)
        return PatternMessages(src, 0 * src, first, (src - 1) * count, length, n_ranks * count)

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """((n_ranks - 1) count + own,) per rank: 0 where it may receive, then what it sends, without a 0 in
        it."""
        count, n = count_of(schedule), schedule.n_ranks
        inputs_ = [nonzero_input(schedule, rank, count, seed) for rank in range(n)]
        return [np.pad(array, ((n - 1) * count, 0)) for array in inputs_]

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """((n_ranks - 1) count,): at the first rank what the others sent, in their order; nothing at
        those."""
        count, n = count_of(schedule), schedule.n_ranks
        if rank:
            return inputs[rank][: (n - 1) * count]
        return np.concatenate([inputs[sender][(n - 1) * count :] for sender in range(1, n)])


class MoeAllToAll(AtOnce, Sharded):
    """The all-to-all of a mixture of experts: every rank sends every other one a slice, and each slice is up
    to `spread` longer or shorter than an even one, drawn uniformly.

    The size is what a rank sends on average, its slice for itself included, rounded as of an even all-to-all.
    Slices are whole elements, in the order of receivers where they are sent and of senders where they are
    received. A rank's slice for itself crosses no link and stands in its place from the start.
    """

    summary = "all-to-all of unequal slices, as experts get them (seed), all at once; any fabric"
    kind = "uneven-all-to-all"
    name = "moe-all-to-all"
    parameters: tuple[Parameter, ...] = (
        Parameter("spread", 0.1, "ratio", "slices differ by up to so much from even ones"),
        SEED,
    )

    def __init__(self, spread: float = 0.1, seed: int = 1) -> None:
        self._spread, self._seed = spread, seed

    def slices(self, n_ranks: int, count: int) -> "Slices":
        return slices(n_ranks, count, self._spread, self._seed)

    def messages(self, n_ranks: int, count: int) -> PatternMessages:
        length, first, to, buffer_count = self.slices(n_ranks, count)
        src, dst = np.nonzero(~np.eye(n_ranks, dtype=bool))
        return PatternMessages(src, dst, first[src, dst], to[src, dst], length[src, dst], buffer_count)

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(buffer,) per rank: 0 but for its own slice, then what it sends, without a 0 in it."""
        length, first, to, _ = self.slices(schedule.n_ranks, count_of(schedule))
        inputs = []
        for rank, sent in enumerate(length.sum(axis=1).tolist()):
            array = np.pad(nonzero_input(schedule, rank, sent, seed), (int(first[rank, 0]), 0))
            own_length = length[rank, rank]
            array[to[rank, rank] :][:own_length] = array[first[rank, rank] :][:own_length]
            inputs.append(array)
        return inputs

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(elements for it,): the slice for `rank` of every sender, in their order."""
        length, first, _, _ = self.slices(schedule.n_ranks, count_of(schedule))
        return np.concatenate(
            [
                array[start:][:n]
                for array, start, n in zip(inputs, first[:, rank], length[:, rank], strict=True)
            ]
        )


class Slices(NamedTuple):
    """Elements of every slice, where it begins in its sender's buffer and in its receiver's, (n, n) each,
    [src, dst]; and the elements of a buffer."""

    length: Int64
    first: Int64
    to: Int64
    buffer_count: int


@lru_cache(maxsize=1)
def slices(n_ranks: int, count: int, spread: float, seed: int) -> Slices:
    """The slices of `count` elements a rank on average."""
    draw = np.random.default_rng(seed).uniform(-1.0, 1.0, (n_ranks, n_ranks))
    length = np.rint(count / n_ranks * (1.0 + spread * draw)).astype(np.int64)
    received = int(length.sum(axis=0).max())
    first = received + np.cumsum(length, axis=1) - length
    to = np.cumsum(length, axis=0) - length
    return Slices(length, first, to, received + int(length.sum(axis=1).max()))
