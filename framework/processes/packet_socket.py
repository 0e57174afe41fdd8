"""AF_PACKET sockets: deaf until bound, filtered in the kernel, with buffers of any size."""

import ctypes
import socket
import struct
from collections.abc import Sequence

ETH_P_IP, ETH_P_ALL = 0x0800, 0x0003
SOL_PACKET, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING = 263, 6, 23
_SO_ATTACH_FILTER, _SO_MEMINFO = 26, 55
"""linux/if_ether.h, linux/socket.h, linux/if_packet.h, asm-generic/socket.h."""
_FORCED = {socket.SO_SNDBUF: 32, socket.SO_RCVBUF: 33}
"""SO_SNDBUFFORCE and SO_RCVBUFFORCE, which the limits in net.core do not bind."""

Instruction = tuple[int, int, int, int]
"""One of classic BPF: opcode, jump if true, jump if false, constant."""


class IoVec(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_size_t), ("length", ctypes.c_size_t))


class MsgHdr(ctypes.Structure):
    """struct msghdr; `iov` is the address of an array of IoVec."""

    _fields_ = (
        ("name", ctypes.c_size_t),
        ("name_length", ctypes.c_uint),
        ("iov", ctypes.c_size_t),
        ("iov_count", ctypes.c_size_t),
        ("control", ctypes.c_size_t),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class MMsgHdr(ctypes.Structure):
    """struct mmsghdr, of sendmmsg(2) and recvmmsg(2)."""

    _fields_ = (("header", MsgHdr), ("length", ctypes.c_uint))


def packet_socket(filter_: Sequence[Instruction] = (), *, outgoing: bool = False) -> socket.socket:
    """A raw packet socket in the network namespace of this thread. It receives nothing before it is bound to
    (interface, protocol), so its buffer never holds a packet that `filter_` refuses.

    `outgoing`: whether it also shows what is sent on the interface, by this socket or others.
    """
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    if filter_:
        attach_filter(sock, filter_)
    if not outgoing:
        sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    return sock


def attach_filter(sock: socket.socket, filter_: Sequence[Instruction]) -> None:
    """Let only the packets in that `filter_` accepts; it takes the place of the filter that was there."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in filter_))
    sock.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(filter_), ctypes.addressof(code))
    )


def set_buffer(sock: socket.socket, option: int, size_bytes: int) -> None:
    """Set SO_SNDBUF or SO_RCVBUF; without privileges the kernel grants net.core.wmem_max or rmem_max at
    most."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _FORCED[option], size_bytes)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, option, size_bytes)


def packet_counts(sock: socket.socket) -> tuple[int, int]:
    """Packets that passed the filter since the last call, and how many of them found the buffer full."""
    packets, drops = struct.unpack("II", sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    return packets, drops


def receive_memory(sock: socket.socket) -> int:
    """Bytes of memory of the packets in the socket's receive buffer, which has room for twice SO_RCVBUF as it
    was set."""
    return int(struct.unpack("I", sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4))[0])
