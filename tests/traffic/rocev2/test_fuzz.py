"""The packet parser against 10^5 hostile inputs: nothing raises, nothing with a bad ICRC reaches a queue
pair."""

from __future__ import annotations

import random
import zlib

import pytest

from railweave.traffic.packets import Addresses, Opcode, header, packet
from railweave.traffic.rocev2.batch import Batch
from railweave.traffic.rocev2.port import SHAPES_KEPT, Port
from railweave.traffic.rocev2.receiver import Receiver
from railweave.traffic.rocev2.sockets import ReceiveRing, RingShape
from tests.traffic.memory_fabric import FRAME_AT, MemoryFabric, count_wrong
from tests.traffic.rocev2.test_delivery import COLLECTIVE, RankBuffers, all_reduce

INPUTS = 100_000


def put(ring: ReceiveRing, frame: bytes, length: int | None = None) -> None:
    """As the kernel does: what does not fit into the slot is cut off."""
    slot = ring.slots[ring.at]
    frame = frame[: ring.slots[1] - ring.slots[0] - FRAME_AT]
    ring.bytes[slot + FRAME_AT : slot + FRAME_AT + len(frame)] = frame
    ring.halves[(slot >> 1) + 6] = FRAME_AT
    ring.words[(slot >> 2) + 2] = len(frame) if length is None else length
    ring.words[slot >> 2] = 1


def icrc_is_right(frame: bytes) -> bool:
    """A second implementation of the ICRC, byte by byte from the annex, for IPv4 without options."""
    if len(frame) < 58:
        return False
    end = 14 + int.from_bytes(frame[16:18], "big")
    if end > len(frame) or end < 58:
        return False
    masked = bytearray(b"\xff" * 8 + frame[14 : end - 4])
    for at in (1, 8, 10, 11, 26, 27, 32):
        masked[8 + at] = 0xFF
    return zlib.crc32(masked) == int.from_bytes(frame[end - 4 : end], "little")


def hostile(rng: random.Random, good: list[bytes]) -> bytes:
    """Random bytes, or a good packet with bytes changed, cut off, or added."""
    kind = rng.random()
    if kind < 0.2:
        return rng.randbytes(rng.randrange(0, 400))
    frame = bytearray(rng.choice(good))
    if kind < 0.7:
        for _ in range(rng.randrange(1, 4)):
            frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
    elif kind < 0.85:
        del frame[rng.randrange(len(frame)) :]
    else:
        at = rng.randrange(12, 58)
        frame[at : at + 4] = rng.randbytes(4)
    return bytes(frame)


def test_nothing_crashes_and_nothing_bad_is_accepted() -> None:
    fabric = MemoryFabric(2)
    schedule = all_reduce(2, 4096)
    buffers = RankBuffers(schedule)
    buffers.fill(COLLECTIVE.inputs(schedule, 0))
    fabric.run(schedule, buffers)
    good = [frame for _, _, _, frame in fabric.seen]
    assert all(icrc_is_right(frame) for frame in good)
    rng = random.Random(1)
    port = fabric.ports[1]
    pair, back = fabric.executor.pairs[0, 1], fabric.executor.pairs[1, 0]
    reached: list[tuple[object, ...]] = []
    port._known.clear()  # it holds the methods that are wrapped here
    for half in (pair.receiver, back.sender):
        vars(half)["accept"] = lambda *given, real=half.accept: (reached.append(given), real(*given))
    rejected = accepted = 0
    for _ in range(INPUTS):
        frame = hostile(rng, good)
        before = len(reached)
        put(port.ring, frame)
        port.receive(0.0)
        if not icrc_is_right(frame):
            rejected += 1
            assert len(reached) == before, frame.hex()
        else:
            accepted += len(reached) - before
    assert rejected > 0.8 * INPUTS
    assert len(port._known) <= SHAPES_KEPT
    assert accepted > 1000  # bits that switches may change, and bytes beyond the packet's end


def test_a_right_icrc_over_nonsense_changes_nothing() -> None:
    """Packets that someone signed properly but that fit no message: refused, and the numbers stay right."""
    fabric = MemoryFabric(2)
    schedule = all_reduce(2, 8192)
    buffers = RankBuffers(schedule)
    inputs = COLLECTIVE.inputs(schedule, 0)
    buffers.fill(inputs)
    fabric.executor.prepare(schedule, buffers)
    rng = random.Random(2)
    to = Addresses("02:00:00:00:00:00", "02:00:00:00:00:01", "10.0.0.1", "10.0.1.1", 0x100 + 1)
    port, receiver = fabric.ports[1], fabric.executor.pairs[0, 1].receiver
    for _ in range(5000):
        opcode = rng.choice(list(Opcode)[:4])
        body = rng.randbytes(rng.randrange(16, 300))
        has_reth = opcode in (Opcode.WRITE_FIRST, Opcode.WRITE_ONLY)
        frame = packet(header(opcode, to, 0xC000, len(body) - 16 * has_reth), rng.randrange(1 << 24), body)
        fits = opcode is Opcode.WRITE_MIDDLE and len(body) == 256
        if not fits:
            put(port.ring, frame)
            port.receive(0.0)
    assert receiver.refused > 0
    assert receiver.expected == 0
    fabric.executor.begin(0.0)
    progress = fabric.executor.progress
    fabric.advance(lambda: progress.complete and fabric.executor.drained)
    assert count_wrong(COLLECTIVE, buffers, inputs) == 0


def test_a_frame_shorter_than_its_header_says_is_noise() -> None:
    shape = RingShape(400, 8, block_bytes=1 << 12)
    port = Port(ReceiveRing(bytearray(shape.total_bytes), shape), Batch(lambda *_: 1, []))
    port.halves[0x101, False] = Receiver(port.batch, 256, lambda _: None, {})
    to = Addresses("02:00:00:00:00:00", "02:00:00:00:00:01", "10.0.0.1", "10.0.1.1", 0x101)
    frame = packet(header(Opcode.WRITE_MIDDLE, to, 0xC000, 256), 0, bytes(256))
    put(port.ring, frame, length=len(frame) - 1)
    port.receive(0.0)
    assert (port.noise, port.bad_icrc) == (1, 0)


def test_packets_for_another_rank_are_noise() -> None:
    fabric = MemoryFabric(3)
    fabric.executor.pair(0, 1)
    to = Addresses("02:00:00:00:00:00", "02:00:00:00:00:01", "10.0.0.1", "10.0.1.1", 0x100 + 1)
    put(fabric.ports[2].ring, packet(header(Opcode.WRITE_MIDDLE, to, 0xC000, 256), 0, bytes(256)))
    fabric.ports[2].receive(0.0)
    assert fabric.ports[2].noise == 1


@pytest.mark.parametrize("bitmap", [b"", b"\xff" * 4, b"\xff" * 32, b"\x01"])
def test_acknowledgements_of_what_was_never_sent_change_nothing(bitmap: bytes) -> None:
    fabric = MemoryFabric(2)
    sender = fabric.executor.pair(0, 1).sender
    view = memoryview(b"\0\0\0\0" + bitmap)
    for word in (0, 5, 0xFFFFFE, 0xFFFFFF):
        sender.accept(word, int(Opcode.ACKNOWLEDGE), view, 0, len(view), 1.0)
    assert (sender.una, sender.next, sender.idle) == (0, 0, True)
