"""What the router refuses, and how it explains itself."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.framework.errors import FabricError, HealthError, RouteError, UnsupportedFabricError
from railweave.framework.hookspecs import Explanation
from railweave.framework.model import Fabric, FabricBuilder, HealthSnapshot, NodeGroup
from railweave.framework.routing.loads import all_to_all_loads
from railweave.plugins.dor.router import DimensionOrder
from railweave.topologies.rail_only import RailOnly
from tests.fakes.tori import torus, twisted, with_down


def torus_of(cables: list[tuple[int, int, str]], shape: tuple[int, ...]) -> Fabric:
    builder = FabricBuilder("torus", [NodeGroup("gpu", 0, shape, "g")], {})
    for a, b, axis in cables:
        builder.cables([a], [b], (f"{axis}+", f"{axis}-"), 1e9)
    return builder.build()


def explain(fabric: Fabric, health: HealthSnapshot, src: int, dst: int) -> Explanation:
    return DimensionOrder().explain(fabric, health, src, dst, fabric.node_name)


def test_other_fabrics_are_refused_by_what_they_lack() -> None:
    fabric = RailOnly().build({"domains": 2, "rails": 2})
    with pytest.raises(UnsupportedFabricError) as refusal:
        DimensionOrder().routes(fabric, HealthSnapshot.healthy(fabric))
    assert (
        "router dor does not serve this rail-only: it requires lattice, wrap, and this fabric lacks wrap."
        in str(refusal.value)
    )


@pytest.mark.parametrize(
    ("cables", "shape", "message"),
    [
        ([(0, 1, "x"), (1, 2, "x")], (3,), "lacks wrap"),
        ([(0, 1, "x"), (1, 2, "x"), (2, 0, "q")], (3,), "lacks wrap"),
        ([(0, 2, "x"), (2, 1, "x"), (1, 3, "x"), (3, 0, "x")], (4,), "its x links make no torus"),
        ([(0, 1, "x"), (1, 2, "x"), (2, 0, "x")], (3, 1), "lacks wrap"),
    ],
)  # fmt: skip
def test_wires_that_make_no_torus_are_refused(
    cables: list[tuple[int, int, str]], shape: tuple[int, ...], message: str
) -> None:
    fabric = torus_of(cables, shape)
    with pytest.raises((FabricError, UnsupportedFabricError)) as refusal:
        DimensionOrder().routes(fabric, HealthSnapshot.healthy(fabric))
    assert message in str(refusal.value)


def test_health_of_another_fabric_is_refused() -> None:
    with pytest.raises(HealthError, match="health of 6 links and 3 nodes does not belong to this torus of 8"):
        DimensionOrder().routes(torus(4), HealthSnapshot.healthy(torus(3)))


def test_a_decision_names_order_way_and_tie() -> None:
    fabric = torus(8, 8, 8)
    ids = fabric.node_ids
    healthy = HealthSnapshot.healthy(fabric)
    decision = explain(fabric, healthy, ids["g1.0.0"], ids["g5.7.0"])
    assert decision.facts["order"] == "XYZ" and decision.facts["displacement"] == "x -4, y -1, z 0"
    assert decision.facts["ties"] == ("x: half way round 8, source at x = 1, so down (odd)",)
    assert decision.why == "XYZ: the longest axis first, the shorter direction of each"
    assert explain(fabric, healthy, 3, 3).why == "same GPU"
    with pytest.raises(RouteError, match=r"there is no GPU 512; this torus has 0\.\.511"):
        explain(fabric, healthy, 0, 512)


def test_a_decision_names_what_cuts_it_off() -> None:
    fabric = torus(4, 4)
    ids = fabric.node_ids
    link = next(x for x in range(fabric.n_links) if fabric.link_name(x) == "g0.0->g1.0")
    decision = explain(fabric, with_down(fabric, [link]), ids["g0.0"], ids["g1.1"])
    assert decision.facts["blocked"] == ["g0.0->g1.0"]
    assert decision.why == "unreachable: the path by rule crosses g0.0->g1.0, which is down"


def test_a_decision_on_a_twisted_torus() -> None:
    """By hand: (2, 2, 4) lies 8 straight hops away; x and y wraps shift z by 4,
    so +2 -2 or -2 +2 lead there too."""
    fabric = twisted(4, 4, 8)
    decision = explain(fabric, HealthSnapshot.healthy(fabric), 0, fabric.node_ids["g2.2.4"])
    assert decision.facts["displacement"] in ("x +2, y -2, z 0", "x -2, y +2, z 0")
    assert decision.facts["ties"] == (
        "equally short displacements: by the sum of the source's coordinates, 0",
    )


def test_a_large_torus_is_arrays() -> None:
    """12^3: 3 million pairs. Closed form n k / 8 on every link."""
    fabric = torus(12, 12, 12)
    table = DimensionOrder().routes(fabric, HealthSnapshot.healthy(fabric))
    assert np.array_equal(all_to_all_loads(fabric, table).load, np.full(fabric.n_links, 2592.0))
