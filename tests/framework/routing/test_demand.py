"""Routes are left only if the demand then ends sooner: judged by loads counted link by link."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import aggregate
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch
from railweave.framework.model.arrays import Float
from railweave.framework.routing.demand import PairDemand
from railweave.framework.routing.reroute import RoutesInUse
from railweave.plugins.hscore.router import HScore
from railweave.plugins.spray.router import Spray
from railweave.traffic.collectives.hierarchical import HierarchicalAllReduce
from tests.fakes.small_fabrics import rail_only

OPTIONS = HealthOptions(dwell_s=0.0)
ROUTERS: dict[str, Router] = {"hscore": HScore(), "spray": Spray()}


def needed_s(fabric: Fabric, paths: PathBatch, demand: PairDemand, score: Float) -> float:
    """The largest load / (capacity x score) of every phase, added up; one path after the other."""
    position = {(int(s), int(d)): i for i, (s, d) in enumerate(zip(paths.src, paths.dst, strict=True))}
    total = 0.0
    for amounts in demand.amount:
        load = [0.0] * fabric.n_links
        for src, dst, amount in zip(demand.src, demand.dst, amounts, strict=True):
            first, last = paths.pair_start[position[int(src), int(dst)] :][:2]
            for path in range(first, last):
                for link in paths.links[paths.hop_start[path] : paths.hop_start[path + 1]]:
                    load[link] += amount * paths.weight[path]
        total += max(8 * x / (c * s) for x, c, s in zip(load, fabric.capacity_bps, score, strict=True))
    return total


def health_of(fabric: Fabric, rail_scores: dict[int, float], version: int = 1) -> HealthSnapshot:
    """All links of these rails at their scores, in both directions."""
    healthy = HealthSnapshot.healthy(fabric, version=version, margin=OPTIONS.margin)
    score, rails = healthy.link_score.copy(), fabric.group("rail")
    assert rails is not None
    for rail, value in rail_scores.items():
        score[fabric.link_element == rails.first + rail] = value
    elements = aggregate(fabric, score, "mean")
    order = np.argsort(elements[rails.first : rails.first + rails.size], kind="stable")
    return replace(healthy, link_score=score, element_score=elements, rail_order=order)


def hierarchical(fabric: Fabric) -> PairDemand:
    schedule = HierarchicalAllReduce().schedule(fabric, range(fabric.n_gpus), 1 << 16, "float32", "sum")
    return PairDemand.of(schedule)


@pytest.mark.parametrize("score, moves", [(0.8, False), (0.6, False), (0.5, False), (0.2, True)])
def test_one_rail_does_not_carry_the_traffic_of_two_unless_that_pays(score: float, moves: bool) -> None:
    """hscore moves a whole rail onto one other. 4 x 4, one rail at `score`: rail steps then take 2 times the
    healthy time, staying 1 / score. By scores alone the move at 0.6 costs 16 % of an iteration."""
    fabric = rail_only(4, 4)
    demand, health = hierarchical(fabric), health_of(fabric, {1: score})
    routes = RoutesInUse(fabric, ROUTERS["hscore"], OPTIONS, "hscore", demand=demand)
    before = routes.paths
    change = routes.react(health, 1.0)
    with_demand = np.isin(before.src * 16 + before.dst, demand.src * 16 + demand.dst)
    assert bool(change is not None and change.moved[with_demand].any()) == moves
    alone = RoutesInUse(fabric, ROUTERS["hscore"], OPTIONS, "hscore")
    alone.react(health, 1.0)
    stayed, moved = (needed_s(fabric, p, demand, health.link_score) for p in (before, alone.paths))
    assert needed_s(fabric, routes.paths, demand, health.link_score) == pytest.approx(min(stayed, moved))
    if score == 0.6:
        assert moved / stayed == pytest.approx(1.16, abs=0.005)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(ROUTERS)),
    st.lists(
        st.dictionaries(st.integers(0, 3), st.sampled_from([0.2, 0.4, 0.5, 0.6, 0.8]), max_size=3), max_size=4
    ),
    st.integers(0, 2**32),
    st.integers(1, 60),
)
def test_a_change_never_makes_the_demand_slower(
    name: str, course: list[dict[int, float]], seed: int, block: int
) -> None:
    """Whatever scores follow each other, whatever the pairs send; and in blocks as in one."""
    fabric, rng = rail_only(3, 4), np.random.default_rng(seed)
    pairs = rng.permutation(12 * 12)[:20]
    src, dst = np.divmod(np.sort(pairs[pairs % 13 != 0]), 12)  # not to oneself
    demand = PairDemand(src, dst, rng.uniform(0, 1e6, (2, len(src))) * (rng.random((2, len(src))) < 0.7))
    routes = RoutesInUse(fabric, ROUTERS[name], OPTIONS, name, demand=demand)
    parts = RoutesInUse(fabric, ROUTERS[name], OPTIONS, name, demand=demand, block=block)
    for step, scores in enumerate([*course, {}]):
        health, before = health_of(fabric, scores, step + 1), routes.paths
        change, same = routes.react(health, float(step)), parts.react(health, float(step))
        assert (change is None) == (same is None)
        now, was = (needed_s(fabric, p, demand, health.link_score) for p in (routes.paths, before))
        assert now <= was * (1 + 1e-9)
        assert needed_s(fabric, parts.paths, demand, health.link_score) == pytest.approx(now)


def test_what_the_demand_refused_is_asked_again_for_another_demand() -> None:
    """A hierarchical all-reduce stays on a rail at 0.5; pairs of which nothing is known leave it."""
    fabric = rail_only(4, 4)
    demand = hierarchical(fabric)
    routes = RoutesInUse(fabric, HScore(), OPTIONS, "hscore", (demand.src, demand.dst), demand)
    health = health_of(fabric, {1: 0.5})
    assert routes.react(health, 1.0) is None
    routes.carry(demand)
    assert routes.react(health, 2.0) is None
    routes.carry(None)
    change = routes.react(health, 3.0)
    assert change is not None and change.moved.any()
    routes.carry(None)
    assert routes.react(health, 4.0) is None


def test_routes_return_once_the_rail_has_recovered() -> None:
    fabric = rail_only(4, 4)
    demand = hierarchical(fabric)
    for name, router in ROUTERS.items():
        routes = RoutesInUse(fabric, router, OPTIONS, name, demand=demand)
        healthy = routes.paths
        assert routes.react(health_of(fabric, {1: 0.2}, 1), 1.0) is not None
        routes.react(health_of(fabric, {}, 2), 5.0)
        score = np.ones(fabric.n_links)
        assert needed_s(fabric, routes.paths, demand, score) == pytest.approx(
            needed_s(fabric, healthy, demand, score)
        )


def test_the_demand_of_a_schedule() -> None:
    """Bytes of every pair and phase, from the schedule's transfers one by one."""
    fabric = rail_only(2, 4)
    schedule = HierarchicalAllReduce().schedule(fabric, range(8), 1 << 12, "float32", "sum")
    demand, schedule = PairDemand.of(schedule), schedule.expand()
    sums = np.zeros((len(set(schedule.phase.tolist())), 8, 8))
    for i in range(schedule.n_transfers):
        transfer = schedule.transfer(i)
        sums[schedule.phase[i], transfer.src, transfer.dst] += transfer.size
    assert (demand.amount == sums[:, demand.src, demand.dst]).all() and demand.amount.sum() == sums.sum()
