"""Halves of many rings at once, as blocks of a compact schedule."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from railweave.framework.model.arrays import Int64
from railweave.traffic.collectives.entries import Entries, Parts, Turns, columns

Ready = Int64
"""(n_ranks, 2): for every rank, the entries that must be complete before it may send; -1 for none."""


def none_ready(n_ranks: int) -> Ready:
    return np.full((n_ranks, 2), -1)


@dataclass(frozen=True, slots=True)
class Rings:
    """Rings of equal length that are alike. `members` (rings, m): their ranks; `chunks`: spans of elements
    (lists, m, k), chunk i of a ring being k spans that may lie apart; `of` (rings,): the list of each, by
    default its own."""

    members: Int64
    chunks: Parts
    of: Int64 | None = None


def add_rings(
    entries: Entries,
    rings: Rings,
    ready: Ready,
    *,
    reduce: bool,
    slot: ArrayLike | None = None,
    also: Int64 | None = None,
) -> Ready:
    """Half of an all-reduce in every ring, in m - 1 steps. With `reduce` a reduce-scatter: leave member i
    with chunk i reduced over all members. Without, an all-gather: bring chunk i, which member i starts with,
    to all members. Nothing for rings of one member.

    Every span is a transfer. A rank's entries of `ready`, and those in `also` (rings x m, w), must be
    complete before it sends; returns `ready` after this half. Rings have a slot each, one after another, or
    that in `slot`. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009.
    """
    members, chunks = rings.members, rings.chunks
    count, m = members.shape
    if m == 1:
        return ready
    spans = chunks.first.shape[2]
    lists = entries.lists(Parts(*(array.reshape(len(array), -1) for array in chunks)))
    ring_list = lists if rings.of is None else lists[rings.of]
    entry = entries.n_entries + np.arange(count * m).reshape(count, m)
    before = np.roll(entry, 1, axis=1)
    entries.add(
        members,
        np.roll(members, -1, axis=1),
        length=int(chunks.length.max()),
        reduce=reduce,
        after=columns(ready[members.ravel()], *(() if also is None else (also,))),
        repeat=(m - 1) * spans,
        lag=spans,
        chained=columns(before.ravel()),
        turns=Turns(ring_list[:, None], ring_list[:, None], m, np.arange(m) - reduce, -1),
        slot=entries.next_slot + np.arange(count)[:, None] if slot is None else slot,
    )
    after = ready.copy()
    after[members] = np.stack((entry, before), axis=-1)
    return after
