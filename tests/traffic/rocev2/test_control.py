"""Pairs send as a congestion control says: spacing, what it hears, CNPs; on a fabric in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from railweave.framework.errors import PluginError
from railweave.framework.hookspecs import CongestionControl
from railweave.framework.hookspecs.congestion import NEVER
from railweave.framework.model import EntropyTable
from railweave.framework.model.addressing import ENTROPY_BASE
from railweave.topologies.rail_only import RailOnly
from railweave.traffic.collectives.all_to_all import DirectAllToAll
from railweave.traffic.controls.dcqcn import Dcqcn
from railweave.traffic.controls.nscc import Nscc
from railweave.traffic.controls.swift import Swift
from railweave.traffic.packets import Opcode
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.rocev2.control import Controlling, PairControl
from railweave.traffic.rocev2.tuning import Tuning
from tests.traffic.memory_fabric import RATE_BPS, Harm, MemoryFabric, count_wrong
from tests.traffic.test_choosers import one_message

SCALE = 1e-5
FULL = 256 + 58
"""Wire bytes of a full packet (PacketFormat)."""


def table(n: int, scale: float = SCALE, rate_bps: float = RATE_BPS) -> EntropyTable:
    """One path for every pair, of two links of the same rate."""
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    src, dst = np.array(pairs).T
    count, ones = len(pairs), np.ones(len(pairs))
    return EntropyTable(
        1, src, dst, np.arange(count + 1), np.full(count, ENTROPY_BASE), ones, ones * rate_bps, 2 * ones,
        0.001 * ones, rate_scale=scale,
    )  # fmt: skip


def fabric_of(n: int, control: CongestionControl, **options: Any) -> MemoryFabric:
    fabric = MemoryFabric(n, controlling=Controlling(control, "mine"), slots=512, **options)
    fabric.executor.use_entropies(table(n), 0.0)
    return fabric


class Told(CongestionControl):
    """A share of the line, a window of 32 packets; counts what it is told."""

    summary = "counts"
    state = np.dtype(
        [("window", np.float64), ("rate", np.float64), ("wake", np.int64), ("line", np.float64),
         ("share", np.float64), ("told", np.int64, (6,))]
    )  # fmt: skip
    records: list[NDArray[np.void]] = []  # noqa: RUF012

    def __init__(self, share: float = 1.0) -> None:
        self._share = share

    def sender_record(self) -> NDArray[np.void]:
        s = np.zeros(1, self.state)
        s["share"] = self._share
        self.records.append(s)
        return s

    @staticmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        s["window"], s["rate"], s["wake"], s["line"] = 32 * mtu, s["share"] * line_rate, NEVER, line_rate
        assert hops == 2 and mtu == FULL
        assert base_rtt == pytest.approx(2 * (mtu / line_rate + 0.001 * SCALE) * 1e12)

    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        s["told"][0] += nbytes

    @staticmethod
    def acknowledged(s: Any, now: int, nbytes: int, marked_bytes: int, delay: int, in_flight: int) -> None:
        s["told"][1] += nbytes
        s["told"][2] += marked_bytes
        s["told"][4] = in_flight
        assert delay > 0 and in_flight >= 0

    @staticmethod
    def lost(s: Any, now: int, nbytes: int, why: int) -> None:
        s["told"][3] += nbytes


def carried(fabric: MemoryFabric, packets: int) -> float:
    schedule = one_message(packets * 256)
    buffers = RankBuffers(schedule)
    buffers.fill([np.arange(packets * 64, dtype=np.int32), np.zeros(packets * 64, np.int32)])
    seconds = fabric.run(schedule, buffers)
    assert buffers.compare([np.arange(packets * 64, dtype=np.int32)] * 2) == (2 * packets * 64, 0)
    return seconds


@pytest.mark.parametrize("share", [1.0, 0.25, 1 / 1000])
def test_a_pair_sends_at_its_rate(share: float) -> None:
    """n packets leave over n - 1 gaps of their bytes over the rate, and the last one takes a packet time and
    the latency."""
    packets = 200 if share > 0.01 else 8
    seconds = carried(fabric_of(2, Told(share)), packets)
    gap_s = FULL * 8 / (share * RATE_BPS)
    assert seconds == pytest.approx((packets - 1) * gap_s + FULL * 8 / RATE_BPS + 0.001, rel=0.01)


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_a_control_hears_of_every_byte_once(loss: float) -> None:
    """Sent are the bytes that arrived and those that were taken for lost, and at last none is under way."""
    Told.records.clear()
    fabric = fabric_of(2, Told(0.5), harm=Harm(loss=loss), seed=2)
    carried(fabric, 600)
    sent, arrived, _, lost, in_flight, _ = Told.records[-1]["told"][0]
    assert arrived + lost == sent and in_flight == 0
    assert sent == pytest.approx(fabric.executor.counts()["packets_sent"] * FULL, rel=0.001)
    assert lost > 20 * FULL if loss else lost <= FULL


def test_a_control_hears_which_bytes_were_marked() -> None:
    Told.records.clear()
    fabric = fabric_of(2, Told())
    fabric.marks = lambda src, dst, udp_src, waits_s: len(fabric.seen) % 3 == 0
    carried(fabric, 300)
    assert Told.records[-1]["told"][0][2] == pytest.approx(
        fabric.executor.counts()["marked"] * FULL, rel=0.01
    )
    assert fabric.executor.counts()["marked"] > 50


def test_a_pair_at_its_least_rate_is_given_the_time_it_needs() -> None:
    """A packet every 0.63 s, and one in five lost: its repetition waits as long, which is no silence of a
    pair that is given up after 0.2 s."""
    fabric = fabric_of(2, Told(1 / 1000), harm=Harm(loss=0.2), seed=4, tuning=Tuning(dead_after=0.2))
    stuck, tick = [], fabric.executor.tick

    def watched(now: float) -> None:
        tick(now)
        stuck.extend(fabric.executor.stuck(now))

    fabric.executor.tick = watched  # type: ignore[method-assign]
    carried(fabric, 20)
    assert not stuck and fabric.executor.counts()["retransmitted"] > 0


def incast(control: CongestionControl, iterations: int = 3) -> tuple[MemoryFabric, float]:
    """An all-to-all of five ranks whose ports mark what waits for more than eight packets; the longest wait
    for a port in the last iteration, in packets."""
    fabric = fabric_of(5, control, tuning=Tuning(min_window=64))
    fabric.queue = lambda src, dst, udp_src: dst
    waits: list[float] = []

    def marks(src: int, dst: int, udp_src: int, waits_s: float) -> bool:
        waits.append(waits_s * RATE_BPS / 8 / FULL)
        return waits[-1] > 8

    fabric.marks = marks
    collective = DirectAllToAll()
    ranks = RailOnly().build({"domains": 5, "rails": 1})
    schedule = collective.schedule(ranks, range(5), 5 * 60 * 256, "int32", "sum").expand()
    for seed in range(iterations):
        waits.clear()
        buffers, inputs = RankBuffers(schedule), collective.inputs(schedule, seed)
        buffers.fill(inputs)
        fabric.run(schedule, buffers)
        assert count_wrong(collective, buffers, inputs) == 0
    return fabric, float(np.mean(waits))


FAST: Mapping[str, Any] = {"cnp_interval": 50e-9, "timer": 55e-9, "alpha_interval": 55e-9}
"""DCQCN's times a thousand times shorter: an iteration takes a microsecond here."""


def test_marks_make_receivers_send_cnps_and_pairs_slow_down() -> None:
    """Marks, CNPs of opcode 0x81 that carry BECN (RoCEv2 annex, A17.9) and nothing else, shorter queues than
    without; records stay from iteration to iteration."""
    _, without = incast(Told())
    fabric, mean = incast(Dcqcn(FAST))
    counts = fabric.executor.counts()
    sent = [frame for _, _, _, frame in fabric.seen if frame[42] == Opcode.NOTIFICATION]
    assert counts["marked"] > 0 and counts["cnps"] == len(sent) > 0
    assert all(frame[46] == 0x40 and frame[54:70] == bytes(16) for frame in sent)
    assert mean < 0.5 * without
    gaps = [pair.sender.gap_s for pair in fabric.executor.pairs.values() if pair.sender.transmissions]
    assert min(gaps) > 1.5 * FULL * 8 / RATE_BPS


@pytest.mark.parametrize("control", [Swift(), Nscc()], ids=["swift", "nscc"])
def test_windows_follow_delay(control: CongestionControl) -> None:
    _, without = incast(Told())
    fabric, mean = incast(control)
    assert mean < 0.7 * without and fabric.executor.counts()["cnps"] == 0


def test_a_queue_alone_takes_no_window_from_a_control() -> None:
    """Four pairs meet in front of each rank with 32 packets each, 128 packets of delay. The transport alone
    would have eight under way, and take more than six times these for the delay of the machine."""
    fabric = fabric_of(5, Told(), tuning=Tuning(min_window=4, max_window=4))
    fabric.queue = lambda src, dst, udp_src: dst
    in_flight, step = [], fabric.executor.step

    def watched(ready: Any, now: float) -> None:
        step(ready, now)
        senders = [pair.sender for pair in fabric.executor.pairs.values()]
        in_flight.extend(len(sender.outstanding) for sender in senders if sender.timing.overloaded)

    fabric.executor.step = watched  # type: ignore[method-assign]
    collective = DirectAllToAll()
    ranks = RailOnly().build({"domains": 5, "rails": 1})
    schedule = collective.schedule(ranks, range(5), 5 * 200 * 256, "int32", "sum").expand()
    buffers = RankBuffers(schedule)
    buffers.fill(collective.inputs(schedule, 0))
    fabric.run(schedule, buffers)
    assert max(in_flight) == 32


class Wild(Told):
    """Answers with a rate above the line after the first acknowledgement."""

    @staticmethod
    def acknowledged(s: Any, now: int, nbytes: int, marked_bytes: int, delay: int, in_flight: int) -> None:
        s["rate"] = 2 * s["line"]


class Failing(Told):
    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        s["nothing"] = 1


class Sleepless(Told):
    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        s["wake"] = now


@pytest.mark.parametrize(
    ("control", "why"),
    [
        (Wild(), r"after acknowledged\(\) at .*test_control.py:\d+ the rate is"),
        (Failing(), "ValueError"),
        (Sleepless(), r"woke\(\) at .* leaves `wake` at"),
    ],
)
def test_a_wrong_control_is_named(control: CongestionControl, why: str) -> None:
    with pytest.raises(PluginError, match=f"congestion-control mine.*{why}"):
        carried(fabric_of(2, control), 20)


def test_what_a_pair_knows_stays_where_the_clock_does() -> None:
    """Other paths keep the record; a clock of another scale begins a new one."""
    pair = PairControl(Dcqcn(), "mine")
    paths: Any = [4e6], [2.0], [0.0], FULL
    pair.use_paths(0.0, *paths, 1e7)
    pair.notified(1.0)
    slow = pair.gap_s(FULL)
    pair.use_paths(2.0, *paths, 1e7)
    assert pair.gap_s(FULL) == slow == pytest.approx(2 * FULL * 8 / 4e6)
    pair.use_paths(3.0, *paths, 1e6)
    assert pair.gap_s(FULL) == pytest.approx(FULL * 8 / 4e6)
