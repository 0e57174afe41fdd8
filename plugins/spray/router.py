"""Packet spraying: over the rails that beat a pair's direct paths, elsewhere over all paths of least cost."""

from collections.abc import Iterator, Mapping
from typing import Literal, cast

import numpy as np

from railweave.framework.hookspecs import Explanation, Fact, NodeName, Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.parameters import Parameter, Value
from railweave.framework.routing.batches import join, spread, starts
from railweave.framework.routing.rails.choice import (
    NO_BAR,
    choose,
    direct,
    over_rails,
    rail_names,
    reroutes,
    score_of,
)
from railweave.framework.routing.rails.links import DR, DRD, KINDS, NONE, RD, REQUIRES, D, R, RailLinks, whole
from railweave.framework.routing.rails.scores import Scores
from railweave.framework.routing.rails.unequal import LONGER, for_gpus, longer_score, places_of, rails_of_both
from railweave.plugins.spray.everywhere import all_paths, explanation

Window = Literal["strict", "blog"]

MOST = 128
"""Paths of a pair that may be asked for."""
BLOCK = 1 << 19
"""Paths whose hops are laid out at a time; bounds the memory."""


class Spray(Router):
    """Where rails meet in GPUs and domains alone: spreads the packets of a pair evenly over every rail in its
    window; one path by h-scores where it is empty. Elsewhere: over all paths of least cost, in shares by
    their lowest scores (everywhere.py). It promises nothing about deadlocks of lossless links.

    Source: "LLM inference optimization ... rail-only connections, Part 2" (Cisco Outshift, 2024), packet
    spray. Ours: the strict window, same-rail pairs (the bar is H(g) / (H(d1) H(d2))), and delta, which the
    source leaves open: 1 takes every better rail.
    """

    summary = "packets over all better rails by h-scores; elsewhere over all shortest paths, by health"
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
        Parameter(
            "weights",
            "health",
            "text",
            "without rails: shares of paths by what they serve, or equal",
            choices=("health", "equal"),
        ),
        Parameter("paths", 64, "count", "without rails: paths of a pair at most", minimum=1, maximum=MOST),
    )
    damped = True

    def __init__(
        self,
        delta: float = 1.0,
        window: Window = "strict",
        *,
        same_rail_detour: bool = True,
        by_health: bool = True,
        paths: int = 64,
    ) -> None:
        self._delta, self._window, self._detour = delta, window, same_rail_detour
        self._by_health, self._paths = by_health, paths

    def configured(self, options: Mapping[str, Value]) -> "Spray":
        return Spray(
            float(options["delta"]),
            cast(Window, options["window"]),
            same_rail_detour=bool(options["same_rail_detour"]),
            by_health=options["weights"] == "health",
            paths=int(options["paths"]),
        )

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """With rails: equal shares; it reroutes where `hscore` does."""
        return ("equal-split", *reroutes(fabric)) if _has_rails(fabric) else ("reroutes",)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that decides for the pairs requested.

        Raises HealthError for a snapshot of another fabric.
        """
        if not _has_rails(fabric):
            return all_paths(fabric, health, self._paths, by_health=self._by_health)
        links = RailLinks.of(fabric, "spray")
        scores = Scores.of(fabric, health, links)

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            pair, kind, via = self._choose(links, scores, src, dst)
            count = np.bincount(pair, minlength=len(src))
            blocks = _blocks(src[pair], dst[pair], kind, via)
            paths = join(*(links.batch(*block) for block in blocks))
            return PathBatch(src, dst, starts(count), 1 / count[pair], paths.hop_start, paths.links)

        return RouteTable("spray", health.version, fabric.n_gpus, for_gpus(fabric, scores, resolve))

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The h-ratios, the threshold m, the window, worst rail first, and the paths taken. Raises RouteError
        for a GPU that is not there, otherwise as `routes` does."""
        fabric.check_gpus(src, dst)
        if not _has_rails(fabric):
            return explanation(fabric, health, src, dst, self.routes(fabric, health))
        links = RailLinks.of(fabric, "spray")
        scores = Scores.of(fabric, health, links)
        (a, b), rail = places_of(fabric, np.array([[src], [dst]])), rail_names(fabric, name)
        shared_rails = rails_of_both(fabric, links, int(a[0]), int(b[0]))
        window = [r for r in scores.order[spread(*self._ranges(scores, a, b))].tolist() if shared_rails[r]]
        pair, kind, via = self._choose(links, scores, a, b)
        score = score_of(scores, a[pair], b[pair], kind, via)
        taken = zip(kind.tolist(), via.tolist(), score.tolist(), strict=True)
        m = float(scores.thresholds(a, b, self._detour)[0])
        facts: dict[str, Fact] = {
            "gamma_src": float(scores.gamma[a[0]]),
            "gamma_dst": float(scores.gamma[b[0]]),
            "m": NO_BAR if np.isinf(m) else m,
            "window": [rail(r) for r in window],
            "paths": [
                f"{KINDS[k]}{' via ' + rail(v) if k == DRD else ''}: score {s:.4g}" for k, v, s in taken
            ],
        }
        if not len(kind) and (longer := longer_score(fabric, health, scores, src, dst)):
            return Explanation(LONGER, facts | {"paths": [f"longer: score {longer:.4g}"]})
        return Explanation(self._why(src == dst, len(window), [KINDS[k] for k in kind]), facts)

    def _why(self, same: bool, window: int, kinds: list[str]) -> str:
        """The rule that decided where `window` rails are in the window and the paths taken are of `kinds`."""
        if same:
            return "same GPU"
        if not kinds:
            return "unreachable: every path crosses a dead link or a score of 0"
        rails = f"{self._window} window, delta {self._delta:g}"
        if not window:
            return f"no rail in the {rails}: the {kinds[0]}-path by h-scores"
        if len(kinds) < window:
            return f"{rails}: dead links keep it from {window - len(kinds)} of {window} rails"
        return f"{rails}: evenly over {len(kinds)} rails" if len(kinds) > 1 else f"{rails}: one rail"

    def _ranges(self, scores: Scores, src: Int64, dst: Int64) -> tuple[Int64, Int64]:
        """(first, count) of the rails that count as comparable, (P,) each, in `scores.order`. None for pairs
        of one domain, and, without detours, of one rail.

        strict: H in (m, m + delta]; blog: H in [m - delta, m + delta], as published, which also takes in
        rails no better than rd and dr, and the pair's own. Source: "rail-only connections, Part 2" (Cisco
        Outshift, 2024). A snapshot's margin raises the strict window's lower bar, because measured scores are
        not exact.
        """
        m = scores.thresholds(src, dst, self._detour)
        if self._window == "strict":
            first = np.searchsorted(scores.ordered, scores.bars(m), side="right")
        else:
            first = np.searchsorted(scores.ordered, m - self._delta - EQUAL_WITHIN, side="left")
        end = np.searchsorted(scores.ordered, m + self._delta + EQUAL_WITHIN, side="right")
        return first, np.maximum(end - first, 0)

    def _sprayed(self, scores: Scores, src: Int64, dst: Int64) -> tuple[Int64, Int64, Int64]:
        """(pair, kind, via) of every path over the rails of the window, pairs in order and the rails of each
        ascending.

        A drd-path over the source's own rail is its rd-path, over the destination's its dr-path, and over a
        rail that both share their r-path.
        """
        rails, (first, count) = len(scores.rail), self._ranges(scores, src, dst)
        pair = np.repeat(np.arange(len(src)), count)
        pair, via = np.divmod(np.sort(pair * rails + scores.order[spread(first, count)]), rails)
        on_src, on_dst = via == src[pair] % rails, via == dst[pair] % rails
        kind = np.select([on_src & on_dst, on_src, on_dst], [R, RD, DR], DRD)
        return pair, kind, np.where(kind == DRD, via, -1)

    def _by_interface(
        self, links: RailLinks, scores: Scores, src: Int64, dst: Int64, paths: tuple[Int64, Int64, Int64]
    ) -> tuple[Int64, Int64, Int64]:
        """The paths (pair, kind, via), where pairs whose window crosses a weak link, or whose direct path a
        weak or dead one, get a window by what their own interfaces score: rails whose path beats the direct
        ones that live."""
        pair, kind, via = paths
        rule = direct(scores, src, dst)
        meets = ~_whole(links, scores.avoided, src, dst, rule, np.full(len(src), -1))
        meets[pair[~_whole(links, scores.weak, src[pair], dst[pair], kind, via)]] = True
        meets &= (rule > D) & ((rule != R) | self._detour)
        rows, rails = np.flatnonzero(meets), len(scores.rail)
        a, b, keep = src[rows], dst[rows], ~meets[pair]
        d1, d2 = scores.domain[a // rails], scores.domain[b // rails]
        bar = np.zeros(len(rows))
        for by in (R, RD, DR):
            fits = (rule[rows] == R) == (by == R)
            lives = fits & _whole(links, scores.dead, a, b, np.full(len(a), by), np.full(len(a), -1))
            bar = np.maximum(bar, np.where(lives, score_of(scores, a, b, np.full(len(a), by), -1), 0.0))
        over, width = over_rails(scores, a, b), self._delta * d1 * d2 + EQUAL_WITHIN
        above = bar * scores.margin + EQUAL_WITHIN if self._window == "strict" else bar - width
        taken = (over > above[:, None]) & (over <= (bar + width)[:, None])
        on_src, on_dst = (gpu[:, None] % rails == np.arange(rails) for gpu in (a, b))
        row, rail = np.nonzero(taken)
        chosen = np.select([on_src & on_dst, on_src, on_dst], [R, RD, DR], DRD)[row, rail]
        return (
            np.concatenate((pair[keep], rows[row])),
            np.concatenate((kind[keep], chosen)),
            np.concatenate((via[keep], np.where(chosen == DRD, rail, -1))),
        )

    def _choose(self, links: RailLinks, scores: Scores, src: Int64, dst: Int64) -> tuple[Int64, Int64, Int64]:
        """(pair, kind, via) of every path, by pair; an unreachable pair has none."""
        pair, kind, via = self._sprayed(scores, src, dst)
        if scores.avoided.any():
            pair, kind, via = self._by_interface(links, scores, src, dst, (pair, kind, via))
        if scores.dead.any():
            live = _whole(links, scores.dead, src[pair], dst[pair], kind, via)
            pair, kind, via = pair[live], kind[live], via[live]
        bare = np.flatnonzero(np.bincount(pair, minlength=len(src)) == 0)
        one_kind, one_via = choose(links, scores, src[bare], dst[bare], self._detour)
        has = one_kind != NONE
        pair = np.concatenate((pair, bare[has]))
        order = np.argsort(pair, kind="stable")
        kind, via = np.concatenate((kind, one_kind[has])), np.concatenate((via, one_via[has]))
        return pair[order], kind[order], via[order]


def _has_rails(fabric: Fabric) -> bool:
    return fabric.capabilities.issuperset(REQUIRES)


def _whole(links: RailLinks, avoided: Bool, *paths: Int64) -> Bool:
    """(Q,): whether no link of the paths (src, dst, kind, via) is among those to avoid (n_links + 1,)."""
    return np.concatenate([whole(links.hops(*block), avoided) for block in _blocks(*paths)])


def _blocks(*columns: Int64) -> Iterator[tuple[Int64, ...]]:
    """These rows of paths, BLOCK at a time; one block where there are none."""
    for low in range(0, max(len(columns[0]), 1), BLOCK):
        yield tuple(column[low : low + BLOCK] for column in columns)
