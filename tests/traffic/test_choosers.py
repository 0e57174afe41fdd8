"""The choosers of paths: shares, gaps, and what a pair tells them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import railweave as rw
from railweave.framework.errors import ExperimentError, PluginError
from railweave.framework.hookspecs import PathChooser
from railweave.framework.kit.plugin_check import check_plugin
from railweave.framework.model.addressing import ENTROPY_BASE
from railweave.framework.registry import load_plugins
from railweave.traffic.choosers import AtRandom, Flowlets, InTurn, Reps, WholeMessages
from railweave.traffic.collectives.entries import Entries
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.rocev2.choice import Choosing, PairChoice
from railweave.traffic.rocev2.tuning import Tuning
from railweave.traffic.rocev2.turns import PathOrder
from tests.traffic.memory_fabric import RATE_BPS, Harm, MemoryFabric
from tests.traffic.rocev2.test_delivery import one_message, table

NAMES = ("in-turn", "messages", "random", "flowlets")


def choice(chooser: PathChooser, weights: list[float], seed: int = 1) -> PairChoice:
    made = PairChoice(chooser, "mine", seed)
    made.use_paths(weights)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_the_checks_of_a_plugin_pass(name: str) -> None:
    report = check_plugin("chooser", name, load_plugins())
    assert report.passed and len(report.outcomes) == 5, report.text()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 700))
def test_in_turn_is_the_order_of_the_transport(weights: list[int], packets: int) -> None:
    """Two programs of one algorithm; and n packets give each path n times its share, to within one."""
    chosen = choice(InTurn(), list(map(float, weights))).take(packets, 0.0)
    turns = PathOrder(weights)
    turns.reach(packets)
    counts, ordered = np.bincount(chosen, minlength=len(weights)), turns.order[:packets]
    shares = np.array(weights) / sum(weights)
    assert (np.abs(counts - packets * shares) <= 1 + 1e-6).all()
    assert np.abs(counts - np.bincount(ordered, minlength=len(weights))).max() <= 1
    if len({*weights}) == 1:
        assert chosen == list(ordered)


def test_random_paths_follow_the_shares() -> None:
    """Of 20,000 packets, within five standard deviations; and as a run of its own with another seed."""
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    first, other = (choice(AtRandom(), shares.tolist(), seed).take(20_000, 0.0) for seed in (1, 2))
    assert first != other and first == choice(AtRandom(), shares.tolist()).take(20_000, 0.0)
    counts = np.bincount(first, minlength=4)
    assert (np.abs(counts - 20_000 * shares) < 5 * np.sqrt(20_000 * shares * (1 - shares))).all()


def test_a_flowlet_ends_with_a_gap_on_the_declared_clock() -> None:
    """At a rate scale of 1e-6 a gap of 500 ns is one of 0.5 s."""
    made = choice(Flowlets(500e-9), [1.0] * 64)
    made.clock = 1e12 * 1e-6
    paths = [made.take(3, t) for t in (0.0, 0.4, 0.9, 1.41, 1.5)]
    assert all(len({*part}) == 1 for part in paths)
    first, second, third, fourth, fifth = (part[0] for part in paths)
    assert first == second == third != fourth == fifth


class Recorder(PathChooser):
    """In turn, and counts what it is told."""

    summary = "counts"
    state = np.dtype([("n", np.int64), ("heard", np.int64, (3,))])
    records: list[Any] = []  # noqa: RUF012

    def start(self) -> NDArray[np.void]:
        made = np.zeros(1, self.state)
        self.records.append(made)
        return made

    @staticmethod
    def use_paths(s: Any, n_paths: int) -> None:
        s["n"] = n_paths

    @staticmethod
    def choose(s: Any, now: int, draw: np.uint64, shares: NDArray[np.float64]) -> int:
        s["heard"][0] += 1
        return int(s["heard"][0] % s["n"])

    @staticmethod
    def acknowledged(s: Any, now: int, path: int, marked: bool, delay: int) -> None:
        assert delay > 0 and not marked and 0 <= path < s["n"]
        s["heard"][1] += 1

    @staticmethod
    def lost(s: Any, now: int, path: int) -> None:
        s["heard"][2] += 1


def carried(chooser: PathChooser, harm: Harm, packets: int = 600) -> MemoryFabric:
    fabric = MemoryFabric(2, tuning=Tuning(min_window=16), harm=harm, choosing=Choosing(chooser, "mine", 1))
    fabric.executor.use_entropies(table(2, {(0, 1): 3}), 0.0)
    schedule = one_message(packets * 256)
    buffers = RankBuffers(schedule)
    buffers.fill([np.arange(packets * 64, dtype=np.int32), np.zeros(packets * 64, np.int32)])
    fabric.run(schedule, buffers)
    assert buffers.compare([np.arange(packets * 64, dtype=np.int32)] * 2) == (2 * packets * 64, 0)
    return fabric


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_a_chooser_hears_of_every_packet_once(loss: float) -> None:
    """Sent are those that arrived and those that were taken for lost."""
    Recorder.records.clear()
    fabric = carried(Recorder(), Harm(loss=loss))
    sent, arrived, lost = Recorder.records[0]["heard"][0]
    assert arrived + lost == sent == fabric.executor.counts()["packets_sent"] >= 600
    assert lost > 20 if loss else lost <= 1  # a probe of the tail


def test_packets_take_the_paths_chosen() -> None:
    fabric = carried(Recorder(), Harm())
    ports = [
        int.from_bytes(frame[34:36], "big") - ENTROPY_BASE for _, src, _, frame in fabric.seen if src == 0
    ]
    assert ports == [(1 + i) % 3 for i in range(len(ports))]


class Astray(Recorder):
    @staticmethod
    def choose(s: Any, now: int, draw: np.uint64, shares: NDArray[np.float64]) -> int:
        return 3


class Broken(Recorder):
    @staticmethod
    def choose(s: Any, now: int, draw: np.uint64, shares: NDArray[np.float64]) -> int:
        return int(s["nothing"])


@pytest.mark.parametrize(
    ("chooser", "why"),
    [(Astray(), r"choose\(\) at .*test_choosers.py:\d+ gives path 3 of 0..2"), (Broken(), "ValueError")],
)
def test_a_wrong_chooser_is_named(chooser: PathChooser, why: str) -> None:
    with pytest.raises(PluginError, match=rf"chooser mine.*{why}"):
        carried(chooser, Harm())


def test_who_has_no_packets_refuses_choosers_before_anything_starts() -> None:
    with pytest.raises(ExperimentError, match="choosing paths by random: engine fluid cannot"):
        rw.load(engine="fluid", chooser="random")
    with pytest.raises(ExperimentError, match="there is no chooser 'rep'"):
        rw.load(chooser="rep")
    with pytest.raises(ExperimentError, match=r"reps goes by marks of congestion, and engine\.marks is off"):
        rw.load(chooser="reps", engine={"name": "emulation", "marks": "off"})
    plan = rw.load(chooser={"name": "flowlets", "gap": "1us"})
    assert plan.document()["chooser"] == {"name": "flowlets", "gap": 1e-6}


def test_whole_messages_take_paths_in_turn_and_keep_them() -> None:
    """Three paths, weights 2 : 1 : 1, eight messages of 40 packets a pair, some lost: each message is on one
    path, its repeated packets too, and four messages in a row take the paths by their weights."""
    fabric = MemoryFabric(2, harm=Harm(loss=0.05), choosing=Choosing(WholeMessages(), "mine", 1))
    paths = table(2, {(0, 1): 3})
    weight = paths.weight.copy()
    weight[:3] = 0.5, 0.25, 0.25
    fabric.executor.use_entropies(replace(paths, weight=weight), 0.0)
    entries = Entries(2, 4)
    entries.phase("send")
    entries.add(np.zeros(8, int), np.ones(8, int), first=np.arange(8) * 2560, length=2560)
    schedule = entries.build("send", 8 * 2560, "int32", "sum")
    fabric.run(schedule, RankBuffers(schedule))
    sent: dict[int, set[int]] = defaultdict(set)
    for _, src, _, frame in fabric.seen:
        if src == 0:
            psn = int.from_bytes(frame[51:54], "big")
            sent[psn // 40].add(int.from_bytes(frame[34:36], "big") - ENTROPY_BASE)
    ways = [sent[message] for message in range(8)]
    assert all(len(way) == 1 for way in ways) and fabric.executor.counts()["retransmitted"] > 0
    for four in (ways[:4], ways[4:]):
        assert sorted(path for way in four for path in way) == [0, 0, 1, 2]


class Marks(Recorder):
    """In turn, and counts the marks of each path."""

    @staticmethod
    def acknowledged(s: Any, now: int, path: int, marked: bool, delay: int) -> None:
        s["heard"][1] += 1
        s["heard"][2] += marked == (path == 1)


def marking(fabric: MemoryFabric, way: int) -> MemoryFabric:
    fabric.marks = lambda src, dst, udp_src, waits_s: udp_src == ENTROPY_BASE + way
    return fabric


@pytest.mark.parametrize("window", [16, 256])
def test_a_chooser_hears_which_packets_were_marked(window: int) -> None:
    """All over one of three paths, out of order: late ones of the others are told of beyond a gap."""
    Recorder.records.clear()
    harm, tuning = Harm(late=0.2, late_s=0.0015), Tuning(min_window=window, max_window=window)
    fabric = MemoryFabric(2, tuning=tuning, harm=harm, choosing=Choosing(Marks(), "mine", 1), slots=512)
    marking(fabric, 1).executor.use_entropies(table(2, {(0, 1): 3}), 0.0)
    schedule = one_message(3000 * 256)
    fabric.run(schedule, RankBuffers(schedule))
    heard = Recorder.records[0]["heard"][0]
    again, marked = (fabric.executor.counts()[name] for name in ("retransmitted", "marked"))
    assert heard[1] >= 3000 and heard[2] >= heard[1] - again, "but for packets whose first copy came late"
    assert 1000 - again <= marked <= 1000 + again and again < 100


def test_marks_survive_lost_answers() -> None:
    """Three of ten packets and answers are lost, so of 1,000 marked packets some are told of by a later
    answer. Every packet is sent until it arrives, and only those sent again may take another path."""
    fabric = MemoryFabric(2, harm=Harm(loss=0.3), seed=3)
    marking(fabric, 0).executor.use_entropies(table(2, {(0, 1): 1}), 0.0)
    schedule = one_message(1000 * 256)
    fabric.run(schedule, RankBuffers(schedule))
    assert fabric.executor.counts()["marked"] == 1000


def recycled(reps: Any, s: Any, answers: list[tuple[int, bool]]) -> list[int]:
    """What is chosen of eight paths after each path was answered, marked or not; draws are of the last."""
    reps.use_paths(s, 8)
    for path, marked in answers:
        reps.acknowledged(s, 1000, path, marked, 500)
    return [
        reps.choose(s, 2000, np.uint64((1 << 64) - 1), np.full(8, 0.125)) for _ in range(len(answers) + 1)
    ]


def test_reps_takes_unmarked_paths_again_oldest_first_and_then_at_random() -> None:
    """Section 3 of arXiv 2407.21625. The draw of all ones is the last path."""
    assert recycled(Reps(), Reps().start()[0], [(3, False), (5, True), (2, False), (4, False)]) == [
        3, 2, 4, 7, 7,
    ]  # fmt: skip
    many = [(path, False) for path in (0, 1, 2, 3, 4, 5, 6, 0, 1, 2)]
    assert recycled(Reps(), Reps().start()[0], many)[:9] == [2, 3, 4, 5, 6, 0, 1, 2, 7], "the last eight"


def test_reps_frozen_by_a_loss_tries_nothing_new_and_then_explores() -> None:
    reps, s = Reps(1e-6), Reps(1e-6).start()[0]
    last, shares = np.uint64((1 << 64) - 1), np.full(8, 0.125)
    recycled(reps, s, [(3, False), (5, False)])
    reps.lost(s, 10_000, 7)
    assert [reps.choose(s, 20_000, last, shares) for _ in range(4)] == [3, 5, 3, 5]
    reps.acknowledged(s, 20_000, 6, False, 500)
    assert {reps.choose(s, 30_000, last, shares) for _ in range(9)} == {3, 5}, "nothing is stored meanwhile"
    after = [(reps.acknowledged(s, 1_500_000, 1, False, 9), reps.choose(s, 1_500_000, last, shares))[1]
             for _ in range(32)]  # fmt: skip
    assert after.count(7) == 32 // 8 and set(after) == {1, 7}


def test_reps_avoids_a_slow_path_on_which_packets_wait() -> None:
    """Four paths, one at a quarter. In turn, a quarter of the packets take it, four packet times each: as
    long as all of them over one path. All paths together would need 1 / 3.25 of that."""
    packets, took = 4000, dict[str, float]()
    for name, chooser in (("in turn", InTurn()), ("reps", Reps())):
        tuning = Tuning(min_window=64, max_window=64)
        fabric = MemoryFabric(2, tuning=tuning, choosing=Choosing(chooser, "mine", 1), slots=512)
        packet_s = 314 * 8 / RATE_BPS
        fabric.rate_bps = lambda src, dst, udp: RATE_BPS / (4 if udp == ENTROPY_BASE + 2 else 1)
        fabric.marks = lambda src, dst, udp, waits_s, limit=5 * packet_s: waits_s > limit
        fabric.executor.use_entropies(table(2, {(0, 1): 4}), 0.0)
        schedule = one_message(packets * 256)
        took[name] = fabric.run(schedule, RankBuffers(schedule)) / (packets * packet_s)
    assert took["in turn"] > 0.95 and 1 / 3.25 < took["reps"] < 0.6, took
