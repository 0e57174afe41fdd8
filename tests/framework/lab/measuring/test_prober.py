"""Which idle links are measured again by trains, and what a train leaves in the measurement."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from railweave.framework.health.trains import BUSY_SHARE, IDLE_PACKETS, IDLE_S, PERIOD_S, SHORTEST, TrainTimes
from railweave.framework.hookspecs import LinkState
from railweave.framework.lab.measuring.prober import Prober
from railweave.framework.model import Fabric, Measurement, PacketFormat
from tests.framework.lab.scenes import rail_fabric

PACKET = PacketFormat(4096)
FABRIC = rail_fabric(2, 2, 36e6, 4e6)
RAIL = 6
"""Rail switch r0: its four links (two cables) are one element."""


def state(fabric: Fabric, slow: int | None) -> LinkState:
    service = np.full(fabric.n_links, np.nan)
    if slow is not None:
        service[slow] = 0.2 * fabric.capacity_bps[slow]
    zeros = np.zeros(fabric.n_links)
    none, up = np.full(fabric.n_links, np.nan), np.ones(fabric.n_links, bool)
    return LinkState(zeros, zeros, service, none, up, ~up, ~up, ~up)


def due(prober: Prober, now_s: float, links: LinkState) -> list[int]:
    ports = list(zip(FABRIC.link_src.tolist(), FABRIC.link_port.tolist(), strict=True))
    return [ports.index((train.switch, train.port)) for train in prober.trains(now_s, links)]


def one_train(times: TrainTimes, link: int, links: LinkState) -> tuple[float, float]:
    packets, size = times.trains(np.array([link]), links)
    return float(packets[0]), float(size[0])


def sample(t_s: float, busy: int | None = None, queued: int | None = None) -> Measurement:
    n = FABRIC.n_links
    packets, queue, nothing = np.zeros(n), np.zeros(n), np.zeros(n)
    if busy is not None:
        packets[busy] = 1
    if queued is not None:
        queue[queued] = 5000
    unknown = np.full(n, np.nan)
    return Measurement(
        t_s,
        0.025,
        packets * 4096,
        packets,
        nothing,
        nothing,
        queue,
        nothing,
        unknown,
        unknown,
        np.ones(n, bool),
    )


def first_due(prober: Prober, links: LinkState, link: int, since_s: float) -> float:
    """When an idle fabric's link gets its next train."""
    for t_s in np.arange(since_s, since_s + 20.0, 0.1).tolist():
        prober.cleaned(sample(t_s))
        if link in due(prober, t_s, links):
            return t_s
    raise AssertionError(f"no train for link {link} within 20 s of {since_s:g} s")


def test_idle_links_of_a_switch_with_a_slow_link_get_a_train_every_period() -> None:
    links = FABRIC.element_links(RAIL).tolist()
    prober, slow = Prober(FABRIC, PACKET, 0.125), state(FABRIC, links[0])
    prober.cleaned(sample(0.0, busy=links[1]))
    assert due(prober, IDLE_S / 2, slow) == []  # too soon after traffic
    assert due(prober, IDLE_S + 0.1, slow) == links
    assert due(prober, IDLE_S + 0.2, slow) == []  # under way
    prober.cleaned(sample(2 * IDLE_S + 0.2))  # the trains are over
    assert due(prober, IDLE_S + 0.1 + PERIOD_S + 0.1, slow) == links


def test_a_slow_link_gets_a_train_although_packets_pass_if_none_says_how_fast() -> None:
    """Messages of one packet never wait; a link that is as fast as ever again would stay slow for ever."""
    mine, other, *_ = FABRIC.element_links(RAIL).tolist()
    prober, slow = Prober(FABRIC, PACKET, 0.125), state(FABRIC, mine)
    rate = np.full(FABRIC.n_links, np.nan)
    rate[mine] = 0.2 * FABRIC.capacity_bps[mine]
    for t_s in (1.0, 2.0, 3.0):
        prober.cleaned(replace(sample(t_s, busy=mine), service_bps=rate))
        assert mine not in due(prober, t_s, slow)
    prober.cleaned(sample(4.5, busy=mine))
    prober.cleaned(sample(4.5, busy=other))
    assert mine in (now := due(prober, 4.5, slow)) and other not in now
    packets, size = one_train(TrainTimes(FABRIC, PACKET, 0.125), mine, slow)
    train_s = packets * size * 8 / slow.service_bps[mine]
    for t_s in np.arange(5.5, 4.5 + train_s / BUSY_SHARE, 0.5):  # its traffic would wait for the next one
        prober.cleaned(sample(float(t_s), busy=mine))
        assert mine not in due(prober, float(t_s), slow)
    prober.cleaned(sample(4.6 + train_s / BUSY_SHARE, busy=mine))
    assert mine in due(prober, 4.6 + train_s / BUSY_SHARE, slow)


def test_a_slow_link_that_carries_acknowledgements_alone_gets_a_train_every_period() -> None:
    """Traffic has left it, and nothing waits for the trains."""
    mine = FABRIC.element_links(RAIL).tolist()[0]
    prober, slow, trains = Prober(FABRIC, PACKET, 0.125), state(FABRIC, mine), 0
    for t_s in np.arange(1.1, 1.1 + 5 * PERIOD_S, 0.1):
        some = sample(float(t_s), busy=mine)
        prober.cleaned(replace(some, sent_bytes=90 * some.sent_packets))
        trains += mine in due(prober, float(t_s), slow)
    assert trains == 5


def test_a_healthy_fabric_needs_no_trains() -> None:
    assert Prober(FABRIC, PACKET, 0.125).trains(60.0, state(FABRIC, None)) == []


@pytest.mark.parametrize(
    ("rate_bps", "packets"),
    [(36e6, 136), (1e9, 1000), (16e9, 1000), (17e9, None), (400e9, None), (3.6e12, None)],
)
def test_a_train_is_no_longer_than_a_queue_and_none_is_sent_that_nobody_could_see(
    rate_bps: float, packets: int | None
) -> None:
    """0.125 s at 36 Mb/s are 136 packets of 4,154 bytes; 1,000 take 2 ms, the time between two samples, at
    16.6 Gb/s. Every link of the rails' switches is idle and next to a slow one."""
    fabric = rail_fabric(2, 2, rate_bps, rate_bps)
    links = fabric.element_links(RAIL).tolist()
    trains = Prober(fabric, PACKET, 0.125).trains(60.0, state(fabric, links[0]))
    assert [train.packets for train in trains] == ([] if packets is None else [packets] * len(links))


def test_the_queue_of_a_train_is_left_out_and_that_of_traffic_is_not() -> None:
    link, *_ = FABRIC.element_links(RAIL).tolist()
    prober = Prober(FABRIC, PACKET, 0.125)
    assert prober.cleaned(sample(0.0, queued=link)).queue_bytes[link] == 5000
    assert link in due(prober, IDLE_S + 0.1, state(FABRIC, link))
    assert prober.cleaned(sample(IDLE_S + 0.2, queued=link)).queue_bytes[link] == 0


def test_a_train_keeps_its_link_busy_for_the_declared_time() -> None:
    """0.5 s at 4 Mb/s are 60 packets of 4,182 bytes; a short one has the fewest that prove a rate, in pieces
    that data need not wait for."""
    link, *_ = FABRIC.element_links(RAIL).tolist()
    packets, _ = one_train(TrainTimes(FABRIC, PACKET, 0.5), link, state(FABRIC, link))
    assert packets == -(-int(0.5 * 4e6) // (8 * PACKET.full_packet_bytes))
    packets, size = one_train(TrainTimes(FABRIC, PACKET, 0.001), link, state(FABRIC, None))
    assert 8 * size <= PACKET.full_packet_bytes
    assert 0 <= packets * size - SHORTEST * PACKET.full_packet_bytes < size


def test_a_train_over_a_lossy_link_shows_whether_the_loss_is_over() -> None:
    """0.8^42 = 0.00009 and 0.97^303 = 0.0001, two more for packets that are not counted yet."""
    link, *_ = FABRIC.element_links(RAIL).tolist()
    times = TrainTimes(FABRIC, PACKET, 0.125)
    full = replace(state(FABRIC, None), service_bps=FABRIC.capacity_bps)
    for loss, packets in ((0.2, 43), (0.03, 304), (1.0, SHORTEST)):
        assert one_train(times, link, replace(full, loss=np.full(FABRIC.n_links, loss))) == (packets, 512)
    slow_as_well = replace(state(FABRIC, link), loss=np.full(FABRIC.n_links, 0.2))
    assert one_train(times, link, slow_as_well)[1] == PACKET.full_packet_bytes


def test_a_link_that_became_unknown_gets_a_train_at_once_busy_or_not_and_then_every_period() -> None:
    links = FABRIC.element_links(RAIL).tolist()
    prober, unknown = Prober(FABRIC, PACKET, 0.125), np.zeros(FABRIC.n_links, bool)
    unknown[links[1:]] = True
    doubtful = replace(state(FABRIC, links[0]), unknown=unknown)
    prober.cleaned(sample(5.0, busy=links[1]))
    assert due(prober, 5.0, doubtful) == links  # the first one is slow and has long been idle
    assert due(prober, 5.1, doubtful) == []
    prober.cleaned(sample(5.6))  # the trains are over, and said nothing
    assert due(prober, 5.6, doubtful) == []
    assert set(links[1:]) <= set(due(prober, 5.0 + PERIOD_S + 0.1, doubtful))


def test_a_link_that_was_repaired_under_its_train_gets_the_next_one_at_once() -> None:
    """That train saw both rates; one that saw the old rate alone is followed after the period, as always."""
    mine = int(FABRIC.element_links(RAIL)[0])
    prober, slow = Prober(FABRIC, PACKET, 0.125), state(FABRIC, mine)
    assert mine in due(prober, 5.0, slow)
    prober.cleaned(sample(5.6))
    assert due(prober, 5.6, slow) == []
    both = replace(slow, service_bps=np.where(np.isnan(slow.service_bps), np.nan, 0.5 * FABRIC.capacity_bps))
    assert due(prober, 5.7, both) == [mine]
    prober.cleaned(sample(6.3))
    assert due(prober, 6.3, both) == []


def test_pauses_between_the_packets_of_a_slow_link_are_no_idleness() -> None:
    """At a packet in 0.6 s the next step's comes seconds later, and a train would hold it up for longer."""
    scaled = rail_fabric(2, 2, 2.4e6, 0.27e6)
    mine = int(scaled.element_links(RAIL)[0])
    prober, slow = Prober(scaled, PACKET, 0.125), state(scaled, mine)
    packet_s = PACKET.full_packet_bytes * 8 / slow.service_bps[mine]
    prober.cleaned(sample(1.0, busy=mine))
    assert mine in due(prober, 3.0, slow)  # the first one
    prober.cleaned(sample(13.4))  # it is over
    for t_s in np.arange(13.5, 40.0, 2.5):
        prober.cleaned(sample(float(t_s), busy=mine))
        assert mine not in due(prober, float(t_s) + 2.0, slow)
    waited_s = first_due(prober, slow, mine, 40.6) - 38.5
    assert 0 < waited_s - IDLE_PACKETS * packet_s < 2.0  # trains of its neighbours take some of it


def test_what_waits_for_a_train_does_not_make_a_link_idle() -> None:
    """Else one train of 7.4 s called for the next one, for as long as there is traffic."""
    scaled = rail_fabric(2, 2, 2.4e6, 0.27e6)
    mine = int(scaled.element_links(RAIL)[0])
    prober, slow = Prober(scaled, PACKET, 0.125), state(scaled, mine)
    prober.cleaned(sample(1.0, busy=mine))
    assert mine in due(prober, 3.0, slow)
    for t_s in np.arange(3.5, 10.6, 0.5):  # the trains are under way
        prober.cleaned(sample(float(t_s), queued=mine))
        assert mine not in due(prober, float(t_s), slow)
    assert first_due(prober, slow, mine, 10.6) > 10.9  # 2 s before it, and 0.46 s after it


def test_trains_over_all_links_of_a_slow_switch_leave_each_its_period() -> None:
    """No data passes. A train takes 4.6 s and ends in a sample of its own packets, which are no data, and
    others that are under way do not make a link less idle. So each gets the next one soon after its last."""
    scaled = rail_fabric(8, 2, 2.4e6, 0.52e6)
    links = scaled.element_links(int(scaled.link_element[-1])).tolist()
    prober, slow = Prober(scaled, PACKET, 0.125), state(scaled, None)
    service = slow.service_bps.copy()
    service[links] = 0.2 * scaled.capacity_bps[links]
    slow, until_s, sent = replace(slow, service_bps=service), {}, {link: [] for link in links}
    ports = list(zip(scaled.link_src.tolist(), scaled.link_port.tolist(), strict=True))
    empty = np.zeros(scaled.n_links)
    for t_s in np.arange(0.1, 40.0, 0.1).round(1).tolist():
        packets, queue = empty.copy(), empty.copy()
        busy = [link for link, until in until_s.items() if t_s <= until + 0.1]
        packets[busy] = 1
        queue[[link for link in busy if t_s < until_s[link]]] = 5000
        up, unknown = np.ones(scaled.n_links, bool), np.full(scaled.n_links, np.nan)
        prober.cleaned(
            Measurement(t_s, 0.1, packets * 4096, packets, empty, empty, queue, empty, unknown, unknown, up)
        )
        for train in prober.trains(t_s, slow):
            link = ports.index((train.switch, train.port))
            until_s[link] = t_s + 4.6 + 0.3 * (link % 3)
            sent[link].append(t_s)
    periods = [after - before for times in sent.values() for before, after in pairwise(times)]
    assert periods and max(periods) < 5.2 + PERIOD_S
