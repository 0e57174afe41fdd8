"""What held an iteration, against a simulation that carries the same schedule out packet by packet, and
against figures by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.health.publishing import aggregate
from railweave.framework.judging.bottleneck import (
    Attribution,
    bottleneck,
    bottlenecks,
    rates_during,
)
from railweave.framework.judging.critical_path import critical_path
from railweave.framework.model import Fabric, HealthSnapshot, PacketFormat, PathBatch, RouteTable, Schedule
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.model.findings import CriticalPath, HealthSamples
from railweave.framework.model.names import element_name, weak_links
from railweave.framework.registry import load_plugins
from railweave.framework.results.figures import Bottleneck
from tests.fakes.findings import iteration
from tests.fakes.packet_simulation import Simulated, simulate
from tests.fakes.small_fabrics import rail_only

PACKET = PacketFormat()
FABRICS: tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...] = (
    ("rail-only", {"domains": 4, "rails": 4}, ("hscore", "spray", "ecmp")),
    ("rail-only", {"domains": 2, "rails": 4}, ("hscore", "spray")),
    ("rail-optimised", {"domains": 4, "rails": 4, "spines": 2}, ("ecmp", "shortest")),
    ("torus", {"shape": "4x4"}, ("dor", "wfr")),
    ("torus", {"shape": "3x3x3"}, ("dor",)),
    ("ring", {"nodes": 8}, ("shortest",)),
)
EVERYWHERE = (
    "broadcast", "direct-all-to-all", "halving-doubling-all-reduce", "ring-all-gather", "ring-all-reduce",
    "tree-all-reduce",
)  # fmt: skip
ON_RAILS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "pipelined-all-reduce")
ITERATIONS, EVIDENT_PACKETS, NOISE = 5, 8, 0.04
"""Iterations of a run, over which evidence of a rate adds up; waited packets that it takes; what a measured
rate is off by at most (docs/health.md)."""


CASES = 160


class Case(NamedTuple):
    """A schedule on healthy links and on links of which some, `slow`, have a lower rate (`rates_bps`)."""

    fabric: Fabric
    schedule: Schedule
    table: RouteTable
    slow: Int64
    rates_bps: Float
    healthy: Simulated
    faulty: Simulated

    @property
    def slowdown(self) -> float:
        return max(self.faulty.end_s) / max(self.healthy.end_s)

    @property
    def weak(self) -> Bool:
        """Scores as trains show them."""
        score = self.rates_bps / self.fabric.capacity_bps
        return weak_links(self.fabric, score, aggregate(self.fabric, score, "mean"), 1.25)

    def path(self, ran: Simulated) -> CriticalPath:
        path = critical_path(
            self.schedule, np.array(ran.end_s), [(-np.inf, self.table)], np.array(ran.link_bytes)
        )
        assert path is not None
        return path

    def attributed(self, ran: Simulated, rates_bps: Float) -> Attribution:
        seconds = max(ran.end_s)
        return Attribution.of(
            self.fabric, self.path(ran), seconds, np.array([seconds]), rates_bps[None], self.weak
        )

    def named(self, ran: Simulated, rates_bps: Float) -> Bottleneck:
        held = bottleneck(self.fabric, 0, self.attributed(ran, rates_bps))
        assert held is not None
        return held

    def measured_bps(self, rng: np.random.Generator) -> Float:
        """The rates of the faulty run as far as packets waited for them, and the declared ones elsewhere."""
        rates = np.minimum(
            self.rates_bps * rng.uniform(1 - NOISE, 1 + NOISE, self.fabric.n_links), self.fabric.capacity_bps
        )
        known = np.array(self.faulty.waited) * ITERATIONS >= EVIDENT_PACKETS
        return np.where(known, rates, self.fabric.capacity_bps)


@cache
def registers() -> Any:
    return load_plugins()


@cache
def built(which: int) -> Fabric:
    kind, options, _ = FABRICS[which]
    fabric = registers()["topology"][kind].build(options).scaled(1e-5)
    assert isinstance(fabric, Fabric)
    return fabric


@cache
def case(seed: int) -> Case:
    """A fabric, a router, a collective and a fault, all drawn: a switch, the links into or out of it, a cable
    or one direction of it, at 10 to 80 % of the declared rate."""
    rng = np.random.default_rng(seed)
    which = int(rng.integers(len(FABRICS)))
    fabric, routers = built(which), FABRICS[which][2]
    router = registers()["router"][routers[rng.integers(len(routers))]]
    names = EVERYWHERE + ON_RAILS * fabric.kind.startswith("rail")
    collective = registers()["collective"][names[rng.integers(len(names))]]
    size = int(rng.choice([1 << 16, 1 << 17, 1 << 18]))
    schedule = collective.schedule(fabric, range(fabric.n_gpus), size, "float32", "sum").expand()
    table = router.routes(fabric, HealthSnapshot.healthy(fabric))
    elements = np.unique(fabric.link_element[fabric.link_element >= 0])
    if elements.size and rng.random() < 0.5:
        element = rng.choice(elements)
        slow = fabric.element_links(element)
        into = fabric.link_dst[slow] == element
        slow = (slow, slow[into], slow[~into])[rng.choice(3, p=(0.7, 0.15, 0.15))]
    else:
        link = int(rng.integers(fabric.n_links))
        slow = np.array([link, link ^ 1][: rng.integers(1, 3)])
    rates = fabric.capacity_bps.copy()
    rates[slow] *= rng.choice([0.1, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8])
    healthy, faulty = (
        simulate(schedule, fabric, table, bps.tolist(), PACKET) for bps in (fabric.capacity_bps, rates)
    )
    return Case(fabric, schedule, table, slow, rates, healthy, faulty)


def is_right(of: Case, held: Bottleneck) -> bool:
    """Whether this names the element all of whose links are slow; else one of them, and the element at most
    where half of it is."""
    fabric, elements = of.fabric, {int(e) for e in of.fabric.link_element[of.slow]} - {-1}
    part = len(of.slow) / sum(len(fabric.element_links(element)) for element in elements) if elements else 0
    if held.balanced or (held.element is None and part == 1) or (held.element is not None and part < 0.5):
        return False
    names = {element_name(fabric, element) for element in elements}
    return (held.element or held.link) in names | {fabric.link_name(int(link)) for link in of.slow}


def test_the_faulty_element_is_named_where_it_costs_a_tenth() -> None:
    costly = [seed for seed in range(CASES) if case(seed).slowdown >= 1.1]
    assert len(costly) >= CASES / 4
    right = [
        is_right(case(seed), case(seed).named(case(seed).faulty, case(seed).measured_bps(rng)))
        for seed, rng in ((seed, np.random.default_rng([seed, 1])) for seed in costly)
    ]
    assert np.mean(right) >= 0.95


@settings(max_examples=40)
@given(seed=st.integers(0, 99))
def test_all_of_the_time_is_held_by_links_once(seed: int) -> None:
    of = case(seed)
    path, time = of.path(of.faulty), of.attributed(of.faulty, of.rates_bps)
    assert path.begin_s[0] == 0 and path.end_s[-1] == max(of.faulty.end_s)
    assert np.array_equal(path.begin_s[1:], path.end_s[:-1])
    assert time.held_s.sum() == pytest.approx(max(of.faulty.end_s))
    assert (time.held_s >= 0).all() and (time.lost_s <= time.held_s).all()
    assert set(time.link[time.lost_s > 0]) <= set(of.slow)


@settings(max_examples=25)
@given(seed=st.integers(0, 99), scale=st.floats(1e-3, 1e3))
def test_the_name_and_the_share_do_not_depend_on_the_scale(seed: int, scale: float) -> None:
    of = case(seed)
    scaled = of._replace(fabric=of.fabric.scaled(scale), rates_bps=of.rates_bps * scale)
    ran = of.faulty
    slower = Simulated(
        [t / scale for t in ran.begin_s], [t / scale for t in ran.end_s], ran.link_bytes, ran.waited
    )
    once, again = of.named(ran, of.rates_bps), scaled.named(slower, of.rates_bps * scale)
    assert again.share == pytest.approx(once.share)
    assert (again.element, again.balanced) == (once.element, once.balanced)


@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"])
def test_a_healthy_symmetric_collective_is_balanced(collective: str) -> None:
    fabric = built(0)
    schedule = (
        registers()["collective"][collective].schedule(fabric, range(16), 1 << 18, "float32", "sum").expand()
    )
    table = registers()["router"]["hscore"].routes(fabric, HealthSnapshot.healthy(fabric))
    ran = simulate(schedule, fabric, table, fabric.capacity_bps.tolist(), PACKET)
    of = Case(fabric, schedule, table, np.empty(0, np.int64), fabric.capacity_bps, ran, ran)
    assert of.named(ran, of.measured_bps(np.random.default_rng(1))).balanced


# -- by hand -------------------------------------------------------------------------------------------
def chain(pairs: list[tuple[int, int]], ends_s: list[float]) -> tuple[Schedule, Float]:
    """One transfer after another."""
    n = len(pairs)
    src, dst = np.array(pairs).T
    zero, after = np.zeros(n, np.int64), np.arange(n - 1)
    schedule = Schedule(
        "chain", 4, 4096, "float32", "sum", 4096, src, dst, zero, zero, zero + 4096, zero, zero,
        np.maximum(0, np.arange(n + 1) - 1), after,
    )  # fmt: skip
    return schedule, np.array(ends_s)


def over_rail(fabric: Fabric, rail: int) -> RouteTable:
    """Every pair over one cable of that rail and another, whether it is theirs or not."""
    into, out = fabric.element_links(fabric.n_gpus + 2 + rail)[[0, 3]]

    def resolve(src: Int64, dst: Int64) -> PathBatch:
        return PathBatch.single(src, dst, np.tile([into, out], (len(src), 1)))

    return RouteTable("one rail", 0, fabric.n_gpus, resolve)


def test_time_is_split_by_bytes_over_rate() -> None:
    fabric = rail_only(2, 2)  # GPUs 0 and 2 are on rail 0
    schedule, end = chain([(0, 2)], [10.0])
    path = critical_path(schedule, end, [(-np.inf, over_rail(fabric, 0))], np.full(fabric.n_links, 1e6))
    assert path is not None
    up, down = path.paths.links
    rates = fabric.capacity_bps.copy()
    rates[down] /= 4
    alone = np.arange(fabric.n_links) == down
    time = Attribution.of(fabric, path, 10.0, np.array([10.0]), rates[None], alone)
    assert time.held_s == pytest.approx([2.0, 8.0]) and time.lost_s == pytest.approx([0.0, 6.0])
    assert bottleneck(fabric, 3, time) == Bottleneck(
        3, None, fabric.link_name(down), 2, 0.8, False, nic="nic:1.0"
    )
    assert bottleneck(fabric, 3, replace(time, weak=np.zeros_like(alone))) == Bottleneck(
        3, "rail:0", fabric.link_name(down), 2, 1.0, False, nic="nic:1.0"
    )
    path.link_bytes.flags.writeable = True
    path.link_bytes[up] *= 12  # it was busy three times as long
    time = Attribution.of(fabric, path, 10.0, np.array([10.0]), rates[None], alone)
    assert time.held_s == pytest.approx([7.5, 2.5])


def test_a_transfer_whose_route_changed_has_a_part_on_each() -> None:
    fabric = rail_only(2, 2)
    schedule, end = chain([(0, 2), (2, 0)], [4.0, 10.0])
    tables = [(-np.inf, over_rail(fabric, 0)), (7.0, over_rail(fabric, 1))]
    path = critical_path(schedule, end, tables, np.ones(fabric.n_links))
    assert path is not None
    assert (path.begin_s.tolist(), path.end_s.tolist()) == ([0.0, 4.0, 7.0], [4.0, 7.0, 10.0])
    rails = [fabric.link_element[path.paths.paths(part)[0].links[0]] - fabric.n_gpus - 2 for part in range(3)]
    assert rails == [0, 0, 1]


def test_a_message_waits_for_the_one_that_its_pair_sends_before() -> None:
    fabric = rail_only(2, 2)
    schedule, _ = chain([(0, 2), (2, 0), (0, 2)], [])
    # The third waits for nothing, but its pair sent the first before it.
    free = Schedule(**{**vars(schedule), "after_start": np.array([0, 0, 1, 1]), "after": np.array([0])})
    path = critical_path(
        free, np.array([6.0, 6.5, 8.0]), [(-np.inf, over_rail(fabric, 0))], np.ones(fabric.n_links)
    )
    assert path is not None and (path.begin_s.tolist(), path.paths.src.tolist()) == ([0.0, 6.0], [0, 0])


def test_nothing_timed_or_nothing_sent_has_no_bottleneck() -> None:
    fabric = rail_only(2, 2)
    schedule, _ = chain([(0, 2)], [])
    assert critical_path(schedule, np.empty(0), [], np.ones(fabric.n_links)) is None
    assert bottlenecks(fabric, [iteration(fabric, 0, 0.0)], samples(fabric, {}), 1.25) == ()


def test_an_element_that_carries_more_than_its_like_is_named() -> None:
    fabric = rail_only(2, 2)
    schedule, end = chain([(0, 2)], [10.0])
    carried = np.full(fabric.n_links, 1e6)
    carried[fabric.element_links(fabric.n_gpus + 2)] *= 1.2
    for link_bytes, balanced in ((np.full(fabric.n_links, 1e6), True), (carried, False)):
        path = critical_path(schedule, end, [(-np.inf, over_rail(fabric, 0))], link_bytes)
        assert path is not None
        held = bottleneck(
            fabric,
            0,
            Attribution.of(fabric, path, 10.0, np.zeros(1), fabric.capacity_bps[None], ~fabric.usable),
        )
        assert held is not None and (held.element, held.balanced) == ("rail:0", balanced)


def samples(
    fabric: Fabric, stated: dict[float, float], scores: dict[float, float] | None = None
) -> HealthSamples:
    """Samples at 1, 2, 3 ... 6 s of link 0: the rates stated of it, and its scores."""
    times = np.arange(1.0, 7.0)
    service, score = (np.full((6, fabric.n_links), value) for value in (np.nan, 1.0))
    for t_s, rate in stated.items():
        service[np.flatnonzero(times == t_s), 0] = rate
    for t_s, value in (scores or {}).items():
        score[times >= t_s, 0] = value
    return HealthSamples(times, 0 * score, 0 * score, service, score, np.ones((6, fabric.n_nodes)))


def test_a_rate_holds_until_another_is_stated() -> None:
    fabric = rail_only(2, 2)
    declared = float(fabric.capacity_bps[0])
    seen = samples(fabric, {2.0: declared / 2, 5.0: declared / 4}, {3.0: 0.1, 4.0: 1.0})
    spans = [(0.0, 1.5), (2.5, 4.0), (4.0, 5.5), (8.0, 9.0)]
    found = [
        (t_s.tolist(), (rates[:, 0] / declared).round(6).tolist())
        for t_s, rates in rates_during(fabric, seen, spans)
    ]
    assert found == [
        ([1.0], [1.0]),
        ([3.0, 4.0], [0.1, 0.5]),
        ([5.0], [0.25]),
        ([9.0], [0.25]),
    ]
