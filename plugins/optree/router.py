"""Lightpaths on optical rings: each pair's direction and wavelength, as its all-gather assigns them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np

from railweave.framework.errors import FabricError, UnsupportedFabricError
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.model.capabilities import require
from railweave.framework.papers.optical.algorithms import ALGORITHMS, ONE_WAY, plan_of
from railweave.framework.papers.optical.lightpath_plan import LightpathPlan
from railweave.framework.parameters import Parameter, Value
from railweave.framework.routing.batches import spread, starts

REQUIRES = ("ring", "wavelengths")

UP, DOWN = 0, 1
"""Directions of a ring: to the next node, and to the one before."""


class OpTree(Router):
    """Routes the all-gather named by `algorithm`: a pair that exchanges in it goes as its lightpath does.

    That is in the lightpath's direction and on its wavelength; all other pairs take the shorter direction (up
    at a tie) on wavelength 0. A pair exchanges in one stage only, so one route serves it for the whole
    collective. Where its items would change wavelength from step to step (stages whose need the wavelengths
    do not divide, uneven groups) it goes over all wavelengths in equal shares, packet by packet: no step
    takes longer for it. Around a dead link a pair keeps its direction and takes the next wavelength that
    lives, else the other direction, else it changes wavelengths between hops. Scores are ignored: the
    schedule fixes which pairs share a link. Source: Dai et al., arXiv 2211.15119.
    """

    summary = "lightpaths of optical all-gathers: a direction and a wavelength for each pair"
    parameters: tuple[Parameter, ...] = (
        Parameter(
            "algorithm",
            "optree",
            "text",
            "the all-gather whose lightpaths it routes; as the collective",
            choices=ALGORITHMS,
        ),
        Parameter(
            "depth", 0, "count", "stages of OpTree's tree, as of the collective; 0 is the best", minimum=0
        ),
    )
    requires = REQUIRES

    def __init__(self, algorithm: str = "optree", depth: int = 0) -> None:
        self._algorithm, self._depth = algorithm, depth

    def configured(self, options: Mapping[str, Value]) -> "OpTree":
        return OpTree(str(options["algorithm"]), int(options["depth"]))

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Every pair that the ring still joins is reached; several wavelengths carry equal shares."""
        return ("reroutes", "equal-split")

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table of one path per pair, or of several in equal shares.

        Raises UnsupportedFabricError for other fabrics and for rings of one direction where the algorithm
        needs two, FabricError for numbers it cannot have (neighbor-exchange on an odd ring), HealthError for
        a snapshot of another fabric.
        """
        links = RingLinks.of(fabric, health)
        if not links.both_ways and self._algorithm not in ONE_WAY:
            raise UnsupportedFabricError(
                f"router optree: algorithm {self._algorithm} needs a ring of 2 directions and this one has "
                f"1. Use "
                f"`--directions 2`, or algorithm {', '.join(ONE_WAY)}."
            )
        plan = plan_of(self._algorithm, links.nodes, links.wavelengths, self._depth)
        resolve = partial(_batch, links, Assignment.of(plan))
        return RouteTable("optree", health.version, fabric.n_gpus, resolve)


@dataclass(frozen=True)
class RingLinks:
    """`track` (2, w + 1, 2n): link ids from GPU 0 twice round, up (0) or down (1).

    Column w keeps to no wavelength: each link is the lowest that lives there. `dead_before` (2, w + 1, 2n +
    1): dead links before each place of the track. `both_ways`: whether down is used at all. On a track going
    down, GPU i is place -i mod n.
    """

    nodes: int
    wavelengths: int
    both_ways: bool
    track: Int32
    dead_before: Int32

    @classmethod
    def of(cls, fabric: Fabric, health: HealthSnapshot) -> Self:
        """Raises UnsupportedFabricError for other kinds, HealthError for health of another fabric,
        FabricError for a ring whose wavelengths do not all go round."""
        require(fabric, "optree", REQUIRES)
        health.check_fits(fabric)
        n = fabric.n_gpus
        names, column = np.unique(fabric.wavelength, return_inverse=True)
        w = len(names)
        heading = np.arange(fabric.n_links) % 2
        begin, end = fabric.link_src.astype(np.int64), fabric.link_dst.astype(np.int64)
        once = np.full((2, w, n), -1, np.int32)
        once[heading, column, np.where(heading == UP, begin, -begin % n)] = np.arange(fabric.n_links)
        if np.any(once < 0) or fabric.n_links != once.size or np.any(end != (begin + 1 - 2 * heading) % n):
            raise FabricError(
                f"{fabric.kind} of {n} GPUs and {w} wavelengths: each wavelength must have one cable from "
                f"every "
                "GPU i to GPU i + 1."
            )
        lives = (fabric.usable & ~health.down)[once]
        lowest = np.take_along_axis(once, lives.argmax(axis=1)[:, None], axis=1)
        track = np.concatenate((once, lowest), axis=1)
        dead = ~np.concatenate((lives, lives.any(axis=1, keepdims=True)), axis=1)
        dead_before = np.zeros((2, w + 1, 2 * n + 1), np.int32)
        dead_before[:, :, 1:] = np.cumsum(np.tile(dead, (1, 1, 2)), axis=2)
        return cls(n, w, bool(fabric.usable.all()), np.tile(track, (1, 1, 2)), dead_before)

    def distance(self, src: Int64, dst: Int64, heading: Int64) -> Int64:
        """Links from src to dst in that direction."""
        return np.where(heading == UP, dst - src, src - dst) % self.nodes

    def lives(self, src: Int64, dst: Int64, heading: Int64, column: Int64) -> Bool:
        """Whether no link is dead from src to dst in that direction on that column."""
        start = np.where(heading == UP, src, -src % self.nodes)
        passed = self.dead_before[heading, column, start + self.distance(src, dst, heading)]
        return np.asarray(passed == self.dead_before[heading, column, start], np.bool_)

    def hops(self, src: Int64, heading: Int64, column: Int64, length: Int64) -> Int32:
        """Flat: the links of each path in turn, `length` of them from src."""
        start = np.where(heading == UP, src, -src % self.nodes)
        track = (heading * (self.wavelengths + 1) + column) * 2 * self.nodes
        return self.track.ravel().take(spread(track + start, length))


@dataclass(frozen=True)
class Assignment:
    """`pair` (A,): the pairs that exchange, src * n + dst, ascending; `up` (A,): their direction; `first` (A
    + 1,) into `wavelength`: the wavelengths that each goes over, in equal shares. Other pairs are not
    listed."""

    pair: Int64
    up: Bool
    first: Int64
    wavelength: Int32

    @classmethod
    def of(cls, plan: LightpathPlan) -> Self:
        pair, first, wavelength = plan.shares()
        _, example = np.unique(plan.row_pair, return_index=True)
        return cls(pair, plan.up[example], first, wavelength.astype(np.int32))


def _batch(links: RingLinks, assigned: Assignment, src: Int64, dst: Int64) -> PathBatch:
    """The paths of these pairs: those assigned that live, else one around the damage.

    A pair that exchanges nothing takes the shorter direction, up at a tie, on wavelength 0.
    """
    n = links.nodes
    place = np.minimum(np.searchsorted(assigned.pair, src * n + dst), len(assigned.pair) - 1)
    exchanges = assigned.pair[place] == src * n + dst
    count = np.where(exchanges, np.diff(assigned.first)[place], 1)
    pair = np.repeat(np.arange(len(src)), count)
    number = spread(np.where(exchanges, assigned.first[place], 0), count)
    column = np.where(exchanges[pair], assigned.wavelength[number], 0).astype(np.int64)
    up = np.where(exchanges, assigned.up[place], (not links.both_ways) | (2 * ((dst - src) % n) <= n))
    heading = np.where(up, UP, DOWN)
    lives = links.lives(src[pair], dst[pair], heading[pair], column)
    if not lives.all():
        pair, column, heading = _around(links, src, dst, heading, pair, column, lives)
    per_pair = np.bincount(pair, minlength=len(src))
    length = links.distance(src[pair], dst[pair], heading[pair])
    return PathBatch(
        src,
        dst,
        starts(per_pair),
        1.0 / per_pair[pair],
        starts(length),
        links.hops(src[pair], heading[pair], column, length),
    )


def _around(
    links: RingLinks, src: Int64, dst: Int64, heading: Int64, pair: Int64, column: Int64, lives: Bool
) -> tuple[Int64, Int64, Int64]:
    """(pair, column, heading) without the dead paths; pairs that have none left get another, if any."""
    w = links.wavelengths
    wanted = np.zeros(len(src), np.int64)
    wanted[pair[::-1]] = column[::-1]
    broken = np.flatnonzero(np.bincount(pair[lives], minlength=len(src)) == 0)
    pair, column, heading = pair[lives], column[lives], heading.copy()
    tries = [(turned, shift) for turned in (False, True) for shift in range(w)] + [(False, -1), (True, -1)]
    for turned, shift in tries:
        if not broken.size:
            break
        try_heading = heading[broken] ^ int(turned)
        try_column = (wanted[broken] + shift) % w if shift >= 0 else np.full(len(broken), w)
        repaired = links.lives(src[broken], dst[broken], try_heading, try_column)
        pair = np.concatenate((pair, broken[repaired]))
        column = np.concatenate((column, try_column[repaired]))
        heading[broken[repaired]] = try_heading[repaired]
        broken = broken[~repaired]
    order = np.argsort(pair, kind="stable")
    return pair[order], column[order], heading
