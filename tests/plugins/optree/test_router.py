"""Routes of optical all-gathers: the plan's lightpaths, walked link by link,
and what remains around damage."""

from __future__ import annotations

from collections import defaultdict

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError, FabricError, HealthError, UnsupportedFabricError
from railweave.framework.model import Fabric, HealthSnapshot, all_pairs
from railweave.framework.model.addressing import ENTROPY_BASE
from railweave.framework.papers.optical.algorithms import ALGORITHMS, plan_of
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers
from railweave.framework.routing.entropy import entropy_table, path_classes
from railweave.plugins.optree import plugin
from railweave.plugins.optree.router import OpTree
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.ring import Ring
from tests.fakes.fake_switch import FakeFabric, compile_rules
from tests.fakes.sound_tables import check_table


def ring(nodes: int, wavelengths: int = 1, directions: int = 2) -> Fabric:
    return Ring().build({"nodes": nodes, "wavelengths": wavelengths, "directions": directions})


def hurt(fabric: Fabric, down: list[int], version: int = 1) -> HealthSnapshot:
    dead = np.zeros(fabric.n_links, bool)
    dead[down] = True
    healthy = HealthSnapshot.healthy(fabric)
    return HealthSnapshot(
        version, 0.0, np.where(dead, 0.0, 1.0), healthy.element_score, dead, healthy.rail_order
    )


def up(fabric: Fabric, links: tuple[int, ...]) -> set[bool]:
    return {link % 2 == 0 for link in links}


cases = st.tuples(
    st.sampled_from(ALGORITHMS), st.integers(2, 24), st.integers(1, 6), st.integers(0, 4)
).filter(lambda c: c[0] != "neighbor-exchange" or c[1] % 2 == 0)


@settings(max_examples=60)
@given(cases)
def test_each_pair_goes_its_lightpath(case: tuple[str, int, int, int]) -> None:
    """Way round and wavelengths of every pair of the plan; all others the shorter way on wavelength 0."""
    algorithm, nodes, wavelengths, depth = case
    fabric = ring(nodes, wavelengths)
    health = HealthSnapshot.healthy(fabric)
    table = OpTree(algorithm, depth).routes(fabric, health)
    check_table(fabric, table, health)
    plan = plan_of(algorithm, nodes, wavelengths, depth)
    wanted: dict[tuple[int, int], set[tuple[bool, int]]] = defaultdict(set)
    for src, dst, way, wavelength, spread in zip(
        plan.src.tolist(),
        plan.dst.tolist(),
        plan.up.tolist(),
        plan.wavelength.tolist(),
        plan.spread.tolist(),
        strict=True,
    ):
        wanted[src, dst] |= {(way, v) for v in (range(wavelengths) if spread else [wavelength])}
    batch = table.paths(*all_pairs(nodes))
    for i, (src, dst) in enumerate(zip(batch.src.tolist(), batch.dst.tolist(), strict=True)):
        paths = batch.paths(i)
        found = set()
        for path in paths:
            colours = set(fabric.wavelength[list(path.links)].tolist())
            assert len(colours) == 1 and len(up(fabric, path.links)) == 1
            found.add((up(fabric, path.links).pop(), colours.pop()))
        if (src, dst) in wanted:
            assert found == wanted[src, dst]
            assert len(paths) == len(found)
        else:
            assert len(paths[0].links) == min((dst - src) % nodes, (src - dst) % nodes)
            assert {wavelength for _, wavelength in found} == {0}


@settings(max_examples=60)
@given(cases)
def test_no_step_puts_more_on_a_link_than_the_plan_says(case: tuple[str, int, int, int]) -> None:
    """Along the table's own links: one item a step, as many as the step has for neighbor-exchange."""
    algorithm, nodes, wavelengths, depth = case
    fabric = ring(nodes, wavelengths)
    table = OpTree(algorithm, depth).routes(fabric, HealthSnapshot.healthy(fabric))
    plan = plan_of(algorithm, nodes, wavelengths, depth)
    batch = table.paths(plan.src, plan.dst)
    share = batch.weight[batch.hop_path]
    step = plan.step.astype(np.int64)[batch.path_pair][batch.hop_path]
    load = np.bincount(step * fabric.n_links + batch.links, share)
    used = np.flatnonzero(load)
    assert (load[used] <= plan.step_items[used // fabric.n_links] + 1e-9).all()


def test_sixteen_nodes_two_wavelengths_have_one_path_a_pair() -> None:
    """The lab's case: no pair is spread, so a lightpath is a path."""
    fabric = ring(16, 2)
    for algorithm in ALGORITHMS:
        batch = OpTree(algorithm).routes(fabric, HealthSnapshot.healthy(fabric)).paths(*all_pairs(16))
        assert len(batch.weight) == 240


@settings(max_examples=80)
@given(
    st.integers(2, 10), st.integers(1, 3), st.sampled_from(("optree", "one-stage", "wrht", "ring")), st.data()
)
def test_around_damage_a_pair_is_cut_only_if_no_way_is_left(
    nodes: int, wavelengths: int, algorithm: str, data: st.DataObject
) -> None:
    """networkx says which pairs are still joined by going one way round."""
    fabric = ring(nodes, wavelengths)
    down = data.draw(st.lists(st.integers(0, fabric.n_links - 1), max_size=3 * wavelengths, unique=True))
    health = hurt(fabric, down)
    table = OpTree(algorithm).routes(fabric, health)
    report = check_table(fabric, table, health, allow_unreachable=True)
    reachable = set()
    for way in (0, 1):
        graph = nx.DiGraph()
        graph.add_nodes_from(range(nodes))
        alive = [link for link in range(way, fabric.n_links, 2) if link not in down]
        graph.add_edges_from((int(fabric.link_src[k]), int(fabric.link_dst[k])) for k in alive)
        reachable |= {(a, b) for a in range(nodes) for b in nx.descendants(graph, a) if a != b}
    cut = {(a, b) for a, b in report.unreachable.tolist()}
    assert cut == {(a, b) for a in range(nodes) for b in range(nodes) if a != b} - reachable


def test_the_order_of_ways_around_a_dead_link() -> None:
    fabric = ring(8, 2)
    healthy = OpTree("ring").routes(fabric, hurt(fabric, []))
    assert healthy.path(0, 1)[0].links == (0,)
    # the other wavelength, the other way round, a change of wavelength on the way
    assert OpTree("ring").routes(fabric, hurt(fabric, [0])).path(0, 1)[0].links == (16,)
    other_way = OpTree("ring").routes(fabric, hurt(fabric, [0, 16])).path(0, 1)[0].links
    assert len(other_way) == 7 and up(fabric, other_way) == {False}
    down = [0, 18, *range(1, 32, 2)]
    mixed = OpTree("ring").routes(fabric, hurt(fabric, down)).path(0, 2)[0].links
    assert mixed == (16, 2)


def test_pairs_away_from_the_damage_keep_their_paths() -> None:
    fabric = ring(16, 2)
    before = OpTree().routes(fabric, hurt(fabric, [])).paths(*all_pairs(16))
    after = OpTree().routes(fabric, hurt(fabric, [6])).paths(*all_pairs(16))
    for i in range(240):
        if 6 not in before.paths(i)[0].links:
            assert after.paths(i) == before.paths(i)
        else:
            assert 6 not in after.paths(i)[0].links


def test_a_spread_pair_goes_on_over_the_wavelengths_that_live() -> None:
    fabric = ring(10, 4)
    router = OpTree("optree", 2)
    before = router.routes(fabric, hurt(fabric, []))
    src, dst = next((a, b) for a, b in zip(*all_pairs(10), strict=True) if len(before.path(a, b)) == 4)
    first = before.path(src, dst)[0].links[0]
    after = router.routes(fabric, hurt(fabric, [first])).path(src, dst)
    assert [path.weight for path in after] == pytest.approx([1 / 3] * 3)
    assert {path.links for path in after} == {p.links for p in before.path(src, dst) if first not in p.links}


def test_rings_of_one_direction_serve_the_ring_alone() -> None:
    fabric = ring(6, 2, directions=1)
    health = HealthSnapshot.healthy(fabric)
    batch = OpTree("ring").routes(fabric, health).paths(*all_pairs(6))
    assert (batch.links % 2 == 0).all()
    assert np.array_equal(np.diff(batch.hop_start), (batch.dst - batch.src) % 6)
    for algorithm in ALGORITHMS:
        if algorithm != "ring":
            with pytest.raises(UnsupportedFabricError, match="needs a ring of 2 directions"):
                OpTree(algorithm).routes(fabric, health)
    broken = hurt(fabric, [0, 12])
    assert OpTree("ring").routes(fabric, broken).path(0, 1) == ()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("nodes", "wavelengths"), [(16, 2), (10, 3), (2, 2), (6, 4)])
def test_packets_follow_the_table(algorithm: str, nodes: int, wavelengths: int) -> None:
    """Through switches that are only their flow tables, every path of every pair, link by link."""
    fabric = ring(nodes, wavelengths)
    table = OpTree(algorithm).routes(fabric, HealthSnapshot.healthy(fabric))
    switches = FakeFabric(fabric, compile_rules(fabric, table))
    batch = table.paths(*all_pairs(nodes))
    entropies = entropy_table(fabric, 0, batch, path_classes(fabric, batch))
    for i, (src, dst) in enumerate(zip(batch.src.tolist(), batch.dst.tolist(), strict=True)):
        wanted = {path.links for path in batch.paths(i)}
        ports = entropies.udp_src[entropies.start[i] : entropies.start[i + 1]].tolist() or [ENTROPY_BASE]
        trips = [switches.send(src, dst, port) for port in ports]
        assert all(trip.delivered == dst for trip in trips)
        assert {trip.links for trip in trips} == wanted and len(trips) == len(wanted)


def test_equal_questions_equal_answers_in_any_order() -> None:
    fabric = ring(12, 5)
    table = OpTree().routes(fabric, hurt(fabric, [3, 40]))
    src, dst = all_pairs(12)
    whole = table.paths(src, dst)
    assert whole == OpTree().routes(fabric, hurt(fabric, [3, 40])).paths(src, dst)
    turned = table.paths(src[::-1], dst[::-1])
    for i in range(len(src)):
        assert turned.paths(len(src) - 1 - i) == whole.paths(i) == table.path(int(src[i]), int(dst[i]))
    assert len(table.paths(src[:0], dst[:0]).links) == 0
    assert (table.router, table.version, table.n_gpus) == ("optree", 1, 12)


def test_it_is_registered_with_its_options() -> None:
    router = Registers([("optree", plugin)])["router"]["optree"]
    given = resolve("optree", router.parameters, {"algorithm": "one-stage"})
    fabric = ring(6, 2)
    health = HealthSnapshot.healthy(fabric)
    pairs = all_pairs(6)
    assert router.configured(given).routes(fabric, health).paths(*pairs) == OpTree("one-stage").routes(
        fabric, health
    ).paths(*pairs)
    assert router.requires == ("ring", "wavelengths") and router.summary
    with pytest.raises(ExperimentError, match="algorithm: 'tree' is not one of optree"):
        resolve("optree", router.parameters, {"algorithm": "tree"})


def test_what_it_cannot_route_is_refused() -> None:
    rails = RailOnly().build({"domains": 2, "rails": 2})
    with pytest.raises(UnsupportedFabricError, match=r"does not serve this rail-only: .* lacks ring"):
        OpTree().routes(rails, HealthSnapshot.healthy(rails))
    odd = ring(7)
    with pytest.raises(FabricError, match="neighbor-exchange over 7 nodes"):
        OpTree("neighbor-exchange").routes(odd, HealthSnapshot.healthy(odd))
    with pytest.raises(HealthError, match="does not belong"):
        OpTree().routes(odd, HealthSnapshot.healthy(ring(8)))


def test_a_ring_with_a_gap_is_refused() -> None:
    fabric = ring(4, 2)
    keep = np.arange(fabric.n_links) < 14
    arrays = (
        "link_src",
        "link_dst",
        "link_kind",
        "capacity_bps",
        "latency_s",
        "link_element",
        "wavelength",
        "ocs",
    )
    broken = Fabric(
        fabric.kind, fabric.groups, fabric.kinds, *(getattr(fabric, name)[keep] for name in arrays)
    )
    with pytest.raises(FabricError, match="one cable from every"):
        OpTree().routes(broken, HealthSnapshot.healthy(broken))
