"""Faults and scores as the health they make, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.framework.analysis.assumed_health import assumed_health
from railweave.framework.analysis.scores_file import AssumedScores
from railweave.framework.errors import FaultError
from railweave.framework.experiment.faults import parse, resolve
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.topologies.rail_only import RailOnly


def rail_only(domains: int, rails: int) -> Fabric:
    return RailOnly().build({"domains": domains, "rails": rails})


def after(fabric: Fabric, *faults: str, scores: AssumedScores | None = None) -> HealthSnapshot:
    return assumed_health(fabric, scores, [resolve(parse(f"at=0s {fault}"), fabric) for fault in faults])


def score(fabric: Fabric, health: HealthSnapshot, name: str) -> float:
    return float(health.element_score[fabric.node_ids[name]])


def test_nothing_is_healthy() -> None:
    fabric = rail_only(2, 3)
    assert assumed_health(fabric) == HealthSnapshot.healthy(fabric)


def test_a_degraded_rail_scores_what_is_left_and_comes_first() -> None:
    fabric = rail_only(2, 3)
    health = after(fabric, "degrade rail:1 to=20%")
    assert score(fabric, health, "r1") == pytest.approx(0.2)
    assert score(fabric, health, "r0") == 1
    assert health.rail_order.tolist() == [1, 0, 2]
    assert not health.down.any()


def test_a_dead_link_counts_0_in_its_rail() -> None:
    """2 domains: 4 directed links a rail, of one rate; a cable down leaves half of them."""
    fabric = rail_only(2, 3)
    health = after(fabric, "down link:g0.0->r0")
    assert score(fabric, health, "r0") == pytest.approx(0.5)
    assert np.flatnonzero(health.down).size == 2


def test_loss_takes_its_share_off() -> None:
    fabric = rail_only(2, 3)
    assert score(fabric, after(fabric, "loss rail:1 rate=0.1"), "r1") == pytest.approx(0.9)
    both = after(fabric, "loss rail:1 rate=0.1", "degrade rail:1 to=0.5")
    assert score(fabric, both, "r1") == pytest.approx(0.45)


def test_order_and_copies_are_no_matter_of_health() -> None:
    fabric = rail_only(2, 3)
    slow = after(fabric, "degrade rail:1 to=20%")
    hurt = after(fabric, "degrade rail:1 to=20%", "reorder rail:1 rate=5%", "duplicate rail:1 rate=5%")
    assert hurt == slow


def test_a_slow_direction_counts_for_half_of_its_rail() -> None:
    """The mean of two directions of one rate: (0.2 + 1) / 2."""
    fabric = rail_only(2, 3)
    assert score(fabric, after(fabric, "degrade rail:1 to=20% way=in"), "r1") == pytest.approx(0.6)


def test_restore_gives_the_score_of_the_file_back() -> None:
    fabric = rail_only(2, 3)
    scores = AssumedScores(nodes={fabric.node_ids["r1"]: 0.6})
    assert score(fabric, after(fabric, "degrade rail:1 to=20%", scores=scores), "r1") == pytest.approx(0.2)
    assert score(fabric, after(fabric, "degrade rail:1 to=80%", scores=scores), "r1") == pytest.approx(0.6)
    back = after(fabric, "down rail:1", "degrade rail:1 to=20%", "restore rail:1", scores=scores)
    assert score(fabric, back, "r1") == 0.6 and not back.down.any()


def test_a_score_of_0_is_down() -> None:
    fabric = rail_only(2, 3)
    health = assumed_health(fabric, AssumedScores(nodes={fabric.node_ids["r1"]: 0.0}))
    assert np.flatnonzero(health.down).tolist() == fabric.element_links(fabric.node_ids["r1"]).tolist()


def test_processes_change_no_route() -> None:
    with pytest.raises(FaultError, match="kill affects a process and changes no route"):
        after(rail_only(2, 3), "kill controller")
