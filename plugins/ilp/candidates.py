"""Every path the optimiser may choose, for one source of each kind, and the classes of links it loads."""

from dataclasses import dataclass

import numpy as np

from railweave.framework.model.arrays import Float, Int64, mixed
from railweave.framework.routing.batches import spread, starts
from railweave.framework.routing.torus.legs import Displacements, marked_before, shortest_vectors
from railweave.framework.routing.torus.wild_first import WildFirst, choices, vector_legs, wild_legs
from railweave.plugins.ilp.problem import Problem


@dataclass(frozen=True)
class Candidates:
    """Candidates grouped by pair; a pair is (row of its source, offset of its destination), flat: row * n +
    offset.

    `pair` (P,): the pairs that have any; `start` (P + 1,): their candidates. Per candidate: `wild` the number
    of its choice of wild hops, `vector` (axes, C) its displacement after them, `hop_start` (C + 1,) its hops
    in `link_class` (H,). Crossing a class c times puts c units on every link of it, because all sources do
    alike.
    """

    pair: Int64
    start: Int64
    wild: Int64
    vector: Int64
    hop_start: Int64
    link_class: Int64
    n_classes: int

    @property
    def owner(self) -> Int64:
        """(C,): the position of each candidate's pair."""
        return np.repeat(np.arange(len(self.pair)), np.diff(self.start))

    def loads(self, chosen: Int64) -> Int64:
        """(n_classes,): units per link when the pairs take these candidates."""
        hops = spread(self.hop_start[chosen], np.diff(self.hop_start)[chosen])
        return np.bincount(self.link_class[hops], minlength=self.n_classes)

    def paths(self, pair: int) -> Int64:
        """(candidates, hops): the classes that each candidate of a pair crosses; all have equally many."""
        first, end = self.start[pair], self.start[pair + 1]
        return self.link_class[self.hop_start[first] : self.hop_start[end]].reshape(end - first, -1)

    def costs(self, price: Float) -> Float:
        """(C,): the sum of the prices of its classes, hop by hop. price: (n_classes,)."""
        return np.add.reduceat(price[self.link_class], self.hop_start[:-1])

    def bound(self, price: Float) -> float:
        """What no choice, split or not, can beat: pairs at their cheapest, spread evenly by price.

        Any prices of 0 or more prove it (weak duality): the busiest link carries at least the mean by price.
        """
        worth = float(price.sum())
        if not worth > 0 or not len(self.pair):
            return 0.0
        return float(np.minimum.reduceat(self.costs(price), self.start[:-1]).sum()) / worth


def candidates(problem: Problem) -> Candidates:
    """The shortest paths among wild-first ones that live, of every pair, each tied displacement on its own.

    With nothing down the wild hops are left out: all sources do alike, so the order of the axes does not
    matter. Of paths of one pair that load the same classes the one with the fewest wild hops stays.
    """
    lattice, sequence, down = problem.lattice, problem.sequence, problem.down
    rows, n = len(problem.representatives), lattice.n_gpus
    src, offset = np.repeat(problem.representatives, n - 1), np.tile(np.arange(1, n), rows)
    dst = lattice.translated(offset, src)
    signs = np.array(choices(sequence) if down.any() else choices(sequence)[:1], np.int64)
    search = WildFirst(lattice, Displacements(lattice), sequence, marked_before(lattice.rings, down))
    start, vectors = shortest_vectors(lattice)
    live_paths: list[Int64] = []  # rows: pair, choice of wild hops, displacement by axis
    for number in np.argsort(np.abs(signs).sum(axis=1), kind="stable"):
        hops = np.tile(signs[number], (len(src), 1))
        place = lattice.offset(wild_legs(lattice, sequence, hops, src).end(lattice.rings, src), dst)
        ties = start[place + 1] - start[place]
        some, vector = np.repeat(np.arange(len(src)), ties), vectors[:, spread(start[place], ties)]
        path = vector_legs(lattice, sequence, hops[some], vector, src[some])
        live, simple = search.fits(tuple(int(s) for s in signs[number]), path)
        live_paths.append(np.stack((some, np.full(len(some), number), *vector))[:, live & simple])
    owner, wild, *displacement = np.concatenate(live_paths, axis=1)
    vector = np.stack(displacement)
    legs = vector_legs(lattice, sequence, signs[wild], vector, src[owner])
    first, hops, length = np.stack(legs.first, axis=1), np.stack(legs.hops, axis=1), legs.length()
    least = np.full(len(src), np.iinfo(np.int64).max)
    np.minimum.at(least, owner, length)
    order = np.flatnonzero(length == least[owner])
    order = order[np.argsort(owner[order], kind="stable")]
    classes = problem.classes

    def hop_class(rows: Int64) -> Int64:
        """The class of every hop of these paths, one path after the other."""
        position = spread(first[rows].ravel(), hops[rows].ravel())
        return classes[lattice.rings.link[position]].astype(np.int64)

    # Paths of one pair with equal sums of random-looking marks load the same classes. The sum is mixed first:
    # the mark of a class would cancel that of the owner with its number.
    mark = np.add.reduceat(mixed(hop_class(order)), starts(length[order])[:-1])
    order = order[np.sort(np.unique(mixed(mark, owner[order]), return_index=True)[1])]
    has, count = np.unique(owner[order], return_counts=True)
    return Candidates(
        has // (n - 1) * n + offset[has],
        starts(count),
        wild[order],
        vector[:, order],
        starts(length[order]),
        hop_class(order),
        int(classes.max()) + 1,
    )
