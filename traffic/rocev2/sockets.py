"""Raw sockets in the network namespaces of the ranks, with a filter and a receive ring shared with the
kernel (PACKET_RX_RING, TPACKET_V2)."""

import mmap
import select
import socket
import struct
import time
from collections.abc import Sequence

from railweave.framework.errors import ChannelClosedError, TransportError
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

SEND_BUFFER_BYTES = 8 << 20
"""Socket buffer: two thousand packets of 4 KiB, the windows of many pairs."""
RING_SLOTS = 256
"""Packets that wait at a rank to be read."""
_RX_RING, _VERSION, _TPACKET_V2 = 5, 10, 1
_SIOCGIFMTU = 0x8921
_RTMGRP_LINK = 1
"""linux/if_packet.h, linux/sockios.h, linux/rtnetlink.h."""

STATUS_USER = 1
"""tp_status bit: the frame is ours to read; writing 0 returns the slot to the kernel."""
LENGTH_WORD, SECONDS_WORD, NANOSECONDS_WORD = 2, 4, 5
"""Words of struct tpacket2_hdr: bytes captured, and their time on the wall clock."""
MAC_HALF = 6
"""Its half-word tp_mac: where in the slot the frame starts."""
_HEADROOM = 96
"""tpacket2_hdr, sockaddr_ll and alignment come before the frame; the kernel uses 66."""

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


class RingShape:
    """Sizes of a ring of `slots` frames of up to `frame_bytes`, or a few more: `blocks` x `block_bytes`, cut
    into slots of `slot_bytes` that never cross a block."""

    def __init__(self, frame_bytes: int, slots: int, block_bytes: int = 1 << 16) -> None:
        self.slot_bytes = -(-(frame_bytes + _HEADROOM) // 16) * 16
        self.block_bytes = block_bytes
        self.blocks = -(-slots // (block_bytes // self.slot_bytes))
        self.slots = block_bytes // self.slot_bytes * self.blocks
        self.total_bytes = block_bytes * self.blocks


class ReceiveRing:
    """The reading side. `at` is the next slot to read; the reader advances it."""

    def __init__(self, memory: mmap.mmap | bytearray, shape: RingShape) -> None:
        self.bytes = memoryview(memory)
        self.words = self.bytes.cast("I")
        self.halves = self.bytes.cast("H")
        self.slots = [
            block * shape.block_bytes + slot * shape.slot_bytes
            for block in range(shape.blocks)
            for slot in range(shape.block_bytes // shape.slot_bytes)
        ]
        self.at = 0


class PacketSocket(socket.socket):
    """An AF_PACKET socket bound to an interface of the current namespace, and the memory of its receive
    ring."""

    def __init__(
        self, interface: str, shape: RingShape, instructions: Sequence[Instruction], *, outgoing: bool
    ) -> None:
        super().__init__(fileno=packet_socket(instructions, outgoing=outgoing).detach())
        try:
            self.setsockopt(SOL_PACKET, _VERSION, _TPACKET_V2)
            request = struct.pack("IIII", shape.block_bytes, shape.blocks, shape.slot_bytes, shape.slots)
            self.setsockopt(SOL_PACKET, _RX_RING, request)
            self.ring = ReceiveRing(mmap.mmap(self.fileno(), shape.total_bytes), shape)
            set_buffer(self, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            # All protocols, not IPv4 alone: such sockets receive packets before an ingress filter drops them.
            # That filter keeps the host from answering UDP 4791 with ICMP.
            self.bind((interface, ETH_P_ALL))
        except OSError:
            self.close()
            raise

    def clear_error(self) -> int:
        """Take the pending error (an interface that went down), which would otherwise wake epoll for ever."""
        return self.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def dropped(self) -> int:
        """Packets lost since the last call because the ring was full."""
        return packet_counts(self)[1]


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
            return PacketSocket(interface, shape, instructions, outgoing=outgoing)
    except OSError as error:
        raise TransportError(
            f"no raw socket on {interface} in {namespace}: {error.strerror}. It needs CAP_NET_RAW there, and "
            "an interface of this name."
        ) from error


def interface_mtu(interface: str) -> int | None:
    """The MTU of an interface of the current namespace; None if it does not exist."""
    import fcntl  # systems without it have other engines

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            answer = fcntl.ioctl(sock.fileno(), _SIOCGIFMTU, struct.pack("16s16x", interface.encode()))
        except OSError:
            return None
    return int(struct.unpack_from("i", answer, 16)[0])


def await_interface(namespace: str, interface: str, mtu: int, within_s: float, parent: int) -> None:
    """Return once `interface` exists and carries IP packets of `mtu` bytes.

    The transport is started while the lab is still being built. Waits for the kernel's link notifications;
    raises TransportError after `within_s`, and ChannelClosedError when the process at the other end of the
    descriptor `parent` ends.
    """
    end = time.monotonic() + within_s
    netlink = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with inside(namespace), socket.socket(socket.AF_NETLINK, netlink, 0) as notices:
        notices.bind((0, _RTMGRP_LINK))
        poll = select.poll()
        poll.register(notices, select.POLLIN)
        poll.register(parent, 0)  # reports a hang-up only
        while (current := interface_mtu(interface)) is None or current < mtu:
            left = end - time.monotonic()
            if left <= 0:
                raise TransportError(
                    f"there is no interface {interface} in {namespace}. Check the endpoint."
                    if current is None
                    else f"{interface} in {namespace} has MTU {current}, and RoCEv2 packets of this path MTU "
                    f"need {mtu}. Raise it with `ip link set mtu`, or lower the path MTU."
                )
            for fd, _ in poll.poll(left * 1000):
                if fd == parent:
                    raise ChannelClosedError("the lab ended while the transport waited for its interfaces")
                notices.recv(1 << 16)
