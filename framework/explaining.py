"""One pair's paths hop by hop, and the router's reason for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from railweave.framework.coordinates import Counting
from railweave.framework.errors import PluginError, RouteError
from railweave.framework.hookspecs import ExplainingRouter, Explanation, Fact, Router
from railweave.framework.model import Fabric, HealthSnapshot, Path
from railweave.framework.routing.checks import check_batch
from railweave.framework.routing.guarded import guarded, guarded_table


@dataclass(frozen=True, slots=True)
class Hop:
    """One link of a path. `start`, `end` as the reader counts; `link` by its name; `vc` None where it does not
    matter; `score` that of the link's switch, or of the link itself if it belongs to none."""

    start: str
    end: str
    link: str
    kind: str
    vc: int | None
    score: float


@dataclass(frozen=True, slots=True)
class ExplainedPath:
    """`weight`: share of the pair's packets; `score`: product of the scores crossed, one per switch."""

    weight: float
    score: float
    hops: tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class ExplainedPair:
    """`why` None where the router gives no reasons. `paths` empty when cut off, or from a GPU to itself."""

    src: str
    dst: str
    paths: tuple[ExplainedPath, ...]
    why: str | None
    facts: Mapping[str, Fact]


def explain_pair(
    name: str,
    router: Router,
    fabric: Fabric,
    health: HealthSnapshot,
    pair: tuple[int, int],
    counting: Counting,
) -> ExplainedPair:
    """What `router` does with `pair` = (src, dst), and why. Nodes are called as `counting` has it.

    Raises PluginError for a router that breaks its contract: raises, returns nothing, or gives a path that no packet
    could follow.
    """
    src, dst = pair
    table = guarded_table(name, router, fabric, health)
    paths: tuple[Path, ...] = ()
    if src != dst:
        batch = table.paths(np.array([src]), np.array([dst]))
        try:
            check_batch(fabric, name, batch, health)
        except RouteError as error:
            raise PluginError(str(error)) from error
        paths = batch.paths(0)
    why: str | None = None
    facts: Mapping[str, Fact] = {}
    if isinstance(router, ExplainingRouter):
        said = guarded(
            name, lambda: router.explain(fabric, health, src, dst, lambda n: counting.name(fabric, n))
        )
        if not isinstance(said, Explanation):
            raise PluginError(
                f"router {name} explained with {type(said).__name__} instead of an Explanation."
            )
        why, facts = said.why, said.facts
    return ExplainedPair(
        counting.name(fabric, src),
        counting.name(fabric, dst),
        tuple(_explained(fabric, health, path, counting) for path in paths),
        why,
        facts,
    )


def _explained(fabric: Fabric, health: HealthSnapshot, path: Path, counting: Counting) -> ExplainedPath:
    """One factor per switch crossed: a switch's two links are the way in and the way out of it."""
    hops: list[Hop] = []
    score, before = 1.0, -1
    for i, link in enumerate(path.links):
        element = int(fabric.link_element[link])
        one = float(health.link_score[link] if element < 0 else health.element_score[element])
        if element < 0 or element != before:
            score *= one
        before = element
        hops.append(
            Hop(
                counting.name(fabric, int(fabric.link_src[link])),
                counting.name(fabric, int(fabric.link_dst[link])),
                fabric.link_name(link),
                fabric.kinds[fabric.link_kind[link]],
                None if path.vc is None else path.vc[i],
                one,
            )
        )
    return ExplainedPath(path.weight, score, tuple(hops))
