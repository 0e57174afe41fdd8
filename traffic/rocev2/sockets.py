"""Raw sockets inside the ranks' network namespaces, with a receive ring and a filter."""

from __future__ import annotations

import ctypes
import mmap
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from railweave.framework.addressing import ROCE_PORT
from railweave.framework.errors import TransportError
from railweave.traffic.rocev2.interfaces import inside
from railweave.traffic.rocev2.ring import Ring, RingShape

SEND_BUFFER_BYTES = 8 << 20
_SOL_PACKET = 263
_RX_RING, _VERSION, _IGNORE_OUTGOING, _TPACKET_V2 = 5, 10, 23, 1
_SO_ATTACH_FILTER, _SO_SNDBUFFORCE = 26, 32
_ETH_P_ALL = 3

Instruction = tuple[int, int, int, int]
ROCE_ONLY: tuple[Instruction, ...] = (
    (0x28, 0, 0, 12),  # EtherType
    (0x15, 0, 8, 0x0800),  # IPv4, or drop
    (0x30, 0, 0, 23),  # protocol
    (0x15, 0, 6, 17),  # UDP, or drop
    (0x28, 0, 0, 20),  # flags and fragment offset
    (0x45, 4, 0, 0x1FFF),  # a later fragment: drop
    (0xB1, 0, 0, 14),  # X = length of the IP header
    (0x48, 0, 0, 16),  # UDP destination port
    (0x15, 0, 1, ROCE_PORT),
    (0x06, 0, 0, 0xFFFF),  # take it whole
    (0x06, 0, 0, 0),  # drop
)
"""Classic BPF: what the kernel need not even copy to us. (opcode, jump if true, jump if false, constant)."""


@dataclass(frozen=True, slots=True)
class PacketSocket:
    """An AF_PACKET socket bound to one interface, and the memory of its receive ring."""

    socket: socket.socket
    ring: Ring

    def fileno(self) -> int:
        return self.socket.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def clear_error(self) -> int:
        """The pending error (an interface that went down), which would wake epoll for ever."""
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def dropped(self) -> int:
        """Packets that found the ring full since the last call."""
        _, drops = struct.unpack("II", self.socket.getsockopt(_SOL_PACKET, 6, 8))
        return int(drops)


def open_packet_socket(
    namespace: str, interface: str, shape: RingShape, instructions: Sequence[Instruction] = (), *,
    outgoing: bool = False,
) -> PacketSocket:  # fmt: skip
    """A socket on `interface` inside `namespace` (a path for setns); this thread comes back.

    `outgoing` also shows what others, and we, send there. Raises TransportError naming interface and cause.
    """
    try:
        with inside(namespace):
            return _open(interface, shape, instructions, outgoing)
    except OSError as error:
        raise TransportError(
            f"no raw socket on {interface} in {namespace}: {error.strerror}. It needs CAP_NET_RAW there, and the "
            "interface to exist."
        ) from error


def _open(
    interface: str, shape: RingShape, instructions: Sequence[Instruction], outgoing: bool
) -> PacketSocket:
    # Protocol 0 hears nothing until bind, so the ring never holds what the filter would have refused.
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    try:
        if instructions:
            _attach(sock, instructions)
        if not outgoing:
            sock.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        sock.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V2)
        request = struct.pack("IIII", shape.block_bytes, shape.blocks, shape.slot_bytes, shape.slots)
        sock.setsockopt(_SOL_PACKET, _RX_RING, request)
        memory = mmap.mmap(sock.fileno(), shape.total_bytes)
        _enlarge(sock)
        # All protocols, not IPv4 alone: such sockets hear packets before an ingress filter drops them, which is
        # how a host is kept from answering UDP 4791 with ICMP.
        sock.bind((interface, _ETH_P_ALL))
    except OSError:
        sock.close()
        raise
    return PacketSocket(sock, Ring(memory, shape))


def _enlarge(sock: socket.socket) -> None:
    """Take a large send buffer: by force where that is allowed, else up to net.core.wmem_max."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
    except PermissionError:
        with suppress(PermissionError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)


def _attach(sock: socket.socket, instructions: Sequence[Instruction]) -> None:
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    held = ctypes.create_string_buffer(code)
    program = struct.pack("HL", len(instructions), ctypes.addressof(held))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
