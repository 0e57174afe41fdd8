"""Lightpaths on optical rings: each pair's direction and wavelength, as its all-gather assigns them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np

from railweave.framework.errors import UnsupportedFabricError
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.optical.algorithms import ALGORITHMS, ONE_WAY, plan_of
from railweave.framework.optical.plan import LightpathPlan
from railweave.framework.parameters import Parameter, Value
from railweave.framework.routing.batches import spread, starts
from railweave.plugins.optree.ring_links import DOWN, REQUIRES, UP, RingLinks


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
class Assignment:
    """`pair` (A,): the pairs that exchange, src * n + dst, ascending; `up` (A,): their direction; `first` (A
    + 1,) into `wavelength`: those that each goes over, in equal shares. Other pairs are not listed."""

    pair: Int64
    up: Bool
    first: Int64
    wavelength: Int32

    @classmethod
    def of(cls, plan: LightpathPlan) -> Self:
        n, w = plan.nodes, plan.wavelengths
        row_pair = plan.src.astype(np.int64) * n + plan.dst
        pair, example = np.unique(row_pair, return_index=True)
        mixed = np.unique(row_pair[plan.spread])
        own = np.unique(row_pair * w + plan.wavelength)
        own = own[~np.isin(own // w, mixed)]
        use = np.sort(np.concatenate((own, (mixed[:, None] * w + np.arange(w)).ravel())))
        first = np.append(np.searchsorted(use // w, pair), len(use))
        return cls(pair, plan.up[example], first, (use % w).astype(np.int32))


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
