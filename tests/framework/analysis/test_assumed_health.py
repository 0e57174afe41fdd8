"""Faults and scores as the health they make, by hand; scores files: how they count, what they may hold, what
is refused with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from railweave.framework.analysis.assumed_health import AssumedScores, assumed_health, read_scores
from railweave.framework.errors import ExperimentError, FaultError
from railweave.framework.experiment.faults import parse, resolve
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.topologies.rail_only import RailOnly
from tests.fakes.tori import torus


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


def test_loss_leaves_the_speed_that_the_transport_keeps() -> None:
    """0.9 / 1.6 at 10 %; of a tenth lost and a tenth of the rest damaged, 0.81 / (1 + 6 x 0.19)."""
    fabric = rail_only(2, 3)
    assert score(fabric, after(fabric, "loss rail:1 rate=0.1"), "r1") == pytest.approx(0.9 / 1.6)
    both = after(fabric, "loss rail:1 rate=0.1", "degrade rail:1 to=0.5")
    assert score(fabric, both, "r1") == pytest.approx(0.45 / 1.6)
    lossy = after(fabric, "loss rail:1 rate=0.1", "corrupt rail:1 rate=0.1")
    assert score(fabric, lossy, "r1") == pytest.approx(0.81 / 2.14)
    assert after(fabric, "corrupt rail:1 rate=0.1", "restore rail:1") == HealthSnapshot.healthy(fabric)


def test_a_wrong_icrc_is_no_matter_of_links() -> None:
    fabric = rail_only(2, 3)
    assert after(fabric, "corrupt rail:1 rate=0.1 icrc=yes") == HealthSnapshot.healthy(fabric)


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


def read(tmp_path: Path, text: str) -> AssumedScores:
    path = tmp_path / "scores.yaml"
    path.write_text(text)
    return read_scores(path, rail_only(2, 3))


FIRST_DOMAIN, FIRST_RAIL = 6, 8  # 2 x 3 GPUs, then 2 domains, then 3 rails


@pytest.mark.parametrize(
    ("text", "first", "nodes"),
    [
        ("rails: {0: 0.5, 1: 0.25}", 0, {FIRST_RAIL: 0.5, FIRST_RAIL + 1: 0.25}),
        ("rails: {1: 0.5, 3: 0.25}", 1, {FIRST_RAIL: 0.5, FIRST_RAIL + 2: 0.25}),
        ("domains: {0: 1}\nrails: {1: 0.5}", 0, {FIRST_DOMAIN: 1.0, FIRST_RAIL + 1: 0.5}),
        ("rails: {1: 0.5}\ncount_from: 0", 0, {FIRST_RAIL + 1: 0.5}),
        ("rails: {2: 0.5}\ncount_from: 1", 1, {FIRST_RAIL + 1: 0.5}),
        ("rails: [0.5, 1, 0.25]", 0, {FIRST_RAIL: 0.5, FIRST_RAIL + 1: 1.0, FIRST_RAIL + 2: 0.25}),
        ("", 0, {}),
    ],
)
def test_how_a_file_counts(tmp_path: Path, text: str, first: int, nodes: dict[int, float]) -> None:
    found = read(tmp_path, text)
    assert (found.counting.first, dict(found.nodes)) == (first, nodes)


def test_links_go_by_name(tmp_path: Path) -> None:
    fabric = rail_only(2, 3)
    found = read(tmp_path, "links: {'g0.0->r0': 0.3}")
    ((link, score),) = found.links.items()
    assert (fabric.link_name(link), score) == ("g0.0->r0", 0.3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "rail: {0: 1}",
            r"scores.yaml:1:1: rail: .*no such scores; it has domains, rails.*Did you mean rails",
        ),
        ("rails: {0: 1.5}", r"scores.yaml:1:9: rails.0: an h-score lies in 0..1.*got 1.5"),
        ("rails:\n  0: -0.1", r"scores.yaml:2:3: rails.0"),
        ("rails: {0: true}", "got True"),
        ("rails: {0: .nan}", "got '.nan'"),
        ("rails: {0: 1, 3: 1}", r"rail 3: there is no such rail; there are 0..2"),
        ("rails: {1: 1, 4: 1}", r"rail 4: there is no such rail; there are 1..3"),
        ("rails: [1, 1, 1, 1]", "rail 3: there is no such rail"),
        ("rails: {x: 1}", "rail x: there is no such rail"),
        ("rails: 0.5", "holds scores by index"),
        ("links: {g0.0->g0.1: 1}", "g0.0 has no link to g0.1"),
        ("count_from: 2", r"count_from: is 0 or 1 \(got 2\)"),
        ("rails: {0: 2}\ndomains: {9: 1}", "2 errors:"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ExperimentError, match=f"(?s){message}"):
        read(tmp_path, text)


def test_a_torus_has_no_rails(tmp_path: Path) -> None:
    path = tmp_path / "scores.yaml"
    path.write_text("rails: {0: 1}")
    with pytest.raises(ExperimentError, match="a torus fabric has no such scores; it has links, count_from"):
        read_scores(path, torus(4, 4))
