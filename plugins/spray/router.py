"""Packet spraying over the rails that beat a pair's direct paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from railweave.framework.hookspecs import Explanation, Fact, NodeName, Router
from railweave.framework.model import Fabric, HealthSnapshot, Path, PathBatch, RouteTable
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.parameters import Parameter, Value
from railweave.framework.routing.batches import spread, starts
from railweave.framework.routing.rails.choice import NO_BAR, choose, rail_names, reroutes, score_of
from railweave.framework.routing.rails.links import DRD, KINDS, NONE, REQUIRES, RailLinks, whole
from railweave.framework.routing.rails.scores import Scores
from railweave.plugins.spray.window import SprayWindow, Window, sprayed

BLOCK = 1 << 19
"""Paths whose hops are laid out at a time; bounds the memory."""


@dataclass(frozen=True, slots=True)
class Sprayed:
    """One path of a pair: `kind` d, r, rd, dr or drd, `rail` the remote rail of a drd-path, its score and
    share."""

    kind: str
    rail: int | None
    score: float
    path: Path


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice for one pair: the threshold m (+inf where no remote rail is considered), the rails in the
    window, worst first, and the paths taken, empty when unreachable."""

    src: int
    dst: int
    m: float
    window: tuple[int, ...]
    sprayed: tuple[Sprayed, ...]
    why: str


class Spray(Router):
    """Spreads the packets of a pair evenly over every rail in its window; one path by h-scores where it is
    empty.

    Source: "LLM inference optimization ... rail-only connections, Part 2" (Cisco Outshift, 2024), packet
    spray. Ours: the strict window, same-rail pairs (the bar is H(g) / (H(d1) H(d2))), and delta, which the
    source leaves open: 1 takes every better rail.
    """

    summary = "packets evenly over all better rails by h-scores"
    parameters: tuple[Parameter, ...] = (
        Parameter("delta", 1.0, "factor", "how far above m a rail may score", minimum=0),
        Parameter(
            "window",
            "strict",
            "text",
            "strict: H in (m, m + delta]; blog: H in [m - delta, m + delta]",
            choices=("strict", "blog"),
        ),
        Parameter("same_rail_detour", True, "bool", "spray the packets of same-rail pairs too"),
    )
    requires = REQUIRES
    damped = True

    def __init__(
        self, delta: float = 1.0, window: Window = "strict", *, same_rail_detour: bool = True
    ) -> None:
        self._window, self._detour = SprayWindow(window, delta), same_rail_detour

    def configured(self, options: Mapping[str, Value]) -> Spray:
        return Spray(
            float(options["delta"]),
            cast(Window, options["window"]),
            same_rail_detour=bool(options["same_rail_detour"]),
        )

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Equal shares; it reroutes where `hscore` does."""
        return ("equal-split", *reroutes(fabric))

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that decides for the pairs requested; the paths of a pair have equal weights.

        Raises UnsupportedFabricError for other fabrics, HealthError for a snapshot of another fabric.
        """
        links, scores = self._read(fabric, health)

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            pair, kind, via = self._choose(links, scores, src, dst)
            count = np.bincount(pair, minlength=len(src))
            n_hops, hops = _hops(links, src[pair], dst[pair], kind, via)
            return PathBatch(src, dst, starts(count), 1 / count[pair], starts(n_hops), hops)

        return RouteTable("spray", health.version, fabric.n_gpus, resolve)

    def decide(self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int) -> Decision:
        """What `routes` answers for one pair, with its reasons. Raises RouteError for a GPU that is not
        there."""
        fabric.check_gpus(src, dst)
        links, scores = self._read(fabric, health)
        a, b = np.array([src]), np.array([dst])
        first, count = self._window.ranges(scores, a, b, self._detour)
        window = tuple(int(rail) for rail in scores.order[spread(first, count)])
        pair, kind, via = self._choose(links, scores, a, b)
        score = score_of(scores, a[pair], b[pair], kind, via)
        paths = self.routes(fabric, health).path(src, dst) if len(pair) else ()
        taken = tuple(
            Sprayed(KINDS[k], int(v) if k == DRD else None, float(s), path)
            for k, v, s, path in zip(kind, via, score, paths, strict=True)
        )
        m = float(scores.thresholds(a, b, self._detour)[0])
        return Decision(src, dst, m, window, taken, self._why(src == dst, window, taken))

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The h-ratios, the threshold m, the window and the paths taken. Raises as `decide` does."""
        decision, rail = self.decide(fabric, health, src, dst), rail_names(fabric, name)
        gamma = Scores.of(fabric, health).gamma
        facts: dict[str, Fact] = {
            "gamma_src": float(gamma[src]),
            "gamma_dst": float(gamma[dst]),
            "m": NO_BAR if np.isinf(decision.m) else decision.m,
            "window": [rail(r) for r in decision.window],
            "paths": [
                f"{one.kind}{'' if one.rail is None else ' via ' + rail(one.rail)}: score {one.score:.4g}"
                for one in decision.sprayed
            ],
        }
        return Explanation(decision.why, facts)

    def _why(self, same: bool, window: tuple[int, ...], taken: tuple[Sprayed, ...]) -> str:
        if same:
            return "same GPU"
        if not taken:
            return "unreachable: every path crosses a dead link or a score of 0"
        rails = f"{self._window.mode} window, delta {self._window.delta:g}"
        if not window:
            return f"no rail in the {rails}: the {taken[0].kind}-path by h-scores"
        if len(taken) < len(window):
            return f"{rails}: dead links keep it from {len(window) - len(taken)} of {len(window)} rails"
        return f"{rails}: evenly over {len(taken)} rails" if len(taken) > 1 else f"{rails}: one rail"

    def _read(self, fabric: Fabric, health: HealthSnapshot) -> tuple[RailLinks, Scores]:
        return RailLinks.of(fabric, "spray"), Scores.of(fabric, health)

    def _choose(self, links: RailLinks, scores: Scores, src: Int64, dst: Int64) -> tuple[Int64, Int64, Int64]:
        """(pair, kind, via) of every path, by pair; an unreachable pair has none."""
        first, count = self._window.ranges(scores, src, dst, self._detour)
        pair, kind, via = sprayed(scores, src, dst, first, count)
        if scores.dead.any():
            live = _live(links, scores, src[pair], dst[pair], kind, via)
            pair, kind, via = pair[live], kind[live], via[live]
        bare = np.flatnonzero(np.bincount(pair, minlength=len(src)) == 0)
        one_kind, one_via = choose(links, scores, src[bare], dst[bare], self._detour)
        has = one_kind != NONE
        pair = np.concatenate((pair, bare[has]))
        order = np.argsort(pair, kind="stable")
        kind, via = np.concatenate((kind, one_kind[has])), np.concatenate((via, one_via[has]))
        return pair[order], kind[order], via[order]


def _live(links: RailLinks, scores: Scores, src: Int64, dst: Int64, kind: Int64, via: Int64) -> Bool:
    """(Q,): whether each path crosses live links alone."""
    parts = [whole(links.hops(src[p], dst[p], kind[p], via[p]), scores.dead) for p in _blocks(len(src))]
    live: Bool = np.concatenate([np.empty(0, bool), *parts])
    return live


def _hops(links: RailLinks, src: Int64, dst: Int64, kind: Int64, via: Int64) -> tuple[Int64, Int32]:
    """(hops of each path (Q,), the links of all of them)."""
    counts, flat = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for part in _blocks(len(src)):
        hops = links.hops(src[part], dst[part], kind[part], via[part])
        counts.append((hops >= 0).sum(axis=1))
        flat.append(hops[hops >= 0])
    return np.concatenate(counts), np.concatenate(flat)


def _blocks(size: int) -> list[slice]:
    return [slice(low, low + BLOCK) for low in range(0, size, BLOCK)]
