"""Builds schedules: chunks of a buffer, transfers one by one, and the two halves of a ring."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from railweave.framework.model import Schedule

Span = tuple[int, int]
"""Elements first..last of a buffer, the last one excluded."""
Chunk = Sequence[Span]
"""What one rank sends to the next in one step of a ring: one span, or several that lie apart."""
Ready = dict[int, list[int]]
"""For every rank, the transfers that must be complete before it may send."""
Rings = Iterable[tuple[Sequence[int], Sequence[Chunk]]]
"""(members, chunks) of every ring of a phase."""


def chunk_spans(span: Span, parts: int) -> list[Span]:
    """A span cut into `parts` spans, whose lengths differ by at most one element."""
    first, last = span
    return list(pairwise(first + i * (last - first) // parts for i in range(parts + 1)))


def chunks(span: Span, parts: int) -> list[Chunk]:
    """The same spans, each as a chunk for a ring."""
    return [[part] for part in chunk_spans(span, parts)]


class ScheduleBuilder:
    """Collects the transfers of one schedule over `n_ranks` ranks; offsets count elements of `itemsize`
    bytes.

    A transport sends what one rank has for another in the order of the schedule. That is the order of adding,
    unless `slot` was used: then it is the order of the time slots, so that no transfer queues behind a later
    one.
    """

    def __init__(self, n_ranks: int, itemsize: int) -> None:
        self._n_ranks, self._itemsize = n_ranks, itemsize
        self._phases: dict[str, int] = {}
        self._phase = -1
        self._slot: int | None = None
        self._rows: list[tuple[int, ...]] = []
        self._after: list[tuple[int, ...]] = []

    def phase(self, name: str) -> None:
        """Put the transfers that follow into the phase of this name, which begins here if it is new."""
        self._phase = self._phases.setdefault(name, len(self._phases))

    def slot(self, slot: int) -> None:
        """Put the transfers that follow into this time slot, where they are ordered by step."""
        self._slot = slot

    def transfer(
        self,
        src: int,
        dst: int,
        span: Span,
        *,
        reduce: bool,
        after: Sequence[int],
        to: int | None = None,
        step: int = 0,
    ) -> int:
        """Send a span of rank `src` to the same place at `dst`, or to element `to` there; the transfer's
        number."""
        first, last = span
        order = (0, 0) if self._slot is None else (self._slot, step)
        target = first if to is None else to
        self._rows.append((src, dst, first, target, last - first, reduce, self._phase, *order))
        self._after.append(tuple(set(after)))
        return len(self._rows) - 1

    def build(
        self, collective: str, count: int, dtype: str, redop: str, *, buffer_count: int | None = None
    ) -> Schedule:
        """The schedule, over buffers of `buffer_count` elements (default `count`, the size of the
        collective)."""
        table = np.array(self._rows, np.int64).reshape(-1, 9)
        order = np.lexsort((table[:, 8], table[:, 7]))  # by slot, then by step
        position = np.argsort(order).tolist()
        after = [sorted(map(position.__getitem__, self._after[i])) for i in order.tolist()]
        src, dst, first, to, length, reduce, phase = table[order, :7].T
        itemsize = self._itemsize
        return Schedule(
            collective,
            self._n_ranks,
            count * itemsize,
            dtype,
            redop,
            (count if buffer_count is None else buffer_count) * itemsize,
            src,
            dst,
            first * itemsize,
            to * itemsize,
            length * itemsize,
            reduce,
            phase,
            after_start=np.cumsum([0, *map(len, after)]),
            after=np.array([before for waits in after for before in waits], np.int64),
            phase_names=tuple(self._phases),
        )


def add_ring(
    builder: ScheduleBuilder,
    members: Sequence[int],
    chunks: Sequence[Chunk],
    entry: Sequence[Sequence[int]],
    *,
    reduce: bool,
) -> list[list[int]]:
    """Half of an all-reduce, among 2 members or more, in len(members) - 1 steps. With `reduce` a
    reduce-scatter: leave member i with chunk i reduced over all members. Without, an all-gather: bring chunk
    i, which member i starts with, to all members.

    All chunks have the same number of spans; every span is a transfer. `entry[i]` must be complete before
    member i sends. Returns, for each member, all that it sends and receives here: complete, its part is over.
    Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009.
    """
    n = len(members)
    parts: list[list[int]] = [[] for _ in members]
    before: list[list[int]] = [[] for _ in members]  # what each member sent in the last step, by span
    for step in range(n - 1):
        sent: list[list[int]] = []
        for i, member in enumerate(members):
            receiver, chunk = members[(i + 1) % n], chunks[(i - step - (1 if reduce else 0)) % n]
            sent.append(
                [
                    builder.transfer(
                        member,
                        receiver,
                        span,
                        reduce=reduce,
                        after=[*entry[i], *before[i - 1][k : k + 1]],
                        step=step,
                    )
                    for k, span in enumerate(chunk)
                ]
            )
        for i in range(n):
            parts[i] += [*sent[i], *sent[i - 1]]
        before = sent
    return parts


def add_rings(builder: ScheduleBuilder, phase: str, rings: Rings, ready: Ready, *, reduce: bool) -> None:
    """Add rings to a phase, but those of one member, and update `ready` for their members."""
    for members, of_ring in rings:
        if len(members) > 1:
            builder.phase(phase)
            parts = add_ring(builder, members, of_ring, [ready[rank] for rank in members], reduce=reduce)
            ready.update(zip(members, parts, strict=True))
