"""Windows where the machine is the bottleneck, and where links are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from railweave.framework import api
from railweave.framework.hookspecs import Collective
from railweave.framework.model import EntropyTable, Fabric, Schedule
from railweave.framework.model.addressing import ENTROPY_BASE
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.rocev2.congestion import Congestion
from railweave.traffic.rocev2.tuning import Tuning
from tests.traffic.memory_fabric import Harm, MemoryFabric
from tests.traffic.overloaded_fabric import OverloadedFabric

N, MTU, HOPS_S, COST_S = 16, 256, 60_000.0, 4e-5
"""16 ranks on switches that take 60,000 packets a second from their ports, and a transport that handles
25,000."""
UNSHAPED_BPS, SHAPED_BPS = 400e9, 4e6
COLLECTIVES = api.installed()["collective"]


def fabric() -> Fabric:
    return api.topology("rail-only", domains=4, rails=4)


def entropies(rate_bps: float) -> EntropyTable:
    src, dst = (ends.ravel() for ends in np.divmod(np.arange(N * N), N))
    pairs = np.flatnonzero(src != dst)
    n, ones = len(pairs), np.ones(len(pairs))
    return EntropyTable(
        1,
        src[pairs],
        dst[pairs],
        np.arange(n + 1),
        np.full(n, ENTROPY_BASE),
        ones,
        rate_bps * ones,
        2 * ones,
        0 * ones,
    )


def hops(src: int, dst: int) -> int:
    """Through the domain's switch, or through that of a rail as well, and the NIC there."""
    return 3 if src // 4 == dst // 4 else 5


def schedule_of(collective: Collective, size: int) -> Schedule:
    return collective.schedule(fabric(), range(N), size, "float32", "sum").expand()


def seconds(overloaded: OverloadedFabric, schedule: Schedule) -> tuple[float, int]:
    """Of one iteration, and how many packets were sent again. No pair may be given up."""
    executor, buffers, before = overloaded.executor, RankBuffers(schedule), overloaded.executor.counts()
    executor.prepare(schedule, buffers)
    executor.begin(overloaded.now)

    def done() -> bool:
        assert not executor.stuck(overloaded.now)
        return executor.progress.complete and executor.drained

    overloaded.advance(done)
    took_s = executor.progress.last_at - executor.progress.started_at
    return took_s, executor.counts()["retransmitted"] - before["retransmitted"]


@pytest.mark.parametrize("room", [25, 50, 900])
def test_an_overloaded_machine_carries_nearly_what_it_can(room: int) -> None:
    """Every rank sends to the next, with windows far larger than the ports of the switches hold, or as large
    as these. Least time: that of 12 packets over 3 switches and 4 over 5, or of the transport."""
    packets = 1000
    schedule = schedule_of(COLLECTIVES["send-recv"], packets * MTU)
    overloaded = OverloadedFabric(
        N,
        hops_s=HOPS_S,
        room=room,
        hops=hops,
        cost_s=COST_S,
        mtu=MTU,
        slots=270,
        tuning=Tuning(max_window=256),
    )
    overloaded.executor.use_entropies(entropies(UNSHAPED_BPS), 0.0)
    least_s = packets * N * max((12 * 3 + 4 * 5) / N / HOPS_S, 2 * COST_S)
    first_s, _ = seconds(overloaded, schedule)
    then_s, again = seconds(overloaded, schedule)
    assert least_s / first_s > 0.8
    assert least_s / then_s > 0.9
    assert again < 0.05 * packets * N


def test_ranks_that_all_send_to_all_do_not_lose_each_other_s_packets() -> None:
    """15 windows of 64 packets arrive at every rank, whose receive ring holds 270."""
    packets = 64
    schedule = schedule_of(COLLECTIVES["direct-all-to-all"], N * packets * MTU)
    overloaded = OverloadedFabric(N, hops_s=HOPS_S, room=900, hops=hops, cost_s=COST_S, mtu=MTU, slots=270)
    overloaded.executor.use_entropies(entropies(UNSHAPED_BPS), 0.0)
    seconds(overloaded, schedule)
    took_s, again = seconds(overloaded, schedule)
    least_s = packets * N * (N - 1) * 2 * COST_S
    assert least_s / took_s > 0.9
    assert again < 0.02 * packets * N * (N - 1)


@pytest.mark.parametrize("slower", [1, 5])
def test_losses_on_a_link_that_is_shaped_leave_the_window_as_it_is(slower: int) -> None:
    """One packet in twenty is lost, on a link at its rate or at a fifth of it."""
    schedule = schedule_of(COLLECTIVES["send-recv"], 400 * MTU)
    shaped = MemoryFabric(N, mtu=MTU, harm=Harm(loss=0.05))
    shaped.rate_bps = lambda src, dst, udp_src: SHAPED_BPS / slower
    shaped.executor.use_entropies(entropies(SHAPED_BPS), 0.0)
    senders = [shaped.executor.pair(src, (src + 1) % N).sender for src in range(N)]
    shaped.run(schedule, RankBuffers(schedule))
    assert shaped.executor.counts()["retransmitted"] > 200
    assert all(sender.window == sender.congestion.window == 64 for sender in senders)


def test_links_that_are_shaped_later_have_their_windows_at_once() -> None:
    """As after the trials of a lab, which are not shaped yet."""
    overloaded = OverloadedFabric(
        N, hops_s=HOPS_S, room=10, hops=hops, cost_s=COST_S, mtu=MTU, slots=270, tuning=Tuning(max_window=256)
    )
    overloaded.executor.use_entropies(entropies(UNSHAPED_BPS), 0.0)
    seconds(overloaded, schedule_of(COLLECTIVES["send-recv"], 400 * MTU))
    sender = overloaded.executor.pair(0, 1).sender
    assert sender.window < 64
    overloaded.executor.use_entropies(entropies(SHAPED_BPS), overloaded.now)
    assert sender.window == Tuning(max_window=256).window([SHAPED_BPS], [2.0], [0.0], MTU + 58) == 96
    schedule = schedule_of(COLLECTIVES["send-recv"], 400 * MTU)
    overloaded.executor.prepare(schedule, RankBuffers(schedule))
    overloaded.executor.begin(overloaded.now)
    while overloaded.executor.pending:
        overloaded.executor.step([], overloaded.now)
    assert len(sender.outstanding) == 96


def test_a_window_is_halved_once_for_what_was_under_way_and_grows_by_a_packet_a_window() -> None:
    congestion = Congestion(8)
    congestion.allow(256)
    congestion.lost(10, 300)
    assert congestion.window == 128
    congestion.lost(300, 400)
    assert congestion.window == 128, "it was under way when the window was halved"
    congestion.lost(301, 500)
    assert congestion.window == 64
    for _ in range(64):
        congestion.arrived(1)
    assert congestion.window == 64
    congestion.arrived(2)
    assert congestion.window == 65


@pytest.mark.parametrize(
    ("change", "window"),
    [
        (lambda congestion: congestion.silent(), 8),
        (lambda congestion: [congestion.lost(number, number) for number in range(1, 20)], 8),
        (lambda congestion: congestion.allow(30), 30),
        (lambda congestion: congestion.allow(100), 100),
        (lambda congestion: [congestion.lost(1, 1), congestion.allow(100)], 32),
        (lambda congestion: [congestion.lost(1, 1), congestion.arrived(9999)], 64),
    ],
)
def test_a_window_stays_between_the_smallest_one_and_what_links_allow(
    change: Callable[[Congestion], object], window: int
) -> None:
    congestion = Congestion(8)
    congestion.allow(64)
    change(congestion)
    assert congestion.window == window
