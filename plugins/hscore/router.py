"""h-score routing for rail-only fabrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from railweave.framework.hookspecs import Explanation, NodeName, Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter, Value
from railweave.framework.routing.batches import whole_sources
from railweave.framework.routing.rails.choice import choose, rail_names, reroutes
from railweave.framework.routing.rails.links import REQUIRES, RailLinks
from railweave.framework.routing.rails.scores import Scores
from railweave.plugins.hscore.decision import Decision, explained
from railweave.plugins.hscore.explanation import explanation
from railweave.plugins.hscore.squares import batch_from


class HScore(Router):
    """Chooses between rd-, dr- and drd-paths by the h-scores of domains and rails; one path a pair.

    Source: "LLM inference optimization ... rail-only connections, Part 2" (Cisco Outshift, 2024). Three
    things are ours: same-rail pairs may detour (option), a remote rail must beat m by the snapshot's margin,
    and a pair with none of these paths left goes over its rails and another domain.
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
    requires = REQUIRES
    damped = True

    def __init__(self, same_rail_detour: bool = True) -> None:
        self._detour = same_rail_detour

    def configured(self, options: Mapping[str, Value]) -> HScore:
        return HScore(bool(options["same_rail_detour"]))

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """`reroutes` where there is another rail and another domain to go over."""
        return reroutes(fabric)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that decides for the pairs requested.

        Raises UnsupportedFabricError for other fabrics, HealthError for a snapshot of another fabric.
        """
        links, scores = RailLinks.of(fabric, "hscore"), Scores.of(fabric, health)

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            sources = None if scores.dead.any() else whole_sources(fabric.n_gpus, src, dst)
            if sources is not None:
                return batch_from(links, scores, src, dst, sources, self._detour)
            kind, via = choose(links, scores, src, dst, self._detour)
            return links.batch(src, dst, kind, via)

        return RouteTable("hscore", health.version, fabric.n_gpus, resolve)

    def decide(self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int) -> Decision:
        """What `routes` answers for one pair, with its reasons.

        Raises RouteError for a GPU that is not there.
        """
        return self._decide(fabric, health, src, dst, "rail {}".format)

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The h-ratios, the threshold m, the rails above it and the rule that decided. Raises as `decide`
        does."""
        return explanation(fabric, self._decide(fabric, health, src, dst, rail_names(fabric, name)), name)

    def _decide(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, rail_name: Callable[[int], str]
    ) -> Decision:
        links, scores = RailLinks.of(fabric, "hscore"), Scores.of(fabric, health)
        fabric.check_gpus(src, dst)
        kind, via = choose(links, scores, np.array([src]), np.array([dst]), self._detour)
        return explained(links, scores, (src, dst), (int(kind[0]), int(via[0])), self._detour, rail_name)
