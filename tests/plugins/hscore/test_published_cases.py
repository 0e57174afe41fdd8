"""Cases H-O1 to H-O7: the source's own numbers. It counts domains and rails from 1, we from 0.

The spray windows H-O4 and H-O5 are in tests/plugins/spray/test_router.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from railweave.framework.model import Fabric, HealthSnapshot
from railweave.plugins.hscore.router import HScore
from tests.plugins.decisions import Decision, decided

Build = Callable[[int, int], Fabric]
Make = Callable[..., HealthSnapshot]


def decide(fabric: Fabric, snapshot: HealthSnapshot, source: str, target: str) -> Decision:
    ids = fabric.node_ids
    return decided(HScore(), fabric, snapshot, ids[source], ids[target])


def names(fabric: Fabric, decision: Decision) -> list[str]:
    """The nodes passed after the source."""
    assert decision.path is not None
    return [fabric.node_name(int(fabric.link_dst[link])) for link in decision.path.links]


@pytest.fixture
def setup_a(rail_only: Build, health: Make) -> tuple[Fabric, Decision]:
    fabric = rail_only(2, 5)
    snapshot = health(fabric, [1.0, 0.8], [0.4, 0.5, 0.7, 0.9, 0.64])
    return fabric, decide(fabric, snapshot, "g0.0", "g1.1")


def test_h_o1_gammas(setup_a: tuple[Fabric, Decision]) -> None:
    decision = setup_a[1]
    assert (decision.gamma_src, decision.gamma_dst) == pytest.approx((0.4, 0.625))
    assert decision.m == decision.bar == pytest.approx(0.625)


def test_h_o2_best_fit(setup_a: tuple[Fabric, Decision]) -> None:
    fabric, decision = setup_a
    assert (decision.kind, decision.rail) == ("drd", 4)
    assert decision.score == pytest.approx(0.512)
    assert decision.routable == (4, 2, 3)
    assert names(fabric, decision) == ["d0", "g0.4", "r4", "g1.4", "d1", "g1.1"]
    assert decision.why == "best fit: the lowest usable rail above the bar, rail 4"


def test_h_o2_the_best_rail_would_score_072(rail_only: Build, health: Make) -> None:
    """With rail 5 of the source lowered out of the way, and 3 too, rail 4 remains: 1 x 0.9 x 0.8."""
    fabric = rail_only(2, 5)
    snapshot = health(fabric, [1.0, 0.8], [0.4, 0.5, 0.6, 0.9, 0.6])
    assert decide(fabric, snapshot, "g0.0", "g1.1").score == pytest.approx(0.72)


def test_h_o3_direct_scores(setup_a: tuple[Fabric, Decision]) -> None:
    assert setup_a[1].direct_scores == pytest.approx({"rd": 0.32, "dr": 0.5})


def test_h_o6_gamma_above_1_needs_no_remote_rail(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 3)
    decision = decide(fabric, health(fabric, [0.5, 0.9], [0.6, 0.3, 1.0]), "g0.0", "g1.1")
    assert decision.gamma_src == pytest.approx(1.2)
    assert (decision.kind, decision.rail, decision.routable) == ("rd", None, ())
    assert decision.score == pytest.approx(0.54)
    assert names(fabric, decision) == ["r0", "g1.0", "d1", "g1.1"]
    assert decision.why == "no rail above the bar: gamma_src > gamma_dst"


def test_h_o7_a_tie_takes_dr(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 3)
    decision = decide(fabric, health(fabric, [0.5] * 2, [0.5] * 3), "g0.0", "g1.1")
    assert (decision.gamma_src, decision.gamma_dst) == (1, 1)
    assert (decision.kind, decision.score) == ("dr", 0.25)
    assert names(fabric, decision) == ["d0", "g0.1", "r1", "g1.1"]
    assert decision.why == "no rail above the bar: gamma_src <= gamma_dst"


def test_cases_1_and_2(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 3)
    snapshot = health(fabric, [0.9, 0.9], [0.8, 0.7, 0.6])
    inside = decide(fabric, snapshot, "g0.0", "g0.2")
    assert (inside.kind, inside.score, inside.why) == ("d", 0.9, "same domain")
    assert names(fabric, inside) == ["d0", "g0.2"]
    along = decide(fabric, snapshot, "g0.0", "g1.0")
    assert (along.kind, along.score, along.why) == ("r", 0.8, "same rail: no rail above the bar")
    assert names(fabric, along) == ["r0", "g1.0"]
    itself = decide(fabric, snapshot, "g0.0", "g0.0")
    assert (itself.kind, itself.path, itself.why) == ("none", None, "same GPU")
