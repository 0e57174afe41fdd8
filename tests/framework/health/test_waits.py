"""How long messages wait for lost packets, against drawn losses, the transport and the engine `packet`."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import fmean

import numpy as np
import pytest

import railweave as rw
from railweave.framework.health.waits import Bursts, Sending
from railweave.framework.model import HealthSnapshot, PacketFormat
from railweave.framework.model.senders import Senders
from railweave.framework.routing.batches import join
from railweave.framework.routing.demand import JobDemand
from railweave.plugins.packet.layout import PICOSECONDS
from railweave.plugins.shortest.router import Shortest
from railweave.plugins.spray.router import Spray
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.rocev2.stated import senders
from railweave.traffic.rocev2.tuning import Tuning
from tests.framework.health.test_loss import MTU, RANKS, seconds
from tests.laws.test_packets_exactly import settled
from tests.traffic.memory_fabric import MemoryFabric
from tests.traffic.rocev2.test_delivery import COLLECTIVE, all_reduce, table

BITS = 8.0 * PacketFormat().full_packet_bytes


@pytest.mark.parametrize("loss", [0.01, 0.03, 0.1])
def test_messages_wait_as_their_senders_state(loss: float) -> None:
    """Messages of 16 packets in the transport: all pairs of a ring lose data, and go on together."""
    seeds = range(20)
    measured = fmean(seconds(loss, seed, 16, 4e6, (0, 1, 2, 3)) for seed in seeds) / seconds(0.0, 0, 16, 4e6)
    fabric, ranks = rw.topology("ring", nodes=RANKS, rate=4e6), np.arange(RANKS)
    paths = Shortest().routes(fabric, HealthSnapshot.healthy(fabric)).paths(ranks, (ranks + 1) % RANKS)
    of_links = np.zeros(fabric.n_links)
    of_links[paths.links] = loss
    stated = senders(Tuning(), fabric, paths, PacketFormat())
    phases = [Bursts(ranks, np.ones(RANKS), np.full(RANKS, 16 * BITS))]
    sending = Sending(fabric, paths, fabric.capacity_bps, stated, BITS)
    (wait_s,) = set(sending.expected_waits(of_links, phases).mean_s)
    assert measured == pytest.approx(1 / (1 - loss) + wait_s / (16 * BITS / 4e6), rel=0.2)


def test_nobody_waits_for_lost_answers() -> None:
    """The transport: a tenth of the answers of a pair of the ring is lost, and the ring takes as long."""
    schedule, draw = all_reduce(RANKS, RANKS * 16 * MTU), Random(1)
    fabric = MemoryFabric(RANKS, mtu=MTU)
    fabric.alive = lambda src, dst, *_: not ((src, dst) == (1, 0) and draw.random() < 0.1)
    fabric.rate_bps = lambda src, dst, udp_src: 4e6
    fabric.executor.use_entropies(table(RANKS, {}, rate_bps=4e6), 0.0)
    buffers = RankBuffers(schedule)
    buffers.fill(COLLECTIVE.inputs(schedule, 0))
    assert fabric.run(schedule, buffers) == pytest.approx(seconds(0.0, 0, 16, 4e6), rel=1e-3)
    ring = rw.topology("ring", nodes=RANKS, rate=4e6)
    paths = Shortest().routes(ring, HealthSnapshot.healthy(ring)).paths(np.array([0]), np.array([1]))
    loss, stated = np.zeros(ring.n_links), senders(Tuning(), ring, paths, PacketFormat())
    loss[paths.links ^ 1] = 0.1
    phases = [Bursts(np.array([0]), np.ones(1), np.full(1, 16 * BITS))]
    assert Sending(ring, paths, ring.capacity_bps, stated, BITS).expected_waits(loss, phases).mean_s == [0.0]


@pytest.mark.parametrize("loss", [0.1, 0.3])
def test_losses_before_the_last_packet_are_seen_by_answers(loss: float) -> None:
    """Packet by packet: what is lost both ways of 64 packets, answered for four at a time and at the end. The
    sender waits if the last packet is lost, or one before it that no answer to a later one tells of."""
    fabric = rw.topology("ring", nodes=3)
    paths = Shortest().routes(fabric, HealthSnapshot.healthy(fabric)).paths(np.array([0]), np.array([1]))
    ones, rare = np.ones(1), np.full(1, 1e-6)  # the first wait is long, the others are nothing to it
    stated = Senders(ones, ones, ones, 4 * ones, ones, rare, rare, 9 * ones)
    phases = [Bursts(np.array([0]), ones, 64 * BITS * ones)]
    of_links = np.full(fabric.n_links, loss)
    got = Sending(fabric, paths, fabric.capacity_bps, stated, BITS).expected_waits(of_links, phases)
    draw, waits = np.random.default_rng(3), []
    for _ in range(20_000):
        lost, seen, owed = draw.random(64) < loss, -1, 0
        for i in np.flatnonzero(~lost).tolist():
            owed += 1
            if owed == 4 or i == 63:
                owed, seen = 0, i if draw.random() >= loss else seen
        waits.append(bool(lost[seen + 1 :].any()))
    assert got.mean_s == pytest.approx(fmean(waits), rel=0.1)
    assert got.chance == pytest.approx(fmean(waits), rel=0.1) and got.if_asked_s() == pytest.approx(
        1, rel=0.01
    )


def test_a_path_of_a_small_share_has_a_last_packet_too() -> None:
    """32 packets over four links, of which one has a share of 4 % and loses half of them: its one packet is
    lost every second time, and sent again over any link."""
    fabric = rw.topology("ring", nodes=3, wavelengths=4)
    paths = Spray().routes(fabric, HealthSnapshot.healthy(fabric)).paths(np.array([0]), np.array([1]))
    ones, rare, of_links = np.ones(1), np.full(1, 1e-6), np.zeros(fabric.n_links)
    of_links[paths.links[3]] = 0.5
    paths = replace(paths, weight=np.array([0.32, 0.32, 0.32, 0.04]))
    stated = Senders(ones, ones, ones, ones, ones, rare, rare, 9 * ones)
    phases = [Bursts(np.array([0]), ones, 32 * BITS * ones)]
    got = Sending(fabric, paths, fabric.capacity_bps, stated, BITS).expected_waits(of_links, phases)
    assert got.mean_s == pytest.approx(0.5 / (1 - 0.02), rel=0.2)


@pytest.mark.parametrize(
    ("pairs", "ways", "latency_s", "loss", "within"),
    [
        (1, 1, 0.0, 0.3, 0.03),
        (5, 1, 0.0, 0.1, 0.03),
        (3, 1, 4e-3, 0.2, 0.03),
        (1, 4, 0.0, 0.1, 0.06),
        (4, 3, 0.0, 0.2, 0.06),
    ],
)
def test_the_longest_wait_is_that_of_drawn_losses(
    pairs: int, ways: int, latency_s: float, loss: float, within: float
) -> None:
    """Pairs of neighbours on links of their own, each drawn by itself: the last packet on each of its links,
    again and again, by the waits that its sender states, one link after the other, and the others of a round
    trip. The mean longest of 20,000 draws."""
    fabric = rw.topology("ring", nodes=2 * pairs + 1, wavelengths=ways, rate=4e6 * ways, latency=latency_s)
    src = 2 * np.arange(pairs)
    paths = Spray().routes(fabric, HealthSnapshot.healthy(fabric)).paths(src, src + 1)
    assert np.bincount(paths.path_pair).tolist() == [ways] * pairs
    first, timeout, most = 0.5, 0.75, 2.0
    ones, of_links = np.ones(pairs), np.zeros(fabric.n_links)
    of_links[paths.links] = loss
    stated = Senders(0 * ones, 0 * ones, 0 * ones, ones, first * ones, timeout * ones, most * ones, 9 * ones)
    phases = [Bursts(src // 2, ones, 16 * BITS * ones)]
    got = Sending(fabric, paths, fabric.capacity_bps, stated, BITS).expected_waits(of_links, phases)
    draw, rate = np.random.default_rng(7), fabric.capacity_bps[paths.links[0]]
    turns = [(k * (5**0.5 - 1) / 2 + 0.5) % 1 for k in range(40)]
    waits = np.cumsum([0.0, first, *(min(timeout * 2**k, most) * (0.5 + turns[k]) for k in range(40))])
    longest = waits[draw.geometric(1 - loss, (20_000, pairs, ways)) - 1].sum(axis=2).max(axis=1)
    travel_s = 2 * latency_s
    if many := round(travel_s * rate / BITS):
        longest = longest + travel_s * (draw.geometric(1 - loss, (20_000, pairs * many)).max(axis=1) - 1)
    assert got.mean_s.tolist() == [pytest.approx(longest.mean(), rel=within)] * pairs
    if not latency_s:
        assert got.chance == pytest.approx(np.mean(longest > 0), rel=0.02)
    if ways == 1 and not latency_s:  # a message of less than a packet is one
        short = [Bursts(src // 2, ones, BITS / 4 * ones)]
        same = Sending(fabric, paths, fabric.capacity_bps, stated, BITS).expected_waits(of_links, short)
        assert got.mean_s.tolist() == same.mean_s.tolist()


@pytest.mark.parametrize(
    ("topology", "router", "collective", "size", "options", "within"),
    [
        ({"name": "ring", "nodes": 9, "latency": 1.47e-6}, "spray", "direct-all-to-all", 9 << 17, {}, 0.15),
        ({"name": "torus", "shape": "3x3"}, "dor", "direct-all-to-all", 9 << 18, {}, 0.15),
        ({"name": "fat-tree", "k": 4}, "spray", "incast", 40 << 12, {}, 0.15),
        ({"name": "fat-tree", "k": 4}, "ecmp", "incast", 40 << 12, {"nic": "fifo"}, 0.4),
        ({"name": "rail-only", "domains": 4}, "hscore", "direct-all-to-all", 3 << 20, {}, 0.4),
    ],
)  # fmt: skip
def test_round_trips_are_those_of_packets(
    topology: dict[str, object],
    router: str,
    collective: str,
    size: int,
    options: dict[str, str],
    within: float,
) -> None:
    """Of the pairs of the longest ways in `packet`, in the mean, after two iterations."""
    plan = rw.load(
        topology=topology, router=router, collective=collective, size=size, iterations=2, feedback=False,
        engine={"name": "packet", "window": "ideal", **options},
    )  # fmt: skip
    model = settled(plan)
    assert model is not None
    paths, n = join(*plan.first_paths), plan.fabric.n_gpus
    stated = model.senders(paths).scaled(model.rate_scale)
    (phase,) = JobDemand([job.schedule for job in plan.jobs], plan.packet).phases(n)
    ours = np.searchsorted(paths.src * n + paths.dst, phase.pairs)
    sending = Sending(plan.fabric, paths, plan.fabric.capacity_bps, stated, BITS)
    got_s = sending.round_trips_s(phase._replace(pairs=ours))
    hops = np.zeros(len(paths.src), np.int64)
    np.maximum.at(hops, paths.path_pair, np.diff(paths.hop_start))
    ours = ours[hops[ours] == hops[ours].max()]
    measured_s = model.sim.s.pair["smoothed"][ours].mean() / PICOSECONDS
    assert got_s[ours].mean() / measured_s == pytest.approx(1, abs=within)
