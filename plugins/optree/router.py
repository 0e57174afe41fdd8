"""Lightpaths on optical rings: each pair's way round and wavelength, as its all-gather assigns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import UnsupportedFabricError
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.optical.algorithms import ALGORITHMS, ONE_WAY, plan_of
from railweave.framework.optical.plan import LightpathPlan
from railweave.framework.parameters import Parameter, Value
from railweave.framework.routing.batches import spread, starts
from railweave.plugins.optree.ring_links import DOWN, SERVES, UP, RingLinks


class OpTree:
    """Routes the all-gather named by `algorithm`: a pair that exchanges in it goes its lightpath's way round on
    the lightpath's wavelength; all others take the shorter way (up at a tie) on wavelength 0.

    A pair exchanges in one stage only, so one route serves it for the whole collective. Where its items would
    change wavelength from step to step (stages whose need the wavelengths do not divide, uneven groups) it goes
    over all wavelengths in equal shares, packet by packet: no step takes longer for it. Around a dead link a
    pair keeps its way round and takes the next wavelength that lives, else the other way round, else it changes
    wavelengths on the way. Scores are not looked at: the schedule fixes who shares what.
    Source: Dai et al., arXiv 2211.15119.
    """

    summary = "lightpaths of optical all-gathers: a way round and a wavelength for each pair"
    parameters: tuple[Parameter, ...] = (
        Parameter(
            "algorithm", "optree", "text", "the all-gather whose lightpaths it routes; as the collective",
            choices=ALGORITHMS,
        ),
        Parameter("depth", 0, "count", "stages of OpTree's tree, as the collective's; 0 is the best", minimum=0),
    )  # fmt: skip
    serves: tuple[str, ...] = SERVES
    damped: bool = False

    def __init__(self, algorithm: str = "optree", depth: int = 0) -> None:
        self._algorithm, self._depth = algorithm, depth

    def configured(self, options: Mapping[str, Value]) -> OpTree:
        return OpTree(str(options["algorithm"]), int(options["depth"]))

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Whoever the ring still joins is reached; several wavelengths carry equal shares."""
        return ("reroutes", "equal-split")

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table of one path per pair, or of several in equal shares.

        Raises UnsupportedFabricError for other fabrics and for rings of one direction where the algorithm needs
        two, FabricError for numbers it cannot have (neighbor-exchange on an odd ring), HealthError for a
        snapshot of another fabric.
        """
        links = RingLinks.of(fabric, health.down)
        if not links.two_way and self._algorithm not in ONE_WAY:
            raise UnsupportedFabricError(
                f"router optree: algorithm {self._algorithm} needs a ring of 2 directions and this one has 1. Use "
                f"`--directions 2`, or algorithm {', '.join(ONE_WAY)}."
            )
        plan = plan_of(self._algorithm, links.nodes, links.wavelengths, self._depth)
        assigned = Assignment.of(plan, two_way=links.two_way)

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            return _batch(links, assigned, src, dst)

        return RouteTable("optree", health.version, fabric.n_gpus, resolve)


@dataclass(frozen=True)
class Assignment:
    """`way` (n * n,): 0 up or 1 down for pair src * n + dst; `first` (n * n + 1,) into `wavelength`: those it
    goes over, in equal shares."""

    way: Int64
    first: Int64
    wavelength: Int32

    @classmethod
    def of(cls, plan: LightpathPlan, *, two_way: bool) -> Assignment:
        n, w = plan.nodes, plan.wavelengths
        node = np.arange(n)
        ahead = (node[None, :] - node[:, None]) % n
        way = np.where(two_way & (2 * ahead > n), DOWN, UP).ravel()
        pair = plan.src.astype(np.int64) * n + plan.dst
        way[pair] = np.where(plan.up, UP, DOWN)
        mixed = np.unique(pair[plan.spread])
        own = np.unique(pair * w + plan.wavelength)
        own = own[~np.isin(own // w, mixed)]
        idle = np.ones(n * n, bool)
        idle[pair] = False
        every = (mixed[:, None] * w + np.arange(w)).ravel()
        use = np.sort(np.concatenate((own, every, np.flatnonzero(idle) * w)))
        first = np.searchsorted(use // w, np.arange(n * n + 1))
        return cls(way, first, (use % w).astype(np.int32))


def _batch(links: RingLinks, assigned: Assignment, src: Int64, dst: Int64) -> PathBatch:
    """The paths of the asked pairs: those assigned that live, else a way around the damage."""
    number = src * links.nodes + dst
    first, count = assigned.first[number], np.diff(assigned.first)[number]
    pair = np.repeat(np.arange(len(src)), count)
    column = assigned.wavelength[spread(first, count)].astype(np.int64)
    way = assigned.way[number].astype(np.int64)
    lives = links.lives(src[pair], dst[pair], way[pair], column)
    if not lives.all():
        pair, column, way = _around(links, src, dst, way, pair, column, lives)
    per_pair = np.bincount(pair, minlength=len(src))
    length = links.distance(src[pair], dst[pair], way[pair])
    return PathBatch(
        src, dst, starts(per_pair), 1.0 / per_pair[pair], starts(length),
        links.hops(src[pair], way[pair], column, length),
    )  # fmt: skip


def _around(
    links: RingLinks, src: Int64, dst: Int64, way: Int64, pair: Int64, column: Int64, lives: Bool
) -> tuple[Int64, Int64, Int64]:
    """(pair, column, way) with dead paths left out, and for pairs that have none left one other if there is one."""
    w = links.wavelengths
    wanted = np.zeros(len(src), np.int64)
    wanted[pair[::-1]] = column[::-1]
    open_ = np.flatnonzero(np.bincount(pair[lives], minlength=len(src)) == 0)
    pair, column, way = pair[lives], column[lives], way.copy()
    tries = [(turned, shift) for turned in (False, True) for shift in range(w)] + [(False, -1), (True, -1)]
    for turned, shift in tries:
        if not open_.size:
            break
        try_way = way[open_] ^ int(turned)
        try_column = (wanted[open_] + shift) % w if shift >= 0 else np.full(len(open_), w)
        found = links.lives(src[open_], dst[open_], try_way, try_column)
        pair = np.concatenate((pair, open_[found]))
        column = np.concatenate((column, try_column[found]))
        way[open_[found]] = try_way[found]
        open_ = open_[~found]
    order = np.argsort(pair, kind="stable")
    return pair[order], column[order], way
