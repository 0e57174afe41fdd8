"""Batches, rings, progress, buffers, windows and waits, one by one."""

from __future__ import annotations

import errno
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.parameters import resolve
from railweave.topologies.rail_only import RailOnly
from railweave.traffic.collectives.hierarchical import HierarchicalAllReduce
from railweave.traffic.collectives.rings import RingAllReduce
from railweave.traffic.packets import Opcode
from railweave.traffic.rocev2.batch import SLOTS, Batch
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.rocev2.headers import Head
from railweave.traffic.rocev2.messages import Message, holding, packet_count
from railweave.traffic.rocev2.progress import TransferProgress
from railweave.traffic.rocev2.receiver import Receiver
from railweave.traffic.rocev2.sockets import ReceiveRing, RingShape
from railweave.traffic.rocev2.timing import Timing
from railweave.traffic.rocev2.tuning import PARAMETERS, Tuning
from tests.fakes.transfers import transfer_of
from tests.traffic.memory_fabric import count_wrong, packets_of


class Wire:
    """Takes what a batch hands over, `takes` packets a call; `errors` are answered first."""

    def __init__(self, takes: int = SLOTS, errors: list[int] | None = None) -> None:
        self.takes, self.errors = takes, errors or []
        self.packets: list[bytes] = []

    def send(self, batch: Batch, first: int, count: int) -> int:
        if self.errors:
            return -self.errors.pop(0)
        self.packets += packets_of(batch, first, min(count, self.takes))
        return min(count, self.takes)


def head_of(i: int) -> Head:
    """Packets of the same kind are told apart by their first bytes."""
    payload = i % 5
    return Head(f"head{i};".ljust(50, ".").encode(), 0, 4 + i % 7, payload, -payload % 4)


def filled(wire: Wire, n: int, payload: np.ndarray[Any, np.dtype[np.uint8]]) -> Batch:
    batch = Batch(wire.send, [])
    for i in range(n):
        batch.add(head_of(i), bytes([i % 251] * (4 + i % 7)), payload.ctypes.data + i, 7 * i)
    return batch


@pytest.mark.parametrize(("n", "takes"), [(1, 64), (63, 64), (64, 64), (65, 64), (200, 64), (10, 3)])
def test_a_batch_hands_over_every_packet_in_order(n: int, takes: int) -> None:
    payload = np.arange(256, dtype=np.uint8)
    wire = Wire(takes)
    filled(wire, n, payload).flush()
    assert wire.packets == [
        head_of(i).first
        + bytes([i % 251] * (4 + i % 7))
        + payload[i : i + i % 5].tobytes()
        + bytes(-(i % 5) % 4)
        + (7 * i).to_bytes(4, "little")
        for i in range(n)
    ]


def test_a_slot_keeps_nothing_of_the_packet_before_but_its_head() -> None:
    wire, payload, wanted = Wire(), np.arange(256, dtype=np.uint8), []
    batch, kinds = Batch(wire.send, []), (head_of(6), head_of(8))
    for turn, head in enumerate([kinds[0], kinds[1], kinds[0], kinds[0]]):
        for i in range(3):
            batch.add(head, bytes([turn] * head.own_bytes), payload.ctypes.data + i, turn << 8 | i)
            own = bytes([turn] * head.own_bytes) + payload[i : i + head.payload_bytes].tobytes()
            wanted.append(head.first + own + bytes(head.pad_bytes) + (turn << 8 | i).to_bytes(4, "little"))
        batch.flush()
    assert wire.packets == wanted


def test_packets_that_the_kernel_refuses_are_lost_and_the_rest_goes_on() -> None:
    wire = Wire(errors=[errno.ENETDOWN, errno.ENOBUFS])
    batch = filled(wire, 4, np.arange(16, dtype=np.uint8))
    batch.flush()
    assert (len(wire.packets), batch.lost, batch.last_error) == (2, 2, errno.ENOBUFS)
    assert wire.packets[0].startswith(b"head2;")


def test_an_error_that_is_nobodys_weather_is_raised() -> None:
    with pytest.raises(OSError, match="sendmmsg"):
        filled(Wire(errors=[errno.EMSGSIZE]), 1, np.zeros(8, np.uint8)).flush()


def test_a_batch_is_dirty_once_when_its_first_packet_enters() -> None:
    dirty: list[Batch] = []
    batch = Batch(Wire().send, dirty)
    batch.add(head_of(0), bytes(4), 0, 0)
    batch.add(head_of(1), bytes(5), 0, 0)
    assert dirty == [batch]


@given(frame_bytes=st.integers(60, 9100), slots=st.integers(1, 300))
def test_ring_slots_hold_their_frames_and_never_cross_a_block(frame_bytes: int, slots: int) -> None:
    """What PACKET_RX_RING asks of its request: slots of a multiple of 16 bytes, whole in their block."""
    shape = RingShape(frame_bytes, slots)
    assert shape.slots >= slots
    assert shape.slot_bytes % 16 == 0
    assert shape.slot_bytes >= frame_bytes + 66
    ring = ReceiveRing(bytearray(shape.total_bytes), shape)
    assert len(ring.slots) == shape.slots
    starts = np.array(ring.slots)
    assert np.all(starts // shape.block_bytes == (starts + shape.slot_bytes - 1) // shape.block_bytes)


@given(domains=st.integers(1, 4), rails=st.integers(2, 4), seed=st.integers(0, 99))
def test_landings_free_every_transfer_once_and_never_too_early(domains: int, rails: int, seed: int) -> None:
    fabric = RailOnly().build({"domains": domains, "rails": rails})
    schedule = (
        HierarchicalAllReduce().schedule(fabric, range(domains * rails), 4096, "float32", "sum").expand()
    )
    rng = np.random.default_rng(seed)
    progress = TransferProgress(schedule)
    ready, done = progress.begin(0.0), set[int]()
    while ready:
        transfer = ready.pop(int(rng.integers(len(ready))))
        assert set(transfer_of(schedule, transfer).after) <= done
        assert transfer not in done
        done.add(transfer)
        ready += progress.landed(transfer, 1.0)
    assert len(done) == progress.done == schedule.n_transfers
    assert progress.complete


def test_transfers_end_when_they_land_and_the_last_ones_with_their_pass() -> None:
    fabric = RailOnly().build({"domains": 1, "rails": 2})
    schedule = RingAllReduce().schedule(fabric, range(2), 4096, "float32", "sum").expand()
    progress = TransferProgress(schedule)
    progress.begin(10.0)
    for transfer, now in enumerate((11.0, 11.5, 13.0, 13.0)):
        progress.landed(transfer, now)
    progress.ended(13.25)
    assert progress.end_s.tolist() == [1.0, 1.5, 3.25, 3.25]


def test_wrong_elements_are_counted_each() -> None:
    collective = RingAllReduce()
    schedule = collective.schedule(
        RailOnly().build({"domains": 1, "rails": 3}), range(3), 4000, "int32", "sum"
    ).expand()
    inputs = collective.inputs(schedule, 1)
    buffers = RankBuffers(schedule)
    buffers.fill(inputs)
    for rank in range(3):
        buffers.slice(rank, 0, 0, 4000)[:] = collective.expected(schedule, inputs, rank)
    assert count_wrong(collective, buffers, inputs) == 0
    buffers.slice(0, 0, 0, 4000)[17] += 1
    buffers.slice(2, 0, 40, 8)[:] ^= 1
    assert count_wrong(collective, buffers, inputs) == 3


@given(sizes=st.lists(st.integers(0, 2000), min_size=1, max_size=8), mtu=st.sampled_from([256, 1024]))
def test_messages_own_their_packet_numbers(sizes: list[int], mtu: int) -> None:
    memory = np.zeros(2000, np.uint8)
    messages: list[Message] = []
    number = 5
    for i, size in enumerate(sizes):
        source = memory.data[:size], memory.ctypes.data
        messages.append(Message(i, number, mtu, source, memory[:size], bytes(16), reduce=False))
        number += packet_count(size, mtu)
    assert holding(messages, 4) is None
    assert holding(messages, number) is None
    for probe in range(5, number):
        found = holding(messages, probe)
        assert found is not None
        assert found.first <= probe < found.first + found.packets
        assert messages[found.transfer] is found


def test_options_become_the_tuning() -> None:
    options = resolve(
        "rocev2", PARAMETERS, {"target_delay": "20ms", "min_window": 3, "send_budget_bytes": "64K"}
    )
    tuning = Tuning(**options)
    assert (tuning.target_delay, tuning.min_window, tuning.send_budget_bytes) == (0.02, 3, 65536)
    assert Tuning(**resolve("rocev2", PARAMETERS, {})) == Tuning()


@pytest.mark.parametrize(
    ("rate_bps", "n_paths", "window"), [(4e6, 1, 4), (36e6, 1, 17), (36e6, 16, 32), (1e9, 1, 64), (0.0, 1, 4)]
)
def test_window_by_hand(rate_bps: float, n_paths: int, window: int) -> None:
    """ceil(rate x 15 ms / 8 / 4154), at least 4, at least 2 a path, at most 64."""
    assert (
        Tuning(target_delay=0.015, min_window=4).window(
            [rate_bps / n_paths] * n_paths, [2.0] * n_paths, [0.0] * n_paths, 4154
        )
        == window
    )


@pytest.mark.parametrize(
    ("depths", "window"),
    [([1.0], 8), ([2.0], 8), ([2 + 2 / 9], 10), ([8.0], 56), ([8.0, 1.0, 3.0], 64), ([40.0], 256)],
)
def test_long_paths_hold_eight_more_packets_for_every_link_beyond_the_second(
    depths: list[float], window: int
) -> None:
    """The largest window of a short path does not limit them, the reach of an acknowledgement does."""
    nothing = [0.0] * len(depths)
    assert Tuning(min_window=8, max_window=8).window(nothing, depths, nothing, 4154) == window


@pytest.mark.parametrize(("latency_s", "window"), [(0.1, 8 + 25), (0.2, 8 + 49), (2.0, 256)])
def test_a_latency_adds_the_bandwidth_delay_product(latency_s: float, window: int) -> None:
    """4 Mb/s for twice the latency, in packets of 4,154 bytes, rounded up; an acknowledgement reaches 256."""
    assert Tuning(min_window=8).window([4e6], [2.0], [latency_s], 4154) == window


def test_what_travels_far_is_not_believed_lost() -> None:
    near, far = Timing(), Timing()
    near.drain = far.drain = 0.033
    far.travel = 0.4
    assert far.timeout == pytest.approx(near.timeout + 0.4)
    assert far.wait > 0.4 > near.wait


def test_waits_grow_with_silence_and_outlast_a_link_at_a_fifth() -> None:
    timing = Timing()
    timing.drain = 0.033
    timing.sample(0.035)
    assert timing.wait >= 2 * 0.033
    assert timing.timeout >= 5 * 0.033
    waits = []
    for probes in range(1, 8):
        timing.probes = probes
        waits.append(timing.backoff)
        assert 0.5 * waits[-1] <= timing.wait <= 1.5 * waits[-1]
    assert waits == sorted(waits)
    assert waits[1] == pytest.approx(2 * waits[0])
    assert waits[-1] <= 2.0
    timing.probes = 5000  # half an hour of silence: 2.0 ** 5000 is no float
    assert timing.backoff == waits[-1]


@pytest.mark.parametrize("drain_s", [0.01, 0.03, 0.06])
def test_probes_meet_what_comes_and_goes_at_all_moments(drain_s: float) -> None:
    """A path that passes for 40 % of a period of 0.4 to 2.5 s, whenever silence begins in it: the probes of
    4.5 s miss it in 0.5 % of the cases at most, a third of what waits of one length do."""
    timing, at_s = Timing(), np.zeros((2, 1))
    timing.drain = drain_s
    timing.sample(drain_s)
    for timing.probes in range(20):
        waits = timing.wait, timing.backoff if timing.probes else timing.wait
        at_s = np.append(at_s, at_s[:, -1:] + np.array(waits)[:, None], axis=1)
    at_s = np.where(at_s[:, 1:] < 4.5, at_s[:, 1:], np.nan)
    periods_s, moments = np.geomspace(0.4, 2.5, 200)[:, None, None], np.linspace(0, 1, 200)[:, None]
    missed = [np.mean(~((at / periods_s + moments) % 1 < 0.4).any(axis=2)) for at in at_s]
    assert missed[0] < 0.005 and missed[0] < missed[1] / 3


def test_a_pair_that_knows_no_round_trip_waits_a_timeout() -> None:
    """RFC 8985, section 7.2: without a smoothed round trip the tail probe waits as long as a timeout."""
    timing = Timing()
    timing.drain = 0.031
    assert timing.wait == timing.timeout > 2 * 0.031
    timing.probes = 1
    assert timing.wait == timing.timeout
    timing.probes = 0
    timing.sample(0.001)
    assert timing.wait < timing.timeout


def test_what_packets_took_of_late_is_waited_for_and_forgotten() -> None:
    """15 senders to one receiver: the first packets of a step find its queue empty, the last ones full."""
    timing, other = Timing(), Timing()
    timing.drain = other.drain = 0.031
    timing.sample(0.5)
    for _ in range(16):
        timing.sample(0.002)
    assert timing.smoothed < 0.1
    assert timing.timeout >= timing.wait > 0.35
    timing.lossy()  # it may as well have been the wait for an answer that was lost
    assert timing.wait < 0.35
    timing.sample(0.5)
    for _ in range(400):
        timing.sample(0.002)
        other.sample(0.002)
    assert timing.wait == pytest.approx(other.wait) and timing.timeout == pytest.approx(other.timeout)


def test_reordering_patience_doubles_up_to_a_round_trip() -> None:
    timing = Timing()
    timing.sample(0.05)
    before = timing.reorder
    timing.spurious()
    assert timing.reorder == 2 * before
    for _ in range(20):
        timing.spurious()
    assert timing.reorder == pytest.approx(0.05, rel=0.01)


def test_reordering_patience_is_the_least_again_after_16_losses() -> None:
    """RFC 8985, section 6.2: RACK.reo_wnd_persist."""
    timing = Timing()
    timing.sample(0.05)
    least = timing.reorder
    for _ in range(2):
        timing.spurious()
        for _ in range(15):
            timing.lossy()
        assert timing.reorder > least
    timing.lossy()
    assert timing.reorder == least


@given(st.permutations(range(24)), st.lists(st.tuples(st.integers(0, 23), st.integers(0, 23)), max_size=4))
def test_packets_out_of_order_are_those_of_rfc_4737(
    order: list[int], repeated: list[tuple[int, int]]
) -> None:
    """A packet is reordered if a higher number came before it; counted a second time packet by packet. What
    arrives twice is a duplicate and counts once."""
    for at, number in repeated:
        order.insert(at, number)
    payload = memoryview(bytes(256))
    target = np.zeros((24, 256), np.uint8)
    receiver = Receiver(Batch(Wire().send, []), 256, lambda _: None, {})
    receiver.offer([Message(i, i, 256, (payload, 0), target[i], b"", reduce=False) for i in range(24)])
    seen: set[int] = set()
    reordered = 0
    for number in order:
        reordered += number not in seen and number < max(seen, default=-1)
        seen.add(number)
        receiver.accept(number, int(Opcode.WRITE_ONLY), payload, 0, 256, 0.0)
    assert (receiver.out_of_order, receiver.duplicates, receiver.refused) == (reordered, len(repeated), 0)
