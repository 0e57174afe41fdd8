"""Which idle links are measured again by trains, and what a train leaves in the measurement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from railweave.framework.hookspecs import LinkState
from railweave.framework.lab.measuring.trains import (
    BUSY_SHARE,
    IDLE_S,
    IDLE_TRAINS,
    PERIOD_S,
    SHORTEST,
    Prober,
)
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
    return LinkState(zeros, zeros, service, none, up, ~up)


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


def test_idle_links_of_a_switch_with_a_slow_link_get_a_train_every_period() -> None:
    links = FABRIC.element_links(RAIL).tolist()
    prober, slow = Prober(FABRIC, PACKET, 0.125), state(FABRIC, links[0])
    prober.cleaned(sample(0.0, busy=links[1]))
    assert prober.due(IDLE_S / 2, slow).tolist() == []  # too soon after traffic
    assert prober.due(IDLE_S + 0.1, slow).tolist() == links
    assert prober.due(IDLE_S + 0.2, slow).tolist() == []  # under way
    prober.cleaned(sample(2 * IDLE_S + 0.2))  # the trains are over
    assert prober.due(IDLE_S + 0.1 + PERIOD_S + 0.1, slow).tolist() == links


def test_a_slow_link_gets_a_train_although_packets_pass_if_none_says_how_fast() -> None:
    """Messages of one packet never wait; a link that is as fast as ever again would stay slow for ever."""
    mine, other, *_ = FABRIC.element_links(RAIL).tolist()
    prober, slow = Prober(FABRIC, PACKET, 0.125), state(FABRIC, mine)
    rate = np.full(FABRIC.n_links, np.nan)
    rate[mine] = 0.2 * FABRIC.capacity_bps[mine]
    for t_s in (1.0, 2.0, 3.0):
        prober.cleaned(replace(sample(t_s, busy=mine), service_bps=rate))
        assert mine not in prober.due(t_s, slow)
    prober.cleaned(sample(4.5, busy=mine))
    prober.cleaned(sample(4.5, busy=other))
    assert mine in (due := prober.due(4.5, slow)) and other not in due
    train = prober.train(mine, slow)
    train_s = train.packets * PACKET.full_packet_bytes * 8 / slow.service_bps[mine]
    for t_s in np.arange(5.5, 4.5 + train_s / BUSY_SHARE, 0.5):  # its traffic would wait for the next one
        prober.cleaned(sample(float(t_s), busy=mine))
        assert mine not in prober.due(float(t_s), slow)
    prober.cleaned(sample(4.6 + train_s / BUSY_SHARE, busy=mine))
    assert mine in prober.due(4.6 + train_s / BUSY_SHARE, slow)


def test_a_slow_link_that_carries_acknowledgements_alone_gets_a_train_every_period() -> None:
    """Traffic has left it, and nothing waits for the trains."""
    mine = FABRIC.element_links(RAIL).tolist()[0]
    prober, slow, trains = Prober(FABRIC, PACKET, 0.125), state(FABRIC, mine), 0
    for t_s in np.arange(1.1, 1.1 + 5 * PERIOD_S, 0.1):
        some = sample(float(t_s), busy=mine)
        prober.cleaned(replace(some, sent_bytes=90 * some.sent_packets))
        trains += mine in prober.due(float(t_s), slow)
    assert trains == 5


def test_a_healthy_fabric_needs_no_trains() -> None:
    assert Prober(FABRIC, PACKET, 0.125).due(60.0, state(FABRIC, None)).tolist() == []


def test_the_queue_of_a_train_is_left_out_and_that_of_traffic_is_not() -> None:
    link, *_ = FABRIC.element_links(RAIL).tolist()
    prober = Prober(FABRIC, PACKET, 0.125)
    assert prober.cleaned(sample(0.0, queued=link)).queue_bytes[link] == 5000
    assert link in prober.due(IDLE_S + 0.1, state(FABRIC, link))
    assert prober.cleaned(sample(IDLE_S + 0.2, queued=link)).queue_bytes[link] == 0


def test_a_train_keeps_its_link_busy_for_the_declared_time() -> None:
    """0.5 s at 4 Mb/s are 60 packets of 4,182 bytes; a short one has the fewest that prove a rate."""
    link, *_ = FABRIC.element_links(RAIL).tolist()
    train = Prober(FABRIC, PACKET, 0.5).train(link, state(FABRIC, link))
    assert train.packets == -(-int(0.5 * 4e6) // (8 * PACKET.full_packet_bytes))
    assert (train.switch, train.port) == (FABRIC.link_src[link], FABRIC.link_port[link])
    assert Prober(FABRIC, PACKET, 0.001).train(link, state(FABRIC, None)).packets == SHORTEST


def test_a_train_over_a_lossy_link_shows_whether_the_loss_is_over() -> None:
    """0.8^42 = 0.00009 and 0.97^303 = 0.0001, two more for packets that are not counted yet."""
    link, *_ = FABRIC.element_links(RAIL).tolist()
    prober = Prober(FABRIC, PACKET, 0.125)
    full = replace(state(FABRIC, None), service_bps=FABRIC.capacity_bps)
    for loss, packets in ((0.2, 43), (0.03, 304), (1.0, SHORTEST)):
        train = prober.train(link, replace(full, loss=np.full(FABRIC.n_links, loss)))
        assert (train.packets, train.size_bytes) == (packets, 512)
    slow_as_well = replace(state(FABRIC, link), loss=np.full(FABRIC.n_links, 0.2))
    assert prober.train(link, slow_as_well).size_bytes == PACKET.full_packet_bytes


def test_a_link_that_became_unknown_gets_a_train_at_once_busy_or_not_and_then_every_period() -> None:
    links = FABRIC.element_links(RAIL).tolist()
    prober, unknown = Prober(FABRIC, PACKET, 0.125), np.zeros(FABRIC.n_links, bool)
    unknown[links[1:]] = True
    doubtful = replace(state(FABRIC, links[0]), unknown=unknown)
    prober.cleaned(sample(5.0, busy=links[1]))
    assert prober.due(5.0, doubtful).tolist() == links  # the first one is slow and has long been idle
    assert prober.due(5.1, doubtful).tolist() == []
    prober.cleaned(sample(5.6))  # the trains are over, and said nothing
    assert prober.due(5.6, doubtful).tolist() == []
    assert set(links[1:]) <= set(prober.due(5.0 + PERIOD_S + 0.1, doubtful).tolist())


def test_pauses_between_the_packets_of_a_slow_link_are_no_idleness() -> None:
    """At a packet in 0.6 s the next step's comes seconds later, and a train would hold it up for longer."""
    scaled = rail_fabric(2, 2, 2.4e6, 0.27e6)
    mine = int(scaled.element_links(RAIL)[0])
    prober, slow = Prober(scaled, PACKET, 0.125), state(scaled, mine)
    train_s = SHORTEST * PACKET.full_packet_bytes * 8 / slow.service_bps[mine]
    prober.cleaned(sample(1.0, busy=mine))
    assert mine in prober.due(3.0, slow)  # the first one
    for t_s in np.arange(13.5, 40.0, 2.5):
        prober.cleaned(sample(float(t_s), busy=mine))
        assert mine not in prober.due(float(t_s) + 2.0, slow)
    assert mine in prober.due(38.5 + IDLE_TRAINS * train_s + 0.1, slow)
