"""What messages take alone on idle links: the engine itself, with one message on drawn paths, to the
picosecond; and the closed form of equal links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import railweave as rw
from railweave.plugins.packet.alone import alone_ps
from railweave.plugins.packet.settings import Settings
from tests.plugins.packet.cases import PACKET, Case, Message, between, packet_sizes, ps
from tests.plugins.packet.test_closed_forms import MTU, line


def alone(case: Case) -> float:
    sizes = np.array([message.size for message in case.messages])
    pair, cut_through = np.zeros(len(sizes), np.int64), case.settings.cut_through
    return float(alone_ps(case.fabric, PACKET, case.paths, pair, sizes, cut_through)[0])


@pytest.mark.parametrize("packets", [1, 2, 3, 40])
@pytest.mark.parametrize("hops", [1, 2, 5])
def test_equal_links(packets: int, hops: int) -> None:
    fabric, links = line(hops)
    case = Case(fabric, between(fabric, {(0, hops): [links]}), [Message(0, hops, packets * MTU)])
    first, other = (ps(fabric, links[0], size) for size in (packet_sizes(MTU)[0], MTU + PACKET.HEADERS))
    assert alone(case) == hops * first + (packets - 1) * other + hops * 1_000_000


@pytest.mark.parametrize("packets", [1, 2, 40])
def test_cut_through(packets: int) -> None:
    """Equal links: the last byte comes after all packets on one link, and 64 bytes on each of the others."""
    hops, size = 4, packets * MTU
    fabric, links = line(hops)
    settings = Settings(cut_through=True)
    case = Case(fabric, between(fabric, {(0, hops): [links]}), [Message(0, hops, size)], settings)
    through = sum(ps(fabric, links[0], size) for size in packet_sizes(size))
    expected = through + (hops - 1) * ps(fabric, links[0], 64) + hops * 1_000_000
    assert alone(case) == case.run()[1][0] == expected


@pytest.mark.parametrize("cut_through", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_links_of_any_rate_give_what_the_engine_gives(seed: int, cut_through: bool) -> None:
    rng = np.random.default_rng(seed)
    hops = int(rng.integers(1, 7))
    fabric, links = line(hops)
    rates = rng.choice([1e11, 1.3e11, 2e11, 4e11], fabric.n_links // 2).repeat(2)
    fabric = replace(
        fabric, capacity_bps=rates, latency_s=rng.choice([0, 3e-7], fabric.n_links // 2).repeat(2)
    )
    size = int(rng.integers(1, 12 * MTU))
    settings = Settings(cut_through=cut_through)
    case = Case(fabric, between(fabric, {(0, hops): [links]}), [Message(0, hops, size)], settings)
    assert case.run()[1][0] == alone(case)


@pytest.mark.parametrize("size", [1, MTU, 3 * MTU - 5, 40 * MTU])
def test_paths_that_begin_and_end_with_one_link_are_as_fast_as_one(size: int) -> None:
    """In a fat tree packets in turn do not wait behind the NIC, and meet again in front of the receiver."""
    plan = rw.load(engine="fluid", topology="fat-tree", k=4, router="spray", faults="none")
    ends = np.array([0]), np.array([plan.fabric.n_gpus - 1])
    case = Case(plan.fabric, plan.healthy_table.paths(*ends), [Message(0, plan.fabric.n_gpus - 1, size)])
    assert len(case.paths.weight) == 4
    assert case.run()[1][0] == alone(case)


@pytest.mark.parametrize("size", [MTU, 64 * MTU])
def test_several_nics_share_a_message(size: int) -> None:
    """Two planes: half of the packets through each, and the first one, with its RETH, needs all its links."""
    plan = rw.load(engine="fluid", topology="clos", planes=2, router="spray", faults="none")
    ends = np.array([0]), np.array([plan.fabric.n_gpus - 1])
    case = Case(plan.fabric, plan.healthy_table.paths(*ends), [Message(0, plan.fabric.n_gpus - 1, size)])
    sizes = packet_sizes(size)
    nic, packet = case.paths.links[0], MTU + PACKET.HEADERS
    took = case.run()[1][0]
    assert alone(case) <= took <= alone(case) + ps(case.fabric, nic, packet)
    if len(sizes) == 1:
        assert took == alone(case)
