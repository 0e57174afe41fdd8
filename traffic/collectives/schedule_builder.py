"""Builds schedules: chunks of a buffer, transfers one by one, and the two halves of a ring."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from railweave.framework.model import Schedule

Span = tuple[int, int]
"""Elements first..last of a buffer, the last one excluded."""
Chunk = Sequence[Span]
"""What one rank sends to the next in one step of a ring: one span, or several that lie apart."""
Ready = dict[int, list[int]]
"""For every rank, the transfers that must be complete before it may send."""


def chunk_spans(first: int, count: int, parts: int) -> list[Span]:
    """Elements first..first + count cut into `parts` spans, whose lengths differ by at most one element."""
    bounds = [first + i * count // parts for i in range(parts + 1)]
    return list(pairwise(bounds))


def chunks(first: int, count: int, parts: int) -> list[Chunk]:
    """The same spans, each as a chunk for a ring."""
    return [[span] for span in chunk_spans(first, count, parts)]


class ScheduleBuilder:
    """Collects the transfers of one schedule over `n_ranks` ranks; offsets count elements of `itemsize`
    bytes.

    A transport sends what one rank has for another in the order of the schedule. That is the order of adding,
    unless `slot` was used: then it is the order of the time slots, so that no transfer queues behind a later
    one.
    """

    def __init__(self, n_ranks: int, itemsize: int) -> None:
        self.n_ranks = n_ranks
        self._itemsize = itemsize
        self._phases: list[str] = []
        self._phase = -1
        self._slot: int | None = None
        self._rows: list[tuple[int, int, int, int, int, bool, int]] = []
        self._after: list[tuple[int, ...]] = []
        self._times: list[tuple[int, int]] = []

    def phase(self, name: str) -> None:
        """Put the transfers that follow into the phase of this name, which begins here if it is new."""
        if name not in self._phases:
            self._phases.append(name)
        self._phase = self._phases.index(name)

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
        self._rows.append((src, dst, first, first if to is None else to, last - first, reduce, self._phase))
        self._after.append(tuple(sorted(set(after))))
        self._times.append((self._slot or 0, step))
        return len(self._rows) - 1

    def build(
        self, collective: str, count: int, dtype: str, redop: str, *, buffer_count: int | None = None
    ) -> Schedule:
        """The schedule, over buffers of `buffer_count` elements (default `count`, the size of the
        collective)."""
        rows, after = self._rows, self._after
        if self._slot is not None:
            order = sorted(range(len(rows)), key=self._times.__getitem__)
            position = np.empty(len(rows), np.int64)
            position[order] = np.arange(len(rows))
            rows = [rows[i] for i in order]
            after = [tuple(sorted(int(position[j]) for j in after[i])) for i in order]
        table = np.array(rows, np.int64).reshape(-1, 7)
        src, dst, first, to, length, reduce, phase = table.T
        after_start = np.concatenate([[0], np.cumsum([len(waits) for waits in after], dtype=np.int64)])
        flat_after = np.array([transfer for waits in after for transfer in waits], np.int64)
        itemsize = self._itemsize
        buffer_bytes = (count if buffer_count is None else buffer_count) * itemsize
        return Schedule(
            collective,
            self.n_ranks,
            count * itemsize,
            dtype,
            redop,
            buffer_bytes,
            src.astype(np.int32),
            dst.astype(np.int32),
            first * itemsize,
            to * itemsize,
            length * itemsize,
            reduce.astype(np.int32),
            phase.astype(np.int32),
            after_start,
            flat_after,
            phase_names=tuple(self._phases),
        )


Rings = Iterable[tuple[Sequence[int], Sequence[Chunk]]]
"""(members, chunks) of every ring of a phase."""
AddRing = Callable[
    [ScheduleBuilder, Sequence[int], Sequence[Chunk], Sequence[Sequence[int]]], list[list[int]]
]
"""ring_reduce_scatter or ring_all_gather."""


def ring_reduce_scatter(
    builder: ScheduleBuilder, members: Sequence[int], chunks: Sequence[Chunk], entry: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Leave member i with chunk i reduced over all members, in len(members) - 1 steps.

    All chunks have the same number of spans; every span is a transfer. `entry[i]` must be complete before
    member i sends. Returns, for each member, all that it sends and receives here: complete, its part is over.
    Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009.
    """
    return _ring(builder, members, chunks, entry, first_chunk=-1, reduce=True)


def ring_all_gather(
    builder: ScheduleBuilder, members: Sequence[int], chunks: Sequence[Chunk], entry: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Bring chunk i, which member i starts with, to all members. Arguments and result as in
    ring_reduce_scatter."""
    return _ring(builder, members, chunks, entry, first_chunk=0, reduce=False)


def add_rings(
    builder: ScheduleBuilder,
    phase: str,
    add_ring: AddRing,
    rings: Rings,
    ready: Ready,
    slot: int | None = None,
) -> None:
    """Add rings to a phase, but those of one member, and update `ready` for their members."""
    for members, of_ring in rings:
        if len(members) == 1:
            continue
        builder.phase(phase)
        if slot is not None:
            builder.slot(slot)
        parts = add_ring(builder, members, of_ring, [ready[rank] for rank in members])
        ready.update(zip(members, parts, strict=True))


def _ring(
    builder: ScheduleBuilder,
    members: Sequence[int],
    chunks: Sequence[Chunk],
    entry: Sequence[Sequence[int]],
    *,
    first_chunk: int,
    reduce: bool,
) -> list[list[int]]:
    n = len(members)
    if n == 1:
        return [list(entry[0])]
    parts: list[list[int]] = [[] for _ in members]
    received: list[list[list[int]]] = [[[] for _ in chunks[0]] for _ in members]
    for step in range(n - 1):
        sent = [
            [
                builder.transfer(
                    members[i],
                    members[(i + 1) % n],
                    span,
                    reduce=reduce,
                    after=[*entry[i], *waits],
                    step=step,
                )
                for span, waits in zip(chunks[(i + first_chunk - step) % n], received[i], strict=True)
            ]
            for i in range(n)
        ]
        received = [[[transfer] for transfer in sent[i - 1]] for i in range(n)]
        for i in range(n):
            parts[i] += [*sent[i], *sent[i - 1]]
    return parts
