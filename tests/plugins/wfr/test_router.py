"""Wild-first routing against an enumeration in plain Python, and what must hold around faults."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError, HealthError, RouteError, UnsupportedFabricError
from railweave.framework.hookspecs import Explanation
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, all_pairs
from railweave.framework.routing.batches import all_paths, same_paths
from railweave.framework.routing.loads import all_to_all_loads
from railweave.framework.routing.torus.wild_first import Sequence, parse_sequence
from railweave.plugins.dor.router import DimensionOrder
from railweave.plugins.wfr.router import WildFirstRouting
from railweave.topologies.rail_only import RailOnly
from tests.fakes.sound_tables import check_table
from tests.fakes.tori import dimension_order_steps, ocs_down, torus, twisted, walk, with_down


def batch_of(fabric: Fabric, health: HealthSnapshot) -> PathBatch:
    return WildFirstRouting().routes(fabric, health).paths(*all_pairs(fabric.n_gpus))


def by_enumeration(
    fabric: Fabric, health: HealthSnapshot, sequence: Sequence, src: int, dst: int
) -> list[list[int]]:
    """The algorithm of the source for one pair, path by path: the links of the shortest ones."""
    shape, there = fabric.groups[0].shape, fabric.coordinates(dst)
    paths: list[list[int]] = []
    for number, signs in enumerate(product((0, 1, -1), repeat=len(sequence.wild))):
        wild = [(axis, sign) for axis, sign in zip(sequence.wild, signs, strict=True) if sign]
        here = list(fabric.coordinates(src))
        for axis, sign in wild:
            here[axis] = (here[axis] + sign) % shape[axis]
        links = walk(fabric, src, wild + dimension_order_steps(shape, here, there, sequence.order))
        nodes = [src, *(int(fabric.link_dst[link]) for link in links)]
        if health.down[links].any() or len(set(nodes)) < len(nodes):
            continue
        if number == 0:
            return [links]  # the dimension-order path lives
        paths.append(links)
    return [path for path in paths if len(path) == min(map(len, paths))]


@st.composite
def damaged_tori(draw: st.DrawFn) -> tuple[Fabric, HealthSnapshot]:
    fabric = torus(*draw(st.lists(st.integers(2, 5), min_size=1, max_size=3)))
    down = draw(st.lists(st.integers(0, fabric.n_links - 1), max_size=8, unique=True))
    return fabric, with_down(fabric, down)


@given(damaged_tori())
@settings(max_examples=40)
def test_it_takes_one_of_what_plain_enumeration_gives(case: tuple[Fabric, HealthSnapshot]) -> None:
    fabric, health = case
    sequence = parse_sequence(str(explain(fabric, health, 0, 1).facts["sequence"]))
    batch = batch_of(fabric, health)
    for i in range(0, len(batch.src), max(1, len(batch.src) // 300)):
        paths = batch.paths(i)
        expected = by_enumeration(fabric, health, sequence, int(batch.src[i]), int(batch.dst[i]))
        assert list(paths[0].links) in expected if paths else not expected


def test_the_path_around_an_ocs_by_hand() -> None:
    """8x8x8, X:0,0 cuts 3-4 at y = z = 0. From x = 3 to 4: one hop along y or z, X, one back; the channels 2,
    0, 0."""
    fabric = torus(8, 8, 8)
    ids = fabric.node_ids
    (path,) = WildFirstRouting().routes(fabric, ocs_down(fabric, "X:0,0")).path(ids["g3.0.0"], ids["g4.0.0"])
    nodes = [fabric.node_name(int(fabric.link_dst[link])) for link in path.links]
    assert nodes in ([f"g3.{at}", f"g4.{at}", "g4.0.0"] for at in ("1.0", "7.0", "0.1", "0.7"))
    assert path.vc == (2, 0, 0)


@pytest.mark.parametrize("fabric", [torus(4, 4, 4), torus(4, 4, 8), twisted(4, 4, 8), torus(6, 3)])
def test_with_nothing_down_it_is_dimension_order(fabric: Fabric) -> None:
    healthy = HealthSnapshot.healthy(fabric)
    pairs = all_pairs(fabric.n_gpus)
    assert batch_of(fabric, healthy) == DimensionOrder().routes(fabric, healthy).paths(*pairs)


@pytest.mark.parametrize("ocs", ["X:0,0", "X:2,1", "Y:1,2", "Z:3,3"])
@pytest.mark.parametrize("fabric", [torus(4, 4, 4), torus(4, 4, 8), twisted(4, 4, 8)])
def test_every_pair_goes_around_any_ocs(fabric: Fabric, ocs: str) -> None:
    health = ocs_down(fabric, ocs)
    report = check_table(fabric, WildFirstRouting().routes(fabric, health), health)
    assert report.paths == report.pairs == fabric.n_gpus * (fabric.n_gpus - 1)


@pytest.mark.parametrize("ocs", ["X:0,0", "Y:3,1"])
def test_only_broken_pairs_move_and_all_come_back(ocs: str) -> None:
    """X and Y are not last in XYZ, so the order stays: the pairs that move are those that crossed the OCS."""
    fabric = torus(8, 8, 8) if ocs.startswith("X") else torus(4, 4, 4)
    healthy, damaged = HealthSnapshot.healthy(fabric), ocs_down(fabric, ocs)
    router = WildFirstRouting()
    before, after = router.routes(fabric, healthy), router.routes(fabric, damaged)
    batch = before.paths(*all_pairs(fabric.n_gpus))
    crossing = np.zeros(len(batch.src), bool)
    crossing[batch.path_pair[batch.hop_path[damaged.down[batch.links]]]] = True
    assert np.array_equal(~same_paths(batch, all_paths(after)), crossing) and crossing.any()
    assert batch_of(fabric, replace(healthy, version=9, t_s=3.0)) == batch


def test_a_fault_on_the_last_axis_puts_another_one_last() -> None:
    fabric = torus(4, 4, 4)
    assert (explain(fabric, ocs_down(fabric, "Z:0,0"), 0, 1).facts["sequence"]) == "yzXZY"
    assert (explain(fabric, ocs_down(fabric, "Y:0,0"), 0, 1).facts["sequence"]) == "zyXYZ"
    flat = torus(4, 4, 8)
    assert (explain(flat, ocs_down(flat, "X:0,0"), 0, 1).facts["sequence"]) == "yxZXY"
    assert (explain(flat, ocs_down(flat, "Y:0,0"), 0, 1).facts["sequence"]) == "xyZYX"


def test_a_given_sequence_is_kept_and_its_last_axis_cannot_be_gone_around() -> None:
    fabric = torus(4, 4, 4)
    router = WildFirstRouting().configured({"sequence": "xyZYX"})
    for ocs, whole in (("X:0,0", False), ("Y:0,0", True), ("Z:0,0", True)):
        health = ocs_down(fabric, ocs)
        report = check_table(fabric, router.routes(fabric, health), health, allow_unreachable=True)
        assert (len(report.unreachable) == 0) == whole
    with pytest.raises(ExperimentError, match="sequence xyZYX: this torus has 2 axes"):
        router.routes(torus(4, 4), HealthSnapshot.healthy(torus(4, 4)))


def test_a_fault_moved_by_an_even_step_moves_the_table_with_it() -> None:
    """Translation by (0, 2, 2) keeps parities: X:0,0 becomes X:2,2,
    and so do all its paths (datelines stay)."""
    fabric = torus(4, 4, 8)
    places = fabric.gpu_coordinates + np.array([0, 2, 2])
    moved = np.ravel_multi_index(tuple(places.T % np.array([[4], [4], [8]])), (4, 4, 8))
    here = batch_of(fabric, ocs_down(fabric, "X:0,0"))
    there = (
        WildFirstRouting().routes(fabric, ocs_down(fabric, "X:2,2")).paths(moved[here.src], moved[here.dst])
    )
    assert np.array_equal(moved[fabric.link_dst[here.links]], fabric.link_dst[there.links])


@given(damaged_tori())
@settings(max_examples=30)
def test_whatever_is_down_paths_are_live_and_simple(case: tuple[Fabric, HealthSnapshot]) -> None:
    fabric, health = case
    check_table(fabric, WildFirstRouting().routes(fabric, health), health, allow_unreachable=True)


def test_a_ring_has_no_way_around() -> None:
    fabric = torus(5)
    health = with_down(fabric, [0, 1])
    report = check_table(fabric, WildFirstRouting().routes(fabric, health), health, allow_unreachable=True)
    assert [0, 1] in report.unreachable.tolist() and len(report.unreachable) == 6


def explain(fabric: Fabric, health: HealthSnapshot, src: int, dst: int) -> Explanation:
    return WildFirstRouting().explain(fabric, health, src, dst, fabric.node_name)


def test_what_it_refuses() -> None:
    rails = RailOnly().build({"domains": 2, "rails": 2})
    with pytest.raises(
        UnsupportedFabricError, match=r"router wfr does not serve this rail-only: .* lacks wrap"
    ):
        WildFirstRouting().routes(rails, HealthSnapshot.healthy(rails))
    with pytest.raises(HealthError, match="health of 6 links and 3 nodes does not belong to this torus of 8"):
        WildFirstRouting().routes(torus(4), HealthSnapshot.healthy(torus(3)))
    with pytest.raises(RouteError, match="there is no GPU 9"):
        explain(torus(4), HealthSnapshot.healthy(torus(4)), 0, 9)


def test_a_decision_names_the_candidates() -> None:
    fabric = torus(4, 4, 4)
    ids, health = fabric.node_ids, ocs_down(fabric, "X:0,0")
    router = WildFirstRouting().configured({"sequence": "zyXYZ"})
    decision = router.explain(fabric, health, ids["g3.0.0"], ids["g0.0.0"], fabric.node_name)
    assert decision.facts["sequence"] == "zyXYZ" and decision.facts["wild_hops"] in ("y+", "y-", "z+", "z-")
    loads = all_to_all_loads(fabric, router.routes(fabric, health)).load
    assert decision.facts["busiest_link"] == loads.max()
    assert decision.facts["displacement"] == "x +1, y 0, z 0"
    assert decision.facts["blocked"] == ["g3.0.0->g0.0.0"]
    candidates = decision.facts["candidates"]
    assert isinstance(candidates, list) and len(candidates) == 9
    assert candidates[0] == "none: 1 hops, crosses g3.0.0->g0.0.0, which is down"
    assert {"y+: 3 hops, live", "y-: 3 hops, live", "z-: 3 hops, live", "z+ y+: 5 hops, live"} <= set(
        candidates
    )
    assert "of 8 live paths by zyXYZ" in decision.why
    whole = router.explain(fabric, health, ids["g1.1.1"], ids["g2.1.1"], fabric.node_name)
    assert whole.why == "the dimension-order path of zyXYZ lives" and whole.facts["candidates"] == []
    ring = torus(5)
    cut = explain(ring, with_down(ring, [0]), 0, 1)
    assert cut.why == "unreachable: g0->g1 down, and no path by X avoids it"
