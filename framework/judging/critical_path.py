"""The chain of transfers that the time of an iteration consists of."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from railweave.framework.model import PathBatch, RouteTable, Schedule
from railweave.framework.model.arrays import Float, Int64, spread
from railweave.framework.model.findings import CriticalPath
from railweave.framework.routing.batches import join, starts

TOGETHER = 1e-9
"""Transfers whose ends differ by less, relative to them, end at one moment: times are sums, and rounded."""
MOST_LAST = 1024
"""Of the transfers that end with the last one, how many paths are kept, evenly spread."""


class _Part(NamedTuple):
    """What held an iteration from `begin_s` to `end_s`: an entry and those whose repetitions its own wait
    for, `members`. Of the messages of one pair meanwhile, `size` bytes each, `steps` waited for another to
    land."""

    begin_s: float
    end_s: float
    members: Int64
    steps: int
    size: int


def critical_path(
    schedule: Schedule, end_s: Float, tables: Sequence[tuple[float, RouteTable]], link_bytes: Float
) -> CriticalPath | None:
    """The chain of entries that ends with what ended last, on the routes in use meanwhile; None where they
    were not timed, or there are none. Rank i is GPU i.

    `end_s` as in IterationResult; `tables`: routes, and since when on the same clock they were in use, in
    order of time; the first from the beginning. `link_bytes` (n_links,): what each link carried.

    An entry held the iteration from when the last of those before it had ended: of those it waits for, and of
    the one that its pair sent before it, since a pair sends in the order of the schedule. The time of
    repetitions that wait for those of others belongs to all of these together, from when the last of what any
    of them waits for had ended; the slowest pair holds them all: their paths stand for one pair's.
    Computations and joins have no path, and no part.
    """
    if not len(end_s):
        return None
    parts = list(_chain(schedule, end_s))
    begin, end, steps, size = (np.array([part[i] for part in parts]) for i in (0, 1, 3, 4))
    columns, paths = [], []
    changes = [-np.inf, *(since_s for since_s, _ in tables[1:]), np.inf]
    for (_, table), (since_s, until_s) in zip(tables, pairwise(changes), strict=True):
        low, high = np.maximum(begin, since_s), np.minimum(end, until_s)
        now = np.flatnonzero(high > low)
        low, high = low[now], high[now]
        columns.append((low, high, steps[now] * (high - low) / (end - begin)[now], size[now]))
        paths.append(_together(schedule, table, [parts[i].members for i in now]))
    low, high, steps, size = map(np.concatenate, zip(*columns, strict=True))
    last = _ended_last(schedule, end_s, tables[-1][1])
    return CriticalPath(low, high, join(*paths), link_bytes, steps, size, last)


def _ended_last(schedule: Schedule, end_s: Float, table: RouteTable) -> PathBatch | None:
    """As `CriticalPath.last`."""
    at = int(np.argmax(end_s))
    if not schedule.is_transfer[at] or schedule.chained_start[at + 1] > schedule.chained_start[at]:
        return None
    with_it = np.flatnonzero(
        schedule.is_transfer & (end_s >= end_s[at] * (1 - TOGETHER)) & (schedule.size == schedule.size[at])
    )
    with_it = with_it[:: 1 + len(with_it) // MOST_LAST]
    return table.paths(schedule.src[with_it], schedule.dst[with_it])


def _chain(schedule: Schedule, end_s: Float) -> Iterator[_Part]:
    """Every part, the first first."""
    pair = schedule.src.astype(np.int64) * schedule.n_ranks + schedule.dst
    order = np.argsort(pair, kind="stable")
    again = np.flatnonzero((np.diff(pair[order]) == 0) & schedule.is_transfer[order[1:]])
    previous = np.full(len(order), -1)
    previous[order[again + 1]] = order[again]
    chain, waited, landed = [int(np.argmax(end_s))], list[Int64](), list[bool]()
    open_to = np.ones(len(order), bool)
    while True:
        together = _chained(schedule, chain[-1])
        waited.append(together)
        open_to[together] = False
        begin, end = schedule.after_start[together], schedule.after_start[together + 1]
        after = schedule.after[spread(begin, end - begin)]
        before = np.concatenate((after, previous[together]))
        # a path may have been slower
        of_those = (before >= 0) & (end_s[before] <= end_s[chain[-1]]) & open_to[before]
        if not of_those.any():
            landed.append(True)
            break
        last = int(np.argmax(np.where(of_those, end_s[before], -np.inf)))
        landed.append(last < len(after))
        chain.append(int(before[last]))
    begin_s = 0.0
    for at, together, waits in zip(reversed(chain), reversed(waited), reversed(landed), strict=True):
        if schedule.is_transfer[at]:
            chained = schedule.chained_start[at + 1] > schedule.chained_start[at]
            rounds = -(-int(schedule.repeat[at]) // max(1, int(schedule.lag[at]))) if chained else 1
            yield _Part(begin_s, float(end_s[at]), together, rounds - (not waits), int(schedule.size[at]))
        begin_s = float(end_s[at])


def _chained(schedule: Schedule, entry: int) -> Int64:
    """An entry and all those whose repetitions its own wait for, directly or by way of others."""
    members, left = {entry}, [entry]
    while left:
        at = left.pop()
        chained = schedule.chained[schedule.chained_start[at] : schedule.chained_start[at + 1]]
        left += [other for other in chained.tolist() if other not in members]
        members.update(left)
    return np.array(sorted(members))


def _together(schedule: Schedule, table: RouteTable, parts: Sequence[Int64]) -> PathBatch:
    """The paths of the transfers of each part as those of one pair, that of the first."""
    entries = np.concatenate([np.empty(0, np.int64), *parts])
    paths = table.paths(schedule.src[entries], schedule.dst[entries])
    first = starts(np.array([len(part) for part in parts], np.int64))
    share = np.repeat(1 / np.diff(first), np.diff(first))
    weight = paths.weight * np.repeat(share, np.diff(paths.pair_start))
    ends = paths.src[first[:-1]], paths.dst[first[:-1]]
    return PathBatch(*ends, paths.pair_start[first], weight, paths.hop_start, paths.links)


def link_times(table: RouteTable, link_bytes: Float) -> CriticalPath:
    """Of an iteration whose transfers are not known: no chain, and what each link carried, (n_links,)."""
    none = np.empty(0, np.int64)
    return CriticalPath(np.empty(0), np.empty(0), table.paths(none, none), link_bytes)
