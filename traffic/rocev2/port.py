"""One rank's port: its receive ring, its send batch, and the queue pairs whose packets arrive here."""

import struct
from collections.abc import Callable

from railweave.traffic.packets import PSN_AT, Opcode, icrc
from railweave.traffic.rocev2.batch import Batch
from railweave.traffic.rocev2.headers import KEY_AT, MARKED, read_shape
from railweave.traffic.rocev2.receiver import Receiver
from railweave.traffic.rocev2.sender import Sender
from railweave.traffic.rocev2.sockets import (
    LENGTH_WORD,
    MAC_HALF,
    NANOSECONDS_WORD,
    SECONDS_WORD,
    STATUS_USER,
    ReceiveRing,
)

SHAPES_KEPT = 4096
"""Different headers that are kept parsed; then the cache begins anew."""
ANSWERS = (Opcode.ACKNOWLEDGE, Opcode.NOTIFICATION)
_HEADER = struct.Struct(f"!{PSN_AT - KEY_AT}sI").unpack_from
_LITTLE = struct.Struct("<I").unpack_from
Handler = Callable[[int, int, memoryview, int, int, float], None]
"""handler(PSN word, MARKED | repetition << 8 | opcode, memory, first byte of the payload, its end, now)."""


class Port:
    """`halves` of the queue pairs whose packets may arrive here, by QP number and by whether these are
    ANSWERS. All other packets are noise."""

    def __init__(self, ring: ReceiveRing, batch: Batch) -> None:
        self.ring = ring
        self.batch = batch
        self.halves: dict[tuple[int, bool], Receiver | Sender] = {}
        self.bad_icrc = self.noise = 0
        self._known: dict[bytes, tuple[int, int, Handler, int, int, int]] = {}

    @property
    def waiting_since(self) -> float | None:
        """Wall-clock time at which the oldest unread packet arrived; None if there is none."""
        ring = self.ring
        word = ring.slots[ring.at] >> 2
        if not ring.words[word] & STATUS_USER:
            return None
        return ring.words[word + SECONDS_WORD] + ring.words[word + NANOSECONDS_WORD] * 1e-9

    def receive(self, now: float) -> None:
        """Pass everything that has arrived to its queue pairs, and return the slots to the kernel."""
        ring = self.ring
        view, words, halves, slots = ring.bytes, ring.words, ring.halves, ring.slots
        entries, at, end = self._known, ring.at, len(slots)
        slot = slots[at]
        while words[slot >> 2] & STATUS_USER:
            frame = slot + halves[(slot >> 1) + MAC_HALF]
            key, word = _HEADER(view, frame + KEY_AT)
            entry = entries.get(key) or self._learn(key)
            if entry is None or words[(slot >> 2) + LENGTH_WORD] < entry[1] + 4:
                self.noise += 1
            else:
                crc, icrc_at, handler, kind, body_at, body_end = entry
                icrc_at += frame
                if icrc(view[frame + PSN_AT : icrc_at], crc) == _LITTLE(view, icrc_at)[0]:
                    handler(word, kind, view, frame + body_at, frame + body_end, now)
                else:
                    self.bad_icrc += 1
            words[slot >> 2] = 0
            at = at + 1 if at + 1 < end else 0
            slot = slots[at]
        ring.at = at

    def _learn(self, key: bytes) -> tuple[int, int, Handler, int, int, int] | None:
        shape = read_shape(key)
        answers = shape is not None and shape.opcode in ANSWERS
        half = self.halves.get((shape.qp, answers)) if shape is not None else None
        if shape is None or half is None:
            return None
        if len(self._known) >= SHAPES_KEPT:
            self._known.clear()
        kind = MARKED * shape.marked | shape.repetition << 8 | shape.opcode
        handler = half.notified if shape.opcode == Opcode.NOTIFICATION else half.accept
        entry = (shape.crc, shape.icrc_at, handler, kind, shape.body_at, shape.body_end)
        if shape.repetition == 0:
            self._known[key] = entry
        return entry
