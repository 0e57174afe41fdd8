"""Fabrics and health snapshots by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest

from railweave.framework.model import Fabric, FabricBuilder, HealthSnapshot, NodeGroup
from railweave.topologies.rail_only import RailOnly

BuildRailOnly = Callable[[int, int], Fabric]
MakeHealth = Callable[..., HealthSnapshot]


@pytest.fixture(scope="session")
def rail_only() -> BuildRailOnly:
    return lambda domains, rails: RailOnly().build({"domains": domains, "rails": rails})


@pytest.fixture(scope="session")
def torus() -> Callable[[int, int], Fabric]:
    """A torus of x by y GPUs without switches; parallel cables where a dimension has 2."""

    def build(x: int, y: int) -> Fabric:
        builder = FabricBuilder("torus", [NodeGroup("gpu", 0, (x, y), "t")], {})
        ids = np.arange(x * y).reshape(x, y)
        builder.cables(ids.ravel(), np.roll(ids, -1, 0).ravel(), ("x+", "x-"), 1e9)
        builder.cables(ids.ravel(), np.roll(ids, -1, 1).ravel(), ("y+", "y-"), 1e9)
        return builder.build()

    return build


@pytest.fixture(scope="session")
def health() -> MakeHealth:
    """A snapshot of a rail-only fabric: scores of domains and rails by id,
    links that are down by id or name."""

    def make(
        fabric: Fabric,
        domain: Sequence[float] | None = None,
        rail: Sequence[float] | None = None,
        down: Iterable[int | str] = (),
        *,
        margin: float = 1.0,
        version: int = 1,
    ) -> HealthSnapshot:
        elements, dead = np.ones(fabric.n_nodes), np.zeros(fabric.n_links, bool)
        for kind, scores in (("domain", domain), ("rail", rail)):
            group = fabric.group(kind)
            if group is not None and scores is not None:
                elements[group.first : group.first + group.size] = scores
        rails = fabric.group("rail")
        rail_scores = elements[rails.first : rails.first + rails.size] if rails else np.empty(0)
        names = {fabric.link_name(link): link for link in range(fabric.n_links)}
        dead[[names[x] if isinstance(x, str) else x for x in down]] = True
        order = sorted(range(len(rail_scores)), key=lambda r: (rail_scores[r], r))
        return HealthSnapshot(
            version, 0.0, np.where(dead, 0.0, 1.0), elements, dead, np.array(order, np.int64), margin
        )

    return make
