"""Which wild hops the broken pairs take, so that the busiest links of an all-to-all carry little."""

from dataclasses import dataclass

import numpy as np

from railweave.framework.model.arrays import Int32, Int64
from railweave.framework.routing.batches import spread
from railweave.framework.routing.torus.legs import Displacements, Legs, legs_from, marked_before
from railweave.framework.routing.torus.placement import CanonicalFault
from railweave.framework.routing.torus.wild_first import Options, Sequence, WildFirst

BLOCK = 1 << 18
"""Pairs worked on at a time; bounds the memory."""

MOST = 1 << 18
"""Choices of single pairs at most; bounds the time to some 4 s. An OCS of 16x16x16 needs fewer."""


@dataclass(frozen=True)
class Detours:
    """The wild hops of all pairs whose dimension-order path is broken, in one sequence.

    `pair` (B,), ascending: row of the source in `place` * n + offset of the destination; `number` (B,): the
    choice of wild hops, -1 without a path. `busiest`: units on the busiest link when every ordered pair sends
    one.
    """

    place: CanonicalFault
    sequence: Sequence
    pair: Int64
    number: Int64
    busiest: int

    @property
    def unreachable(self) -> int:
        return int((self.number < 0).sum())

    def of(self, src: Int64, dst: Int64) -> Int64:
        """(P,): the choices of broken pairs."""
        lattice = self.place.lattice
        pair = self.place.rows[src] * lattice.n_gpus + lattice.offset(src, dst)
        return self.number[np.searchsorted(self.pair, pair)]


def detours(displacements: Displacements, sequence: Sequence, place: CanonicalFault) -> Detours:
    """The detours that the broken pairs settle on.

    Each begins with the first of its shortest paths. Then they choose again one after the other, until none
    moves: a pair takes the path whose busiest link carries least, the next busiest where these are equal, and
    so on. The busiest link of all never carries more than at the beginning. Sources that the translations of
    the fault map to each other choose alike: one of them stands for all. Ours: the source leaves the choice
    among several paths to its optimiser.
    """
    lattice, classes = place.lattice, place.classes
    search = WildFirst(lattice, displacements, sequence, marked_before(lattice.rings, place.down))
    pair, load = _broken(search, place)
    row, offset = np.divmod(pair, lattice.n_gpus)
    src = place.representatives[row]
    dst = lattice.translated(offset, src)
    number = np.full(len(pair), -1, np.int64)
    for low in range(0, len(pair), BLOCK):
        options = search.options(src[low : low + BLOCK], dst[low : low + BLOCK])
        paths = np.diff(options.start)
        some = np.flatnonzero(paths)
        number[low + some] = options.number[options.start[some]]
        first = spread(options.hop_start[some], np.diff(options.hop_start)[some] // paths[some])
        load += np.bincount(classes[options.links[first]], minlength=len(load))
    choosing = np.arange(0, len(pair), 1 + len(pair) // MOST)
    options = search.options(src[choosing], dst[choosing])
    choice = options.start[:-1] + _settled(options, classes[options.links], load)
    some = np.flatnonzero(np.diff(options.start))
    number[choosing[some]] = options.number[choice[some]]
    return Detours(place, sequence, pair, number, int(load.max(initial=0)))


def _broken(search: WildFirst, place: CanonicalFault) -> tuple[Int64, Int64]:
    """The broken pairs as in `Detours`, and the load that the others put on each class of links."""
    lattice, rings, n = search.lattice, search.lattice.rings, search.lattice.n_gpus
    step, order = max(1, BLOCK // n), search.sequence.order
    change = np.zeros(len(rings.link) + 1, np.int64)  # of the load from one position of the rings to the next

    def carry(legs: Legs, units: int) -> None:
        """Adds the load of these paths, `units` in all; less than 0 takes it off again."""
        for first, hops in zip(legs.first, legs.hops, strict=True):
            ends = np.bincount((first + hops).ravel(), minlength=len(change))
            change[:] += (np.bincount(first.ravel(), minlength=len(change)) - ends) * (units // first.size)

    pairs = list[Int64]()
    for low in range(0, len(place.representatives), step):
        sources = place.representatives[low : low + step]
        legs = legs_from(lattice, search.displacements, order, sources)
        shape = np.broadcast_shapes(*(first.shape for first in legs.first))
        carry(legs, len(sources) * n)
        dead = np.broadcast_to(legs.crosses(search.dead_before), shape).ravel()
        row, dst = np.divmod(np.flatnonzero(dead), n)
        if len(row):
            carry(search.dimension_order(sources[row], dst), -len(row))
        pairs.append((low + row) * n + lattice.offset(sources[row], dst))
    classes = place.classes[rings.link]
    load = np.bincount(classes, np.cumsum(change)[:-1], int(place.classes.max()) + 1).astype(np.int64)
    return np.sort(np.concatenate(pairs)), load


def _settled(options: Options, classes: Int32, load: Int64) -> Int64:
    """(P,): which of its paths each pair ends with, 0 at the beginning. `classes` (H,): those of the links of
    the options. `load`: of each class, kept up to date."""
    paths = np.diff(options.start)
    choice, free = np.zeros(len(paths), np.int64), np.flatnonzero(paths > 1).tolist()
    units = _units(options, classes)
    left, moved = MOST, bool(free)
    while moved and left >= len(free):
        moved, left = False, left - len(free)
        for pair in free:
            now, hops = choice[pair], slice(options.hop_start[pair], options.hop_start[pair + 1])
            links, unit = classes[hops].reshape(paths[pair], -1), units[hops].reshape(paths[pair], -1)
            load[links[now]] -= unit[now]
            after = load[links] + unit
            worth = np.sort(after, axis=1)[:, ::-1].tolist()
            best = min(range(len(worth)), key=worth.__getitem__)
            if worth[best] < worth[now]:
                choice[pair], now, moved = best, best, True
            load[links[now]] = after[now]
    return choice


def _units(options: Options, classes: Int32) -> Int64:
    """(H,): how often the path of a hop crosses its class: again, where a leg is longer than the period."""
    paths = np.diff(options.start)
    hops = np.repeat(np.diff(options.hop_start) // np.maximum(paths, 1), paths)
    path = np.repeat(np.arange(len(hops)), hops)
    crossed = path * (int(classes.max(initial=0)) + 1) + classes
    _, which, times = np.unique(crossed, return_inverse=True, return_counts=True)
    units: Int64 = times[which]
    return units
