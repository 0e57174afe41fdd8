"""Cut bounds against closed forms, against every cut of small fabrics, and against known schedules.

Closed forms: max(S(m-1)/(m g B_R), S(n-1)/(n (B_N + B_R))) for all-gather on rail-only, twice that for
all-reduce, max(S(m-1)/(m B_R), S(g-1)/(g B_N)) for all-to-all; m domains of g GPUs, n = m g, rates in
bytes/s.
"""

from __future__ import annotations

from itertools import combinations
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.analysis.limits import COLLECTIVES, tightest_cut
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup, PacketFormat
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.torus import Torus
from tests.fakes.cut_bounds import cut_bound_s

PACKET = PacketFormat(4096)
WIRE = (4096 + 58) / 4096
S = 1 << 20
SHAPES = [(4, 4), (2, 8), (8, 2), (1, 5), (5, 1), (3, 2)]
RATES = [(9e6, 1e6), (1e6, 1e6), (1e6, 8e6)]


def rail_only(m: int, g: int, b_n: float = 9e6, b_r: float = 1e6) -> Fabric:
    """Rates in bytes/s."""
    return RailOnly().build({"domains": m, "rails": g, "domain_rate": 8 * b_n, "rail_rate": 8 * b_r})


def all_gather_s(m: int, g: int, b_n: float, b_r: float) -> float:
    n = m * g
    return max(S * (m - 1) / (m * g * b_r), S * (n - 1) / (n * (b_n + b_r)), S * (g - 1) / (g * m * b_n))


@pytest.mark.parametrize(("b_n", "b_r"), RATES)
@pytest.mark.parametrize(("m", "g"), SHAPES)
def test_closed_forms_of_rail_only(m: int, g: int, b_n: float, b_r: float) -> None:
    """The table's two terms, and the one it leaves out because B_N > B_R there: what must leave a rail."""
    fabric = rail_only(m, g, b_n, b_r)
    expected = all_gather_s(m, g, b_n, b_r) * WIRE
    assert cut_bound_s(fabric, "all-gather", S, PACKET) == pytest.approx(expected)
    assert cut_bound_s(fabric, "reduce-scatter", S, PACKET) == pytest.approx(expected)
    assert cut_bound_s(fabric, "all-reduce", S, PACKET) >= 2 * expected * (1 - 1e-12)
    n = m * g
    to_all = max(S * (m - 1) / (m * b_r), S * (g - 1) / (g * b_n), S * (n - 1) / (n * (b_n + b_r)))
    assert cut_bound_s(fabric, "all-to-all", S, PACKET) == pytest.approx(to_all * WIRE)


@pytest.mark.parametrize(("m", "g"), [(4, 4), (2, 8), (8, 2), (8, 8)])
def test_all_reduce_is_twice_the_table(m: int, g: int) -> None:
    n = m * g
    table = 2 * max(S * (m - 1) / (m * g * 1e6), S * (n - 1) / (n * 10e6)) * WIRE
    assert cut_bound_s(rail_only(m, g), "all-reduce", S, PACKET) == pytest.approx(table)


def test_hierarchical_all_reduce_is_within_069_of_the_limit() -> None:
    """Rail-only paper, equation 1, twice: 4 x 4 at 9:1 gives 2 (3/16 + 3/36) S/B_R against 2 (3/16) S/B_R."""
    hierarchical = 2 * (3 * S / (16 * 1e6) + 3 * S / (4 * 9e6)) * WIRE
    ratio = cut_bound_s(rail_only(4, 4), "all-reduce", S, PACKET) / hierarchical
    assert ratio == pytest.approx(9 / 13)
    assert round(ratio, 2) == 0.69


def test_it_names_the_cut() -> None:
    assert tightest_cut(rail_only(4, 4), "all-gather", S, PACKET).cut == "into the GPUs of d0"
    assert tightest_cut(rail_only(4, 4, 1e6, 9e6), "all-to-all", S, PACKET).cut == "out of the GPUs of r0"
    assert tightest_cut(rail_only(2, 8, 1e6, 1e6), "all-gather", S, PACKET).cut == "into g0.0"
    assert (
        tightest_cut(rail_only(4, 4), "all-reduce", S, PACKET).cut
        == "between the GPUs of d0 and all others of the kind"
    )


def ring(rates: list[float]) -> Fabric:
    """GPU i joined to i + 1 by a cable of rates[i] bytes/s."""
    n = len(rates)
    builder = FabricBuilder("ring", [NodeGroup("gpu", 0, (n,), "g")], {})
    for i, rate in enumerate(rates):
        builder.cables([i], [(i + 1) % n], "ring", 8 * rate)
    return builder.build()


@pytest.mark.parametrize("n", [3, 4, 8, 9])
def test_rings(n: int) -> None:
    """Bidirectional ring, closed forms: all-gather S(n-1)/(2nB), all-reduce S(n-1)/(nB)."""
    fabric = ring([1e6] * n)
    assert cut_bound_s(fabric, "all-gather", S, PACKET) == pytest.approx(S * (n - 1) / (2 * n * 1e6) * WIRE)
    assert cut_bound_s(fabric, "all-reduce", S, PACKET) == pytest.approx(S * (n - 1) / (n * 1e6) * WIRE)


def every_cut_s(fabric: Fabric, capacity: np.ndarray, size: float) -> float:
    """The all-gather's bound over all cuts of the graph, not a family of them."""
    best, n = 0.0, fabric.n_gpus
    for count in range(1, fabric.n_nodes):
        for nodes in combinations(range(fabric.n_nodes), count):
            within = np.isin(np.arange(fabric.n_nodes), nodes)
            x = int(within[:n].sum())
            if 0 < x < n:
                rate = capacity[within[fabric.link_src] & ~within[fabric.link_dst]].sum()
                best = max(best, x * size / n * 8 / rate if rate else inf)
    return best * WIRE


@settings(max_examples=15)
@given(st.lists(st.sampled_from([0.2, 0.5, 1.0]), min_size=24, max_size=24))
def test_no_tighter_than_all_cuts_together_on_damaged_fabrics(shares: list[float]) -> None:
    fabric = rail_only(2, 3)
    capacity = fabric.capacity_bps * np.array(shares)
    bound = cut_bound_s(fabric, "all-gather", S, PACKET, capacity_bps=capacity)
    assert 0 < bound <= every_cut_s(fabric, capacity, S) * (1 + 1e-12)


def test_as_tight_as_all_cuts_together_on_a_healthy_fabric() -> None:
    fabric = rail_only(2, 3)
    assert cut_bound_s(fabric, "all-gather", S, PACKET) == pytest.approx(
        every_cut_s(fabric, fabric.capacity_bps, S)
    )


def test_a_slow_rail_raises_the_bound() -> None:
    """Rail 1 of 4 x 4 at 20 %: a domain is left at 3.2 B_R instead of 4, by hand 2 x 3/(4 x 3.2) S/B_R."""
    fabric = rail_only(4, 4)
    capacity = fabric.capacity_bps.copy()
    capacity[fabric.element_links(fabric.node_ids["r1"])] *= 0.2
    bound = cut_bound_s(fabric, "all-reduce", S, PACKET, capacity_bps=capacity)
    assert bound == pytest.approx(2 * 3 / (4 * 3.2) * S / 1e6 * WIRE)


@pytest.mark.parametrize(("m", "g"), [(3, 4), (8, 8)])
def test_the_gpus_of_a_slow_domain_bound_an_all_reduce_together(
    m: int, g: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: what its GPUs send into the domain is slow. Each is a part of its own, all others are one:
    2gS leave g GPUs over g (s B_N + B_R) and the others over g B_R. Found without asking rank by rank."""
    monkeypatch.delattr("railweave.framework.analysis.limits.cuts._weakest")
    fabric, slow = rail_only(m, g, 9e6, 1e6), 0.05
    (domains,) = (group for group in fabric.groups if group.kind == "domain")
    rate = fabric.capacity_bps.copy()
    rate[fabric.link_dst == domains.first + 1] *= slow
    bound = tightest_cut(fabric, "all-reduce", S, PACKET, capacity_bps=rate)
    assert bound.seconds == pytest.approx(2 * g * S / (g * (slow * 9e6 + 2e6)) * WIRE)
    assert bound.cut.startswith(f"between {g + 1} parts of {(m - 1) * g}, 1, 1, 1")


def test_one_slow_gpu_does_not_limit_an_all_reduce_twice() -> None:
    """Ring of 4 with both cables of GPU 0 at 1/100: it sends its array away to be summed and takes the result
    back, S over 2 x 0.01 B each way at once, and that is a schedule; twice the all-gather's bound,
    2 (3/4) S / (0.02 B), is 1.5 times as long and no limit."""
    fabric = ring([1e4, 1e6, 1e6, 1e4])
    assert cut_bound_s(fabric, "all-reduce", S, PACKET) == pytest.approx(S / 2e4 * WIRE)
    assert cut_bound_s(fabric, "all-gather", S, PACKET) == pytest.approx(3 / 4 * S / 2e4 * WIRE)


def test_directions_count_apart() -> None:
    """One way out of GPU 0 at a tenth: an all-gather must send S/3 over it, a reduce-scatter 2S/3."""
    fabric = ring([1e6, 1e6, 1e6])
    capacity = fabric.capacity_bps.copy()
    capacity[fabric.link_src == 0] = 8e4
    gather = cut_bound_s(fabric, "all-gather", S, PACKET, capacity_bps=capacity)
    scatter = cut_bound_s(fabric, "reduce-scatter", S, PACKET, capacity_bps=capacity)
    assert gather == pytest.approx(S / 3 / (2 * 1e4) * WIRE)
    assert scatter == pytest.approx(2 * S / 3 / (2 * 1e4) * WIRE)


def test_what_is_cut_off_takes_forever() -> None:
    fabric = rail_only(2, 2)
    capacity = fabric.capacity_bps.copy()
    capacity[fabric.out_links(0)] = 0
    bounds = {c: cut_bound_s(fabric, c, S, PACKET, capacity_bps=capacity) for c in COLLECTIVES}
    assert bounds.pop("broadcast") < inf  # from any other root
    assert set(bounds.values()) == {inf}
    capacity[fabric.out_links(0) ^ 1] = 0
    assert cut_bound_s(fabric, "broadcast", S, PACKET, capacity_bps=capacity) == inf


@pytest.mark.parametrize(("b_n", "b_r"), RATES)
@pytest.mark.parametrize(("m", "g"), SHAPES)
def test_broadcast_on_rail_only(m: int, g: int, b_n: float, b_r: float) -> None:
    """The table: max(S/(g B_R), S/(B_N + B_R)); beside it what must enter a rail if B_N < B_R, S/(m B_N)."""
    alone = b_n if m == 1 else b_r if g == 1 else b_n + b_r
    terms = [1 / alone, *([1 / (g * b_r)] if m > 1 else []), *([1 / (m * b_n)] if g > 1 else [])]
    bound = cut_bound_s(rail_only(m, g, b_n, b_r), "broadcast", S, PACKET)
    assert bound == pytest.approx(S * max(terms) * WIRE)


@pytest.mark.parametrize(("shape", "axes"), [("3", 1), ("8", 1), ("4x4", 2), ("3x5", 2), ("3x3x3", 3)])
def test_broadcast_and_neighbours_on_tori(shape: str, axes: int) -> None:
    """The table's S/(2dB) for a broadcast; neighbours send S each over 2d links, and over links of others."""
    fabric = Torus().build({"shape": shape, "link_rate": 8e6})
    alone = S / (2 * axes * 1e6) * WIRE
    assert cut_bound_s(fabric, "broadcast", S, PACKET) == pytest.approx(alone)
    assert cut_bound_s(fabric, "send-recv", S, PACKET) >= alone * (1 - 1e-9)


def test_broadcast_is_for_the_best_of_all_roots() -> None:
    """Ring of 4, both links out of GPU 0 at a tenth: a neighbour is entered at 1.1 B whatever the root. Both
    ways into it: S/(0.2 B) for other roots, S/(2B) for itself; GPU 2 as well, then nobody is better off."""
    fabric = ring([1e6] * 4)
    for slow, rate in ((fabric.out_links(0), 1.1e6), (fabric.out_links(0) ^ 1, 2e6)):
        capacity = fabric.capacity_bps.copy()
        capacity[slow] *= 0.1
        bound = cut_bound_s(fabric, "broadcast", S, PACKET, capacity_bps=capacity)
        assert bound == pytest.approx(S / rate * WIRE)
    capacity[fabric.out_links(2) ^ 1] *= 0.1
    bound = cut_bound_s(fabric, "broadcast", S, PACKET, capacity_bps=capacity)
    assert bound == pytest.approx(S / 2e5 * WIRE)


def test_neighbours_follow_the_list_of_ranks() -> None:
    """2 domains of 2: in the order of GPUs each domain sends S to the other over 2 rails; in the order 0, 2,
    1, 3 every message crosses, 2S over 2 rails of 1 MB/s; a GPU alone sends S at 10 MB/s."""
    fabric = rail_only(2, 2)
    one = cut_bound_s(fabric, "send-recv", S, PACKET)
    assert one == cut_bound_s(fabric, "send-recv", S, PACKET, ranks=range(4)) == pytest.approx(S / 2e6 * WIRE)
    assert cut_bound_s(fabric, "send-recv", S, PACKET, ranks=[0, 2, 1, 3]) == pytest.approx(S / 1e6 * WIRE)
    assert cut_bound_s(fabric, "send-recv", S, PACKET, ranks=[0, 1]) == pytest.approx(S / 10e6 * WIRE)


def test_free_packets_are_granted_per_link_of_the_cut() -> None:
    """4 x 4: 4 rail links lead into a domain, so the all-gather's 3S/4 on them is 8 packets less with 2 free
    on each; between all domains of an all-reduce 16 links grant 32. A dead link grants none."""
    fabric, packet_s = rail_only(4, 4), (4096 + 58) / 1e6
    plain = 3 * S / 16 / 1e6 * WIRE
    granted = cut_bound_s(fabric, "all-gather", S, PACKET, free_packets_per_link=2)
    assert granted == pytest.approx(plain - 8 * packet_s / 4)
    reduced = cut_bound_s(fabric, "all-reduce", S, PACKET, free_packets_per_link=2)
    assert reduced == pytest.approx(2 * plain - 32 * packet_s / 16)
    assert cut_bound_s(fabric, "all-reduce", S, PACKET, free_packets_per_link=1e9) == 0
    cut_off = fabric.capacity_bps.copy()
    cut_off[fabric.out_links(0)] = 0
    given = {"capacity_bps": cut_off, "free_packets_per_link": 1e9}
    assert cut_bound_s(fabric, "all-reduce", S, PACKET, **given) == inf


def test_headers_count_by_path_mtu() -> None:
    fabric = rail_only(4, 4)
    small = cut_bound_s(fabric, "all-gather", S, PacketFormat(256))
    assert small / cut_bound_s(fabric, "all-gather", S, PACKET) == pytest.approx((314 / 256) / WIRE)


def test_some_ranks_only() -> None:
    """The four GPUs of one domain: only single GPUs are cut, S(g-1)/g into each over both its interfaces."""
    fabric = rail_only(4, 4)
    bound = cut_bound_s(fabric, "all-gather", S, PACKET, ranks=[0, 1, 2, 3])
    assert bound == pytest.approx(S * 3 / 4 / 10e6 * WIRE)
    assert cut_bound_s(fabric, "all-gather", S, PACKET, ranks=range(16)) == cut_bound_s(
        fabric, "all-gather", S, PACKET
    )


def test_underscores_and_nothing_to_move() -> None:
    fabric = rail_only(2, 2)
    assert cut_bound_s(fabric, "all_reduce", S, PACKET) == cut_bound_s(fabric, "all-reduce", S, PACKET)
    assert tightest_cut(fabric, "all-reduce", 0, PACKET).seconds == 0


@pytest.mark.parametrize("shape", ["8x8x16", "16x4x16"])
def test_a_large_torus_is_halved_along_its_longest_axis(shape: str) -> None:
    """An all-to-all of S takes S k/(8B), B a link's rate, k the longest axis: half of the GPUs send half of
    their data to the others, over 2n/k links. Too many GPUs for a search of all cuts."""
    fabric = Torus().build({"shape": shape})
    bound = tightest_cut(fabric, "all-to-all", S, PACKET)
    assert bound.seconds == pytest.approx(8 * S * WIRE * 16 / 8 / fabric.capacity_bps[0], rel=1e-9)
    assert "of the 512 GPUs" in bound.cut
