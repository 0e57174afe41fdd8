"""h-score routing for rail-only fabrics."""

from collections.abc import Callable, Mapping
from math import isinf

import numpy as np

from railweave.framework.hookspecs import Explanation, Fact, NodeName, Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.parameters import Parameter, Value
from railweave.framework.routing.batches import whole_sources
from railweave.framework.routing.damping import pair_scores
from railweave.framework.routing.rails.choice import NO_BAR, choose, direct, rail_names, reroutes, score_of
from railweave.framework.routing.rails.links import (
    DR,
    DRD,
    INTERFACES,
    KINDS,
    NONE,
    RD,
    RDR,
    D,
    R,
    RailLinks,
    whole,
)
from railweave.framework.routing.rails.scores import Scores
from railweave.framework.routing.rails.spines import Spines
from railweave.framework.routing.rails.unequal import LONGER, for_gpus, longer_score, places_of, rails_of_both
from railweave.plugins.hscore.squares import batch_from


class HScore(Router):
    """Chooses between rd-, dr- and drd-paths by the h-scores of domains and rails; one path a pair.

    Source: "LLM inference optimization ... rail-only connections, Part 2" (Cisco Outshift, 2024). Five
    things are ours: same-rail pairs may detour (option), a remote rail must beat m by the snapshot's margin,
    a pair with none of these paths left goes over its rails and another domain, domains may be of unequal
    size (a missing GPU is as a dead one, and where nothing else is left the shortest path serves), and where
    spines join the rails a pair leaves its own rails for the best spine, once that scores more by the margin.
    """

    summary = "rd, dr or drd by h-scores: best-fit remote rail"
    parameters: tuple[Parameter, ...] = (
        Parameter(
            "same_rail_detour",
            True,
            "bool",
            "let same-rail pairs go over a remote rail x where H(d1) H(x) H(d2) > H(g)",
        ),
    )
    requires = INTERFACES
    damped = True

    def __init__(self, same_rail_detour: bool = True) -> None:
        self._detour = same_rail_detour

    def configured(self, options: Mapping[str, Value]) -> "HScore":
        return HScore(bool(options["same_rail_detour"]))

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """`reroutes` where there is another rail and another domain to go over."""
        return reroutes(fabric)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that decides for the pairs requested.

        Raises UnsupportedFabricError for other fabrics, HealthError for a snapshot of another fabric.
        """
        links = RailLinks.of(fabric, "hscore")
        scores = Scores.of(fabric, health, links)
        spines = Spines.of(fabric, health, scores)

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            if spines is not None:
                kind, via = choose(links, scores, src, dst, self._detour)
                over_rails = links.batch(src, dst, kind, via)
                return spines.instead(links, scores.margin, over_rails, kind)[-1]
            sources = None if scores.avoided.any() else whole_sources(fabric.n_gpus, src, dst)
            if sources is not None:
                return batch_from(links, scores, src, dst, sources, self._detour)
            kind, via = choose(links, scores, src, dst, self._detour)
            return links.batch(src, dst, kind, via)

        return RouteTable("hscore", health.version, fabric.n_gpus, for_gpus(fabric, scores, resolve))

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The h-ratios, the threshold m of the Remote Rail Theorem, the rails above it and the rule that
        decided. Raises RouteError for a GPU that is not there, otherwise as `routes` does.

        `bar`, m x margin, stands next to `m` only where a margin makes them differ.
        """
        links = RailLinks.of(fabric, "hscore")
        scores = Scores.of(fabric, health, links)
        fabric.check_gpus(src, dst)
        (a, b), rail_name = places_of(fabric, np.array([[src], [dst]])), rail_names(fabric, name)
        kind, via = (int(chosen[0]) for chosen in choose(links, scores, a, b, self._detour))
        m = float(scores.thresholds(a, b, self._detour)[0])
        bar = m * scores.margin
        shared_rails = rails_of_both(fabric, links, int(a[0]), int(b[0]))
        routable = scores.order[(scores.ordered > bar + EQUAL_WITHIN) & shared_rails[scores.order]].tolist()
        rule = int(direct(scores, a, b)[0])
        by_rule = links.hops(a, b, np.array([rule]), np.array([-1]))
        assert kind == rule or via >= 0 or not whole(by_rule, scores.dead)[0], "left a path that is whole"

        if spines := Spines.of(fabric, health, scores):
            over_rails = links.batch(a, b, np.array([kind]), np.array([via]))
            if over := _over_a_spine(spines, links, over_rails, kind, scores.margin, name):
                return over

        def score(path_kind: int) -> float:
            return float(score_of(scores, a, b, np.array([path_kind]), via)[0])

        facts: dict[str, Fact] = {"kind": KINDS[kind]}
        if kind == DRD:
            facts["remote_rail"] = rail_name(via)
        facts |= {
            "score": score(kind),
            "gamma_src": float(scores.gamma[a[0]]),
            "gamma_dst": float(scores.gamma[b[0]]),
            "m": NO_BAR if isinf(m) else m,
        }
        if bar != m:
            facts["bar"] = bar
        facts["routable_rails"] = [rail_name(rail) for rail in routable]
        turns = {DR: int(scores.rail_of[b[0]]), RD: int(scores.rail_of[a[0]])}
        options = [x for x in turns if shared_rails[turns[x]]] if rule in turns else [rule]
        facts |= {f"score_{KINDS[option]}": score(option) for option in options if option != NONE}
        if kind == NONE and (longer := longer_score(fabric, health, scores, src, dst)):
            return Explanation(LONGER, facts | {"kind": "longer", "score": longer})
        crossed = "a dead link" if rule in options else "a missing GPU"
        return Explanation(_why(src == dst, kind, via, rule, routable, rail_name, crossed), facts)


def _over_a_spine(
    spines: Spines, links: RailLinks, over_rails: PathBatch, kind: int, margin: float, name: NodeName
) -> Explanation | None:
    """Of a pair that leaves its path over its own rails, `over_rails` of that kind, for a spine."""
    _, spine, paths = spines.instead(links, margin, over_rails, np.array([kind]))
    if not len(spine):
        return None
    had, would = (float(pair_scores(spines.fabric, batch, spines.health)[0]) for batch in (over_rails, paths))
    spine_name = name(int(spines.node[spine[0]]))
    because = (
        "none of the pair's own rails serves" if kind in (NONE, RDR) else "it beats the pair's own rails"
    )
    return Explanation(
        f"the best spine, {spine_name}: {because}",
        {"kind": "spine", "spine": spine_name, "score": would, "score_own": had, "margin": margin},
    )


def _why(
    same: bool,
    kind: int,
    via: int,
    rule: int,
    routable: list[int],
    rail_name: Callable[[int], str],
    crossed: str,
) -> str:
    """The rule that decided for (kind, via) where the pair's path by rule is of kind `rule`; `crossed`: what
    ruled that out where it did."""
    if kind == NONE:
        return "same GPU" if same else "unreachable: every path crosses a dead link or a score of 0"
    if kind == DRD and via in routable:
        skipped = ", ".join(map(rail_name, routable[: routable.index(via)]))
        return f"best fit: the lowest usable rail above the bar, {rail_name(via)}" + (
            f"; dead links keep it from {skipped}" if skipped else ""
        )
    if kind == RDR:
        return f"none of the d, r, rd, dr and drd-paths is left: over both rails and domain {via}"
    if kind != rule:
        return f"the {KINDS[rule]}-path by rule crosses {crossed}: the best score of what is left"
    if kind == D:
        return "same domain"
    none = "dead links keep it from every rail above the bar" if routable else "no rail above the bar"
    if kind == R:
        return f"same rail: {none}"
    return f"{none}: gamma_src {'>' if kind == RD else '<='} gamma_dst"
