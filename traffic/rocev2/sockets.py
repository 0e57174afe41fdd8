"""Raw sockets in the network namespaces of the ranks, with a receive ring and a filter."""

import mmap
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from railweave.framework.errors import TransportError
from railweave.framework.model.addressing import ROCE_PORT
from railweave.framework.processes.namespaces import inside
from railweave.framework.processes.packet_socket import (
    ETH_P_ALL,
    SOL_PACKET,
    Instruction,
    packet_counts,
    packet_socket,
    set_buffer,
)
from railweave.traffic.rocev2.receive_ring import ReceiveRing, RingShape

SEND_BUFFER_BYTES = 8 << 20
_RX_RING, _VERSION, _TPACKET_V2 = 5, 10, 1

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
"""Classic BPF, so that the kernel copies nothing else to us. (opcode, jump if true, jump if false,
constant)."""


@dataclass(frozen=True, slots=True)
class PacketSocket:
    """An AF_PACKET socket bound to one interface, and the memory of its receive ring."""

    socket: socket.socket
    ring: ReceiveRing

    def fileno(self) -> int:
        return self.socket.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def clear_error(self) -> int:
        """Take the pending error (an interface that went down), which would otherwise wake epoll for ever."""
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def dropped(self) -> int:
        """Packets lost since the last call because the ring was full."""
        return packet_counts(self.socket)[1]


def open_packet_socket(
    namespace: str,
    interface: str,
    shape: RingShape,
    instructions: Sequence[Instruction] = (),
    *,
    outgoing: bool = False,
) -> PacketSocket:
    """A socket on `interface` inside `namespace` (a path for setns); this thread returns to its own
    namespace.

    With `outgoing` it also receives what is sent there. Raises TransportError naming interface and cause.
    """
    try:
        with inside(namespace):
            return _open(interface, shape, instructions, outgoing)
    except OSError as error:
        raise TransportError(
            f"no raw socket on {interface} in {namespace}: {error.strerror}. It needs CAP_NET_RAW there, and "
            "an "
            "interface of this name."
        ) from error


def _open(
    interface: str, shape: RingShape, instructions: Sequence[Instruction], outgoing: bool
) -> PacketSocket:
    sock = packet_socket(instructions, outgoing=outgoing)
    try:
        sock.setsockopt(SOL_PACKET, _VERSION, _TPACKET_V2)
        request = struct.pack("IIII", shape.block_bytes, shape.blocks, shape.slot_bytes, shape.slots)
        sock.setsockopt(SOL_PACKET, _RX_RING, request)
        memory = mmap.mmap(sock.fileno(), shape.total_bytes)
        set_buffer(sock, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        # All protocols, not IPv4 alone: such sockets receive packets before an ingress filter drops them.
        # That filter keeps the host from answering UDP 4791 with ICMP.
        sock.bind((interface, ETH_P_ALL))
    except OSError:
        sock.close()
        raise
    return PacketSocket(sock, ReceiveRing(memory, shape))
