"""The router's own extensions, its errors, and the ways around damage."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from railweave.framework.errors import HealthError, RouteError, UnsupportedFabricError
from railweave.framework.model import Fabric, FabricBuilder, HealthSnapshot, NodeGroup
from railweave.framework.parameters import resolve
from railweave.plugins.hscore.router import HScore
from tests.plugins.decisions import Decision, decided

Build = Callable[[int, int], Fabric]
Make = Callable[..., HealthSnapshot]


def decide(
    fabric: Fabric, snapshot: HealthSnapshot, source: str, target: str, *, detour: bool = True
) -> Decision:
    ids = fabric.node_ids
    router = HScore().configured(resolve("hscore", HScore.parameters, {"same_rail_detour": detour}))
    return decided(router, fabric, snapshot, ids[source], ids[target])


# -- the same-rail detour -------------------------------------------------------------------------------
def test_a_slow_rail_is_left_by_its_own_pairs(rail_only: Build, health: Make) -> None:
    """Rail 1 at 20 %: m = 0.2, all others are above; equal ones go by id."""
    fabric = rail_only(4, 4)
    snapshot = health(fabric, rail=[1, 0.2, 1, 1])
    decision = decide(fabric, snapshot, "g0.1", "g2.1")
    assert (decision.kind, decision.rail, decision.score) == ("drd", 0, 1.0)
    assert decision.m == pytest.approx(0.2)
    stay = decide(fabric, snapshot, "g0.1", "g2.1", detour=False)
    assert (stay.kind, stay.score, stay.m) == ("r", 0.2, math.inf)


def test_a_detour_is_taken_exactly_where_its_score_is_higher(rail_only: Build, health: Make) -> None:
    """H(d1) H(x) H(d2) > H(g), the product itself, against the router's quotient; 400 grid points."""
    fabric = rail_only(2, 2)
    for h_g, h_x in product(np.arange(1, 21) / 20, repeat=2):
        decision = decide(fabric, health(fabric, [0.8, 0.75], [h_g, h_x]), "g0.0", "g1.0")
        assert (decision.kind == "drd") == (0.8 * h_x * 0.75 > h_g + 1e-12), (h_g, h_x)


# -- the margin -----------------------------------------------------------------------------------------
def test_a_remote_rail_must_beat_the_margin(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 5)
    scores = ([1.0, 0.8], [0.4, 0.5, 0.7, 0.9, 0.64])
    decision = decide(fabric, health(fabric, *scores, margin=1.25), "g0.0", "g1.1")
    assert (decision.rail, decision.m) == (3, pytest.approx(0.625))
    assert decision.bar == pytest.approx(0.78125)
    assert decide(fabric, health(fabric, *scores, margin=1.5), "g0.0", "g1.1").kind == "dr"


def test_noise_within_the_margin_moves_nothing(rail_only: Build, health: Make) -> None:
    fabric = rail_only(4, 4)
    rng = np.random.default_rng(1)
    healthy = HScore().routes(fabric, health(fabric, margin=1.25))
    for _ in range(20):
        noisy = health(fabric, rail=1 - 0.05 * rng.integers(0, 4, 4), margin=1.25)
        table = HScore().routes(fabric, noisy)
        assert all(
            table.path(src, dst) == healthy.path(src, dst) for src in (0, 5) for dst in (4 + src, 8 + src)
        )


# -- scores of 0 ----------------------------------------------------------------------------------------
def test_a_dead_domain_forces_the_rail_side(rail_only: Build, health: Make) -> None:
    fabric = rail_only(3, 3)
    snapshot = health(fabric, [0, 1, 1], [0.3, 0.9, 1])
    out = decide(fabric, snapshot, "g0.0", "g1.1")
    assert (out.kind, out.gamma_src, out.score) == ("rd", math.inf, 0.3)
    back = decide(fabric, snapshot, "g1.1", "g0.0")
    assert (back.kind, back.gamma_dst, back.score) == ("dr", math.inf, 0.3)
    inside = decide(fabric, snapshot, "g0.0", "g0.1")
    assert (inside.kind, inside.score) == ("rdr", pytest.approx(0.3 * 0.9))
    assert "over both rails and domain 1" in inside.why


def test_all_zero_is_unreachable(rail_only: Build, health: Make) -> None:
    fabric = rail_only(3, 3)
    table = HScore().routes(fabric, health(fabric, [0] * 3, [0] * 3))
    assert all(table.path(0, dst) == () for dst in range(1, 9))


def test_a_dead_rail_is_left_by_all(rail_only: Build, health: Make) -> None:
    fabric = rail_only(3, 3)
    snapshot = health(fabric, rail=[0, 0.5, 1])
    assert decide(fabric, snapshot, "g0.0", "g1.0").rail == 1
    assert decide(fabric, snapshot, "g0.0", "g1.0", detour=False).rail == 2  # what is left, by score
    assert decide(fabric, snapshot, "g0.0", "g1.1").kind == "drd"


# -- links that are down --------------------------------------------------------------------------------
def test_an_r_interface_down_moves_only_the_pairs_that_need_it(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 3)
    snapshot = health(fabric, down=["g0.0->r0"])
    assert decide(fabric, snapshot, "g0.0", "g1.0").kind == "drd"
    assert decide(fabric, snapshot, "g1.0", "g0.0").kind == "r"
    assert decide(fabric, snapshot, "g0.0", "g1.1").kind == "dr"
    assert decide(fabric, snapshot, "g0.1", "g1.0").kind == "rd"  # dr would leave by g0.0's r-interface
    assert decide(fabric, snapshot, "g0.2", "g1.1").kind == "dr"
    why = decide(fabric, snapshot, "g0.1", "g1.0").why
    assert why == "the dr-path by rule crosses a dead link: the best score of what is left"


def test_a_d_interface_down_leaves_the_rail(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 3)
    snapshot = health(fabric, down=["g0.0->d0"])
    assert decide(fabric, snapshot, "g0.0", "g1.1").kind == "rd"
    assert decide(fabric, snapshot, "g0.0", "g1.0").kind == "r"
    assert decide(fabric, snapshot, "g0.0", "g0.1").kind == "rdr"
    alone = rail_only(1, 3)
    cut = decide(alone, health(alone, down=["g0.0->d0"]), "g0.0", "g0.1")
    assert (cut.kind, cut.path, cut.score) == ("none", None, 0.0)
    assert "unreachable" in cut.why


def test_best_fit_skips_a_rail_that_this_pair_cannot_use(rail_only: Build, health: Make) -> None:
    fabric = rail_only(3, 4)
    snapshot = health(fabric, rail=[0.2, 0.5, 0.6, 0.9], down=["r1->g1.1"])
    there = decide(fabric, snapshot, "g0.0", "g1.0")
    assert (there.rail, there.routable) == (2, (1, 2, 3))
    assert there.why.endswith("rail 2; dead links keep it from rail 1")
    assert decide(fabric, snapshot, "g1.0", "g0.0").rail == 1  # the other direction of the cable lives
    assert decide(fabric, snapshot, "g0.0", "g2.0").rail == 1


def test_without_a_usable_routable_rail_the_rule_decides(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 3)
    snapshot = health(fabric, rail=[0.4, 0.5, 0.9], down=["d1->g1.1", "r2->g1.2"])
    decision = decide(fabric, snapshot, "g0.0", "g1.1")
    assert (decision.kind, decision.routable) == ("dr", (2,))
    assert decision.why == "dead links keep it from every rail above the bar: gamma_src <= gamma_dst"


def test_what_is_left_is_taken_by_score_then_by_hops(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 5)
    rails = [1.0, 0.3, 0.7, 0.9, 0.9]
    by_score = health(fabric, rail=rails, down=["r0->g1.0"])
    assert decide(fabric, by_score, "g0.0", "g1.0").rail == 3
    by_hops = health(fabric, rail=[0.9, 0.9, 0.9, 0.9, 0.9], down=["g0.1->r1"])
    assert decide(fabric, by_hops, "g0.0", "g1.1").kind == "rd"


def test_a_link_of_score_0_is_as_good_as_down(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 3)
    base = health(fabric)
    scores = base.link_score.copy()
    scores[fabric.out_links(0)[1]] = 0
    snapshot = HealthSnapshot(1, 0.0, scores, base.element_score, base.down, base.rail_order)
    assert decide(fabric, snapshot, "g0.0", "g1.0").kind == "drd"


# -- refusals -------------------------------------------------------------------------------------------
def test_other_fabrics_are_refused(torus: Build) -> None:
    fabric = torus(3, 3)
    with pytest.raises(UnsupportedFabricError, match=r"does not serve this torus: .* lacks domains"):
        HScore().routes(fabric, HealthSnapshot.healthy(fabric))


def test_health_of_another_fabric_is_refused(rail_only: Build) -> None:
    with pytest.raises(HealthError, match="health of 8 links and 5 nodes does not belong"):
        HScore().routes(rail_only(2, 2), HealthSnapshot.healthy(rail_only(2, 1)))


def test_rails_out_of_order_are_refused(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 3)
    good = health(fabric, rail=[0.5, 0.4, 0.3])
    bad = HealthSnapshot(4, 0.0, good.link_score, good.element_score, good.down, np.arange(3))
    with pytest.raises(HealthError, match=r"rail order \[0, 1, 2\] of health version 4 is not by"):
        HScore().routes(fabric, bad)


def test_a_gpu_that_is_not_there_is_refused(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 3)
    with pytest.raises(RouteError, match="there is no GPU 6; this rail-only has"):
        HScore().explain(fabric, health(fabric), 0, 6, fabric.node_name)


def test_a_rail_only_fabric_without_some_interface_is_refused() -> None:
    groups = [
        NodeGroup("gpu", 0, (2, 1), "g"), NodeGroup("domain", 2, (2,), "d"), NodeGroup("rail", 4, (1,), "r"),
    ]  # fmt: skip
    builder = FabricBuilder("rail-only", groups, {})
    builder.cables([0, 1], [2, 3], "d", 1e9)
    builder.cables([0], [4], "r", 1e9)
    fabric = builder.build()
    with pytest.raises(UnsupportedFabricError, match=r"lacks interfaces \(g1\.0 has no cable to r0\)"):
        HScore().routes(fabric, HealthSnapshot.healthy(fabric))
