"""Routes of the pairs in use: the same in blocks, for some pairs and for all; and their rules."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import NoPathError, RouteError
from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import publish
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, RouteTable, all_pairs
from railweave.framework.routing.batches import answer, same_paths, table_from_batch, take
from railweave.framework.routing.damping import mean_hops
from railweave.framework.routing.reroute import RoutesInUse
from railweave.framework.routing.route_control import RouteControl
from railweave.plugins.dor.router import DimensionOrder
from railweave.plugins.ecmp.router import Ecmp
from railweave.plugins.hscore.router import HScore
from railweave.plugins.optree.router import OpTree
from railweave.plugins.shortest.router import Shortest
from railweave.plugins.spray.router import Spray
from railweave.plugins.wfr.router import WildFirstRouting
from tests.fakes.fake_switch import FakeFabric
from tests.fakes.small_fabrics import link_between, rail_only, ring, torus, unequal

OPTIONS = HealthOptions()
ROUTED: dict[str, tuple[Callable[[], Fabric], Router]] = {
    "hscore": (lambda: rail_only(3, 4), HScore()),
    "spray": (lambda: rail_only(3, 4), Spray()),
    "hscore, unequal domains": (lambda: unequal(4, 2, 3), HScore()),
    "spray, unequal domains": (lambda: unequal(4, 2, 3), Spray()),
    "shortest": (lambda: unequal(3, 1, 2), Shortest()),
    "ecmp": (lambda: rail_only(3, 4), Ecmp()),
    "dor": (lambda: torus(3, 4), DimensionOrder()),
    "wfr": (lambda: torus(3, 4), WildFirstRouting()),
    "optree": (lambda: ring(6, 2), OpTree()),
}


def published(fabric: Fabric, rng: random.Random, *, down: float = 0.05) -> list[HealthSnapshot]:
    """Snapshots one after the other, of random scores and, now and then, a link that is down."""
    news = [HealthSnapshot.healthy(fabric, margin=OPTIONS.margin)]
    for i in range(4):
        raw = np.array([rng.choice([1.0, 1.0, 0.3]) for _ in range(fabric.n_links)])
        up = np.array([rng.random() >= down for _ in range(fabric.n_links)])
        snapshot = publish(fabric, news[-1], raw, up, t_s=float(i), options=OPTIONS)
        news += [snapshot] if snapshot is not None else []
    return news[1:]


@settings(max_examples=15)
@given(st.sampled_from(sorted(ROUTED)), st.integers(0, 2**32), st.integers(1, 50))
def test_blocks_of_pairs_give_what_all_pairs_at_once_give(name: str, seed: int, block: int) -> None:
    make, router = ROUTED[name]
    fabric = make()
    whole = RoutesInUse(fabric, router, OPTIONS, name)
    parts = RoutesInUse(fabric, router, OPTIONS, name, block=block)
    for i, health in enumerate(published(fabric, random.Random(seed))):
        assert parts.paths == whole.paths
        a, b = (routes.react(health, 1.5 * i) for routes in (whole, parts))
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            assert (a.version, a.why) == (b.version, b.why) and np.array_equal(a.moved, b.moved)
            assert a.paths == b.paths


@settings(max_examples=40)
@given(st.sampled_from(sorted(ROUTED)), st.integers(0, 2**32), st.data())
def test_pairs_in_use_are_routed_as_among_all(name: str, seed: int, data: st.DataObject) -> None:
    """Whatever the other pairs do: the same paths at the same times as when all pairs are routed."""
    make, router = ROUTED[name]
    fabric = make()
    src, dst = all_pairs(fabric.n_gpus)
    rows = np.array(data.draw(st.lists(st.integers(0, len(src) - 1), unique=True, min_size=1)))
    whole = RoutesInUse(fabric, router, OPTIONS, name)
    some = RoutesInUse(fabric, router, OPTIONS, name, (src[rows], dst[rows]))
    for i, health in enumerate(published(fabric, random.Random(seed))):
        before = whole.paths
        whole.react(health, 3.0 * i)
        change = some.react(health, 3.0 * i)
        assert same_paths(some.paths, take(whole.paths, rows)).all()
        moved = ~same_paths(take(before, rows), take(whole.paths, rows))
        assert np.array_equal(change.moved if change else np.zeros(len(rows), bool), moved)


@settings(max_examples=15)
@given(st.sampled_from(["hscore", "spray", "shortest", "wfr"]), st.integers(0, 2**32))
def test_rules_for_the_pairs_in_use_carry_their_packets(name: str, seed: int) -> None:
    make, router = ROUTED[name]
    fabric, rng = make(), random.Random(seed)
    src, dst = all_pairs(fabric.n_gpus)
    rows = np.sort(rng.sample(range(len(src)), 9))
    control = RouteControl(fabric, router, OPTIONS, name, (src[rows], dst[rows]))
    fake = FakeFabric(fabric, control.rules)
    for i, health in enumerate(published(fabric, rng)):
        reroute = control.react(health, 3.0 * i)
        if reroute is not None:
            fake.add(reroute.update.install)
            fake.add(reroute.update.switch_over)
            fake.remove(reroute.update.remove)
        assert fake.contents() == set(control.rules)
        for a, b in zip(src[rows].tolist(), dst[rows].tolist(), strict=True):
            paths = control.table.path(a, b)
            trip = fake.send(a, b)
            assert trip.links == (paths[0].links if len(paths) == 1 else trip.links)
            assert trip.delivered == (b if paths else None)
        assert len(control.unreachable()) == sum(
            not control.table.path(int(a), int(b)) for a, b in zip(src[rows], dst[rows], strict=True)
        )


def test_pairs_that_are_not_in_use_have_no_route() -> None:
    control = RouteControl(rail_only(2, 2), HScore(), OPTIONS, "hscore", (np.array([0]), np.array([3])))
    assert control.table.path(0, 3)
    with pytest.raises(RouteError, match="does not hold the pair 0 -> 1"):
        control.table.path(0, 1)


def test_a_degraded_rail_is_left_once_and_the_scores_are_named() -> None:
    fabric = rail_only(2, 2)
    routes = RoutesInUse(fabric, HScore(), OPTIONS, "hscore")
    healthy = HealthSnapshot.healthy(fabric, margin=1.25)
    raw = np.ones(fabric.n_links)
    raw[fabric.element_links(fabric.node_ids["rail1"])] = 0.2
    news = publish(fabric, healthy, raw, np.ones(fabric.n_links, bool), t_s=1.0, options=OPTIONS)
    assert news is not None
    change = routes.react(news, 1.0)
    assert change is not None and change.why == "rail:1 1.00 -> 0.20" and change.version == 1
    assert change.moved.sum() == 4  # 1 -> 3 and 3 -> 1 detour; 0 -> 3 and 2 -> 1 go by rd
    assert routes.react(news, 1.1) is None and routes.react(replace(news, version=9), 9.0) is None


def test_the_reason_spans_all_scores_since_routes_last_changed() -> None:
    """As the live view shows them: 1.00 -> 0.20, although 0.95 was published, and asked about, in between."""
    fabric = rail_only(2, 2)
    routes = RoutesInUse(fabric, HScore(), OPTIONS, "hscore")
    health, changes = HealthSnapshot.healthy(fabric, margin=1.25), []
    for t_s, score in ((1.0, 0.95), (9.0, 0.2)):
        raw = np.ones(fabric.n_links)
        raw[fabric.element_links(fabric.node_ids["rail1"])] = score
        news = publish(fabric, health, raw, np.ones(fabric.n_links, bool), t_s=t_s, options=OPTIONS)
        assert news is not None
        health = news
        changes.append(routes.react(health, t_s))
    assert changes[0] is None
    assert changes[1] is not None and changes[1].why == "rail:1 1.00 -> 0.20"


def rails_in_turn(*scores: tuple[float, int, float]) -> tuple[RoutesInUse, HealthSnapshot, list[int]]:
    """Routes of 2 x 4, of which pairs rest for 2 s, after rails had these scores, each at a time; how many
    pairs moved then."""
    fabric = rail_only(2, 4)
    routes = RoutesInUse(fabric, HScore(), replace(OPTIONS, dwell_s=2.0), "hscore")
    health, raw, moves = HealthSnapshot.healthy(fabric, margin=1.25), np.ones(fabric.n_links), []
    for t_s, rail, score in scores:
        raw[fabric.element_links(fabric.node_ids[f"rail{rail}"])] = score
        news = publish(fabric, health, raw, np.ones(fabric.n_links, bool), t_s=t_s, options=OPTIONS)
        assert news is not None
        health = news
        change = routes.react(health, t_s)
        moves.append(int(change.moved.sum()) if change is not None else 0)
    return routes, health, moves


def test_pairs_that_only_the_dwell_time_holds_back_are_tried_again_once_it_is_over() -> None:
    """Rail 1 recovers a second after pairs have left it: 2 s after that those return that had left it for
    more links, although no score has moved since."""
    routes, health, moves = rails_in_turn((1.0, 1, 0.2), (2.0, 1, 1.0))
    assert moves[0] > 0 and moves[1] == 0 and routes.react(health, 2.9) is None
    change = routes.react(health, 3.1)
    assert change is not None and change.moved.sum() == 2
    assert routes.react(health, 9.0) is None


@pytest.mark.parametrize(("score", "at_once"), [(0.2, True), (0.85, False)])
def test_pairs_do_not_rest_on_a_rail_that_proves_worse_than_they_knew(score: float, at_once: bool) -> None:
    """Rail 0 degrades a second after pairs have left rail 1 for it. They leave it at once, if it is worse by
    the margin: the two of each domain, and pairs that used it all the time."""
    routes, health, moves = rails_in_turn((1.0, 1, 0.2), (2.0, 0, score))
    assert moves[0] > 0 and (moves[1] > 0) == at_once
    on_rail = np.isin(routes.paths.links, routes.fabric.element_links(routes.fabric.node_ids["rail0"]))
    assert on_rail.any() != at_once
    assert routes.react(health, 9.0) is None


def test_pairs_return_to_a_cable_that_flaps_as_often_as_it_is_up() -> None:
    """A GPU's rail cable, down and up every half second: its pairs leave it and return at once each time,
    though the dwell time is 2 s."""
    fabric = rail_only(2, 4)
    routes = RoutesInUse(fabric, HScore(), replace(OPTIONS, dwell_s=2.0), "hscore")
    shortest, raw = mean_hops(routes.paths), np.ones(fabric.n_links)
    health = HealthSnapshot.healthy(fabric, margin=1.25)
    gpu, rail = 1, fabric.node_ids["rail1"]
    cable = [link_between(fabric, gpu, rail), link_between(fabric, rail, gpu)]
    up = np.ones(fabric.n_links, bool)
    for step in range(8):
        up[cable] = step % 2 == 1
        news = publish(fabric, health, raw, up, t_s=step / 2, options=OPTIONS)
        assert news is not None
        health = news
        assert routes.react(health, step / 2) is not None
        assert np.array_equal(mean_hops(routes.paths), shortest) == (step % 2 == 1)


def test_other_weights_of_the_same_paths_are_a_change_without_rules() -> None:
    fabric = rail_only(2, 4)
    healthy = HealthSnapshot.healthy(fabric, margin=OPTIONS.margin)
    raw = np.ones(fabric.n_links)
    raw[fabric.element_links(fabric.node_ids["rail1"])] = 0.2
    slow = publish(fabric, healthy, raw, np.ones(fabric.n_links, bool), t_s=1.0, options=OPTIONS)
    assert slow is not None

    class Weighing(Spray):
        """Sprayed as around a slow rail, always; once one is, half of each pair on its first path."""

        def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
            batch = answer(super().routes(fabric, slow), *all_pairs(fabric.n_gpus))
            count, weight = np.diff(batch.pair_start)[batch.path_pair], batch.weight
            if health is not healthy and (health.link_score < 1).any():
                weight = np.where(count > 1, 0.5 / np.maximum(count - 1, 1), 1.0)
                weight[batch.pair_start[:-1]] = np.where(np.diff(batch.pair_start) > 1, 0.5, 1.0)
            return table_from_batch("weighing", 1, fabric.n_gpus, replace(batch, weight=weight))

    control = RouteControl(fabric, Weighing(), OPTIONS, "weighing")
    count, rules = np.diff(control.installed.batch.pair_start), control.rules
    reroute = control.react(slow, 1.0)
    assert reroute is not None and reroute.pairs_changed == (count > 2).sum() > 0
    assert not (reroute.update.install or reroute.update.switch_over or reroute.update.remove)
    assert control.rules == rules
    assert control.react(slow, 1.1) is None and control.react(replace(slow, version=9), 9.0) is None
    # Of k paths, the first has as much as the others together: 1/2 and 1/(2 (k - 1)) each.
    entropies, pair = reroute.entropies, int(np.argmax(count))
    mine = slice(entropies.start[pair], entropies.start[pair + 1])
    others = int(count[pair]) - 1
    assert entropies.weight[mine].tolist() == pytest.approx([0.5, *[0.5 / others] * others])
    assert len({*entropies.udp_src[mine].tolist()}) == others + 1


def test_a_pair_without_a_first_path_is_named() -> None:
    class Gap(Shortest):
        def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
            down = health.down.copy()
            down[[link_between(fabric, 0, 4), link_between(fabric, 0, 6)]] = True
            return super().routes(fabric, replace(health, down=down))

    with pytest.raises(
        NoPathError, match=r"gives no path for g0\.0 -> g0\.1, g0\.0 -> g1\.0, g0\.0 -> g1\.1\."
    ):
        RoutesInUse(rail_only(2, 2), Gap(), OPTIONS, "gap")


def test_a_change_that_no_score_caused_says_why() -> None:
    """A router that is not damped waits for no dwell time."""
    fabric = ROUTED["hscore"][0]()
    healthy = HealthSnapshot.healthy(fabric)
    damped, free = (RoutesInUse(fabric, ROUTED[name][1], OPTIONS, name) for name in ("hscore", "shortest"))
    both = ((0.5, healthy), (0.5, healthy))
    assert damped._why_now(()) == "earlier scores, after the dwell time"
    assert free._why_now(()) == "the router's answer, with the scores as before"
    assert free._why_now(both) == "links that come and go, with the scores as before"
    free._weighed_up = True
    free.carry(None)
    assert free._why_now(()) == "other traffic, with the scores as before"
