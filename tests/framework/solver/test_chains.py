"""A bound of an iteration: never above what is simulated, and that itself where one link decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import railweave as rw
from railweave.framework.model import Fabric, HealthSnapshot, PacketFormat, Schedule
from railweave.framework.parameters import resolve
from railweave.framework.registry import load_plugins
from railweave.framework.solver.chains import Chains, bound_seconds
from railweave.framework.solver.prediction import iteration_seconds, least_seconds
from railweave.framework.solver.quotient import NetworkState

PACKET = PacketFormat()
REGISTERS = load_plugins()
FABRICS: tuple[tuple[str, dict[str, object]], ...] = (
    ("rail-only", {"domains": 3, "rails": 4, "rail_latency": "1us"}),
    ("rail-optimised", {"domains": 4, "rails": 2}),
    ("ring", {"nodes": 6, "latency": "2us"}),
    ("torus", {"shape": "3x3"}),
)
COLLECTIVES: tuple[tuple[str, dict[str, object]], ...] = (
    ("all-reduce", {}),
    ("pipelined-all-reduce", {"chunks": 5}),
    ("ring-all-reduce", {}),
    ("broadcast", {}),
    ("all-to-all", {}),
    ("arrivals", {}),
    ("ptdp", {}),
)
WITH_DOMAINS = ("all-reduce", "pipelined-all-reduce", "all-to-all", "ptdp")
CASES = [
    (*fabric, *collective)
    for fabric in FABRICS
    for collective in COLLECTIVES
    if fabric[0].startswith("rail") or collective[0] not in WITH_DOMAINS
]


def made(kind: str, name: str, options: dict[str, object]):  # type: ignore[no-untyped-def]
    registered = REGISTERS[kind][name]
    return registered.configured(resolve(name, registered.parameters, options))


def planned(fabric: Fabric, name: str, options: dict[str, object], size: int = 1 << 18) -> Schedule:
    kind = "workload" if name in REGISTERS["workload"] else "collective"
    schedule: Schedule = made(kind, name, options).schedule(
        fabric, range(fabric.n_gpus), size, "float32", "sum"
    )
    return schedule


def state_of(fabric: Fabric, router: str, schedule: Schedule, score: np.ndarray) -> NetworkState:
    src, dst, _ = schedule.pairs()
    table = made("router", router, {}).routes(fabric, HealthSnapshot.healthy(fabric))
    return NetworkState(table.paths(src, dst), fabric.capacity_bps * score)


def bound_and_time(
    fabric: Fabric, schedules: Sequence[Schedule], state: NetworkState
) -> tuple[np.ndarray, np.ndarray]:
    chains = [Chains.of(schedule) for schedule in schedules]
    bound_s = bound_seconds(schedules, fabric, state, PACKET, chains)
    return bound_s, iteration_seconds(schedules, fabric, state, PACKET)


@settings(max_examples=120, deadline=None)
@given(
    case=st.sampled_from(CASES), router=st.sampled_from(["ecmp", "spray", "shortest"]), seed=st.integers(0)
)
def test_no_iteration_is_faster_than_its_bound(
    case: tuple[str, dict[str, object], str, dict[str, object]], router: str, seed: int
) -> None:
    """A few links at drawn rates, single and several paths; simulated ends are batched within 1e-3. The bound
    is no less than what the busiest link needs."""
    topology, options, collective, of_collective = case
    built = rw.topology(topology, **options)
    schedule = planned(built, collective, of_collective)
    rng = np.random.default_rng(seed)
    score = np.where(rng.random(built.n_links) < 0.2, rng.uniform(0.1, 1, built.n_links), 1.0)
    state = state_of(built, router, schedule, score)
    bound_s, time_s = bound_and_time(built, [schedule], state)
    assert least_seconds([schedule], built, state, PACKET) <= bound_s <= time_s * (1 + 1e-9)


def test_where_one_link_is_slow_the_bound_is_the_time() -> None:
    """4 x 4, one direction of a cable at a fifth: the domain's phase before it, what the link carries, and
    the domain's phase after it; healthy, the longest chain. Simulated ends are batched within 1e-3."""
    fabric = rw.topology("rail-only", domains=4, rails=4)
    schedule = planned(fabric, "all-reduce", {})
    link = next(link for link in range(fabric.n_links) if fabric.link_name(link) == "g0.1->r1")
    for at in (1.0, 0.2):
        score = np.where(np.arange(fabric.n_links) == link, at, 1.0)
        bound_s, time_s = bound_and_time(fabric, [schedule], state_of(fabric, "ecmp", schedule, score))
        assert bound_s == pytest.approx(time_s, rel=1e-3)


def test_a_ring_takes_all_its_steps() -> None:
    """2 x (n - 1) steps, each a latency and a slice of 1 / n (closed form)."""
    fabric = rw.topology("ring", nodes=6, latency="2us")
    schedule = planned(fabric, "ring-all-reduce", {}, 6 << 16)
    state = state_of(fabric, "shortest", schedule, np.ones(fabric.n_links))
    step_s = 2e-6 + 8 * PACKET.wire_bytes(1 << 16) / fabric.capacity_bps[0]
    bound_s = bound_seconds([schedule], fabric, state, PACKET, [Chains.of(schedule)])
    assert bound_s == pytest.approx(10 * step_s)


def test_of_several_jobs_each_has_its_own_bound() -> None:
    """Two on one fabric: neither is faster than alone, and one without a path never ends."""
    fabric = rw.topology("rail-only", domains=4, rails=2)
    schedules = [planned(fabric, "all-reduce", {}, size) for size in (1 << 16, 1 << 18)]
    state = state_of(fabric, "ecmp", schedules[0], np.ones(fabric.n_links))
    bound_s, time_s = bound_and_time(fabric, schedules, state)
    alone_s = [float(bound_and_time(fabric, [schedule], state)[0][0]) for schedule in schedules]
    assert bound_s == pytest.approx(alone_s) and (bound_s <= time_s).all()
    cut = state_of(fabric, "ecmp", schedules[0], np.zeros(fabric.n_links))
    assert np.isinf(bound_and_time(fabric, schedules, cut)[0]).all()


@pytest.mark.parametrize("nodes", [64, 256])
def test_what_would_take_long_is_not_followed(nodes: int) -> None:
    """Half of the steps each wait for all n - 1 of another rank: n x (n - 1)^2, and 254,016 for 64."""
    fabric = rw.topology("ring", nodes=nodes)
    schedule = planned(fabric, "ring-all-reduce", {})
    state = state_of(fabric, "shortest", schedule, np.ones(fabric.n_links))
    assert Chains.of(schedule) is None
    bound_s = bound_seconds([schedule], fabric, state, PACKET, [None])
    assert bound_s == least_seconds([schedule], fabric, state, PACKET)
