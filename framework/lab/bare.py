"""A bare sender, to hold the transport against: ready bytes, one system call for many packets, nothing checked.

`python -m railweave.framework.lab.bare FD` serves the channel FD, so that the lab's health loop goes on beside it.
Messages in: open {flows}, run {way, pps, seconds}; each is answered, the second with the fields of a Trial.

Two ways: RECEIVED takes every packet into memory at the other end and looks no further. COUNTED leaves it to the kernel
to count packets at the other end, in a socket that is never read: what the switches can carry, to nobody.
"""

from __future__ import annotations

import ctypes
import gc
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from railweave.framework.addressing import ENTROPY_BASE, ROCE_PORT
from railweave.framework.channel import Channel
from railweave.framework.errors import ChannelClosedError, LabError
from railweave.framework.lab.namespaces import NetNamespace, die_with_parent
from railweave.framework.model import Endpoint

RECEIVED, COUNTED = "received", "counted"
PORTS = {RECEIVED: ROCE_PORT + 1, COUNTED: ROCE_PORT + 2}
"""UDP ports of the bare packets. Rules do not look at them, and every socket drops all but its own in the kernel, so
that the transport does not pay for bare packets."""

BURST = 32
"""Packets that leave a host together: as many as Open vSwitch takes from a port at once."""

PASS_S = 0.0005
"""Between two looks at the clock."""

DRAIN_S = 0.15
"""After the last packet was sent, for those that wait in the switches; their arrival does not count."""

_SOL_PACKET, _STATISTICS, _IGNORE_OUTGOING = 263, 6, 23
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE = 26, 33
_RECEIVE_BUFFER_BYTES = 8 << 20
_ETH_P_IP, _HEADERS = 0x0800, 42
_libc = ctypes.CDLL(None)

Wait = Callable[[Callable[[], bool], str], None]
"""wait(done, what): returns once done() holds; how whoever drives a sender waits, and goes on with what else it does."""


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _MsgHdr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("iov", ctypes.POINTER(_IoVec)),
        ("iov_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _MMsgHdr(ctypes.Structure):
    _fields_ = (("header", _MsgHdr), ("length", ctypes.c_uint))


@dataclass(frozen=True, slots=True)
class Trial:
    """What was offered (packets per second), what was sent and arrived (packets), and the CPU seconds of both ends."""

    pps: float
    sent: int
    arrived: int
    seconds: float
    cpu_s: float


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Run the block in the network namespace at this path."""
    with Path(namespace).open() as opened, NetNamespace("", opened.fileno()).entered():
        yield


class End:
    """One host's socket: sends its one ready frame over and over, and counts what arrives."""

    def __init__(self, namespace: str, interface: str, frame: bytes, way: str) -> None:
        self._received = way == RECEIVED
        with inside(namespace):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            _accept(self._socket, PORTS[way])
            self._socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
            _hold(self._socket, _RECEIVE_BUFFER_BYTES if self._received else 1)
            self._socket.bind((interface, _ETH_P_IP))
        self._out = _Messages([ctypes.create_string_buffer(frame, len(frame))] * BURST)
        self._into = _Messages([ctypes.create_string_buffer(len(frame)) for _ in range(BURST)])

    def send(self, packets: int) -> int:
        """Send so many, BURST at most a call; how many the kernel took."""
        sent = 0
        while sent < packets:
            wanted = min(BURST, packets - sent)
            taken = _libc.sendmmsg(self._socket.fileno(), self._out.headers, wanted, socket.MSG_DONTWAIT)
            if taken <= 0:
                break
            sent += taken
        return sent

    def arrived(self) -> int:
        """Packets since the last call."""
        if not self._received:
            # the kernel adds those that found the (tiny) receive buffer full
            packets, _ = struct.unpack("II", self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 8))
            return int(packets)
        count, taken = 0, BURST
        while taken == BURST:
            taken = _libc.recvmmsg(
                self._socket.fileno(), self._into.headers, BURST, socket.MSG_DONTWAIT, None
            )
            count += max(taken, 0)
        return count

    def close(self) -> None:
        self._socket.close()


class _Messages:
    """An array of struct mmsghdr, one buffer each."""

    def __init__(self, buffers: Sequence[ctypes.Array[ctypes.c_char]]) -> None:
        self._buffers = buffers
        self._vectors = [_IoVec(ctypes.addressof(each), len(each)) for each in buffers]
        headers = [_MMsgHdr(_MsgHdr(None, 0, ctypes.pointer(vector), 1)) for vector in self._vectors]
        self.headers = (_MMsgHdr * len(buffers))(*headers)


def _accept(sock: socket.socket, port: int) -> None:
    """Let only UDP packets to this port in, behind an IP header without options."""
    steps = ((0x28, 0, 0, 36), (0x15, 0, 1, port), (0x06, 0, 0, 0xFFFF), (0x06, 0, 0, 0))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HL", len(steps), ctypes.addressof(code))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def _hold(sock: socket.socket, size: int) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
    except PermissionError:  # an ordinary user: the kernel gives what it allows
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


def offer(ends: Sequence[End], pps: float, seconds: float) -> Trial:
    """Send `pps` packets per second from all ends together, all alike, for so long; what arrived meanwhile."""
    each, due, sent, arrived = pps / len(ends), 0, 0, 0
    _count(ends)
    cpu, began = time.process_time(), time.perf_counter()
    while (now := time.perf_counter() - began) < seconds:
        before, due = due, int(each * now / BURST) * BURST
        if due > before:
            sent += sum(end.send(due - before) for end in ends)
        arrived += _count(ends)
        select.select((), (), (), PASS_S)
    trial = Trial(pps, sent, arrived, time.perf_counter() - began, time.process_time() - cpu)
    select.select((), (), (), DRAIN_S)
    return trial


def _count(ends: Sequence[End]) -> int:
    return sum(end.arrived() for end in ends)


def frame(src: Endpoint, dst: Endpoint, size: int, way: str) -> bytes:
    """A UDP packet of `size` bytes, Ethernet header included, that the rules of the pair carry."""
    ethernet = bytes.fromhex((dst.mac + src.mac).replace(":", "")) + b"\x08\x00"
    addresses = socket.inet_aton(src.ip) + socket.inet_aton(dst.ip)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, size - 14, 0, 0, 64, 17, 0) + addresses
    udp = struct.pack("!HHHH", ENTROPY_BASE, PORTS[way], size - 34, 0)
    return ethernet + ip + udp + bytes(size - _HEADERS)


class BareSender:
    """The process, driven from the lab's."""

    def __init__(self, wait: Wait) -> None:
        self._wait = wait
        self.channel, theirs = Channel.pair()
        with theirs:
            fd = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(fd)], stdin=subprocess.DEVNULL, pass_fds=[fd]
            )
        self._answers: list[dict[str, Any]] = []

    def open(self, endpoints: Sequence[Endpoint], size: int) -> None:
        """Every endpoint sends packets of `size` bytes to the one behind it, the last to the first."""
        pairs = zip(endpoints, [*endpoints[1:], endpoints[0]], strict=True)
        flows = [(a.namespace, a.interface, frame(a, b, size, way), way) for a, b in pairs for way in PORTS]
        self._ask({"do": "open", "flows": flows})

    def run(self, way: str, pps: float, seconds: float) -> Trial:
        """Offer so many packets per second, from all hosts together, for so long."""
        return Trial(**self._ask({"do": "run", "way": way, "pps": pps, "seconds": seconds}))

    def hear(self) -> None:
        """Take what the process says; to be called when `channel` is readable."""
        try:
            self._answers += self.channel.poll()
        except ChannelClosedError:
            raise LabError(f"the bare sender ended with status {self._process.wait()}.") from None

    def stop(self) -> None:
        self.channel.close()
        self._process.wait()

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        self.channel.send(order)
        self._wait(lambda: bool(self._answers), "the bare sender")
        return self._answers.pop()


def serve(channel: Channel) -> None:
    """Carry out orders until the channel closes."""
    ends: dict[str, list[End]] = {way: [] for way in PORTS}
    while True:
        order = channel.receive()
        if order["do"] == "open":
            for namespace, interface, ready, way in order["flows"]:
                ends[way].append(End(namespace, interface, ready, way))
            channel.send({})
        else:
            channel.send(asdict(offer(ends[order["way"]], order["pps"], order["seconds"])))


def main() -> None:
    die_with_parent(signal.SIGKILL)
    gc.disable()
    try:
        serve(Channel.from_fd(int(sys.argv[1])))
    except ChannelClosedError:
        return


if __name__ == "__main__":
    main()
