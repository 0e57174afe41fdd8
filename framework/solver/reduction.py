"""A schedule over the states of a fabric as tasks over networks: one task, pair and link for all that are
alike."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.model.arrays import Bool, Float, Int64, Lists, distinct, spread
from railweave.framework.model.routes import starts
from railweave.framework.solver.network import Network
from railweave.framework.solver.quotient import NetworkState, Quotient, network_of
from railweave.framework.solver.symmetry import Places, classes, side_by_side, size_marks
from railweave.framework.solver.tasks import Tasks

Column = TypeVar("Column", Int64, Float)


def quotients(
    schedules: Sequence[Schedule],
    fabric: Fabric,
    states: Sequence[NetworkState],
    packet: PacketFormat,
    *,
    symmetry: bool = True,
) -> tuple[Quotient, ...]:
    """What the solver takes for schedules between GPUs, which may be compact, at once: all over the same
    networks, in which each has the pairs that it uses to itself; `pair_class` is -1 for the others. All
    `states` have the same pairs, by (src, dst). `symmetry` false: every entry, pair and link by itself."""
    paths, n = states[0].paths, fabric.n_gpus
    numbers = paths.src * n + paths.dst
    used = [
        np.searchsorted(numbers, src * n + dst)
        for src, dst, _ in (schedule.pairs() for schedule in schedules)
    ]
    first_pair, all_used = starts(np.array([len(pairs) for pairs in used])), np.concatenate(used)
    networks = tuple(network_of(fabric, state).of_pairs(all_used) for state in states)
    pairs = [
        first + np.searchsorted(numbers[own_pairs], schedule.src.astype(np.int64) * n + schedule.dst)
        for first, own_pairs, schedule in zip(first_pair.tolist(), used, schedules, strict=False)
    ]
    first_entry = np.arange(sum(schedule.n_entries for schedule in schedules))
    pair_class, link_class = np.arange(len(all_used)), np.arange(fabric.n_links)
    if symmetry and any(schedule.n_entries and len(schedule.symmetries) for schedule in schedules):
        job = np.repeat(np.arange(len(used)), np.diff(first_pair)) * n
        ends = paths.src[all_used] + job, paths.dst[all_used] + job
        if alike := _alike(schedules, np.concatenate(pairs), *ends, networks):
            first_entry, kept, pair_class, link_class = alike
            networks = tuple(_of_classes(network, kept, pair_class, link_class) for network in networks)
    parts, begin = [], 0
    for first, own_pairs, schedule, pair in zip(first_pair.tolist(), used, schedules, pairs, strict=False):
        own_first = first_entry[begin : begin + schedule.n_entries] - begin
        of_pair = np.append(pair_class, 0)[np.where(schedule.is_transfer, pair, -1)]
        tasks, task = _tasks(schedule, own_first, of_pair, packet)
        of_all = np.full(len(numbers), -1)
        of_all[own_pairs] = pair_class[first : first + len(own_pairs)]
        parts.append(Quotient(networks, tasks, task, of_all, link_class))
        begin += schedule.n_entries
    return tuple(parts)


def _alike(
    schedules: Sequence[Schedule], pair: Int64, src: Int64, dst: Int64, networks: Sequence[Network]
) -> tuple[Int64, Int64, Int64, Int64] | None:
    """(n,): the first entry of the class of each of all jobs; the first pair of every class, (P,) the class
    of each pair, and (L,) of each link; None where no pair is like another. `pair` (n,): of transfers."""
    together, n_pairs = side_by_side(schedules), len(src)
    places = Places.of(together, pair, n_pairs)
    sizes = np.concatenate([size_marks(schedule) for schedule in schedules])
    first_key, link_class = classes(together, sizes, places, src, dst, networks)
    kept, pair_class = _numbered(first_key[:n_pairs])
    if len(kept) == n_pairs:
        return None
    first_entry = places.order[places.start[first_key[places.key]] + places.place]
    return first_entry, kept, pair_class, link_class


def _of_classes(network: Network, kept: Int64, pair_class: Int64, link_class: Int64) -> Network:
    """One link for each class of links, one pair for each class of pairs; `kept` has a member of each: its
    flow uses a link by what all of its class use of one."""
    n_links = int(link_class.max(initial=-1)) + 1
    count = np.diff(network.start)[kept]
    hops = spread(network.start[kept], count)
    key, place = np.unique(
        np.repeat(np.arange(len(kept)), count) * n_links + link_class[network.link[hops]], return_inverse=True
    )
    pair, link = np.divmod(key, max(1, n_links))
    use = np.bincount(place, network.use[hops], len(key))
    alike, links = np.bincount(pair_class), np.bincount(link_class[link_class >= 0], minlength=n_links)
    member = np.zeros(n_links, np.int64)
    used = np.flatnonzero(link_class >= 0)
    member[link_class[used]] = used
    return Network(
        network.capacity_bps[member],
        np.searchsorted(pair, np.arange(len(kept) + 1)),
        link.astype(np.int32),
        use * alike[pair] / links[link],
        network.delay_s[kept],
    )


def _tasks(schedule: Schedule, first: Int64, pair: Int64, packet: PacketFormat) -> tuple[Tasks, Int64]:
    """One task for each `first` (n,) entry of a class; (n,): the task that ends when each entry does. `pair`
    (n,): the class of that of every transfer.

    The repetitions of entries of one pair that take turns are tasks of their own, and those chained to them.
    """
    kept, class_of = _numbered(first)
    after = _mapped(_rows((schedule.after_start, schedule.after), kept), class_of)
    chained = _mapped(_rows((schedule.chained_start, schedule.chained), kept), class_of)
    is_transfer, slot = schedule.is_transfer[kept], schedule.slot[kept]
    repeat, lag = schedule.repeat[kept].astype(np.int64), schedule.lag[kept].astype(np.int64)
    pair = np.where(is_transfer, pair[kept], -1)
    sizes = schedule.per_repetition(lambda size: 8 * packet.wire_bytes_of(size))
    bits = np.where(is_transfer, sizes[1][sizes[0][kept]], 0.0)
    repeat_bits = _only(_rows(sizes, kept), np.diff(sizes[0])[kept] > 1)
    seconds = schedule.seconds[kept]
    listed = _take_turns(pair, slot, repeat, chained)
    if not listed.any():
        tasks = Tasks(
            pair.astype(np.int32), bits, seconds, repeat, np.empty(0), *after, *chained,
            lag.astype(np.int32), *repeat_bits,
        )  # fmt: skip
        return tasks, class_of
    times = np.where(listed, repeat, 1)
    begin = starts(times)
    entry = np.repeat(np.arange(len(kept)), times)
    repetition = np.arange(len(entry)) - begin[entry]
    turn = np.maximum(lag, 1)[entry]
    order = np.lexsort((repetition % turn, entry, repetition // turn, slot[entry]))
    task = np.empty(len(order), np.int64)
    task[order] = np.arange(len(order))
    last = task[begin[1:] - 1]  # a pair's transfers end in their order
    entry, repetition = entry[order], repetition[order]
    count = np.where(listed[entry] & (repetition < lag[entry]), 0, np.diff(chained[0])[entry])
    to = chained[1][spread(chained[0][entry], count)]
    earlier = np.repeat(np.where(listed[entry], repetition - lag[entry], 0), count)
    chains = starts(count), task[begin[to] + earlier]
    waits = _rows(after, entry)
    waits = waits[0], last[waits[1]]
    in_list = listed[entry]
    bits, differ = bits[entry], in_list & (np.diff(repeat_bits[0])[entry] > 0)
    bits[differ] = repeat_bits[1][repeat_bits[0][entry[differ]] + repetition[differ]]
    tasks = Tasks(
        pair[entry].astype(np.int32),
        bits,
        seconds[entry],
        np.where(in_list, 1, repeat[entry]),
        np.empty(0),
        *_joined(waits, _only(chains, in_list)),
        *_only(chains, ~in_list),
        np.where(in_list, 1, lag[entry]).astype(np.int32),
        *_only(_rows(repeat_bits, entry), ~in_list),
    )
    return tasks, last[class_of]


def _numbered(first: Int64) -> tuple[Int64, Int64]:
    """The first members of classes, ascending; (n,): the place there of the `first` of the class of each."""
    is_first = first == np.arange(len(first))
    return np.flatnonzero(is_first), (np.cumsum(is_first) - 1)[first]


def _take_turns(pair: Int64, slot: Int64, repeat: Int64, chained: Lists) -> Bool:
    """(n,): entries that share pair and slot with another while one of them is repeated, and those chained to
    them, or they to those."""
    order = np.lexsort((slot, pair))
    same = (np.diff(pair[order]) == 0) & (np.diff(slot[order]) == 0) & (pair[order[1:]] >= 0)
    group = np.empty(len(pair), np.int64)
    group[order] = np.cumsum(np.append(True, ~same)[: len(pair)]) - 1
    members, most = np.bincount(group), np.zeros(len(pair), np.int64)
    np.maximum.at(most, group, repeat)
    listed: Bool = (members[group] > 1) & (most[group] > 1)
    waiting, to = np.repeat(np.arange(len(pair)), np.diff(chained[0])), chained[1]
    while np.any(listed[waiting] != listed[to]):
        either = listed[waiting] | listed[to]
        listed[waiting[either]] = listed[to[either]] = True
    return listed


def _rows(lists: tuple[Int64, Column], rows: Int64) -> tuple[Int64, Column]:
    """Those of some entries."""
    start, values = lists
    count = np.diff(start)[rows]
    return starts(count), values[spread(start[rows], count)]


def _mapped(lists: Lists, to: Int64) -> Lists:
    """What lists hold, each replaced by `to` of it, and once in a list."""
    start, values = lists
    n, width = len(start) - 1, int(to.max(initial=0)) + 1
    row, mapped = np.divmod(distinct(np.repeat(np.arange(n), np.diff(start)) * width + to[values]), width)
    return starts(np.bincount(row, minlength=n)), mapped


def _only(lists: tuple[Int64, Column], chosen: Bool) -> tuple[Int64, Column]:
    """The lists of the chosen entries, and empty ones for the others."""
    count = np.where(chosen, np.diff(lists[0]), 0)
    return starts(count), lists[1][spread(lists[0][:-1], count)]


def _joined(first: Lists, second: Lists) -> Lists:
    """What both lists of every entry hold."""
    row = np.concatenate(
        [np.repeat(np.arange(len(start) - 1), np.diff(start)) for start, _ in (first, second)]
    )
    values = np.concatenate((first[1], second[1]))
    return starts(np.bincount(row, minlength=len(first[0]) - 1)), values[np.argsort(row, kind="stable")]
