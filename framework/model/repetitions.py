"""What each repetition of the entries of a schedule sends, where they differ in size."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from railweave.framework.model.arrays import Float, Int64, spread
from railweave.framework.model.routes import starts

if TYPE_CHECKING:
    from railweave.framework.model.schedule import Schedule

MOST_DIFFERENT = 1 << 21
"""Transfers up to which each has its own size. In a ring of unequal chunks no two ranks are alike, so nothing
is computed together; of more transfers those of one block get the mean of their lists."""

Amount = Callable[[Int64], Float | Int64]
"""A count for each transfer from its bytes: (N,) from (N,)."""


def per_repetition(schedule: Schedule, amount: Amount) -> tuple[Int64, Float]:
    """(start (n+1,), values): `amount` of every repetition of each entry, or one value for an entry whose
    repetitions are alike.

    >>> ring = rw.load(domains=2, rails=2, size=1004, collective="ring-all-reduce").compact[0]
    >>> start, sizes = per_repetition(ring, lambda size_bytes: size_bytes)
    >>> sizes[start[0] : start[1]]
    array([252., 252., 252.])
    """
    n, spans = schedule.n_entries, schedule.spans
    if spans is None or not spans.chunks.any() or len(spans.size) == 0:
        return np.arange(n + 1), np.asarray(amount(schedule.size), np.float64)
    lag = np.maximum(schedule.lag, 1).astype(np.int64)
    in_list = np.flatnonzero(spans.chunks)
    begin, width = spans.src_list[in_list], spans.chunks[in_list] * lag[in_list]
    values = np.asarray(amount(schedule.size), np.float64)
    if np.all(spans.size == spans.size[0]):
        values[in_list] = np.asarray(amount(spans.size[:1]), np.float64)
        return np.arange(n + 1), values
    if schedule.n_transfers > MOST_DIFFERENT:
        sums = np.append(0.0, np.cumsum(np.asarray(amount(spans.size), np.float64)))
        like = schedule.blocks_alike
        mean = (sums[begin + width] - sums[begin]) / width
        values[in_list] = (np.bincount(like, mean) / np.bincount(like))[like]
        return np.arange(n + 1), values
    changes = np.append(0, np.cumsum(np.diff(spans.size) != 0))
    differ = changes[begin + width - 1] > changes[begin]
    values[in_list] = np.asarray(amount(spans.size[begin]), np.float64)
    uneven = in_list[differ]
    count = np.ones(n, np.int64)
    count[uneven] = schedule.repeat[uneven]
    start = starts(count)
    values = np.repeat(values, count)
    entry = np.repeat(uneven, count[uneven])
    repetition = spread(np.zeros(len(uneven), np.int64), count[uneven])
    values[spread(start[uneven], count[uneven])] = amount(spans.at(entry, repetition, lag[entry])[2])
    return start, values


def in_all(schedule: Schedule, amount: Amount) -> Float:
    """(n,): `amount` of all repetitions of each entry together.

    >>> ring = rw.load(domains=2, rails=2, size=1004, collective="ring-all-reduce").compact[0]
    >>> in_all(ring, lambda size_bytes: size_bytes)
    array([756., 752., 752., 752., 752., 752., 752., 756.])
    """
    start, values = per_repetition(schedule, amount)
    once = np.diff(start) == 1
    sums = np.diff(np.append(0.0, np.cumsum(values))[start]) if not once.all() else values
    return np.where(once, values[start[:-1]] * schedule.repeat, sums)
