"""Lists a compact schedule: every repetition as an entry of its own, which waits for such entries alone."""

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.model.arrays import Bool, Int64, Lists, distinct, spread
from railweave.framework.model.routes import starts
from railweave.framework.model.schedule import Schedule

MOST_LISTED = 1 << 23
"""The most transfers and waits of a list, together; a transport keeps a Python number for each."""


def expanded(schedule: Schedule, kept: Bool) -> Schedule:
    """The list of the entries `kept` (n,) of `schedule` (see Schedule). Raises FabricError where it is longer
    than MOST_LISTED.

    >>> ring = rw.load(domains=2, rails=2, size="64K", collective="ring-all-reduce").compact[0]
    >>> ring.n_entries, expanded(ring, np.ones(ring.n_entries, bool)).n_entries
    (8, 24)
    """
    return listed(schedule, kept)[0]


def listed(schedule: Schedule, kept: Bool) -> tuple[Schedule, Int64]:
    """The list, and the entry that each item of it is a repetition of.

    >>> ring = rw.load(domains=2, rails=2, size="64K", collective="ring-all-reduce").compact[0]
    >>> listed(ring, np.ones(ring.n_entries, bool))[1].tolist()[:9]
    [0, 1, 2, 3, 0, 1, 2, 3, 0]
    """
    repeat = np.where(kept, schedule.repeat, 0).astype(np.int64)
    waits = _without_others(schedule, kept)
    wait_count = np.add.reduceat(np.append(repeat[waits[1]], 0), waits[0][:-1]) * (np.diff(waits[0]) > 0)
    _check_length(schedule, int(repeat @ (wait_count + np.diff(schedule.chained_start))))
    first = starts(repeat)
    entry = np.repeat(np.arange(schedule.n_entries), repeat)
    repetition = np.arange(len(entry)) - first[entry]
    turn = np.maximum(schedule.lag, 1).astype(np.int64)
    order = np.lexsort((repetition % turn[entry], entry, repetition // turn[entry], schedule.slot[entry]))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    after_start, after = _waits_of_all(schedule, waits, repeat, first, position)
    entry, repetition = entry[order], repetition[order]
    src_offset, dst_offset, size = (
        array[entry] for array in (schedule.src_offset, schedule.dst_offset, schedule.size)
    )
    if (spans := schedule.spans) is not None:
        in_list = np.flatnonzero(spans.chunks[entry])
        listed = entry[in_list]
        src_offset[in_list], dst_offset[in_list], size[in_list] = spans.at(
            listed, repetition[in_list], turn[listed]
        )
    items = Schedule(
        schedule.collective,
        schedule.n_ranks,
        schedule.size_bytes,
        schedule.dtype,
        schedule.redop,
        schedule.buffer_bytes,
        schedule.src[entry],
        schedule.dst[entry],
        src_offset,
        dst_offset,
        size,
        schedule.reduce[entry],
        schedule.phase[entry],
        after_start,
        after,
        schedule.src_buffer[entry],
        schedule.dst_buffer[entry],
        schedule.phase_names,
        seconds=schedule.seconds[entry],
    )
    return items, entry


def _without_others(schedule: Schedule, kept: Bool) -> Lists:
    """For every entry those `kept` that it waits for, directly or by way of others."""
    n = schedule.n_entries
    start, after = schedule.after_start, schedule.after
    while (by_way := ~kept[after]).any():
        row = np.repeat(np.arange(n), np.diff(start))
        through = after[by_way]
        count = np.diff(schedule.after_start)[through]
        _check_length(schedule, int(count.sum()))
        key = np.concatenate(
            (
                row[~by_way] * n + after[~by_way],
                np.repeat(row[by_way], count) * n
                + schedule.after[spread(schedule.after_start[through], count)],
            )
        )
        row, after = np.divmod(distinct(key), n)
        start = starts(np.bincount(row, minlength=n))
    return start, after


def _check_length(schedule: Schedule, dependencies: int) -> None:
    transfers = schedule.n_transfers
    if transfers + dependencies > MOST_LISTED:
        raise FabricError(
            f"{schedule.collective} over {schedule.n_ranks} ranks: a list of its transfers has {transfers} "
            f"of them and {dependencies} dependencies, together more than {MOST_LISTED}. Use fewer GPUs, "
            "another algorithm, or an engine that needs no list."
        )


def _waits_of_all(schedule: Schedule, waits: Lists, repeat: Int64, first: Int64, position: Int64) -> Lists:
    """For every transfer of the list, at its place, the transfers that it waits for, ascending."""
    (start, after), n = waits, len(position)
    # of every entry, all repetitions of those it waits for
    count = repeat[after]
    before = position[spread(first[after], count)]
    start = np.append(0, np.cumsum(count))[start]
    entry = np.repeat(np.arange(schedule.n_entries), repeat)
    length = np.diff(start)[entry]
    row = [np.repeat(position, length)]
    column = [before[spread(start[entry], length)]]
    # of every repetition, the ones that it is chained to
    chains = np.diff(schedule.chained_start)
    repetition = np.arange(n) - first[entry]
    late = np.flatnonzero((repetition >= schedule.lag[entry]) & (chains[entry] > 0))
    late_entry = entry[late]
    to = schedule.chained[spread(schedule.chained_start[late_entry], chains[late_entry])]
    earlier = np.repeat(repetition[late] - schedule.lag[late_entry], chains[late_entry])
    row.append(np.repeat(position[late], chains[late_entry]))
    column.append(position[first[to] + earlier])
    row_of, before = np.divmod(distinct(np.concatenate(row) * n + np.concatenate(column)), max(1, n))
    return starts(np.bincount(row_of, minlength=n)), before
