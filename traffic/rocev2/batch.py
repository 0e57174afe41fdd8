"""Packets gathered from header slots and the buffers of the ranks, and sent by one sendmmsg."""

import ctypes
import errno
import struct
from collections.abc import Callable

from railweave.framework.processes.packet_socket import IoVec, MMsgHdr
from railweave.traffic.packets import PSN_AT
from railweave.traffic.rocev2.headers import Head

SLOTS = 64
"""Packets of one sendmmsg(2) at most."""
_ICRC_AT, _SLOT_BYTES = 252, 256
"""The longest acknowledgement has 162 bytes before its ICRC: bitmaps of SPAN and of twice as many numbers."""
_ICRC = struct.Struct("<I").pack_into
_SKIPPED = frozenset({errno.ENETDOWN, errno.ENOBUFS, errno.EAGAIN, errno.ENXIO, errno.ENODEV, errno.EINTR})
"""Errors after which a packet counts as lost: the interface is down or gone, or a queue is full."""

# PyDLL keeps the interpreter lock: there is one thread, and releasing the lock would cost more than it gains.
_libc = ctypes.PyDLL(None, use_errno=True)


Send = Callable[["Batch", int, int], int]
"""send(batch, first, count): packets taken, or -errno."""


def kernel_send(fd: int) -> Send:
    """A `Send` through the socket `fd`; never waits."""
    sendmmsg, descriptor = _libc.sendmmsg, ctypes.c_int(fd)
    counts = [ctypes.c_uint(n) for n in range(SLOTS + 1)]
    dont_wait = ctypes.c_int(0x40)
    size = ctypes.sizeof(MMsgHdr)

    def send(batch: "Batch", first: int, count: int) -> int:
        at = batch.messages if first == 0 else ctypes.c_void_p(batch.messages_at + first * size)
        taken: int = sendmmsg(descriptor, at, counts[count], dont_wait)
        return taken if taken >= 0 else -ctypes.get_errno()

    return send


class Batch:
    """Up to SLOTS packets of one rank, sent together by `flush`, or as soon as there are SLOTS of them.

    Each packet has three parts: head (copied), payload (an address, not copied: its memory must stay
    unchanged until `flush`), and padding with ICRC. What a slot keeps from its last packet is not written
    anew. `dirty` receives the batch when its first packet is added.
    """

    def __init__(self, send: Send, dirty: list["Batch"]) -> None:
        self._send = send
        self._dirty = dirty
        self.count = 0
        self.lost = 0
        self.last_error = 0
        self._room = ctypes.create_string_buffer(SLOTS * _SLOT_BYTES)
        self._vectors = (IoVec * (3 * SLOTS))()
        self._headers = (MMsgHdr * SLOTS)()
        self._heads: list[Head | None] = [None] * SLOTS
        self._room_at, vectors = ctypes.addressof(self._room), ctypes.addressof(self._vectors)
        for slot in range(SLOTS):
            self._vectors[3 * slot].base = self._room_at + slot * _SLOT_BYTES
            self._headers[slot].header.iov = vectors + 3 * slot * ctypes.sizeof(IoVec)
            self._headers[slot].header.iov_count = 3
        self.messages_at = ctypes.addressof(self._headers)
        self.messages = ctypes.c_void_p(self.messages_at)
        self._bytes = memoryview(self._room).cast("B")
        self._words = memoryview(self._vectors).cast("B").cast("L")

    def add(self, head: Head, varying: bytes, payload_at: int, icrc: int) -> None:
        """Add the packet of `head` with what is its own: from the PSN word to the payload, the address of
        that, and the ICRC over all of it."""
        slot = self.count
        if slot == SLOTS:
            self.flush()
            slot = 0
        if slot == 0:
            self._dirty.append(self)
        if self._heads[slot] is not head:
            self._lay(slot, head)
        at = slot * _SLOT_BYTES
        self._bytes[at + PSN_AT : at + PSN_AT + len(varying)] = varying
        _ICRC(self._bytes, at + _ICRC_AT, icrc)
        self._words[slot * 6 + 2] = payload_at
        self.count = slot + 1

    def _lay(self, slot: int, head: Head) -> None:
        """Write what packets of this head have in common. Padding lies before the ICRC, and stays zero."""
        self._heads[slot] = head
        at = slot * _SLOT_BYTES
        self._bytes[at : at + PSN_AT] = head.first
        at, words = slot * 6, self._words
        words[at + 1] = PSN_AT + head.own_bytes
        words[at + 3] = head.payload_bytes
        words[at + 4] = self._room_at + slot * _SLOT_BYTES + _ICRC_AT - head.pad_bytes
        words[at + 5] = head.pad_bytes + 4

    def flush(self) -> None:
        """Send everything. Packets that the kernel refuses are lost, as on a wire."""
        count, done = self.count, 0
        self.count = 0
        while done < count:
            taken = self._send(self, done, count - done)
            if taken > 0:
                done += taken
                continue
            self.last_error = -taken
            if self.last_error not in _SKIPPED:
                raise OSError(self.last_error, "sendmmsg")
            self.lost += 1
            done += 1
