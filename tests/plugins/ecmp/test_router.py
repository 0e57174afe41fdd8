"""Equal-cost multi-path: paths among networkx's shortest,
spread and collisions by the binomial distribution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import HealthError, RouteError
from railweave.framework.hookspecs import Explanation
from railweave.framework.model import Fabric, FabricBuilder, HealthSnapshot, NodeGroup, PathBatch, all_pairs
from railweave.framework.parameters import resolve
from railweave.framework.routing import equal_cost
from railweave.framework.routing.loads import all_to_all_loads
from railweave.plugins.ecmp.router import Ecmp
from railweave.topologies.rail_optimised import RailOptimised
from railweave.topologies.ring import Ring
from tests.fakes.tori import torus, with_down

Build = Callable[[int, int], Fabric]
Make = Callable[..., HealthSnapshot]


def rail_optimised(domains: int, rails: int, spines: int) -> Fabric:
    return RailOptimised().build({"domains": domains, "rails": rails, "spines": spines})


def batch_of(fabric: Fabric, health: HealthSnapshot | None = None, **options: object) -> PathBatch:
    router = Ecmp().configured(resolve("ecmp", Ecmp.parameters, options))
    table = router.routes(fabric, health or HealthSnapshot.healthy(fabric))
    return table.paths(*all_pairs(fabric.n_gpus))


def shortest(fabric: Fabric, health: HealthSnapshot, src: int, dst: int) -> set[tuple[int, ...]]:
    """The nodes of every path of least cost by networkx: GPUs passed through, then hops."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(fabric.n_nodes))
    for link in np.flatnonzero(~health.down):
        a = int(fabric.link_src[link])
        dear = 1000 if a < fabric.n_gpus and len(fabric.groups) > 1 else 0
        graph.add_edge(a, int(fabric.link_dst[link]), cost=1 + dear)
    if not nx.has_path(graph, src, dst):
        return set()
    return {tuple(p) for p in nx.all_shortest_paths(graph, src, dst, "cost")}


@st.composite
def random_fabrics(draw: st.DrawFn) -> tuple[Fabric, HealthSnapshot]:
    gpus, switches = draw(st.integers(2, 6)), draw(st.integers(0, 4))
    ends = st.tuples(st.integers(0, gpus + switches - 1), st.integers(0, gpus + switches - 1))
    cables = draw(st.lists(ends.filter(lambda ab: ab[0] != ab[1]), min_size=1, max_size=25))
    groups = [NodeGroup("gpu", 0, (gpus,), "g")]
    if switches:
        groups.append(NodeGroup("switch", gpus, (switches,), "s"))
    builder = FabricBuilder("random", groups, {})
    builder.cables([a for a, _ in cables], [b for _, b in cables], "any", 1e9)
    fabric = builder.build()
    return fabric, with_down(fabric, draw(st.lists(st.integers(0, fabric.n_links - 1), max_size=8)))


@given(random_fabrics(), st.integers(0, 5))
@settings(max_examples=60)
def test_every_path_is_one_of_least_cost(case: tuple[Fabric, HealthSnapshot], seed: int) -> None:
    fabric, health = case
    batch = batch_of(fabric, health, seed=seed)
    for i in range(len(batch.src)):
        src, dst = int(batch.src[i]), int(batch.dst[i])
        expected = shortest(fabric, health, src, dst)
        paths = batch.paths(i)
        assert len(paths) == min(1, len(expected))
        for path in paths:
            assert not health.down[list(path.links)].any()
            assert (src, *(int(fabric.link_dst[link]) for link in path.links)) in expected


def test_blocks_of_destinations_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = torus(4, 3, 2)
    at_once = batch_of(fabric)
    monkeypatch.setattr(equal_cost, "CELLS", 3 * fabric.n_links)
    assert batch_of(fabric) == at_once


def test_across_rails_it_chooses_a_spine_and_no_gpu_forwards() -> None:
    fabric = rail_optimised(4, 4, 3)
    batch = batch_of(fabric)
    for i in range(len(batch.src)):
        (d1, g1), (d2, g2) = (fabric.coordinates(int(v[i])) for v in (batch.src, batch.dst))
        kinds = [fabric.node_kind(int(fabric.link_dst[link])) for link in batch.paths(i)[0].links]
        if d1 == d2:
            assert kinds == ["domain", "gpu"]
        elif g1 == g2:
            assert kinds == ["rail", "gpu"]
        else:
            assert kinds == ["rail", "spine", "rail", "gpu"]


def test_spines_are_shared_as_a_fair_hash_would_and_flows_collide() -> None:
    """64 GPUs, 4 spines: 64 x 7 x 7 = 3136 flows cross rails, each by two of 64 trunk directions, so 98 a
    direction.

    Each spine gets a quarter within 5 sigma of the binomial; of 64 counts of mean 98 (sigma 10) some lie well
    apart.
    """
    fabric = rail_optimised(8, 8, 4)
    batch = batch_of(fabric)
    spine = fabric.link_dst[batch.links] - fabric.node_ids["s0"]
    count = np.bincount(spine[spine >= 0], minlength=4)
    flows = 64 * 7 * 7
    assert count.sum() == flows
    assert np.abs(count - flows / 4).max() < 5 * np.sqrt(flows * 3 / 16)
    table = Ecmp().routes(fabric, HealthSnapshot.healthy(fabric))
    trunks = all_to_all_loads(fabric, table).load[fabric.link_kind == fabric.kinds.index("s")]
    assert trunks.mean() == 98
    assert trunks.min() < 98 - 10 and 98 + 10 < trunks.max() < 98 + 50


def test_the_seed_moves_flows_and_equal_seeds_do_not() -> None:
    fabric = rail_optimised(4, 4, 4)
    assert batch_of(fabric, seed=7) == batch_of(fabric, seed=7)
    assert batch_of(fabric, seed=7) != batch_of(fabric, seed=8)


def test_without_a_salt_choices_repeat_hop_by_hop() -> None:
    """A chain of 2-way choices: a -> {b, c} by two cables each. Unsalted, all hops pick the same number."""
    builder = FabricBuilder("chain", [NodeGroup("gpu", 0, (2,), "g"), NodeGroup("switch", 2, (3,), "s")], {})
    nodes = [0, 2, 3, 4, 1]
    for a, b in pairwise(nodes):
        builder.cables([a, a], [b, b], "any", 1e9)
    fabric = builder.build()

    def picks(salted: bool) -> set[tuple[int, ...]]:
        found = set()
        for seed in range(40):
            router = Ecmp(seed, salted)
            (path,) = router.routes(fabric, HealthSnapshot.healthy(fabric)).path(0, 1)
            found.add(tuple(link // 2 % 2 for link in path.links))
        return found

    assert picks(salted=False) == {(0, 0, 0, 0), (1, 1, 1, 1)}
    assert len(picks(salted=True)) > 8


def test_rail_only_has_rd_and_dr(rail_only: Build) -> None:
    """Both pass one GPU and four links; nothing else is as short."""
    fabric = rail_only(4, 4)
    kinds = Counter()
    batch = batch_of(fabric)
    for i in range(len(batch.src)):
        (d1, g1), (d2, g2) = (fabric.coordinates(int(v[i])) for v in (batch.src, batch.dst))
        if d1 != d2 and g1 != g2:
            kinds["".join(fabric.kinds[fabric.link_kind[x]] for x in batch.paths(i)[0].links)] += 1
    assert set(kinds) == {"rrdd", "ddrr"} and min(kinds.values()) > 40


def test_it_goes_around_a_dead_spine_and_says_when_nothing_is_left() -> None:
    fabric = rail_optimised(2, 2, 2)
    ids = fabric.node_ids
    dead = np.flatnonzero((fabric.link_src == ids["s0"]) | (fabric.link_dst == ids["s0"]))
    batch = batch_of(fabric, with_down(fabric, dead.tolist()))
    assert not (fabric.link_dst[batch.links] == ids["s0"]).any()
    assert (np.diff(batch.pair_start) == 1).all()
    lonely = np.flatnonzero(fabric.link_src == ids["g0.0"])
    batch = batch_of(fabric, with_down(fabric, lonely.tolist()))
    assert np.diff(batch.pair_start)[batch.src == 0].tolist() == [0, 0, 0]


def test_one_way_rings_are_gone_round_one_way_and_wavelengths_shared() -> None:
    fabric = Ring().build({"nodes": 6, "directions": 1, "wavelengths": 2})
    batch = batch_of(fabric)
    assert np.diff(batch.hop_start).tolist() == ((batch.dst - batch.src) % 6).tolist()
    assert set(fabric.wavelength[batch.links].tolist()) == {0, 1}
    assert (batch.links % 2 == 0).all()


def test_a_decision_names_what_each_switch_could_pick() -> None:
    fabric = rail_optimised(2, 2, 3)
    ids = fabric.node_ids
    healthy = HealthSnapshot.healthy(fabric)

    def explain(router: Ecmp, health: HealthSnapshot, src: int, dst: int) -> Explanation:
        return router.explain(fabric, health, src, dst, fabric.node_name)

    spread = explain(Ecmp(5), healthy, ids["g0.0"], ids["g1.1"])
    taken = fabric.link_name(Ecmp(5).routes(fabric, healthy).path(ids["g0.0"], ids["g1.1"])[0].links[1])
    assert spread.facts["choices"] == [f"r0: {taken}, of r0->s0, r0->s1, r0->s2"]
    assert taken.startswith("r0->s")
    assert spread.why == "hash of the flow at every switch with a choice (seed 5, salted by switch)"
    assert explain(Ecmp(), healthy, 0, 1).why == "the only path of least cost"
    assert explain(Ecmp(), healthy, 1, 1).why == "same GPU"
    down = with_down(fabric, range(fabric.n_links))
    assert explain(Ecmp(), down, 0, 1).why.startswith("unreachable")
    with pytest.raises(RouteError, match="there is no GPU 4"):
        explain(Ecmp(), healthy, 0, 4)


def test_health_of_another_fabric_is_refused(rail_only: Build) -> None:
    with pytest.raises(
        HealthError, match="health of 8 links and 5 nodes does not belong to this rail-only of 16"
    ):
        Ecmp().routes(rail_only(2, 2), HealthSnapshot.healthy(rail_only(2, 1)))
