"""The executor over a fabric in memory, in virtual time: whatever the fabric does, data arrive once and
intact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.model import EntropyTable, Schedule
from railweave.framework.model.addressing import ENTROPY_BASE
from railweave.topologies.rail_only import RailOnly
from railweave.traffic.collectives.entries import Entries
from railweave.traffic.collectives.hierarchical import HierarchicalAllReduce
from railweave.traffic.collectives.rings import RingAllReduce
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.rocev2.timing import Timing
from railweave.traffic.rocev2.tuning import Tuning
from railweave.traffic.service import describe_stuck
from tests.traffic.memory_fabric import RATE_BPS, Harm, MemoryFabric, count_wrong

COLLECTIVE = RingAllReduce()
FULL = 256 + 58


def all_reduce(n: int, size: int, dtype: str = "float32", redop: str = "sum") -> Schedule:
    return COLLECTIVE.schedule(
        RailOnly().build({"domains": 1, "rails": max(n, 2)}), range(n), size, dtype, redop
    ).expand()


def wrong_after(fabric: MemoryFabric, schedule: Schedule, iterations: int = 1) -> int:
    buffers, wrong = RankBuffers(schedule), 0
    for iteration in range(iterations):
        inputs = COLLECTIVE.inputs(schedule, iteration)
        buffers.fill(inputs)
        fabric.run(schedule, buffers)
        wrong += count_wrong(COLLECTIVE, buffers, inputs)
    return wrong


def one_message(size: int) -> Schedule:
    """Rank 0 sends everything to rank 1."""
    entries = Entries(2, 4)
    entries.phase("send")
    entries.add(0, 1, length=size // 4)
    return entries.build("send", size // 4, "int32", "sum")


def table(
    n: int, paths: dict[tuple[int, int], int], rate_bps: float = RATE_BPS, version: int = 1
) -> EntropyTable:
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    counts = [paths.get(pair, 1) for pair in pairs]
    return EntropyTable(
        version,
        np.array([a for a, _ in pairs]),
        np.array([b for _, b in pairs]),
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([ENTROPY_BASE + np.arange(count) for count in counts]),
        np.concatenate([np.full(count, 1 / count) for count in counts]),
        np.full(sum(counts), rate_bps),
        np.ones(sum(counts)),
        np.zeros(sum(counts)),
    )


harms = st.builds(
    Harm,
    loss=st.sampled_from([0, 0.01, 0.1, 0.25]),
    double=st.sampled_from([0, 0.1]),
    damage=st.sampled_from([0, 0.05]),
    late=st.sampled_from([0, 0.2]),
)


@settings(max_examples=60)
@given(
    harm=harms,
    n=st.integers(2, 5),
    size=st.integers(0, 20_000),
    dtype=st.sampled_from(["float32", "int8", "float16"]),
    redop=st.sampled_from(["sum", "max", "prod"]),
    window=st.integers(1, 64),
    n_paths=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_any_harm_any_size_right_every_time(
    harm: Harm, n: int, size: int, dtype: str, redop: str, window: int, n_paths: int, seed: int
) -> None:
    fabric = MemoryFabric(n, harm=harm, seed=seed, tuning=Tuning(min_window=window, max_window=window))
    fabric.executor.use_entropies(table(n, {(a, b): n_paths for a in range(n) for b in range(n)}), 0.0)
    assert wrong_after(fabric, all_reduce(n, size, dtype, redop), iterations=2) == 0


def test_what_comes_last_over_a_slow_path_is_acknowledged_at_once() -> None:
    """The packet that asks for the last answer is not the last one to arrive: without an answer of its own,
    the sender would wait for its timeout (0.2 s at least) and send again."""
    fabric = MemoryFabric(2)
    fabric.rate_bps = lambda src, dst, udp_src: RATE_BPS / 4 if udp_src == ENTROPY_BASE else RATE_BPS
    fabric.executor.use_entropies(table(2, {(0, 1): 2}), 0.0)
    schedule = one_message(30 * 256)  # the last packet takes the fast path
    buffers = RankBuffers(schedule)
    buffers.fill([np.arange(30 * 64, dtype=np.int32), np.zeros(30 * 64, np.int32)])
    fabric.run(schedule, buffers)
    assert fabric.executor.counts()["retransmitted"] == 0
    assert fabric.now - fabric.executor.progress.last_at < 0.002  # a latency and some answers in the queue


def test_numbers_wrap_after_24_bits() -> None:
    fabric = MemoryFabric(2, harm=Harm(loss=0.05), seed=2)
    for ends in ((0, 1), (1, 0)):
        pair = fabric.executor.pair(*ends)
        pair.sender.reset((1 << 24) - 40)
        pair.receiver.reset((1 << 24) - 40)
    assert wrong_after(fabric, all_reduce(2, 50_000), iterations=2) == 0
    assert fabric.executor.pair(0, 1).sender.next > 1 << 24


def test_a_healthy_fabric_sees_every_packet_once_and_few_acknowledgements() -> None:
    fabric = MemoryFabric(2, tuning=Tuning(min_window=16))
    schedule = one_message(200 * 256)
    buffers = RankBuffers(schedule)
    buffers.fill([np.arange(200 * 64, dtype=np.int32), np.zeros(200 * 64, np.int32)])
    seconds = fabric.run(schedule, buffers)
    counted = fabric.executor.counts()
    sent_bytes = fabric.packet.wire_bytes(200 * 256)
    assert counted == {
        "packets_sent": 200, "retransmitted": 0, "marked": 0, "cnps": 0, "duplicates": 0, "out_of_order": 0,
        "bytes_sent": sent_bytes, "wrong_icrc": 0,
    }  # fmt: skip
    acks = [len(frame) for _, src, _, frame in fabric.seen if src == 1]
    assert len(acks) <= 200 / 4 + 1 and set(acks) == {fabric.packet.acknowledgement_bytes}
    # the link is never idle: its own time, one latency, and nothing more
    assert seconds == pytest.approx(sent_bytes * 8 / RATE_BPS + 0.001, rel=1e-6)


@pytest.mark.parametrize(
    ("rate_bps", "delay", "window"), [(4e6, 0.015, 24), (1e6, 0.015, 6), (1e3, 0.015, 4), (1e9, 0.1, 64)]
)
def test_windows_follow_the_rate(rate_bps: float, delay: float, window: int) -> None:
    """ceil(rate x delay / packet of 314 bytes), between 4 and 64, by hand."""
    fabric = MemoryFabric(2, tuning=Tuning(target_delay=delay, min_window=4))
    fabric.executor.use_entropies(table(2, {}, rate_bps), 0.0)
    schedule = one_message(400 * 256)
    fabric.executor.prepare(schedule, RankBuffers(schedule))
    fabric.executor.begin(0.0)
    assert len(fabric.seen) == fabric.executor.pair(0, 1).sender.window == window


def test_nothing_is_sent_before_an_iteration_that_took_long_to_prepare() -> None:
    """More senders than one pass serves: the others follow in the pass that had begun before, which ends with
    the clock that it began with."""
    fabric, schedule = MemoryFabric(20, tuning=Tuning(min_window=16)), all_reduce(20, 20 * 16 * 256)
    fabric.executor.prepare(schedule, RankBuffers(schedule))
    fabric.executor.begin(6.0)
    assert fabric.executor.pending
    fabric.executor.tick(0.1)
    fabric.executor.step([], 0.1)
    assert {pair.sender.progress_at for pair in fabric.executor.pairs.values()} == {6.0}
    assert not fabric.executor.stuck(6.1)


def test_every_rank_sends_in_the_first_pass() -> None:
    """20 windows of 16 packets are more than the 256 of a pass: each rank sends a twentieth of it, 12, at
    least, so that no link waits for the whole windows of others."""
    fabric, schedule = MemoryFabric(20, tuning=Tuning(min_window=16)), all_reduce(20, 20 * 16 * 256)
    fabric.executor.prepare(schedule, RankBuffers(schedule))
    fabric.executor.begin(0.0)
    sent = Counter(src for _, src, _, _ in fabric.seen)
    assert len(sent) == 20 and min(sent.values()) >= 12 and sum(sent.values()) == 256


def test_first_transmissions_spread_evenly_over_the_paths_of_the_table_in_force() -> None:
    fabric = MemoryFabric(2)
    fabric.executor.use_entropies(table(2, {(0, 1): 3}), 0.0)
    schedule = one_message(301 * 256)
    buffers = RankBuffers(schedule)
    buffers.fill([np.arange(301 * 64, dtype=np.int32)] * 2)
    fabric.executor.prepare(schedule, buffers)
    fabric.executor.begin(0.0)
    fabric.advance(lambda: len(fabric.seen) > 120)
    before = len(fabric.seen)
    fabric.executor.use_entropies(table(2, {(0, 1): 2}, version=2), fabric.now)
    fabric.advance(lambda: fabric.executor.drained)
    for part, paths in ((fabric.seen[:before], 3), (fabric.seen[before:], 2)):
        sent = Counter(int.from_bytes(frame[34:36], "big") for _, src, _, frame in part if src == 0)
        assert set(sent) == {ENTROPY_BASE + path for path in range(paths)}
        assert max(sent.values()) - min(sent.values()) <= 1


def test_tables_that_leave_a_pair_as_it_is_do_not_start_its_turn_again() -> None:
    fabric = MemoryFabric(2)
    schedule = one_message(301 * 256)
    buffers = RankBuffers(schedule)
    buffers.fill([np.arange(301 * 64, dtype=np.int32)] * 2)
    fabric.executor.use_entropies(table(2, {(0, 1): 3}), 0.0)
    fabric.executor.prepare(schedule, buffers)
    fabric.executor.begin(0.0)
    for version, sent in enumerate((40, 80, 121), start=2):
        fabric.advance(lambda sent=sent: len(fabric.seen) > sent)
        fabric.executor.use_entropies(table(2, {(0, 1): 3}, version=version), fabric.now)
    fabric.advance(lambda: fabric.executor.drained)
    counts = Counter(int.from_bytes(frame[34:36], "big") for _, src, _, frame in fabric.seen if src == 0)
    assert sorted(counts.values()) == [100, 100, 101]


def test_a_reroute_in_the_middle_loses_and_repeats_nothing() -> None:
    """The old path is slow and still full when the new one takes over: packets overtake, none is sent
    again."""
    fabric = MemoryFabric(2)
    slow = ENTROPY_BASE
    fabric.rate_bps = lambda src, dst, udp_src: RATE_BPS / 5 if udp_src == slow else RATE_BPS
    fabric.executor.use_entropies(table(2, {}), 0.0)
    schedule = one_message(300 * 256)
    inputs = [np.arange(300 * 64, dtype=np.int32), np.zeros(300 * 64, np.int32)]
    buffers = RankBuffers(schedule)
    buffers.fill(inputs)
    fabric.executor.prepare(schedule, buffers)
    fabric.executor.begin(0.0)
    fabric.advance(lambda: len(fabric.seen) > 100)
    moved = table(2, {}, version=2)
    fabric.executor.use_entropies(replace(moved, udp_src=moved.udp_src + 1), fabric.now)
    fabric.advance(lambda: fabric.executor.drained)
    assert np.array_equal(buffers.slice(1, 0, 0, 300 * 256), inputs[0])
    assert fabric.executor.counts()["retransmitted"] == 0


def test_five_reroutes_a_second_stay_right() -> None:
    fabric = MemoryFabric(4, harm=Harm(loss=0.01), seed=5)
    schedule = all_reduce(4, 400_000)
    inputs = COLLECTIVE.inputs(schedule, 0)
    buffers = RankBuffers(schedule)
    buffers.fill(inputs)
    fabric.executor.prepare(schedule, buffers)
    fabric.executor.begin(0.0)
    progress = fabric.executor.progress
    version = 1
    while not progress.complete:
        until = fabric.now + 0.2
        fabric.advance(lambda: progress.complete or fabric.now >= until)  # noqa: B023 - used within the loop
        version += 1
        fabric.executor.use_entropies(
            table(4, {(a, b): 1 + version % 3 for a in range(4) for b in range(4)}, version=version),
            fabric.now,
        )
    assert version > 5
    assert count_wrong(COLLECTIVE, buffers, inputs) == 0


def test_a_link_at_a_fifth_of_its_rate_causes_next_to_no_repetition() -> None:
    fabric = MemoryFabric(2)
    fabric.executor.use_entropies(table(2, {}), 0.0)
    slow_from = 0.1
    fabric.rate_bps = lambda src, dst, udp_src: RATE_BPS / 5 if fabric.now > slow_from else RATE_BPS
    assert wrong_after(fabric, all_reduce(2, 500 * 256)) == 0
    counted = fabric.executor.counts()
    assert counted["retransmitted"] <= 0.01 * counted["packets_sent"]


def test_one_percent_loss_keeps_70_percent_of_the_rate() -> None:
    times = []
    for loss in (0.0, 0.01):
        fabric = MemoryFabric(4, harm=Harm(loss=loss), seed=4)
        fabric.executor.use_entropies(table(4, {}), 0.0)
        schedule = all_reduce(4, 1 << 19)
        buffers = RankBuffers(schedule)
        buffers.fill(COLLECTIVE.inputs(schedule, 0))
        times.append(fabric.run(schedule, buffers))
    assert times[0] / times[1] >= 0.7


@pytest.mark.parametrize(("harm", "widens"), [(Harm(late=0.02, late_s=0.02), True), (Harm(loss=0.03), False)])
def test_patience_with_overtaken_packets_grows_where_packets_are_overtaken(harm: Harm, widens: bool) -> None:
    """Where an answer is lost a probe arrives as a duplicate, which tells nothing of the order (Linux leaves
    such duplicates out too: FLAG_DSACK_TLP)."""
    fabric = MemoryFabric(2, harm=harm, seed=4)
    fabric.executor.use_entropies(table(2, {}), 0.0)
    widest, least = 0.0, Timing().reorder
    for _ in range(100):
        assert wrong_after(fabric, all_reduce(2, 40 * 256)) == 0
        widest = max([widest, *(pair.sender.timing.reorder for pair in fabric.executor.pairs.values())])
    assert fabric.executor.counts()["duplicates"] > 0
    assert (widest > least) is widens


def test_a_path_that_dies_for_a_while_costs_little_more_than_the_outage() -> None:
    """Both ends of messages fall into the outage; recovery is one probe and one round trip, not one per
    packet."""
    fabric = MemoryFabric(2)
    fabric.executor.use_entropies(table(2, {}), 0.0)
    healthy = MemoryFabric(2)
    healthy.executor.use_entropies(table(2, {}), 0.0)
    fabric.alive = lambda src, dst, udp_src: not 0.05 < fabric.now < 0.55
    times = []
    for each in (healthy, fabric):
        schedule = all_reduce(2, 1 << 17)
        buffers = RankBuffers(schedule)
        inputs = COLLECTIVE.inputs(schedule, 0)
        buffers.fill(inputs)
        times.append(each.run(schedule, buffers))
        assert count_wrong(COLLECTIVE, buffers, inputs) == 0
    assert times[1] <= times[0] + 0.5 + 0.6


def test_an_answer_that_was_lost_is_no_slow_round_trip() -> None:
    """For a second no answer comes back. The next one acknowledges all that has arrived meanwhile, and only
    of the packet that was answered it says how long it took (Linux: FLAG_RETRANS_DATA_ACKED)."""
    fabric = MemoryFabric(2)
    fabric.executor.use_entropies(table(2, {}), 0.0)
    fabric.alive = lambda src, dst, udp_src: src == 0 or not 0.05 < fabric.now < 1.05
    schedule = one_message(1000 * 256)
    fabric.executor.prepare(schedule, RankBuffers(schedule))
    fabric.executor.begin(0.0)
    timing, longest_s = fabric.executor.pair(0, 1).sender.timing, 0.0
    fabric.advance(lambda: fabric.now >= 0.05)
    before_s = timing.smoothed
    while not fabric.executor.drained:
        fabric.advance(lambda at=fabric.now + 0.005: fabric.now >= at)
        longest_s = max(longest_s, timing.smoothed)
    assert fabric.now > 1.05 and fabric.executor.counts()["duplicates"] > 0
    assert 0 < before_s <= longest_s < 2 * before_s


def test_senders_that_are_told_of_links_ask_at_once() -> None:
    """A path is back while a probe has no answer; the next would come half a second later."""
    ends = []
    for told in (False, True):
        fabric = MemoryFabric(2)
        fabric.executor.use_entropies(table(2, {}), 0.0)
        sender = fabric.executor.pair(0, 1).sender
        fabric.alive = lambda *_, fabric=fabric: fabric.now > 1.5
        schedule = one_message(10 * 256)
        fabric.executor.prepare(schedule, RankBuffers(schedule))
        fabric.executor.begin(0.0)
        fabric.advance(lambda fabric=fabric: fabric.now > 1.5)
        probes = sender.timing.probes
        assert probes > 1
        if told:
            fabric.executor.retry(fabric.now)
        fabric.advance(lambda fabric=fabric: fabric.executor.drained)
        ends.append(fabric.now)
    assert ends[1] < 1.6 < ends[0]


def test_who_is_told_in_vain_is_given_up_all_the_same() -> None:
    """Another link flaps every 0.3 s."""
    fabric = MemoryFabric(2, tuning=Tuning(dead_after=1))
    fabric.executor.use_entropies(table(2, {}), 0.0)
    fabric.alive = lambda *_: False
    schedule = one_message(256)
    fabric.executor.prepare(schedule, RankBuffers(schedule))
    fabric.executor.begin(0.0)
    for _ in range(6):
        fabric.advance(lambda at=fabric.now + 0.3: fabric.now > at)
        fabric.executor.retry(fabric.now)
    assert 1.5 < fabric.now < 2.5 and fabric.executor.stuck(fabric.now)


def test_new_paths_end_the_backoff_at_once() -> None:
    fabric = MemoryFabric(2)
    fabric.executor.use_entropies(table(2, {}), 0.0)
    fabric.alive = lambda src, dst, udp_src: udp_src != ENTROPY_BASE
    schedule = one_message(10 * 256)
    buffers = RankBuffers(schedule)
    buffers.fill([np.ones(640, np.int32)] * 2)
    fabric.executor.prepare(schedule, buffers)
    fabric.executor.begin(0.0)
    fabric.advance(lambda: fabric.now > 5)
    moved = table(2, {}, version=2)
    fabric.executor.use_entropies(replace(moved, udp_src=moved.udp_src + 1), fabric.now)
    fabric.advance(lambda: fabric.executor.drained or fabric.now > 10)
    assert fabric.now < 5.3


def left_at_120_ms(**worse: Callable[..., Any]) -> tuple[MemoryFabric, float]:
    """A pair whose path is `worse` from 0.1 s on, and which leaves it for one of 15 links, which holds three
    times as much; and after how much time all is delivered, over the silence after which it would probe."""
    fabric = MemoryFabric(2)
    fabric.executor.use_entropies(table(2, {}), 0.0)
    for name, value in worse.items():
        before = getattr(fabric, name)
        setattr(fabric, name, lambda *link, before=before, value=value: (
            value(*link) if not link[0] and link[2] == ENTROPY_BASE and fabric.now >= 0.1 else before(*link)
        ))  # fmt: skip
    schedule = one_message(500 * 256)
    buffers = RankBuffers(schedule)
    buffers.fill([np.ones(500 * 64, np.int32)] * 2)
    fabric.executor.prepare(schedule, buffers)
    fabric.executor.begin(0.0)
    fabric.advance(lambda: fabric.now > 0.12)
    timing, left_s = fabric.executor.pair(0, 1).sender.timing, fabric.now
    silence_s = timing.wait
    assert silence_s < timing.timeout / 2
    moved = table(2, {}, version=2)
    longer = replace(moved, udp_src=moved.udp_src + 1, depth=np.full(len(moved.depth), 15.0))
    fabric.executor.use_entropies(longer, fabric.now)
    fabric.advance(lambda: fabric.executor.drained or fabric.now > 10)
    return fabric, (fabric.now - left_s) / silence_s


def test_what_was_under_way_on_a_dead_path_is_sent_again_after_a_silence() -> None:
    """As a probe of the tail would be: neither a timeout of that path nor a window of the new one later."""
    fabric, silences = left_at_120_ms(alive=lambda *_: False)
    counted = fabric.executor.counts()
    assert 1 < silences < 2
    assert counted["retransmitted"] > 0 and counted["duplicates"] == 0


def test_what_is_slow_on_a_path_that_was_left_is_not_sent_again() -> None:
    """A tenth of its rate: much comes later than that silence, but no packet that long after another."""
    fabric, silences = left_at_120_ms(rate_bps=lambda *_: RATE_BPS / 10)
    assert silences > 1
    assert fabric.executor.counts()["retransmitted"] == 0


def test_a_new_path_is_tried_within_its_timeout_however_long_the_old_one_was_waited_for() -> None:
    """A window of the old path, 40 links, takes 3 s at 0.17 Mb/s; of the new one 11 ms."""
    fabric = MemoryFabric(2)
    slow = table(2, {}, rate_bps=1.7e5)
    fabric.executor.use_entropies(replace(slow, depth=np.full(len(slow.depth), 40.0)), 0.0)
    fabric.alive = lambda src, dst, udp_src: udp_src != ENTROPY_BASE
    schedule = one_message(10 * 256)
    buffers = RankBuffers(schedule)
    buffers.fill([np.ones(640, np.int32)] * 2)
    fabric.executor.prepare(schedule, buffers)
    fabric.executor.begin(0.0)
    fabric.advance(lambda: fabric.now > 0.1)
    sender = fabric.executor.pair(0, 1).sender
    old_s = sender.timing.timeout
    moved = table(2, {}, version=2)
    fabric.executor.use_entropies(replace(moved, udp_src=moved.udp_src + 1), fabric.now)
    assert old_s > 3 and sender.timing.timeout < 0.5 and sender.patience == old_s
    fabric.advance(lambda: sender.retransmitted > 0 or fabric.now > 20)
    assert fabric.now <= 0.11 + sender.timing.timeout


def test_a_pair_is_given_four_timeouts_of_the_path_that_its_packets_are_on() -> None:
    """They were sent over a path of which a timeout is 20 s and more; the new one's is 0.2 s."""
    fabric = MemoryFabric(2, tuning=Tuning(dead_after=1))
    slow = table(2, {}, rate_bps=2e4)
    fabric.executor.use_entropies(replace(slow, depth=np.full(len(slow.depth), 40.0)), 0.0)
    fabric.alive = lambda src, dst, udp_src: False
    schedule = one_message(256)
    fabric.executor.prepare(schedule, RankBuffers(schedule))
    fabric.executor.begin(0.0)
    fabric.advance(lambda: fabric.now > 0.1)
    before = fabric.executor.pair(0, 1).sender.timing.timeout
    fabric.executor.use_entropies(table(2, {}, version=2), fabric.now)
    assert before > 20 and fabric.executor.pair(0, 1).sender.patience == before
    fabric.executor.abandon()
    assert fabric.executor.pair(0, 1).sender.patience == fabric.executor.pair(0, 1).sender.timing.timeout


def test_no_pair_is_given_up_before_its_new_path_was_tried() -> None:
    """Ten seconds of silence are half a timeout of the old path, and ten times what the new one is given."""
    fabric = MemoryFabric(2, tuning=Tuning(dead_after=1))
    slow = table(2, {}, rate_bps=2e4)
    fabric.executor.use_entropies(replace(slow, depth=np.full(len(slow.depth), 40.0)), 0.0)
    fabric.alive = lambda src, dst, udp_src: udp_src != ENTROPY_BASE
    schedule = one_message(256)
    fabric.executor.prepare(schedule, RankBuffers(schedule))
    fabric.executor.begin(0.0)
    fabric.advance(lambda: fabric.now > 10)
    moved, sender = table(2, {}, version=2), fabric.executor.pair(0, 1).sender
    fabric.executor.use_entropies(replace(moved, udp_src=moved.udp_src + 1), fabric.now)
    fabric.advance(lambda: sender.retransmitted > 0)
    assert sender.patience < 0.5 and not fabric.executor.stuck(fabric.now)
    fabric.advance(lambda: fabric.executor.drained)


def test_routes_that_stay_put_off_no_giving_up() -> None:
    """New tables with the same paths of a dead pair every 0.3 s, as reroutes of others bring them."""
    fabric = MemoryFabric(2, tuning=Tuning(dead_after=1))
    fabric.executor.use_entropies(table(2, {}), 0.0)
    fabric.alive = lambda *_: False
    schedule = one_message(256)
    fabric.executor.prepare(schedule, RankBuffers(schedule))
    fabric.executor.begin(0.0)
    for version in range(2, 8):
        fabric.advance(lambda at=fabric.now + 0.3: fabric.now > at)
        fabric.executor.use_entropies(table(2, {}, version=version), fabric.now)
    assert 1.5 < fabric.now < 2.5 and fabric.executor.stuck(fabric.now)


def test_the_last_packet_of_the_budget_asks_for_an_answer() -> None:
    """Otherwise senders wait for their probes, 37 ms and more each: 64 packets of 314 bytes at 4 Mb/s take
    0.04 s."""
    fabric = MemoryFabric(2, tuning=Tuning(send_budget_bytes=3 * FULL))
    fabric.executor.use_entropies(table(2, {}), 0.0)
    schedule = one_message(64 * 256)
    fabric.run(schedule, RankBuffers(schedule))
    assert fabric.executor.counts()["retransmitted"] == 0


def test_silent_ranks_are_named() -> None:
    fabric = MemoryFabric(4, tuning=Tuning(dead_after=5))
    fabric.alive = lambda src, dst, udp_src: 2 not in (src, dst)
    schedule = all_reduce(4, 1 << 14)
    fabric.executor.prepare(schedule, RankBuffers(schedule))
    fabric.executor.begin(0.0)
    fabric.advance(lambda: bool(fabric.executor.stuck(fabric.now)))
    assert fabric.now == pytest.approx(5, abs=0.1)
    why, ranks = describe_stuck(fabric.executor, fabric.executor.stuck(fabric.now))
    assert ranks == [2]
    assert "g1->g2" in why
    assert "g2->g3" in why


def test_a_rank_whose_answers_are_lost_is_named() -> None:
    """What arrives at it shows no way back: data of 0.1 s, then nothing."""
    fabric = MemoryFabric(2, tuning=Tuning(dead_after=5))
    fabric.alive = lambda src, dst, udp_src: src == 0
    schedule = one_message(400 * 256)
    fabric.executor.prepare(schedule, RankBuffers(schedule))
    fabric.executor.begin(0.0)
    fabric.advance(lambda: bool(fabric.executor.stuck(fabric.now)))
    assert fabric.executor.pair(0, 1).receiver.expected > 0
    assert fabric.now == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize("to", [0.02, 0.05])
def test_a_pair_whose_answers_wait_behind_the_data_of_its_rank_is_not_given_up(to: float) -> None:
    """All-to-all of 8, and what rank 0 sends, its answers to seven others as well, passes one slow cable: for
    seconds no packet of most of its pairs arrives."""
    fabric = MemoryFabric(8, tuning=Tuning(dead_after=1))
    fabric.executor.use_entropies(table(8, {}), 0.0)
    fabric.queue = lambda src, dst, udp_src: src if src == 0 else (src, dst)
    fabric.rate_bps = lambda src, dst, udp_src: RATE_BPS * (to if src == 0 else 1)
    entries = Entries(8, 4)
    entries.phase("send")
    src, dst = np.nonzero(~np.eye(8, dtype=bool))
    entries.add(src, dst, first=4096 * src, length=4096)
    schedule = entries.build("send", 8 * 4096, "int32", "sum")
    fabric.executor.prepare(schedule, RankBuffers(schedule))
    fabric.executor.begin(0.0)
    progress = fabric.executor.progress

    def over() -> bool:
        assert not fabric.executor.stuck(fabric.now)
        return progress.complete and fabric.executor.drained

    fabric.advance(over)


def test_after_a_failure_the_next_iteration_is_right() -> None:
    fabric = MemoryFabric(3)
    cut = True
    fabric.alive = lambda src, dst, udp_src: not cut
    schedule = all_reduce(3, 1 << 14)
    fabric.executor.prepare(schedule, RankBuffers(schedule))
    fabric.executor.begin(0.0)
    fabric.advance(lambda: fabric.now > 1)
    fabric.executor.abandon()
    assert not any(pair.sender.timing.probes for pair in fabric.executor.pairs.values())  # nothing is silent
    cut = False
    assert wrong_after(fabric, schedule) == 0


@pytest.mark.parametrize("budget_packets", [1, 3, 7])
def test_the_send_budget_bounds_what_is_in_flight(budget_packets: int) -> None:
    fabric = MemoryFabric(
        4, tuning=Tuning(send_budget_bytes=budget_packets * FULL), harm=Harm(loss=0.05), seed=1
    )
    schedule = all_reduce(4, 1 << 14)
    inputs = COLLECTIVE.inputs(schedule, 0)
    buffers = RankBuffers(schedule)
    buffers.fill(inputs)
    fabric.executor.prepare(schedule, buffers)
    fabric.executor.begin(0.0)
    progress = fabric.executor.progress
    most = 0

    def done() -> bool:
        nonlocal most
        most = max(most, sum(len(pair.sender.outstanding) for pair in fabric.executor.pairs.values()))
        return progress.complete and fabric.executor.drained

    fabric.advance(done)
    assert most == budget_packets
    assert count_wrong(COLLECTIVE, buffers, inputs) == 0


def test_a_small_receive_ring_only_costs_time() -> None:
    fabric = MemoryFabric(2, tuning=Tuning(min_window=64), slots=8, latency_s=0.0)
    fabric.rate_bps = lambda src, dst, udp_src: 1e12
    assert wrong_after(fabric, all_reduce(2, 1 << 16)) == 0


def test_a_receiver_ten_times_slower_bounds_what_is_held() -> None:
    """Data reaches rank 1 at a tenth of the rate that the sender believes in: it holds a window, whatever is
    left to send, and the message takes ten times the link's time."""
    fabric = MemoryFabric(2)
    fabric.executor.use_entropies(table(2, {}), 0.0)
    fabric.rate_bps = lambda src, dst, udp_src: RATE_BPS / 10 if dst == 1 else RATE_BPS
    packets = 2000
    schedule = one_message(packets * 256)
    inputs = [np.arange(packets * 64, dtype=np.int32), np.zeros(packets * 64, np.int32)]
    buffers = RankBuffers(schedule)
    buffers.fill(inputs)
    fabric.executor.prepare(schedule, buffers)
    fabric.executor.begin(0.0)
    sender = fabric.executor.pair(0, 1).sender
    most = 0

    def done() -> bool:
        nonlocal most
        most = max(most, len(sender.outstanding) + len(sender.lost))
        return fabric.executor.drained

    fabric.advance(done)
    assert most == sender.window < packets / 10
    assert np.array_equal(buffers.slice(1, 0, 0, packets * 256), inputs[0])
    assert fabric.now == pytest.approx(packets * FULL * 8 / (RATE_BPS / 10), rel=0.05)


def test_phases_of_a_hierarchical_run_add_up_and_meet_its_closed_form() -> None:
    """Every pair has a link of its own here, as the closed form assumes; latency is added per step."""
    shape = RailOnly().build({"domains": 2, "rails": 3, "domain_rate": RATE_BPS, "rail_rate": RATE_BPS})
    algorithm = HierarchicalAllReduce()
    schedule = algorithm.schedule(shape, range(6), 6 * 256 * 20, "int32", "sum").expand()
    fabric = MemoryFabric(6, tuning=Tuning(min_window=16))
    buffers = RankBuffers(schedule)
    buffers.fill(algorithm.inputs(schedule, 0))
    seconds = fabric.run(schedule, buffers)
    progress = fabric.executor.progress
    assert sum(progress.phase_seconds) == pytest.approx(seconds)
    assert len(progress.phase_seconds) == 4
    closed = algorithm.closed_form_s(shape, schedule, fabric.packet)
    assert closed is not None
    assert closed < seconds < closed + 6 * 0.002
