"""One pair's paths hop by hop, and the router's reason for them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import PluginError, RouteError, blaming
from railweave.framework.hookspecs import ExplainingRouter, Explanation, Fact, Router
from railweave.framework.model import Fabric, HealthSnapshot, Path
from railweave.framework.model.coordinates import Counting
from railweave.framework.routing.router_calls import ask_for_live_links
from railweave.framework.routing.table_checks import check_batch


@dataclass(frozen=True, slots=True)
class Hop:
    """One link of a path. `start`, `end` as the reader counts; `link` its name; `vc` None where virtual
    channels do not matter; `score` that of the link's switch, or of the link itself if it belongs to none."""

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
    """`why` None where the router gives no reasons. `paths` empty for unreachable pairs and from a GPU to
    itself."""

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
    """What `router` does with `pair` = (src, dst), and why. Nodes are named as `counting` says.

    Raises PluginError for a router that breaks its contract: it raises, returns nothing, or gives a path that
    no packet could follow.
    """
    src, dst = pair
    table = ask_for_live_links(router, name, fabric, health)
    paths: tuple[Path, ...] = ()
    if src != dst:
        batch = table.paths(np.array([src]), np.array([dst]))
        try:
            check_batch(fabric, name, batch, health)
        except RouteError as error:
            raise PluginError(str(error)) from error
        paths = batch.paths(0)
    explanation: Explanation | None = None
    if isinstance(router, ExplainingRouter):
        with blaming(f"router {name}: explain()"):
            explanation = router.explain(fabric, health, src, dst, lambda node: counting.name(fabric, node))
        if not isinstance(explanation, Explanation):
            raise PluginError(
                f"router {name} explained with {type(explanation).__name__} instead of an Explanation."
            )
    return ExplainedPair(
        counting.name(fabric, src),
        counting.name(fabric, dst),
        tuple(explained_path(fabric, health, path, counting) for path in paths),
        explanation.why if explanation else None,
        explanation.facts if explanation else {},
    )


def explained_path(fabric: Fabric, health: HealthSnapshot, path: Path, counting: Counting) -> ExplainedPath:
    """A path hop by hop. Its score has one factor per switch crossed, though a path crosses two of its links,
    in and out."""
    hops: list[Hop] = []
    score, before = 1.0, -1
    for i, link in enumerate(path.links):
        element = int(fabric.link_element[link])
        link_score = float(health.link_score[link] if element < 0 else health.element_score[element])
        if element < 0 or element != before:
            score *= link_score
        before = element
        hops.append(
            Hop(
                counting.name(fabric, int(fabric.link_src[link])),
                counting.name(fabric, int(fabric.link_dst[link])),
                fabric.link_name(link),
                fabric.kinds[fabric.link_kind[link]],
                None if path.vc is None else path.vc[i],
                link_score,
            )
        )
    return ExplainedPath(path.weight, score, tuple(hops))
