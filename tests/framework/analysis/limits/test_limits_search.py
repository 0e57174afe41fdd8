"""Bounds by search against brute force over all cuts, partitions and prices, another max-flow, and hand
arithmetic.

networkx is the other max-flow. Fabrics are random: up to 4 GPUs and 2 switches, each direction with a rate of
its own, dead ones included.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from math import inf

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.analysis import limits
from railweave.framework.analysis.limits import COLLECTIVES, tightest_cut
from railweave.framework.analysis.limits import cuts as searched
from railweave.framework.analysis.limits.alike import Alike
from railweave.framework.analysis.limits.family import family_bounds
from railweave.framework.analysis.limits.flow import FlowNetwork
from railweave.framework.analysis.limits.paths import priced
from railweave.framework.analysis.limits.wires import Wires
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup, PacketFormat
from railweave.framework.parameters import Value
from railweave.topologies.fat_tree import FatTree
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.rail_optimised import RailOptimised
from railweave.topologies.torus import Torus
from tests.fakes.cut_bounds import cut_bound_s

PACKET = PacketFormat(4096)
WIRE = (4096 + 58) / 4096
S = 1 << 20
BITS = 8 * WIRE * S
QUICK = settings(max_examples=60)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Fabric, np.ndarray]:
    """(fabric, rates of its links as they are now)."""
    gpus, switches = draw(st.integers(2, 4)), draw(st.integers(0, 2))
    n = gpus + switches
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=n - 1, max_size=9))
    groups = [NodeGroup("gpu", 0, (gpus,), "g")]
    if switches:
        groups.append(NodeGroup("switch", gpus, (switches,), "s"))
    builder = FabricBuilder("random", groups, {})
    for a, b in chosen:
        builder.cables([a], [b], "wire", 8e6)
    fabric = builder.build()
    shares = st.sampled_from([0.0, 0.01, 0.1, 0.3, 0.5, 1.0, 1.0, 1.0, 1.0, 3.0])
    rates = draw(st.lists(shares, min_size=fabric.n_links, max_size=fabric.n_links))
    return fabric, np.array(rates) * 8e6


def defaults(topology: RailOnly | RailOptimised | FatTree | Torus) -> dict[str, Value]:
    return {parameter.name: parameter.default for parameter in topology.parameters}


def wires_of(fabric: Fabric, rate: np.ndarray, packets: float) -> Wires:
    free = np.where(rate > 0, 8.0 * (4096 + 58) * packets, 0.0)
    return Wires(fabric, rate, free, np.arange(fabric.n_gpus))


def sides(fabric: Fabric) -> Iterator[np.ndarray]:
    """Every set of nodes that has some GPUs and lacks some."""
    for chosen in product((False, True), repeat=fabric.n_nodes):
        inside = np.array(chosen)
        if 0 < inside[: fabric.n_gpus].sum() < fabric.n_gpus:
            yield inside


def time_s(wires: Wires, bits: float, crossing: np.ndarray) -> float:
    left = bits - wires.free[crossing].sum()
    rate = wires.rate[crossing].sum()
    return 0.0 if left <= 0 else left / rate if rate else inf


def crossing(fabric: Fabric, inside: np.ndarray) -> np.ndarray:
    return inside[fabric.link_src] & ~inside[fabric.link_dst]


def by_all_cuts(wires: Wires, demand: str, root: int | None = None) -> float:
    """What leaves each side: demand x, n - x, 1 (from the root, or any), pairs x (n - x), or to the next
    rank."""
    best, n = 0.0, wires.fabric.n_gpus
    for inside in sides(wires.fabric):
        within = inside[:n]
        x = int(within.sum())
        bits = {
            "gather": x * BITS / n,
            "scatter": (n - x) * BITS / n,
            "one": BITS,
            "all-pairs": x * (n - x) * BITS / n,
            "next": BITS * int((within & ~np.roll(within, -1)).sum()),
        }[demand]
        if root is None or within[root]:
            best = max(best, time_s(wires, bits, crossing(wires.fabric, inside)))
    return best


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for parts in partitions(rest):
        for i, part in enumerate(parts):
            yield [*parts[:i], [first, *part], *parts[i + 1 :]]
        yield [[first], *parts]


def by_all_partitions(wires: Wires, direction: int) -> float:
    """2(p - 1)S over what leaves (direction 0) or enters all parts, each with the best set of switches."""
    fabric, best = wires.fabric, 0.0
    switches = range(fabric.n_gpus, fabric.n_nodes)
    for parts in partitions(list(range(fabric.n_gpus))):
        if len(parts) == 1:
            continue
        choices = []
        for part in parts:
            links = []
            for taken in product((False, True), repeat=len(switches)):
                inside = np.isin(np.arange(fabric.n_nodes), part)
                inside[list(switches)] = taken
                links.append(crossing(fabric, inside if direction == 0 else ~inside))
            choices.append(links)
        for chosen in product(*choices):
            rate = sum(wires.rate[c].sum() for c in chosen)
            left = 2 * (len(parts) - 1) * BITS - sum(wires.free[c].sum() for c in chosen)
            best = max(best, 0.0 if left <= 0 else left / rate if rate else inf)
    return best


@QUICK
@given(graphs(), st.sampled_from([0.0, 1.0, 40.0]))
def test_trees_are_bound_by_the_tightest_of_all_cuts(
    drawn: tuple[Fabric, np.ndarray], packets: float
) -> None:
    fabric, rate = drawn
    wires = wires_of(fabric, rate, packets)

    def bound(collective: str, root: int | None = None) -> float:
        return cut_bound_s(
            fabric, collective, S, PACKET, capacity_bps=rate, free_packets_per_link=packets, root=root
        )

    assert bound("all-gather") == pytest.approx(by_all_cuts(wires, "gather"), rel=1e-6)
    assert bound("reduce-scatter") == pytest.approx(by_all_cuts(wires, "scatter"), rel=1e-6)
    roots = [by_all_cuts(wires, "one", root) for root in range(fabric.n_gpus)]
    assert [bound("broadcast", root) for root in range(fabric.n_gpus)] == pytest.approx(roots, rel=1e-6)
    assert bound("broadcast") == pytest.approx(min(roots), rel=1e-6)


@QUICK
@given(graphs(), st.sampled_from([0.0, 1.0]))
def test_all_reduce_is_bound_by_all_partitions(drawn: tuple[Fabric, np.ndarray], packets: float) -> None:
    fabric, rate = drawn
    wires = wires_of(fabric, rate, packets)
    truth = max(by_all_cuts(wires, "one"), by_all_partitions(wires, 0), by_all_partitions(wires, 1))
    bound = cut_bound_s(fabric, "all-reduce", S, PACKET, capacity_bps=rate, free_packets_per_link=packets)
    assert bound == pytest.approx(truth, rel=1e-6)


@QUICK
@given(graphs(), st.sampled_from([0.0, 1.0]))
def test_routing_is_bound_at_least_by_all_cuts(drawn: tuple[Fabric, np.ndarray], packets: float) -> None:
    """The best prices are no less than any cut, and no other prices (random ones here) beat them."""
    fabric, rate = drawn
    wires, n = wires_of(fabric, rate, packets), fabric.n_gpus
    every = (BITS / n) * (1 - np.eye(n))
    following = BITS * np.roll(np.eye(n), 1, axis=1)
    random = np.random.default_rng(fabric.n_links).uniform(0, 1, (20, fabric.n_links))
    for collective, cuts, demand in (("all-to-all", "all-pairs", every), ("send-recv", "next", following)):
        bound = cut_bound_s(fabric, collective, S, PACKET, capacity_bps=rate, free_packets_per_link=packets)
        assert bound >= by_all_cuts(wires, cuts) * (1 - 1e-6)
        assert all(priced(wires, demand, price) <= bound * (1 + 1e-6) for price in random)


@st.composite
def servers(draw: st.DrawFn) -> tuple[Fabric, np.ndarray]:
    """(fabric, its rates): 2 or 3 servers whose GPUs share PCIe switches and these a CPU each, with ports of
    PCIe switches or CPUs to a spine, and sometimes a switch that joins the GPUs of a server."""
    counts = st.sampled_from([(2, 4, 2), (2, 3, 1), (3, 2, 1), (2, 2, 2), (4, 2, 1)])
    n_servers, n_gpus, n_pcie = draw(counts)
    joined, at_cpu = draw(st.booleans()), draw(st.booleans())
    size = {"gpu": n_servers * n_gpus, "pcie": n_servers * n_pcie, "cpu": n_servers, "spine": 1}
    size |= {"nvswitch": n_servers} if joined else {}
    first, groups, at = 0, [], {}
    for kind, count in size.items():
        shape = (n_servers, n_gpus) if kind == "gpu" else (count,)
        groups.append(NodeGroup(kind, first, shape, kind[0]))
        at[kind], first = first, first + count
    builder = FabricBuilder("servers", groups, {})
    rates = st.sampled_from([1.0, 2.0, 5.0, 30.0])
    for server in range(n_servers):
        for gpu in range(n_gpus):
            own, pcie = at["gpu"] + server * n_gpus + gpu, at["pcie"] + server * n_pcie + gpu % n_pcie
            builder.cables([own], [pcie], "wire", 8e6 * draw(rates))
            if joined:
                builder.cables([own], [at["nvswitch"] + server], "wire", 8e6 * draw(rates))
        for pcie in range(n_pcie):
            builder.cables([at["pcie"] + server * n_pcie + pcie], [at["cpu"] + server], "wire", 8e6)
            if not at_cpu:
                builder.cables(
                    [at["pcie"] + server * n_pcie + pcie], [at["spine"]], "wire", 8e6 * draw(rates)
                )
        if at_cpu:
            builder.cables([at["cpu"] + server], [at["spine"]], "wire", 8e6 * draw(rates))
    fabric = builder.build()
    return fabric, fabric.capacity_bps


@settings(max_examples=25, deadline=None)
@given(servers(), st.sampled_from([0.0, 1.0]), st.booleans())
def test_servers_with_shared_switches_are_bound_by_the_narrowest_of_all_cuts(
    drawn: tuple[Fabric, np.ndarray], packets: float, solver: bool
) -> None:
    """Maximum flows of networkx around every set of GPUs, for all places of the switches at once."""
    fabric, rate = drawn
    n, free = fabric.n_gpus, 8.0 * (4096 + 58) * packets
    truth = {"all-gather": 0.0, "all-to-all": 0.0, "all-reduce": 0.0}
    bounds = {}
    with pytest.MonkeyPatch.context() as patch:
        if not solver:
            patch.setitem(sys.modules, "highspy", None)
        for name in truth:
            bounds[name] = cut_bound_s(fabric, name, S, PACKET, free_packets_per_link=packets)
    for chosen in product((False, True), repeat=n):
        x = sum(chosen)
        if not 0 < x < n:
            continue
        needs = {"all-gather": x / n, "all-to-all": x * (n - x) / n, "all-reduce": 1.0}
        for name, share in needs.items():
            assert fits_within(fabric, rate * bounds[name] * (1 + 1e-6) + free, chosen, share * BITS), name


def fits_within(fabric: Fabric, pipes: np.ndarray, chosen: tuple[bool, ...], bits: float) -> bool:
    """Whether so many bits flow from the chosen GPUs to the others."""
    graph = nx.DiGraph()
    ends = zip(fabric.link_src.tolist(), fabric.link_dst.tolist(), pipes.tolist(), strict=True)
    for a, b, room in ends:
        known = graph.get_edge_data(a, b, {"capacity": 0.0})["capacity"]
        graph.add_edge(a, b, capacity=known + room)
    for gpu, inside in enumerate(chosen):
        graph.add_edge(*(("from", gpu) if inside else (gpu, "to")))
    return bool(nx.maximum_flow_value(graph, "from", "to") >= bits * (1 - 1e-9))


@pytest.mark.parametrize("kinds", ["cpu", "pcie"])
@pytest.mark.parametrize("large", [False, True])
def test_the_ports_of_a_server_bound_it_whatever_is_inside(
    kinds: str, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: 8 servers of 8 GPUs with 8 ports of 100 Gb/s: 8 x 56/64 S leave a server over 100 GB/s. Its
    GPUs reach the ports over PCIe switches that share CPUs, so many switches away from the GPUs."""
    if large:  # the family of cuts alone
        monkeypatch.setattr("railweave.framework.analysis.limits.LARGEST_SEARCH", 0)
    shapes = {"gpu": (8, 8), "pcie": (8, 8), "cpu": (8, 2), "nvswitch": (8, 2), "leaf": (8,), "nic": (64,)}
    first = np.cumsum([0, *(np.prod(shape) for shape in shapes.values())]).tolist()
    groups = [
        NodeGroup(kind, at, shape, kind[:2]) for at, (kind, shape) in zip(first, shapes.items(), strict=False)
    ]
    builder = FabricBuilder("servers", groups, {})
    gpu = np.arange(64)
    server, place = gpu // 8, gpu % 8
    cpu = 128 + 2 * server + place // 4
    builder.cables(gpu, 64 + gpu, "pcie", 8 * 64e9)
    builder.cables(64 + gpu, cpu, "pcie", 8 * 64e9)
    builder.cables(cpu[::8], cpu[4::8], "upi", 8 * 64e9)
    for switch in (0, 1):
        builder.cables(gpu, 144 + 2 * server + switch, "nvlink", 8 * 225e9)
    builder.cables(cpu if kinds == "cpu" else 64 + gpu, 168 + gpu, "pcie", 8 * 64e9)
    builder.cables(168 + gpu, 160 + place, "eth", 100e9)
    bound = tightest_cut(builder.build(), "all-to-all", 64 << 20, PACKET)
    assert bound.seconds == pytest.approx(8 * 56 / 64 * (64 << 20) * WIRE / 100e9)


@QUICK
@given(graphs(), st.sampled_from([0.0, 1.0]), st.booleans())
def test_never_below_the_family(drawn: tuple[Fabric, np.ndarray], packets: float, solver: bool) -> None:
    fabric, rate = drawn
    with pytest.MonkeyPatch.context() as patch:
        if not solver:
            patch.setitem(sys.modules, "highspy", None)
        for collective in COLLECTIVES:
            known = family_bounds(wires_of(fabric, rate, packets), collective, BITS)
            bound = cut_bound_s(
                fabric, collective, S, PACKET, capacity_bps=rate, free_packets_per_link=packets
            )
            assert bound >= min(family.seconds for family in known)


@QUICK
@given(graphs())
def test_minimum_cuts_are_those_of_another_max_flow(drawn: tuple[Fabric, np.ndarray]) -> None:
    fabric, rate = drawn
    graph = nx.DiGraph()
    graph.add_nodes_from(range(fabric.n_nodes))
    for a, b, bits in zip(fabric.link_src.tolist(), fabric.link_dst.tolist(), rate.tolist(), strict=True):
        known = graph.get_edge_data(a, b, {"capacity": 0.0})["capacity"]
        graph.add_edge(a, b, capacity=known + bits)
    wires, n = wires_of(fabric, rate, 0), fabric.n_gpus
    network, enough = FlowNetwork(wires), 1e9
    for sink in range(1, n):
        into = [enough] + [0.0] * (n - 1)
        out = [enough if i == sink else 0.0 for i in range(n)]
        inside = network.narrowest(rate, into, out, enough)
        assert inside is not None and inside[0] and not inside[sink]
        truth = nx.maximum_flow_value(graph, 0, sink)
        assert rate[crossing(fabric, inside)].sum() == pytest.approx(truth)
        assert truth == 0 or network.narrowest(rate, into, out, truth) is None


REGULAR = {
    "rail-only": RailOnly().build({**defaults(RailOnly()), "domains": 3, "rails": 4}),
    "rail-optimised": RailOptimised().build({**defaults(RailOptimised()), "domains": 3, "rails": 3}),
    "fat-tree": FatTree().build({**defaults(FatTree()), "k": 4}),
    "torus": Torus().build({**defaults(Torus()), "shape": "3x4"}),
}


@pytest.mark.parametrize("kind", REGULAR)
@pytest.mark.parametrize("collective", [name for name in COLLECTIVES if name != "send-recv"])
def test_merging_what_is_alike_changes_no_bound(
    kind: str, collective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against flows between every pair on the whole fabric: healthy, with a slow link, a slow node, both."""
    fabric, rng = REGULAR[kind], np.random.default_rng(3)
    monkeypatch.setitem(sys.modules, "highspy", None)
    for turn in range(4):
        rate = fabric.capacity_bps.copy()
        if turn & 1:
            rate[rng.integers(fabric.n_links)] *= rng.uniform(0.05, 0.9)
        if turn & 2:
            node = rng.integers(fabric.n_nodes)
            rate[(fabric.link_src == node) | (fabric.link_dst == node)] *= rng.uniform(0.05, 0.9)
        limits._searched.cache_clear()
        merged = tightest_cut(fabric, collective, S, PACKET, capacity_bps=rate).seconds
        with monkeypatch.context() as patch:
            for module in (limits, searched):
                patch.setattr(module, "ranks_alike", ranks_by_themselves)
            patch.setattr(searched, "all_alike", each_by_itself)
            limits._searched.cache_clear()
            whole = tightest_cut(fabric, collective, S, PACKET, capacity_bps=rate).seconds
        limits._searched.cache_clear()
        assert merged == pytest.approx(whole, rel=1e-8)


def each_by_itself(wires: Wires, marks: np.ndarray) -> list[Alike]:
    return [Alike(np.array([one]), np.arange(wires.fabric.n_nodes)) for one in range(len(marks))]


def ranks_by_themselves(wires: Wires, *others: int) -> list[Alike]:
    return each_by_itself(wires, wires.ranks)


def ring(rates: list[float]) -> Fabric:
    """GPU i joined to i + 1 by a cable of rates[i] bytes/s."""
    n = len(rates)
    builder = FabricBuilder("ring", [NodeGroup("gpu", 0, (n,), "g")], {})
    for i, rate in enumerate(rates):
        builder.cables([i], [(i + 1) % n], "ring", 8 * rate)
    return builder.build()


def test_it_finds_cuts_that_are_no_single_gpu_and_no_switch() -> None:
    """Ring of 8, two opposite cables at a tenth: half the GPUs send S/2 over 0.2 B, and a GPU alone S/8 over
    1.1 B at the worst. All-reduce: 2S over both ways of both cables, 2S/(0.4 B)."""
    fabric = ring([1e5, 1e6, 1e6, 1e6, 1e5, 1e6, 1e6, 1e6])
    found = tightest_cut(fabric, "all-gather", S, PACKET)
    assert found.seconds == pytest.approx(S / 2 / 2e5 * WIRE)
    assert found.cut in ("out of the 4 GPUs g1, g2, g3, g4", "into the 4 GPUs g1, g2, g3, g4")
    assert cut_bound_s(fabric, "reduce-scatter", S, PACKET) == pytest.approx(S / 2 / 2e5 * WIRE)
    assert cut_bound_s(fabric, "broadcast", S, PACKET) == pytest.approx(S / 2e5 * WIRE)
    reduced = tightest_cut(fabric, "all-reduce", S, PACKET)
    assert reduced.seconds == pytest.approx(2 * S / 4e5 * WIRE)
    assert reduced.cut in ("between 2 parts of 4, 4 GPUs", found.cut)
    # 16 ordered pairs go from half to half, S/8 each
    assert cut_bound_s(fabric, "all-to-all", S, PACKET) == pytest.approx(2 * S / 2e5 * WIRE)


def test_a_ring_with_a_dead_cable_is_a_chain() -> None:
    """Its ends hear 7S/8 over one link; its halves exchange 2S each way over one."""
    fabric = ring([1e6] * 8)
    rate = fabric.capacity_bps.copy()
    rate[:2] = 0
    bounds = {c: cut_bound_s(fabric, c, S, PACKET, capacity_bps=rate) for c in COLLECTIVES}
    assert bounds["all-gather"] == bounds["reduce-scatter"] == pytest.approx(7 / 8 * S / 1e6 * WIRE)
    assert bounds["all-reduce"] == pytest.approx(2 * 7 / 14 * S / 1e6 * WIRE)
    assert bounds["all-to-all"] == pytest.approx(2 * S / 1e6 * WIRE)
    assert bounds["send-recv"] == pytest.approx(S / 1e6 * WIRE)


@pytest.mark.parametrize("solver", [True, False])
@pytest.mark.parametrize("shape", ["3", "4", "5", "8", "3x4", "4x4", "3x5", "4x4x4", "3x3x3"])
def test_all_to_all_on_tori(shape: str, solver: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The closed form, the longest axis k: S k/(8B) if even, S (k^2 - 1)/(8kB) if odd; without a solver as
    well."""
    if not solver:
        monkeypatch.setitem(sys.modules, "highspy", None)
    fabric = Torus().build({"shape": shape, "link_rate": 8e6})
    longest = max(k / 8 if k % 2 == 0 else (k * k - 1) / (8 * k) for k in map(int, shape.split("x")))
    assert cut_bound_s(fabric, "all-to-all", S, PACKET) == pytest.approx(longest * S / 1e6 * WIRE)


@pytest.mark.parametrize("shape", ["3", "4", "9", "4x4", "3x5", "3x3x3"])
def test_gathering_on_tori(shape: str) -> None:
    """S(n-1)/(2d nB), twice that for an all-reduce, S/(2dB) for a broadcast."""
    fabric = Torus().build({"shape": shape, "link_rate": 8e6})
    n, links = fabric.n_gpus, 2 * len(shape.split("x"))
    for collective in ("all-gather", "reduce-scatter"):
        bound = cut_bound_s(fabric, collective, S, PACKET)
        assert bound == pytest.approx(S * (n - 1) / (links * n) / 1e6 * WIRE)
    assert cut_bound_s(fabric, "all-reduce", S, PACKET) == pytest.approx(
        2 * S * (n - 1) / (links * n) / 1e6 * WIRE
    )
    assert cut_bound_s(fabric, "broadcast", S, PACKET) == pytest.approx(S / links / 1e6 * WIRE)


@pytest.mark.parametrize("n", [3, 8])
def test_neighbours_on_a_ring_also_use_the_long_way(n: int) -> None:
    """A share y goes round the other way over n - 1 links: (1 - y) S = (n - 1) y S, so (n - 1)/n S/B; with
    prices n - 1 and 1 no way is cheaper."""
    assert cut_bound_s(ring([1e6] * n), "send-recv", S, PACKET) == pytest.approx((n - 1) / n * S / 1e6 * WIRE)


def test_a_dead_rail_of_sixteen_gpus() -> None:
    """4 x 4 at 9:1 without rail 1: a domain is left at 3 rails, 4 GPUs of the dead rail at the domain's rate
    alone."""
    fabric = RailOnly().build({"domains": 4, "rails": 4, "domain_rate": 72e6, "rail_rate": 8e6})
    rate = fabric.capacity_bps.copy()
    rate[fabric.element_links(fabric.node_ids["r1"])] = 0
    gather = max(3 * S / 4 / 3e6, 15 * S / 16 / 9e6)
    assert cut_bound_s(fabric, "all-gather", S, PACKET, capacity_bps=rate) == pytest.approx(gather * WIRE)
    # between the domains 2 x 3 S over 4 x 3 rail links
    assert cut_bound_s(fabric, "all-reduce", S, PACKET, capacity_bps=rate) == pytest.approx(S / 2e6 * WIRE)
    # from a domain's 4 GPUs to 12 others, S/16 each
    assert cut_bound_s(fabric, "all-to-all", S, PACKET, capacity_bps=rate) == pytest.approx(
        3 * S / 3e6 * WIRE
    )
