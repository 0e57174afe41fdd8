"""Quotients by symmetry: the same times and the same bits as with every entry by itself, listed or not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.model import Fabric, HealthSnapshot, PacketFormat, Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.solver.quotient import NetworkState, Quotient
from railweave.framework.solver.reduction import quotients
from railweave.framework.solver.simulation import FlowSimulation
from railweave.framework.solver.symmetry import orbits
from railweave.traffic.collectives.entries import Entries, rotations

PACKET = PacketFormat()


@cache
def registers() -> Registers:
    return load_plugins()


def made(kind: str, name: str, **options: object):  # type: ignore[no-untyped-def]
    registered = registers()[kind][name]
    return registered.configured(resolve(name, registered.parameters, options))


def fabric_of(name: str, **options: object) -> Fabric:
    topology = registers()["topology"][name]
    fabric: Fabric = topology.build(resolve(name, topology.parameters, options))
    return fabric


def planned(fabric: Fabric, name: str, size: int, **options: object) -> Schedule:
    kind = "workload" if name == "ptdp" else "collective"
    schedule: Schedule = made(kind, name, **options).schedule(
        fabric, range(fabric.n_gpus), size, "float32", "sum"
    )
    return schedule


def state_of(fabric: Fabric, router: str, schedule: Schedule) -> NetworkState:
    src, dst, _ = schedule.pairs()
    table = made("router", router).routes(fabric, HealthSnapshot.healthy(fabric))
    return NetworkState(table.paths(src, dst), fabric.capacity_bps)


def carried_out(
    schedule: Schedule, fabric: Fabric, states: tuple[NetworkState, ...], change_s: float, *, symmetry: bool
) -> tuple[Float, Float, Quotient]:
    """(n,): the end of every entry; (L,): the bits of every link; `change_s`: when the second state comes."""
    (reduced,) = quotients((schedule,), fabric, states, PACKET, symmetry=symmetry)
    simulation = FlowSimulation(reduced.networks[0], accelerated=False, batch=0.0)
    job = simulation.add(reduced.tasks, 0.0)
    for network in reduced.networks[1:]:
        simulation.advance(change_s)
        simulation.change(network)
    while simulation.advance():
        pass
    bits = simulation.carried_bits()
    links = np.where(reduced.link_class >= 0, bits[reduced.link_class], 0.0)
    return simulation.end_s(job)[reduced.entry_class], links, reduced


PTDP = {"tp": 2, "pp": 2, "dp": 4, "batch": 16}
GRID, TORUS, RING = {"domains": 4, "rails": 4}, {"shape": "3x3"}, {"nodes": 8, "wavelengths": 2}
CASES = (
    ("rail-only", GRID, "hscore", "all-reduce", {}, 16),
    ("rail-only", {"domains": 3, "rails": 4}, "hscore", "pipelined-all-reduce", {"chunks": 3}, 9),
    ("rail-only", {"domains": 3, "rails": 4}, "hscore", "all-gather", {}, 12),
    ("rail-only", GRID, "hscore", "reduce-scatter", {}, 16),
    ("rail-only", GRID, "hscore", "all-to-all", {}, 4),
    ("rail-only", GRID, "hscore", "all-to-all", {"pipelined": True}, 4),
    ("rail-only", {"domains": 3, "rails": 4}, "spray", "direct-all-to-all", {}, 12),
    ("rail-only", GRID, "hscore", "halving-doubling-all-reduce", {}, 16),
    ("rail-only", GRID, "hscore", "moe-all-to-all", {}, 1),
    ("rail-only", GRID, "hscore", "ptdp", PTDP, 4),
    ("rail-optimised", GRID, "ecmp", "all-reduce", {}, 16),
    ("torus", {"shape": "4x4"}, "dor", "direct-all-to-all", {}, 4),
    ("torus", TORUS, "dor", "multi-ring-all-reduce", {}, 9),
    ("torus", TORUS, "dor", "permutation", {}, 1),
    ("fat-tree", {"k": 4}, "shortest", "direct-all-to-all", {}, 16),
    ("fat-tree", {"k": 4}, "ecmp", "tree-all-reduce", {"chunks": 2}, 1),
    *(
        ("ring", RING, "shortest", f"ring-{kind}", {}, 8)
        for kind in ("all-reduce", "all-gather", "reduce-scatter")
    ),
    ("ring", RING, "shortest", "send-recv", {}, 8),
    ("ring", RING, "shortest", "broadcast", {}, 1),
    ("ring", RING, "shortest", "broadcast", {"shape": "tree", "root": 3}, 1),
    *(
        ("ring", RING, "optree", name, {"barrier": barrier}, 1)
        for name in ("neighbor-exchange", "one-stage", "wrht", "optree")
        for barrier in ("step", "rank")
    ),
)
"""Topology, router and traffic: every built-in collective; on the healthy fabric entries fall into so many
times fewer classes."""


@pytest.mark.parametrize(("topology", "params", "router", "name", "options", "fewer"), CASES)
def test_times_and_bits_do_not_depend_on_symmetries(
    topology: str, params: dict[str, object], router: str, name: str, options: dict[str, object], fewer: int
) -> None:
    fabric = fabric_of(topology, **params)
    size = 3 * 5 * (1 << 16) * (3 if fewer == 9 else 1)  # of even chunks
    schedule = planned(fabric, name, size, **options)
    whole = state_of(fabric, router, schedule)
    healthy, _, reduced = carried_out(schedule, fabric, (whole,), 0.0, symmetry=True)
    assert len(np.unique(reduced.entry_class)) * fewer <= schedule.n_entries
    traffic = made("workload" if name == "ptdp" else "collective", name, **options)
    formula = traffic.closed_form_s(fabric, schedule, PACKET)
    if (
        formula is not None and options.get("barrier") != "rank"
    ):  # without a common step lightpaths are shared
        assert healthy.max() == pytest.approx(formula, rel=1e-3)
    element, cable, later = (fabric.capacity_bps.copy() for _ in range(3))
    element[fabric.link_element == fabric.link_element[0]] *= 0.3
    cable[3] *= 0.5
    later[fabric.link_src % 3 == 0] *= 0.4
    for rates in ((whole.capacity_bps,), (element,), (cable,), (element, later)):
        states = tuple(NetworkState(whole.paths, capacity) for capacity in rates)
        ends, bits, _ = carried_out(schedule, fabric, states, 2e-6, symmetry=True)
        each_end, each_bits, _ = carried_out(schedule, fabric, states, 2e-6, symmetry=False)
        assert ends == pytest.approx(each_end, rel=1e-9)
        assert bits == pytest.approx(each_bits, rel=1e-9)
        listed = schedule.expand()
        listed_ends, listed_bits, _ = carried_out(listed, fabric, states, 2e-6, symmetry=False)
        assert listed_ends.max() == pytest.approx(ends.max(), rel=1e-9)
        assert listed_bits == pytest.approx(bits, rel=1e-9)


@pytest.mark.parametrize(("size", "path_mtu"), [(122_884, 4096), (7_684, 256)])
@pytest.mark.parametrize("name", ["ring-all-reduce", "all-reduce"])
def test_link_bytes_are_those_of_unequal_chunks(name: str, size: int, path_mtu: int) -> None:
    """By a second method: the transfers of the list, over the links of their paths."""
    packet = PacketFormat(path_mtu)
    fabric = fabric_of("rail-only", domains=6, rails=5)
    schedule = planned(fabric, name, size)
    state = state_of(fabric, "hscore", schedule)
    (reduced,) = quotients((schedule,), fabric, (state,), packet)
    simulation = FlowSimulation(reduced.networks[0])
    simulation.add(reduced.tasks)
    simulation.advance()
    carried = np.append(simulation.carried_bits(), 0.0)[reduced.link_class] / 8
    listed = schedule.expand()
    src, dst = listed.src.astype(np.int64), listed.dst.astype(np.int64)
    paths = state.paths
    pair = np.searchsorted(paths.src * fabric.n_gpus + paths.dst, src * fabric.n_gpus + dst)
    amount = np.bincount(pair, packet.wire_bytes_of(listed.size))
    expected = np.bincount(paths.links, amount[paths.path_pair[paths.hop_path]], fabric.n_links)
    assert carried == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("traffic", list(product(("none", "computations", "all-reduce"), repeat=2)))
def test_jobs_may_have_no_transfer(traffic: tuple[str, ...]) -> None:
    """Of size 0, or nothing but computations of 1 ms."""
    fabric = fabric_of("rail-only", domains=2, rails=2)
    entries = Entries(4, 4)
    entries.wait(np.arange(4), (np.zeros(5, np.int64), np.empty(0, np.int64)), seconds=1e-3)
    schedules = {
        "none": planned(fabric, "all-reduce", 0),
        "computations": entries.build("c", 0, "float32", "sum", symmetries=rotations(fabric, range(4))),
        "all-reduce": planned(fabric, "all-reduce", 1 << 16),
    }
    state = state_of(fabric, "hscore", schedules["all-reduce"])
    for symmetry in (True, False):
        parts = quotients([schedules[name] for name in traffic], fabric, (state,), PACKET, symmetry=symmetry)
        simulation = FlowSimulation(parts[0].networks[0])
        jobs = [simulation.add(part.tasks) for part in parts]
        while simulation.advance():
            pass
        for name, job in zip(traffic, jobs, strict=True):
            took_s = simulation.end_s(job).max(initial=0.0)
            assert (took_s > 0) == (name != "none")
            assert name != "computations" or took_s == 1e-3


@pytest.mark.parametrize("first", ["hscore", "shortest", "spray"])
@pytest.mark.parametrize("then", ["hscore", "shortest", "spray"])
def test_routes_may_change_under_way(first: str, then: str) -> None:
    fabric = fabric_of("rail-only", domains=3, rails=4)
    schedule = planned(fabric, "direct-all-to-all", 1 << 20)
    states = state_of(fabric, first, schedule), state_of(fabric, then, schedule)
    ends, bits, _ = carried_out(schedule, fabric, states, 4e-6, symmetry=True)
    each_end, each_bits, _ = carried_out(schedule, fabric, states, 4e-6, symmetry=False)
    assert ends == pytest.approx(each_end, rel=1e-9) and bits == pytest.approx(each_bits, rel=1e-9)


@pytest.mark.parametrize(("name", "size"), [("all-reduce", 1 << 30), ("all-gather", 1 << 30)])
def test_closed_forms_at_4096_gpus(name: str, size: int) -> None:
    """Two links and two pairs are left of 16,384 links; the rail-only paper's equation 1, with headers."""
    fabric = fabric_of("rail-only", domains=64, rails=64)
    schedule = planned(fabric, name, size)
    states = (state_of(fabric, "hscore", schedule),)
    ends, _, reduced = carried_out(schedule, fabric, states, 0.0, symmetry=True)
    assert reduced.tasks.n_tasks <= 4 and reduced.networks[0].n_links == 2
    formula = made("collective", name).closed_form_s(fabric, schedule, PACKET)
    assert ends.max() == pytest.approx(formula, rel=1e-9)


@settings(max_examples=40)
@given(data=st.data())
def test_a_claim_that_does_not_hold_is_dropped(data: st.DataObject) -> None:
    """Schedules that claim any permutations at all, on a fabric with a slow cable."""
    fabric = fabric_of("rail-only", domains=3, rails=3)
    name = data.draw(st.sampled_from(["all-reduce", "direct-all-to-all", "tree-all-reduce", "all-gather"]))
    schedule = planned(fabric, name, 9 << 16)
    claims = data.draw(st.lists(st.permutations(range(9)), max_size=3))
    claimed = replace(schedule, symmetries=np.array([*schedule.symmetries.tolist(), *claims]))
    rates = fabric.capacity_bps.copy()
    for link in data.draw(st.sets(st.integers(0, fabric.n_links - 1), max_size=2)):
        rates[link] *= 0.25
    states = (NetworkState(state_of(fabric, "hscore", schedule).paths, rates),)
    ends, bits, _ = carried_out(claimed, fabric, states, 0.0, symmetry=True)
    each_end, each_bits, _ = carried_out(claimed, fabric, states, 0.0, symmetry=False)
    assert ends == pytest.approx(each_end, rel=1e-9) and bits == pytest.approx(each_bits, rel=1e-9)


@given(data=st.data())
def test_orbits_are_the_connected_parts(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 12))
    moves = [np.array(move) for move in data.draw(st.lists(st.permutations(range(n)), max_size=3))]
    least = list(range(n))
    for _ in range(n):
        for move in moves:
            for i, j in enumerate(move.tolist()):
                least[i] = least[j] = min(least[i], least[j])
    assert orbits(n, moves).tolist() == least
