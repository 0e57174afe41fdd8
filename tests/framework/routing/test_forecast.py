"""Routes are left only if the demand then ends sooner: judged by an independent simulation, and by loads."""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import railweave as rw
from railweave.framework.health.loss import speed_at_loss
from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import aggregate
from railweave.framework.hookspecs import Router
from railweave.framework.model import (
    Demand,
    Fabric,
    HealthSnapshot,
    PacketFormat,
    PathBatch,
    RouteTable,
    Schedule,
)
from railweave.framework.model.arrays import Float
from railweave.framework.model.senders import Senders
from railweave.framework.routing import forecast as forecasts
from railweave.framework.routing.batches import all_paths, take
from railweave.framework.routing.demand import JobDemand
from railweave.framework.routing.dependencies import channel_cycle
from railweave.framework.routing.equal_cost import ShortestPaths
from railweave.framework.routing.forecast import Forecast, gain
from railweave.framework.routing.reroute import RoutesInUse
from railweave.framework.solver.chains import bound_seconds
from railweave.framework.solver.prediction import iteration_seconds
from railweave.framework.solver.quotient import NetworkState
from railweave.plugins.ecmp.router import Ecmp
from railweave.plugins.hscore.router import HScore
from railweave.plugins.shortest.router import Shortest
from railweave.plugins.spray.router import Spray
from railweave.plugins.wfr.router import WildFirstRouting
from railweave.traffic.collectives.entries import Entries
from railweave.traffic.collectives.hierarchical import HierarchicalAllReduce
from railweave.traffic.rocev2.stated import senders
from railweave.traffic.rocev2.tuning import Tuning
from tests.fakes.small_fabrics import link_between, rail_only, torus

OPTIONS = HealthOptions(dwell_s=0.0)
PACKET = PacketFormat()
ROUTERS: dict[str, Router] = {"hscore": HScore(), "spray": Spray()}


def seconds(fabric: Fabric, paths: PathBatch, demand: JobDemand, health: HealthSnapshot) -> float:
    return float(Forecast(fabric, demand, [paths]).seconds([paths], [(1.0, health)])[0])


def health_of(fabric: Fabric, rail_scores: dict[int, float], version: int = 1) -> HealthSnapshot:
    """All links of these rails at their scores, in both directions."""
    healthy = HealthSnapshot.healthy(fabric, version=version, margin=OPTIONS.margin)
    score, rails = healthy.link_score.copy(), fabric.group("rail")
    assert rails is not None
    for rail, value in rail_scores.items():
        score[fabric.link_element == rails.first + rail] = value
    return with_links(fabric, healthy, score)


def with_links(fabric: Fabric, health: HealthSnapshot, score: Float) -> HealthSnapshot:
    elements, rails = aggregate(fabric, score, "mean"), fabric.group("rail")
    order = np.empty(0, np.int64)
    if rails is not None:
        order = np.argsort(elements[rails.first : rails.first + rails.size], kind="stable")
    return replace(health, link_score=score, element_score=elements, rail_order=order, down=score == 0)


def slow_link(fabric: Fabric, a: str, b: str, score: float) -> HealthSnapshot:
    """One direction of a cable at this score; 0: down."""
    healthy = HealthSnapshot.healthy(fabric, version=1, margin=OPTIONS.margin)
    links = healthy.link_score.copy()
    links[link_between(fabric, fabric.node_ids[a], fabric.node_ids[b])] = score
    return with_links(fabric, healthy, links)


def all_reduce(fabric: Fabric, size: int = 1 << 16) -> Schedule:
    return HierarchicalAllReduce().schedule(fabric, range(fabric.n_gpus), size, "float32", "sum")


def hierarchical(fabric: Fabric) -> JobDemand:
    return JobDemand([all_reduce(fabric)], PACKET)


def one_message(fabric: Fabric, src: int, dst: int, size: int) -> Schedule:
    return messages(fabric, [(src, dst)], size)


def messages(fabric: Fabric, pairs: list[tuple[int, int]], size: int) -> Schedule:
    """Sent at once."""
    entries = Entries(fabric.n_gpus, 4)
    entries.phase("send")
    for src, dst in pairs:
        entries.add(src, dst, length=size // 4)
    return entries.build("send", size // 4, "int32", "sum")


def ring_steps(fabric: Fabric, size: int = 1 << 16) -> Schedule:
    """Every GPU sends to the next by id, twice, the second time once it has received."""
    n = fabric.n_gpus
    src = np.tile(np.arange(n), 2)
    zeros = np.zeros(2 * n, np.int64)
    start = np.concatenate((np.zeros(n, np.int64), np.arange(n + 1)))
    return Schedule(
        "ring", n, size, "uint8", "sum", size, src, (src + 1) % n, zeros, zeros, zeros + size, zeros,
        np.repeat([0, 1], n), start, np.roll(np.arange(n), 1),
    )  # fmt: skip


@pytest.mark.parametrize("score, moves", [(0.8, False), (0.6, False), (0.5, False), (0.2, True)])
def test_one_rail_does_not_carry_the_traffic_of_two_unless_that_pays(score: float, moves: bool) -> None:
    """hscore moves a whole rail onto one other. 4 x 4, one rail at `score`: rail steps then take 2 times the
    healthy time, staying 1 / score; by scores alone it is left at 0.6 as well."""
    fabric = rail_only(4, 4)
    demand, health = hierarchical(fabric), health_of(fabric, {1: score})
    routes = RoutesInUse(fabric, ROUTERS["hscore"], OPTIONS, "hscore", demand=demand)
    before, sends = routes.paths, np.array(demand.pairs(16))
    change = routes.react(health, 1.0)
    with_demand = np.isin(before.src * 16 + before.dst, sends)
    assert bool(change is not None and change.moved[with_demand].any()) == moves
    alone = RoutesInUse(fabric, ROUTERS["hscore"], OPTIONS, "hscore")
    alone.react(health, 1.0)
    stayed, moved, chosen = (seconds(fabric, p, demand, health) for p in (before, alone.paths, routes.paths))
    assert chosen <= min(stayed, moved) * 1.05
    if score == 0.6:
        assert moved / stayed > 1.1


@settings(max_examples=20)
@given(
    st.sampled_from(sorted(ROUTERS)),
    st.lists(
        st.dictionaries(st.integers(0, 3), st.sampled_from([0.2, 0.4, 0.5, 0.6, 0.8]), max_size=3), max_size=4
    ),
    st.integers(1, 60),
)
def test_a_change_never_makes_the_demand_slower(
    name: str, course: list[dict[int, float]], block: int
) -> None:
    """Whatever scores follow each other; and in blocks as in one."""
    fabric = rail_only(3, 4)
    demand = hierarchical(fabric)
    routes = RoutesInUse(fabric, ROUTERS[name], OPTIONS, name, demand=demand)
    parts = RoutesInUse(fabric, ROUTERS[name], OPTIONS, name, demand=demand, block=block)
    for step, scores in enumerate([*course, {}]):
        health, before = health_of(fabric, scores, step + 1), routes.paths
        change, same = routes.react(health, float(step)), parts.react(health, float(step))
        assert (change is None) == (same is None)
        now, was = (seconds(fabric, p, demand, health) for p in (routes.paths, before))
        assert now <= was * 1.003
        assert seconds(fabric, parts.paths, demand, health) == pytest.approx(now)


@pytest.mark.parametrize("name", sorted(ROUTERS))
@pytest.mark.parametrize("worse, better", [(0.5, 0.1), (0.35, 0.15)])
def test_what_was_left_at_a_bad_moment_is_taken_again_though_it_is_still_slow(
    name: str, worse: float, better: float
) -> None:
    """A cable loses more packets for a moment. What is chosen then does not outlast it: afterwards the demand
    ends within the margin of what the same router makes of the better moment alone."""
    fabric = rail_only(4, 4)
    demand = JobDemand([all_reduce(fabric, 1 << 20)], PACKET)
    routes, fresh = (RoutesInUse(fabric, ROUTERS[name], OPTIONS, name, demand=demand) for _ in range(2))
    first = routes.paths
    for version, share in enumerate((worse, better), 1):
        loss = np.zeros(fabric.n_links)
        loss[link_between(fabric, fabric.node_ids["g0.1"], fabric.node_ids["rail1"])] = share
        health = slow_link(fabric, "g0.1", "rail1", float(speed_at_loss(loss).min()))
        health = replace(health, version=version, loss=loss)
        routes.react(health, float(version))
    fresh.react(health, 1.0)
    now, anew, stay = (seconds(fabric, paths, demand, health) for paths in (routes.paths, fresh.paths, first))
    assert now <= 1.05 * min(anew, stay)


def test_what_the_demand_refused_is_asked_again_for_another_demand() -> None:
    """A hierarchical all-reduce stays on a rail at 0.5; without a demand its pairs leave it."""
    fabric = rail_only(4, 4)
    demand = hierarchical(fabric)
    pairs = np.divmod(demand.pairs(16), 16)
    routes = RoutesInUse(fabric, HScore(), OPTIONS, "hscore", pairs, demand)
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
        healthy, well = routes.paths, health_of(fabric, {}, 2)
        assert routes.react(health_of(fabric, {1: 0.2}, 1), 1.0) is not None
        routes.react(well, 5.0)
        assert seconds(fabric, routes.paths, demand, well) == pytest.approx(
            seconds(fabric, healthy, demand, well)
        )


@pytest.mark.parametrize("router", [HScore(), Spray()])
def test_only_the_pairs_that_need_it_leave_a_slow_cable(router: Router) -> None:
    """4 x 4, one NIC's sending direction at 5 %: the pair of the ring that uses it, and no other of its rail,
    although the mean of the rail's links falls to 0.88."""
    fabric = rail_only(4, 4)
    demand, health = hierarchical(fabric), slow_link(fabric, "g2.1", "rail1", 0.05)
    pairs = np.divmod(demand.pairs(16), 16)
    routes = RoutesInUse(fabric, router, OPTIONS, "router", pairs, demand)
    change = routes.react(health, 1.0)
    assert change is not None
    moved = [(int(s), int(d)) for s, d in zip(*(column[change.moved] for column in pairs), strict=True)]
    assert moved == [(9, 13)]  # g2.1 -> g3.1


@pytest.mark.parametrize("score", [0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("router", [HScore(), Spray(), Shortest(), Ecmp()])
def test_a_slow_cable_is_never_worse_than_a_cut_one(router: Router, score: float) -> None:
    fabric = rail_only(4, 4)
    demand, ends = hierarchical(fabric), []
    for health in (slow_link(fabric, "g2.1", "rail1", score), slow_link(fabric, "g2.1", "rail1", 0.0)):
        routes = RoutesInUse(fabric, router, OPTIONS, "router", demand=demand)
        routes.react(health, 1.0)
        ends.append(seconds(fabric, routes.paths, demand, health))
    assert ends[0] <= 1.031 * ends[1]


def test_a_router_that_knows_up_and_down_alone_leaves_a_slow_link_as_a_whole() -> None:
    """Torus of 3 x 4, wild-first: its table for the link as if it were down, and no mixture of two tables;
    the one for the healthy fabric once the link has recovered."""
    fabric, router = torus(3, 4), WildFirstRouting()
    demand = JobDemand([ring_steps(fabric)], PACKET)
    routes = RoutesInUse(fabric, router, OPTIONS, "wfr", demand=demand)
    healthy, slow = routes.paths, slow_link(fabric, "g0.0", "g0.1", 0.1)
    down = slow_link(fabric, "g0.0", "g0.1", 0.0)
    assert routes.react(slow, 1.0) is not None
    assert routes.paths == all_paths(router.routes(fabric, down))
    assert channel_cycle(fabric, router.routes(fabric, down)) is None
    assert routes.react(health_of_torus(fabric), 2.0) is not None and routes.paths == healthy


def health_of_torus(fabric: Fabric) -> HealthSnapshot:
    return HealthSnapshot.healthy(fabric, version=9, margin=OPTIONS.margin)


def test_a_cable_that_is_not_used_is_no_reason_to_ask_again() -> None:
    """Ring neighbours of 4 x 4 by id send nothing over g0.0 -> r0, whose score then changes nothing."""
    fabric = rail_only(4, 4)
    demand = JobDemand([ring_steps(fabric)], PACKET)
    pairs = np.divmod(demand.pairs(16), 16)
    routes = RoutesInUse(fabric, HScore(), OPTIONS, "hscore", pairs, demand)
    assert routes.react(slow_link(fabric, "g1.1", "rail1", 0.3), 1.0) is None


def test_latency_counts_where_routes_are_compared() -> None:
    """A rail at 0.3 is left for another one over domains: four times as many links, which costs more than it
    saves once a link takes 100 us and a step of the ring 11 us."""
    for latency_us, moves in ((0.0, True), (100.0, False)):
        fabric = rail_only(4, 4)
        fabric = replace(fabric, latency_s=np.full(fabric.n_links, latency_us * 1e-6))
        routes = RoutesInUse(fabric, HScore(), OPTIONS, "hscore", demand=hierarchical(fabric))
        change = routes.react(health_of(fabric, {1: 0.3}), 1.0)
        sends = np.isin(routes.paths.src * 16 + routes.paths.dst, hierarchical(fabric).pairs(16))
        assert bool(change is not None and change.moved[sends].any()) == moves


@pytest.mark.parametrize(("size", "packets"), [(4 << 12, 4), (1 << 10, 1)])
def test_switches_store_packets_before_they_send_them_on(size: int, packets: int) -> None:
    """Where the transport states its senders: k packets of a message cross n links of equal rates in
    k + n - 1 packet times. The engine `fluid`, which states none, has k."""
    fabric = rail_only(3, 2)
    src, dst = 0, fabric.n_gpus - 1  # by a domain and a rail
    (paths,) = RoutesInUse(fabric, HScore(), OPTIONS, "hscore", (np.array([src]), np.array([dst])))._blocks
    fabric = replace(fabric, capacity_bps=np.full(fabric.n_links, 1e9))
    packet_s = 8 * PACKET.wire_bytes_of(size) / packets / 1e9
    links = len(paths.links)
    assert links == 4
    for states, times in (
        (partial(senders, Tuning(), fabric, packet=PACKET), packets + links - 1),
        (None, packets),
    ):
        demand = JobDemand([one_message(fabric, src, dst, size)], PACKET, states)
        took_s = seconds(fabric, paths, demand, HealthSnapshot.healthy(fabric))
        assert took_s == pytest.approx(times * packet_s, rel=0.01)


def unhindered(_: PathBatch) -> Senders:
    """One pair that waits for nothing and has a packet under way, through switches that store nothing."""
    none, packet, never = np.zeros(1), np.full(1, 8.0 * PACKET.full_packet_bytes), np.full(1, np.inf)
    return Senders(packet, packet, none, np.ones(1), none, none, none, never)


def two_ways(fabric: Fabric, shares: tuple[float, float]) -> PathBatch:
    """From GPU 0 of a ring of four to GPU 2, both ways around."""
    ways = ShortestPaths(fabric, HealthSnapshot.healthy(fabric).down)(0, 2)
    ends, starts = (np.array([0]), np.array([2])), (np.array([0, 2]), np.array([0, 2, 4]))
    return PathBatch(
        *ends, starts[0], np.array(shares), starts[1], np.concatenate([way.links for way in ways])
    )


def test_what_a_path_loses_is_sent_again_over_all() -> None:
    """Of two equal paths one loses a share p: a packet is sent 1 / (1 - p / 2) times, half of that over each,
    so a message of 10,000 packets takes 1 / (1 - p / 2) times as long; were it sent again over its own path,
    1 / (1 - p)."""
    fabric, lossy = torus(4), 0.4
    paths = two_ways(fabric, (0.5, 0.5))
    healthy, loss = HealthSnapshot.healthy(fabric), np.zeros(fabric.n_links)
    loss[paths.links[0]] = lossy
    demand = JobDemand([one_message(fabric, 0, 2, 10_000 << 12)], PACKET, unhindered)
    health = replace(healthy, loss=loss, link_score=speed_at_loss(loss))
    ratio = seconds(fabric, paths, demand, health) / seconds(fabric, paths, demand, healthy)
    assert ratio == pytest.approx(1 / (1 - lossy / 2), rel=1e-3)


def test_paths_get_whole_packets() -> None:
    """A path at a twelfth of the rate is to carry 1/13 of a message of 16 packets: one or two packets, so the
    message ends when two have passed, after 24 packet times and not 16 x 12/13."""
    fabric = torus(4)
    paths = two_ways(fabric, (12 / 13, 1 / 13))
    healthy = HealthSnapshot.healthy(fabric)
    score = np.ones(fabric.n_links)
    score[paths.links[2:]] = 1 / 12
    demand = JobDemand([one_message(fabric, 0, 2, 16 << 12)], PACKET, unhindered)
    packet_s = 8 * PACKET.full_packet_bytes / fabric.capacity_bps[0]
    took_s = seconds(fabric, paths, demand, replace(healthy, link_score=score))
    assert took_s == pytest.approx(24 * packet_s, rel=0.01)


def test_a_way_without_answers_is_left_where_nobody_ends_later() -> None:
    """Two GPUs exchange messages over two cables, and one direction of one is down: the other direction may
    be used, but no answer comes back over it, and the demand ends no sooner for it."""
    fabric = rw.topology("ring", nodes=4, wavelengths=2)
    to_1, back = (
        np.flatnonzero((fabric.link_src == a) & (fabric.link_dst == b)) for a, b in ((0, 1), (1, 0))
    )
    demand = JobDemand([messages(fabric, [(0, 1), (1, 0)], 1 << 20)], PACKET)
    routes = RoutesInUse(fabric, Spray(), OPTIONS, "spray", (np.array([0, 1]), np.array([1, 0])), demand)
    assert {*to_1, *back} <= {*routes.paths.links}
    healthy, up = HealthSnapshot.healthy(fabric, margin=OPTIONS.margin), np.ones(fabric.n_links, bool)
    up[back[1]] = False
    health = replace(healthy, version=1, down=~up, link_score=up.astype(float))
    assert routes.react(health, 1.0) is not None
    assert {*routes.paths.links} & {*to_1, *back} == {to_1[0], back[0]}


def test_a_seldom_wait_delays_what_its_mean_would_not() -> None:
    """Next to a message that takes a second, one of a thousandth waits two seconds with a chance of a
    twentieth: 1 + 0.05 x (2 + 0.001 - 1) s. Its mean wait, 0.1 s, ends before the other one does."""
    fabric = rail_only(4, 1)
    fabric, (long, short) = replace(fabric, latency_s=np.zeros(fabric.n_links)), ((0, 1), (2, 3))
    src, dst = np.array([long, short]).T
    paths = HScore().routes(fabric, HealthSnapshot.healthy(fabric)).paths(src, dst)
    bits = 8.0 * np.array([PACKET.wire_bytes_of(size) for size in (1 << 20, 1 << 10)])
    first, last = (paths.links[paths.hop_start[i] : paths.hop_start[i + 1]] for i in (0, 1))
    rates, loss = np.full(fabric.n_links, 1e12), np.zeros(fabric.n_links)
    rates[first], rates[last], loss[last[0]] = bits[0], 1e3 * bits[1], 0.05
    fabric, health = replace(fabric, capacity_bps=rates), HealthSnapshot.healthy(fabric)
    health = replace(health, loss=loss, link_score=1 - loss)
    ones, none = np.ones(2), np.zeros(2)
    stated = Senders(none, none, none, ones, 2 * ones, none, none, 9 * ones)
    send = Entries(fabric.n_gpus, 4)
    send.phase("send")
    for (a, b), size in zip((long, short), (1 << 20, 1 << 10), strict=True):
        send.add(a, b, length=size // 4)
    demand = JobDemand([send.build("send", 1 << 18, "int32", "sum")], PACKET, lambda _: stated)
    assert seconds(fabric, paths, demand, health) == pytest.approx(1 + 0.05 * (2 + 0.001 - 1), rel=0.01)


def test_jobs_that_a_change_leaves_alone_dilute_no_gain() -> None:
    one, many = np.array([2.0]), np.array([2.0, 1.0, 5.0])
    assert gain(one, one / 2) == pytest.approx(2.0)
    assert gain(many, np.array([1.0, 1.0, 5.0])) == pytest.approx(2.0)
    assert gain(many, many) == 1.0
    assert gain(np.array([np.inf]), one) == np.inf and gain(one, np.array([np.inf])) == 0.0


def test_short_jobs_go_on_during_long_ones() -> None:
    """Two jobs on the same pairs: the long one is slowed all the time. Alone t and 8 t; together the short
    one takes 2 t each, so the long one has half the links for as long as the short one is begun anew (8
    times)."""
    fabric = rail_only(2, 2)
    jobs = [ring_steps(fabric, 1 << 16), ring_steps(fabric, 1 << 19)]
    routes = RoutesInUse(fabric, HScore(), OPTIONS, "hscore")
    paths, health = routes.paths, HealthSnapshot.healthy(fabric)
    alone = [seconds(fabric, paths, JobDemand([job], PACKET), health) for job in jobs]
    together = Forecast(fabric, JobDemand(jobs, PACKET), [paths]).seconds([paths], [(1.0, health)])
    assert together[0] == pytest.approx(2 * alone[0], rel=0.02)
    assert together[1] == pytest.approx(2 * alone[1], rel=0.02)


def test_over_several_prospects_iterations_count_by_how_many_there_are() -> None:
    """Half the time 1 s an iteration, half of it 3 s: 2 / (1 + 1 / 3) = 1.5 s on average."""
    fabric = rail_only(2, 2)
    demand = JobDemand([ring_steps(fabric)], PACKET)
    paths, healthy = RoutesInUse(fabric, HScore(), OPTIONS, "hscore").paths, health_of(fabric, {})
    slow = with_links(fabric, healthy, np.full(fabric.n_links, 1 / 3))
    forecast, once = Forecast(fabric, demand, [paths]), seconds(fabric, paths, demand, healthy)
    both = forecast.seconds([paths], [(0.5, healthy), (0.5, slow)])
    assert both[0] == pytest.approx(1.5 * once, rel=1e-6)


def test_forecasts_take_pairs_in_any_order_and_compute_an_answer_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blocks may hold the pairs backwards, and others that send nothing; equal paths are looked at once for
    each of the two figures."""
    fabric, looked_at = rail_only(3, 2), []
    demand_of, health = hierarchical(fabric), health_of(fabric, {1: 0.5})
    paths = RoutesInUse(fabric, HScore(), OPTIONS, "hscore").paths
    backwards = [take(paths, rows) for rows in np.array_split(np.arange(len(paths.src))[::-1], 2)]
    prospects = [(1.0, health)]

    def counted(schedules: Any, of: Fabric, state: NetworkState, packet: PacketFormat, chains: Any) -> Float:
        looked_at.append(state.paths)
        return bound_seconds(schedules, of, state, packet, chains)

    monkeypatch.setattr(forecasts, "bound_seconds", counted)
    forecast = Forecast(fabric, demand_of, backwards)
    bound = forecast.least(backwards, prospects)
    assert forecast.least([take(one, np.arange(len(one.src))) for one in backwards], prospects) == bound
    number = looked_at[0].src * fabric.n_gpus + looked_at[0].dst
    assert np.array_equal(number, demand_of.pairs(fabric.n_gpus)) and len(looked_at) == 1
    assert forecast.seconds(backwards, prospects) == seconds(fabric, paths, demand_of, health) >= bound


@pytest.mark.parametrize("router", ROUTERS)
def test_one_simulation_decides_to_leave_a_rail_of_which_every_link_has_a_score_of_its_own(
    router: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What every view leads to is the same table, and the bound of the busiest link, a fifth of its rate or
    less, is beyond that: neither repeats nor the links without symmetry need simulating."""
    fabric, simulated = rail_only(4, 4), []
    routes = RoutesInUse(fabric, ROUTERS[router], OPTIONS, router, demand=hierarchical(fabric))
    rails = fabric.group("rail")
    assert rails is not None
    mine = fabric.link_element == rails.first + 1
    score = np.where(mine, np.linspace(0.15, 0.2, fabric.n_links), 1.0)
    health = with_links(fabric, health_of(fabric, {}), score)

    def counted(schedules: Any, of: Fabric, state: NetworkState, packet: PacketFormat) -> Float:
        simulated.append(state.paths)
        return iteration_seconds(schedules, of, state, packet)

    monkeypatch.setattr(forecasts, "iteration_seconds", counted)
    change = routes.react(health, now_s=1.0)
    assert change is not None and len(simulated) == 1
    assert not set(np.flatnonzero(mine)) & set(simulated[0].links.tolist())


def test_a_cable_of_which_one_direction_is_down_is_left_in_both() -> None:
    """No answer comes back over it. g1 sends to g0 on a ring of four: the other way round, though the link
    g1->g0 is well, and at any price in time."""
    fabric = torus(4)
    demand = JobDemand([messages(fabric, [(1, 0)], 1 << 20)], PACKET)
    routes = RoutesInUse(fabric, Shortest(), OPTIONS, demand=demand)
    health = slow_link(fabric, "g0", "g1", 0.0)
    cable = {link_between(fabric, *ends) for ends in ((0, 1), (1, 0))}
    assert health.down.sum() == 1
    change = routes.react(health, now_s=1.0)
    assert change is not None and not cable & set(change.paths.links.tolist())
    assert not routes.asks(health, now_s=1.1)


@pytest.mark.parametrize("others, first_share", [([], 0.7 / 1.7), ([(3, 2)], 0.5)])
def test_shares_by_health_are_taken_where_the_demand_ends_sooner(
    others: list[tuple[int, int]], first_share: float
) -> None:
    """On a ring of four g0 sends to g2 both ways, and g1->g2 scores 0.7. Alone, in even shares, that link
    needs 0.5 / 0.7 = 0.71 of the time of the whole message; in shares by health both need 1 / 1.7 = 0.59. If
    g3 sends as much to g2, its link carries 1.5 messages in even shares, and would carry 1.59."""
    fabric = torus(4)
    demand = JobDemand([messages(fabric, [(0, 2), *others], 1 << 20)], PACKET)
    pairs = tuple(np.array([(0, 2), *others]).T)
    routes = RoutesInUse(fabric, ROUTERS["spray"], OPTIONS, "spray", pairs, demand)
    change = routes.react(slow_link(fabric, "g1", "g2", 0.7), now_s=1.0)
    assert (change is None) == (first_share == 0.5)
    over_g1 = routes.paths.links[routes.paths.hop_start[:2]] == link_between(fabric, 0, 1)
    assert routes.paths.weight[:2][over_g1] == pytest.approx([first_share])


@pytest.mark.parametrize("damped", [False, True])
@pytest.mark.parametrize("damping", ["demand", "score"])
def test_a_router_that_wants_the_demand_is_asked_again_when_it_changes(damped: bool, damping: str) -> None:
    """One that goes round a ring the one way with little to send, and the other way with much."""

    class ByDemand(Shortest):
        wants_demand = True
        asked: ClassVar[list[int | None]] = []

        def routes(  # type: ignore[override]
            self, fabric: Fabric, health: HealthSnapshot, demand: Demand | None = None
        ) -> RouteTable:
            self.asked.append(None if demand is None else int(demand.size_bytes.sum()))
            ways = ShortestPaths(fabric, health.down)
            much = demand is not None and demand.size_bytes.sum() > 1 << 20
            return RouteTable.of(fabric, lambda src, dst: ways(src, dst)[-1 if much else 0 :][:1])

    fabric, router = torus(4), ByDemand()
    router.damped = damped
    little, much = (JobDemand([one_message(fabric, 0, 2, size)], PACKET) for size in (1 << 12, 1 << 22))
    options = replace(OPTIONS, damping=damping)  # type: ignore[arg-type]
    routes = RoutesInUse(fabric, router, options, "by-demand", (np.array([0]), np.array([2])), little)
    before, healthy = routes.paths, HealthSnapshot.healthy(fabric, margin=options.margin)
    assert routes.react(healthy, 1.0) is None or routes.paths == before
    routes.carry(much)
    change = routes.react(healthy, 2.0)
    assert change is not None and change.why == "other traffic, with the scores as before"
    assert change.paths.links.tolist() != before.links.tolist()
    asked = len(router.asked)
    assert {1 << 12, 1 << 22} == {*router.asked} and routes.react(healthy, 3.0) is None
    assert len(router.asked) == asked
