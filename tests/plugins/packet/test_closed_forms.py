"""Times that follow from a queue's arithmetic, to the picosecond: packets over hops, flows into a port, the
waiting times of D/D/1 and M/D/1, priorities, drops, marks, losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import railweave as rw
from railweave.framework.model import Fabric
from railweave.plugins.packet.layout import NONE
from railweave.plugins.packet.settings import Settings, Waits
from tests.plugins.packet.cases import (
    PACKET,
    Case,
    Message,
    between,
    links_along,
    packet_sizes,
    ps,
    with_latency,
)

MTU = PACKET.path_mtu


def line(hops: int, latency_s: float = 1e-6) -> tuple[Fabric, list[int]]:
    """A ring, and its links from GPU 0 to GPU `hops`."""
    fabric = rw.topology("ring", nodes=hops + 2)
    fabric = with_latency(fabric, np.full(fabric.n_links, latency_s))
    return fabric, links_along(fabric, range(hops + 1))


def star(senders: int) -> tuple[Fabric, dict[tuple[int, int], list[list[int]]]]:
    """One domain of `senders` + 1 GPUs, and the paths from all to GPU 0 through its switch."""
    fabric = rw.topology("rail-only", domains=1, rails=senders + 1)
    switch = fabric.n_gpus
    return fabric, {(g, 0): [links_along(fabric, (g, switch, 0))] for g in range(1, senders + 1)}


@pytest.mark.parametrize("hops", [1, 2, 5])
@pytest.mark.parametrize("packets", [1, 2, 64])
def test_packets_over_hops(hops: int, packets: int) -> None:
    """Store and forward: the first packet, longer by its RETH, needs every hop, the others follow it."""
    fabric, links = line(hops)
    case = Case(fabric, between(fabric, {(0, hops): [links]}), [Message(0, hops, packets * MTU)])
    _, end = case.run()
    first, other = ps(fabric, links[0], packet_sizes(MTU)[0]), ps(fabric, links[0], MTU + PACKET.HEADERS)
    assert end[0] == hops * first + (packets - 1) * other + hops * 1_000_000


@pytest.mark.parametrize("hops", [1, 3])
@pytest.mark.parametrize("packets", [1, 2, 64])
@pytest.mark.parametrize("credit", [0, 30_000])
def test_packets_over_token_buckets(hops: int, packets: int, credit: int) -> None:
    """Each packet leaves a link once those before it are paid for, less what the bucket held, and is then at
    the next switch at once."""
    fabric, links = line(hops)
    settings = Settings(credit=credit)
    message = [Message(0, hops, packets * MTU)]
    _, end = Case(fabric, between(fabric, {(0, hops): [links]}), message, settings).run()
    sizes = packet_sizes(packets * MTU)
    paid = sum(ps(fabric, links[0], size) for size in sizes[:-1]) - credit
    assert end[0] == max(0, paid) + hops * 1_000_000


@pytest.mark.parametrize("hops", [1, 3])
def test_packets_that_switches_delay(hops: int) -> None:
    """Exponential at each switch, and twice that at the last one and its GPU, of means that are less by what
    share of the GPUs have no part in it: of 400 packets alone the mean is the sum of the means, and the
    variance that of the squares, both within four standard errors."""
    fabric, links = line(hops)
    late, n = 50_000 * fabric.n_gpus, 400
    paths, share = between(fabric, {(0, hops): [links]}), 2 / fabric.n_gpus
    took = []
    for seed in range(n):
        _, end = Case(fabric, paths, [Message(0, hops, 1)], Settings(credit=0, late=late, seed=seed)).run()
        took.append((int(end[0]) - hops * 1_000_000) / (late * share))
    means = np.array([1] * (hops - 1) + [2])
    variance = (means**2).sum()
    assert min(took) >= 0
    assert abs(np.mean(took) - means.sum()) < 4 * np.sqrt(variance / n)
    fourth = (6 * means**4).sum() / variance**2  # excess of the kurtosis
    assert abs(np.var(took) / variance - 1) < 4 * np.sqrt((2 + fourth) / n)


def test_a_slower_link_in_the_middle() -> None:
    fabric, links = line(3)
    rates = fabric.capacity_bps.copy()
    rates[links[1]] /= 3
    fabric = replace(fabric, capacity_bps=rates)
    _, end = Case(fabric, between(fabric, {(0, 3): [links]}), [Message(0, 3, 10 * MTU)]).run()
    sizes = packet_sizes(10 * MTU)
    slow = sum(ps(fabric, links[1], size) for size in sizes)
    assert end[0] == ps(fabric, links[0], sizes[0]) + slow + ps(fabric, links[2], sizes[-1]) + 3_000_000


@pytest.mark.parametrize("senders", [1, 2, 7])
@pytest.mark.parametrize("nic_in_turn", [True, False])
def test_flows_into_one_port(senders: int, nic_in_turn: bool) -> None:
    """The port is busy from the first arrival on until all bytes are through."""
    fabric, paths = star(senders)
    messages = [Message(g, 0, 20 * MTU) for g in range(1, senders + 1)]
    _, end = Case(fabric, between(fabric, paths), messages, Settings(in_turn=nic_in_turn)).run()
    port, nic = paths[1, 0][0][1], paths[1, 0][0][0]
    sizes = packet_sizes(20 * MTU)
    latency = round(1e12 * (fabric.latency_s[port] + fabric.latency_s[nic]))
    through = senders * sum(ps(fabric, port, size) for size in sizes)
    assert end.max() == ps(fabric, nic, sizes[0]) + through + latency


def test_a_nic_serves_its_pairs_in_turn() -> None:
    """Two pairs of one GPU, one of which has ten times as much to send: the smaller message takes two packet
    times for each packet of its own; where the NIC is first in, first out, it waits for all of the other."""
    fabric = rw.topology("rail-only", domains=1, rails=3)
    switch = fabric.n_gpus
    paths = {(0, d): [links_along(fabric, (0, switch, d))] for d in (1, 2)}
    messages = [Message(0, 1, 100 * MTU), Message(0, 2, 10 * MTU)]
    ends = [
        Case(fabric, between(fabric, paths), messages, Settings(in_turn=turns)).run()[1][1]
        for turns in (True, False)
    ]
    packet = ps(fabric, paths[0, 1][0][0], MTU + PACKET.HEADERS)
    assert ends[0] / packet == pytest.approx(20 + 1, abs=1.5)  # two for each of ten, and the second hop
    assert ends[1] / packet > 64


def test_waiting_times_are_those_of_lindley_and_of_m_d_1() -> None:
    """One packet messages that come at random to one link. Waiting times follow W' = max(0, W + s - gap)
    (Lindley, 1952) to the picosecond; their mean is rho / (2 (1 - rho)) services (Pollaczek and Khinchine),
    here within three standard deviations of such a sample, 4 %."""
    fabric, links = line(1)
    service = ps(fabric, links[0], packet_sizes(MTU)[0])
    rho, n = 0.6, 20_000
    gaps = np.rint(np.random.default_rng(1).exponential(service / rho, n)).astype(np.int64)
    messages = list[Message]()
    for i, gap in enumerate(gaps.tolist()):
        messages.append(Message(0, 0, 0, (2 * i - 2,) if i else (), gap * 1e-12))
        messages.append(Message(0, 1, MTU, (2 * i,)))
    sim, end = Case(fabric, between(fabric, {(0, 1): [links]}), messages, Settings(in_turn=False)).run()
    came = np.cumsum(gaps)
    waited = end[1::2] - came - service - 1_000_000
    expected = np.zeros(n, np.int64)
    for i in range(1, n):
        expected[i] = max(0, expected[i - 1] + service - int(gaps[i]))
    assert np.array_equal(waited, expected)
    assert waited.mean() / service == pytest.approx(rho / (2 * (1 - rho)), rel=0.04)
    assert sim.of_job(0)["packets"][0] == n


def test_acknowledgements_go_before_data() -> None:
    """Two GPUs send to each other: the acknowledgement waits for the packet that is being sent alone, so that
    with a window of one packet each round trip takes at most two packets on each hop."""
    fabric, links = line(1, 0.0)
    back = [links[0] ^ 1]
    paths = between(fabric, {(0, 1): [links], (1, 0): [back]})
    window = float(packet_sizes(MTU)[0])
    messages = [Message(0, 1, 50 * MTU), Message(1, 0, 50 * MTU)]
    _, end = Case(fabric, paths, messages, window=window).run()
    packet, ack = ps(fabric, links[0], int(window)), ps(fabric, links[0], PACKET.acknowledgement_bytes)
    assert end.max() <= 50 * (packet + ack) + packet  # both ways alike: data, then the answer
    assert end.max() >= 50 * packet + 49 * ack - 50 * ps(fabric, links[0], PACKET.RETH)


def test_a_full_queue_drops_and_all_arrives_all_the_same() -> None:
    fabric, paths = star(4)
    messages = [Message(g, 0, 50 * MTU) for g in range(1, 5)]
    port = paths[1, 0][0][1]
    case = Case(
        fabric, between(fabric, paths), messages, Settings(room=8 * 4170), window=20 * 4170.0,
        first_wait=20_000_000, timeout=20_000_000, most_wait=80_000_000,
    )  # fmt: skip
    sim, _ = case.run()
    link, pair = sim.s.link, sim.of_job(0)
    assert link["drops"][port] > 0 and link["drops"].sum() == link["drops"][port]
    assert link["longest"][port] <= 8 * 4170
    # links keep the order: what is sent again without having been dropped are probes after silence
    assert pair["declared"].sum() == link["drops"][port] + pair["twice"].sum()
    assert pair["packets"].sum() == 200 + pair["again"].sum()


def test_marks_begin_at_kmin_and_are_all_at_kmax() -> None:
    """Two senders at line rate into one port: its queue grows by a packet for every two that come. With kmin
    = kmax what finds more than that waiting is marked, all of it."""
    fabric, paths = star(2)
    messages = [Message(g, 0, 40 * MTU) for g in (1, 2)]
    threshold = 10 * (MTU + PACKET.HEADERS)
    settings = Settings(kmin=threshold, kmax=threshold, pmax=1.0)
    sim, _ = Case(fabric, between(fabric, paths), messages, settings).run()
    marked = int(sim.of_job(0)["marked"].sum())
    # after k packets of each the queue holds k of them: the pairs that come once it holds ten are marked
    assert marked == pytest.approx(80 - 2 * 10, abs=3)
    none, _ = Case(fabric, between(fabric, paths), messages, Settings(kmin=1e9, kmax=1e9)).run()
    assert none.of_job(0)["marked"].sum() == 0


def test_losses_are_drawn_at_their_rate_and_cost_one_packet_each() -> None:
    fabric, links = line(2)
    loss = np.zeros(fabric.n_links)
    loss[links[1]] = 0.1
    case = Case(
        fabric, between(fabric, {(0, 2): [links]}), [Message(0, 2, 5000 * MTU)], loss=loss,
        window=64 * 4170.0, first_wait=50_000_000, timeout=50_000_000, most_wait=10**9,
    )  # fmt: skip
    sim, _ = case.run()
    lost, pair = int(sim.s.link["lost"].sum()), sim.of_job(0)[0]
    sent = 5000 + int(pair["again"])
    assert lost == int(pair["again"]) + (int(pair["declared"]) - int(pair["again"]))
    assert lost / sent == pytest.approx(0.1, abs=3 * (0.09 / sent) ** 0.5)
    assert pair["twice"] == 0


def test_equal_seeds_give_equal_bits_and_others_do_not() -> None:
    fabric, links = line(2)
    loss = np.full(fabric.n_links, 0.05)

    def ends(seed: int) -> bytes:
        case = Case(
            fabric, between(fabric, {(0, 2): [links]}), [Message(0, 2, 500 * MTU)], Settings(seed=seed),
            loss=loss, first_wait=50_000_000, timeout=50_000_000, most_wait=10**9,
        )  # fmt: skip
        sim, end = case.run()
        return end.tobytes() + sim.s.link.tobytes()

    assert ends(1) == ends(1)
    assert ends(1) != ends(2)


def test_what_is_sent_is_what_arrives_is_dropped_or_lost() -> None:
    """Conservation on every link of a run with losses and full queues: packets of data that a switch has sent
    came over other links; and once all is over nothing is in flight and every packet's place is free."""
    fabric, paths = star(3)
    messages = [Message(g, 0, 30 * MTU) for g in (1, 2, 3)]
    loss = np.full(fabric.n_links, 0.02)
    case = Case(
        fabric, between(fabric, paths), messages, Settings(room=10 * 4170), window=30 * 4170.0, loss=loss,
        first_wait=20_000_000, timeout=20_000_000, most_wait=80_000_000,
    )  # fmt: skip
    sim, _ = case.run()
    sim.advance(sim.now + 10**9)
    pair, link = sim.of_job(0), sim.s.link
    assert (pair["in_flight"] == 0).all() and (pair["lost_head"] == NONE).all()
    into = [paths[g, 0][0][0] for g in (1, 2, 3)]
    out = paths[1, 0][0][1]
    came = link["sent_packets"][into].sum() - link["lost"][into].sum() - link["drops"][out]
    assert link["sent_packets"][out] == came
    assert pair["packets"].sum() == link["sent_packets"][into].sum()


def test_before_the_first_round_trip_a_sender_waits_for_the_timeout() -> None:
    """RFC 8985, section 7.2: without a sample of the round trip there is no tail probe."""
    fabric, links = line(1, 3e-6)
    case = Case(
        fabric, between(fabric, {(0, 1): [links]}), [Message(0, 1, 3 * MTU)], window=4170.0,
        first_wait=4_000_000, timeout=8_000_000, most_wait=32_000_000,
    )  # fmt: skip
    sim, end = case.run()
    assert sim.of_job(0)["declared"].tolist() == [0] and sim.of_job(0)["packets"].tolist() == [3]
    answer = ps(fabric, links[0], PACKET.acknowledgement_bytes)
    assert (
        end[0] == sum(ps(fabric, links[0], size) for size in packet_sizes(3 * MTU)) + 2 * answer + 15_000_000
    )


def test_a_probe_goes_out_whatever_the_window_is() -> None:
    """All eight packets are lost, and then a packet is all that may be under way: one sent again after
    40 us of silence shows that the others are gone, so that 16 are sent in all before another 40 us."""
    fabric, links = line(1)
    case = Case(
        fabric, between(fabric, {(0, 1): [links]}), [Message(0, 1, 8 * MTU)], loss=np.ones(fabric.n_links),
        first_wait=20_000_000, timeout=40_000_000, most_wait=80_000_000,
    )  # fmt: skip
    sim, _ = case.simulation()
    sim.advance(30_000_000)
    assert sim.of_job(0)["packets"].tolist() == [8] and sim.s.link["lost"].sum() == 8
    sim.allow(0, np.ones(1), Waits(*(np.array([us * 1_000_000]) for us in (20, 40, 80, 1_000_000))))
    nothing = np.zeros(fabric.n_links)
    sim.harm(nothing, nothing, nothing > 0)
    sim.advance(90_000_000)
    assert sim.over(0) and sim.of_job(0)["packets"].tolist() == [16]


def test_a_sender_that_goes_on_sending_does_not_probe() -> None:
    """A NIC serves 16 pairs in turn, so that four packets of each, which are acknowledged together, take
    longer than the timeout; each pair sends a packet in a third of that."""
    fabric = rw.topology("rail-only", domains=1, rails=17)
    paths = {(0, g): [links_along(fabric, (0, fabric.n_gpus, g))] for g in range(1, 17)}
    turn = 16 * ps(fabric, paths[0, 1][0][0], MTU + PACKET.HEADERS)
    case = Case(
        fabric, between(fabric, paths), [Message(0, g, 12 * MTU) for g in range(1, 17)],
        first_wait=2 * turn, timeout=3 * turn, most_wait=12 * turn,
    )  # fmt: skip
    sim, _ = case.run()
    assert not sim.of_job(0)["declared"].any() and not sim.of_job(0)["again"].any()


def test_senders_count_by_path_what_links_have_lost() -> None:
    """Three paths over spines of their own, two of which lose packets. Once nothing is under way, each path
    has sent what its link to the spine has, and has lost what its links have, both as the links count."""
    fabric = rw.topology("clos", servers=2, gpus=1, t0=2, t1=3)
    t0, t1 = fabric.groups[1].first, fabric.groups[2].first
    paths = [links_along(fabric, (0, t0, t1 + spine, t0 + 1, 1)) for spine in range(3)]
    loss = np.zeros(fabric.n_links)
    loss[paths[0][1]], loss[paths[1][2]] = 0.1, 0.03
    case = Case(
        fabric, between(fabric, {(0, 1): paths}), [Message(0, 1, 3000 * MTU)], loss=loss,
        first_wait=50_000_000, timeout=50_000_000, most_wait=10**9,
    )  # fmt: skip
    sim, _ = case.simulation(by_path=True)
    sim.advance(1 << 61)  # until the iteration is over
    assert sim.over(0)
    sim.advance(sim.now + 10**12)
    known, lost, marked = sim.counts[sim.paths_of(0)].T
    link = sim.s.link
    assert lost.tolist() == [int(link["lost"][path].sum()) for path in paths]
    assert lost[0] > 50 and lost[1] > 10 and lost[2] == 0 and not marked.any()
    assert known.tolist() == [int(link["sent_packets"][path[1]]) for path in paths]
    assert known.sum() == sim.of_job(0)["packets"].sum()
