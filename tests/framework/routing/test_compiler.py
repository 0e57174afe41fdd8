"""Rules against brute force: every defined packet, carried by the fake switches, takes its path exactly."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import RouteError
from railweave.framework.model import Fabric, HealthSnapshot, Path, RouteTable, Rule
from railweave.framework.model.addressing import ENTROPY_BASE, ipv4
from railweave.framework.routing.batches import all_paths
from railweave.framework.routing.entropy import entropy_table, path_classes
from railweave.plugins.spray.router import Spray
from railweave.topologies.clos import Clos
from tests.fakes.fake_switch import FakeFabric, Packet, Trip, compile_rules
from tests.fakes.random_routes import FABRICS, random_table
from tests.fakes.small_fabrics import dimension_order, rail_only, rail_path, ring, table_of, torus


def rule_counts(fabric: Fabric, rules: Sequence[Rule]) -> dict[str, tuple[float, int]]:
    """Rules per switch: (mean, most) for each kind of node."""
    count = np.bincount([rule.switch for rule in rules], minlength=fabric.n_nodes)
    spans = ((g.kind, count[g.first : g.first + g.size]) for g in fabric.groups)
    return {kind: (float(part.mean()), int(part.max())) for kind, part in spans}


def assert_follows(fabric: Fabric, table: RouteTable, fake: FakeFabric) -> None:
    """Each pair's every entropy takes one of its paths, each path is taken,
    and cut pairs are dropped at once."""
    batch = all_paths(table)
    entropies = entropy_table(fabric, 0, batch, path_classes(fabric, batch))
    for i, (src, dst) in enumerate(zip(batch.src.tolist(), batch.dst.tolist(), strict=True)):
        wanted = sorted(path.links for path in batch.paths(i))
        ports = entropies.udp_src[entropies.start[i] : entropies.start[i + 1]].tolist()
        trips = [fake.send(src, dst, port) for port in ports]
        assert all(trip.delivered == dst for trip in trips)
        assert sorted({trip.links for trip in trips}) == wanted
        if not wanted:
            assert fake.send(src, dst).links == ()
            assert fake.send(src, dst).delivered is None


@settings(max_examples=30)
@given(st.sampled_from(sorted(FABRICS)), st.integers(0, 2**32), st.sampled_from([0, 1, 62]))
def test_every_packet_takes_its_path(kind: str, seed: int, tag: int) -> None:
    fabric = FABRICS[kind]()
    table = random_table(fabric, random.Random(seed))
    rules = compile_rules(fabric, table, tag)
    fake = FakeFabric(fabric, rules)
    assert_follows(fabric, table, fake)
    before = fake.contents()
    fake.add(rules)
    assert fake.contents() == before, "applied twice, the rules change nothing"
    assert compile_rules(fabric, table, tag) == rules


@pytest.mark.parametrize("by", ["dr", "rd"])
def test_rail_only_needs_few_rules(by: str) -> None:
    """8x8: a NIC needs its way out (domain or rail), its way in and through: two each, and the base rule. A
    domain or rail switch needs a rule per port."""
    fabric = rail_only(8, 8)
    table = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst, by)])
    rules = compile_rules(fabric, table)
    assert rule_counts(fabric, rules) == {"gpu": (5.0, 5), "domain": (8.0, 8), "rail": (8.0, 8)}
    assert_follows(fabric, table, FakeFabric(fabric, rules))


def test_torus_in_dimension_order_needs_few_rules() -> None:
    fabric = torus(4, 4, 4)
    table = table_of(fabric, lambda src, dst: [dimension_order(fabric, src, dst)])
    rules = compile_rules(fabric, table)
    mean, most = rule_counts(fabric, rules)["gpu"]
    assert most <= 16
    assert mean <= 16
    assert_follows(fabric, table, FakeFabric(fabric, rules))


def test_spraying_merges_the_rules_of_a_rail() -> None:
    """Over all rails of 4x4 evenly: a rail switch needs no look at the entropy,
    as its ports are the domains."""
    fabric = rail_only(4, 4)

    def spray(src: int, dst: int) -> list[Path]:
        if fabric.coordinates(src)[0] == fabric.coordinates(dst)[0]:
            return [rail_path(fabric, src, dst)]
        return [Path(rail_path(fabric, src, dst, rail).links, 0.25) for rail in range(4)]

    table = table_of(fabric, spray)
    rules = compile_rules(fabric, table)
    assert rule_counts(fabric, rules)["rail"] == (4.0, 4)
    assert rule_counts(fabric, rules)["gpu"][1] <= 10
    assert_follows(fabric, table, FakeFabric(fabric, rules))


def test_wavelengths_are_told_apart_by_the_port_of_entry() -> None:
    """On a ring with parallel links the path's wavelength is chosen at the source and kept."""
    fabric = ring(5, wavelengths=3)

    def clockwise(src: int, dst: int) -> list[Path]:
        lane = (src + dst) % 3
        nodes = [(src + i) % 5 for i in range((dst - src) % 5)]
        return [Path(tuple(2 * (5 * lane + node) for node in nodes))]

    table = table_of(fabric, clockwise)
    assert_follows(fabric, table, FakeFabric(fabric, compile_rules(fabric, table)))


def test_single_path_rules_never_look_at_the_entropy() -> None:
    fabric = rail_only(3, 3)
    rng = random.Random(5)
    table = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst, rng.randrange(3))])
    rules = compile_rules(fabric, table)
    assert {rule.match.udp_src for rule in rules} == {None}
    fake = FakeFabric(fabric, rules)
    for udp_src in (None, 1, ENTROPY_BASE + 7):
        assert fake.send(0, 8, udp_src).links == table.path(0, 8)[0].links


@pytest.mark.parametrize("tag", [0, 9])
def test_what_a_sender_writes_into_the_dscp_never_chooses_its_path(tag: int) -> None:
    """With the rules of a second version next to the first ones, all 64 values of every pair enter and arrive
    by the version that the ingress rules name."""
    fabric = rail_only(2, 2)
    table = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst)])
    other = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst, 1 - src % 2)])
    rules = compile_rules(fabric, table, tag)
    assert {rule.match.ip_dscp for rule in rules if rule.match.in_port != 1} == {tag}
    stale = [rule for rule in compile_rules(fabric, other, 5) if rule.match.in_port != 1]
    fake = FakeFabric(fabric, [*rules, *stale])
    for src, dst, dscp in itertools.product(range(4), range(4), range(64)):
        if src != dst:
            packet = Packet(ipv4(fabric, src), ipv4(fabric, dst), dscp, None)
            trip = fake.carry(src, 1, packet)
            assert trip == Trip(table.path(src, dst)[0].links, dst), (src, dst, dscp)


def test_senders_get_a_port_and_a_share_for_each_path() -> None:
    fabric = ring(4)
    table = table_of(
        fabric,
        lambda src, dst: [
            Path(way, weight)
            for way, weight in zip(_both_ways(fabric, src, dst), (2 / 3, 1 / 3), strict=True)
        ],
    )
    batch = all_paths(table)
    classes = path_classes(fabric, batch)
    entropies = entropy_table(fabric, 3, batch, classes)
    assert entropies.version == 3
    assert np.diff(entropies.start).tolist() == [2] * 12
    assert entropies.udp_src[:2].tolist() == [ENTROPY_BASE, ENTROPY_BASE + 1]
    assert entropies.weight.tolist() == [2 / 3, 1 / 3] * 12
    assert set(entropies.rate_bps.tolist()) == {100e9}


def test_rate_is_that_of_the_slowest_link() -> None:
    """400 Gb/s where a rail is crossed, 3.6 Tb/s within a domain: the builder's rates."""
    fabric = rail_only(2, 2)
    table = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst)])
    batch = all_paths(table)
    entropies = entropy_table(fabric, 0, batch, path_classes(fabric, batch))
    domain, rail = fabric.gpu_coordinates.T
    same = domain[batch.src] == domain[batch.dst]
    assert np.array_equal(entropies.rate_bps, np.where(same, 3.6e12, 4e11))
    # two links of a rail or a domain, or two of each: those of the domain hold a ninth of a packet
    across = np.where(rail[batch.src] == rail[batch.dst], 2.0, 2 + 2 / 9)
    assert np.allclose(entropies.depth, np.where(same, 2.0, across))


def test_two_ways_for_one_packet_are_refused() -> None:
    """A path that comes back to a node by the same port cannot be written as rules."""
    fabric = ring(3)
    there = fabric.out_links(0)[0]
    around = _both_ways(fabric, 0, 1)
    long_way = next(way for way in around if len(way) == 2)
    loop = (*long_way, *(link ^ 1 for link in long_way[::-1]), int(there), int(there) ^ 1, *long_way)
    table = table_of(
        fabric, lambda src, dst: [Path(loop if (src, dst) == (0, 1) else _both_ways(fabric, src, dst)[0])]
    )
    with pytest.raises(RouteError, match="must leave by different"):
        compile_rules(fabric, table)


def _both_ways(fabric: Fabric, src: int, dst: int) -> list[tuple[int, ...]]:
    """The two paths between GPUs of a ring: up, then down."""
    n = fabric.n_gpus
    up = tuple(2 * ((src + i) % n) for i in range((dst - src) % n))
    down = tuple(2 * ((src - 1 - i) % n) + 1 for i in range((src - dst) % n))
    return [up, down]


@pytest.mark.parametrize(
    "options",
    [
        {"servers": 8, "gpus": 8, "t0": 8, "t1": 8, "planes": 2},
        {"servers": 8, "gpus": 8, "t0": 8, "t1": 16},
        {"servers": 4, "gpus": 2, "t0": 4, "t1": 2, "planes": 8},
        {"servers": 4, "gpus": 4, "t0": 4, "t1": 4, "planes": 4, "rail_optimised": True},
        {"servers": 4, "gpus": 2, "t0": 4, "t1": 4, "dual_tor": True},
        {"servers": 4, "gpus": 2, "t0": 4, "t1": 4, "dual_tor": True, "rail_optimised": True},
        {"servers": 8, "gpus": 4, "t0": 8, "t1": 2, "dual_tor": True, "planes": 2},
        {"tiers": 3, "pods": 2, "servers": 2, "gpus": 2, "t0": 2, "t1": 2, "t2": 4},
        {"tiers": 3, "pods": 2, "servers": 2, "gpus": 2, "t0": 2, "t1": 2, "t2": 4, "rail_optimised": True},
        {"tiers": 3, "pods": 2, "servers": 2, "gpus": 2, "t0": 2, "t1": 2, "t2": 4, "dual_tor": True},
        {"tiers": 3, "pods": 4, "servers": 4, "gpus": 2, "t0": 4, "t1": 4, "t2": 8, "planes": 2},
    ],
    ids=lambda options: "-".join(f"{name}{value:d}" for name, value in options.items()),
)
def test_many_paths_take_no_more_rules_than_destinations_and_paths(options: dict[str, int]) -> None:
    """A switch needs a rule for each destination or branch at most, not for each pair of them. The NIC of a
    GPU needs one for each path, again for the pairs of one T0, one for what arrives, and the base rule."""
    fabric = Clos().build(options)
    table = Spray().routes(fabric, HealthSnapshot.healthy(fabric))
    paths = int(np.diff(all_paths(table).pair_start).max())
    rules = compile_rules(fabric, table)
    most = {kind: most for kind, (_, most) in rule_counts(fabric, rules).items()}
    assert most.pop("gpu") <= 2 * paths + 2
    assert max(most.values()) <= fabric.n_gpus + paths
    assert_follows(fabric, table, FakeFabric(fabric, rules))


def test_a_t0_switch_needs_a_rule_for_each_gpu_below_and_each_t1_above() -> None:
    """64 GPUs, 16 paths a pair in two planes: 8 + 8 in a T0, and in a T1 one for each of the 8 T0 below."""
    fabric = Clos().build({"servers": 8, "gpus": 8, "t0": 8, "t1": 8, "planes": 2})
    rules = compile_rules(fabric, Spray().routes(fabric, HealthSnapshot.healthy(fabric)))
    counts = rule_counts(fabric, rules)
    assert counts["t0"] == (16.0, 16) and counts["t1"] == (8.0, 8)


def test_paths_that_no_switch_tells_apart_are_followed_too() -> None:
    """With dual ToR a path is a T0 of the source, a T1 and a T0 of the destination: 2 x 4 x 2."""
    fabric = Clos().build({"servers": 4, "gpus": 2, "t0": 4, "t1": 4, "dual_tor": True})
    table = Spray().routes(fabric, HealthSnapshot.healthy(fabric))
    assert int(np.diff(all_paths(table).pair_start).max()) == 16
    assert_follows(fabric, table, FakeFabric(fabric, compile_rules(fabric, table)))
