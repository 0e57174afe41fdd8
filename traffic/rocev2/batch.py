"""Packets gathered from header slots and the buffers of the ranks, and sent by one sendmmsg."""

import ctypes
import errno
from collections.abc import Callable

from railweave.framework.processes.packet_socket import IoVec, MMsgHdr

SLOTS = 64
_HEAD_BYTES, _TAIL_AT, _SLOT_BYTES = 112, 112, 128
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

    Each packet has three parts: a head (copied), a payload (an address, not copied: its memory must stay
    unchanged until `flush`), a tail (padding and ICRC, copied). `dirty` receives the batch when its first
    packet is added.
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
        room, vectors = ctypes.addressof(self._room), ctypes.addressof(self._vectors)
        for slot in range(SLOTS):
            self._vectors[3 * slot].base = room + slot * _SLOT_BYTES
            self._vectors[3 * slot + 2].base = room + slot * _SLOT_BYTES + _TAIL_AT
            self._headers[slot].header.iov = vectors + 3 * slot * ctypes.sizeof(IoVec)
            self._headers[slot].header.iov_count = 3
        self.messages_at = ctypes.addressof(self._headers)
        self.messages = ctypes.c_void_p(self.messages_at)
        self._bytes = memoryview(self._room).cast("B")
        self._words = memoryview(self._vectors).cast("B").cast("L")

    def add(self, head: bytes, payload_at: int, payload_bytes: int, tail: bytes) -> None:
        slot = self.count
        if slot == SLOTS:
            self.flush()
            slot = 0
        if slot == 0:
            self._dirty.append(self)
        at = slot * _SLOT_BYTES
        self._bytes[at : at + len(head)] = head
        at += _TAIL_AT
        self._bytes[at : at + len(tail)] = tail
        words = self._words
        at = slot * 6
        words[at + 1] = len(head)
        words[at + 2] = payload_at
        words[at + 3] = payload_bytes
        words[at + 5] = len(tail)
        self.count = slot + 1

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
