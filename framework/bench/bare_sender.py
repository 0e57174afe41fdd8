"""A bare sender as baseline for the transport: prepared bytes, many packets per system call, nothing checked.

`python -m railweave.framework.bench.bare_sender FD` serves the channel FD in a process of its own, so that
the lab's health loop goes on meanwhile. Orders: open {flows, packets}, run {mode, pps, seconds}; each is
answered, the second with the fields of a Trial.

Two modes. RECEIVED: a message of `packets` is moved from memory to memory, over and over, and the receiver
looks no further. COUNTED: one packet, which stays in the processor's caches, is sent over and over,
and the kernel counts it at the receiver, in a socket that is never read, which shows what the switches alone
can carry.
"""

import ctypes
import gc
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address
from typing import Any

from railweave.framework.errors import ChannelClosedError, LabError
from railweave.framework.model import Endpoint
from railweave.framework.model.addressing import ROCE_PORT
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.child import ChildProcess
from railweave.framework.processes.namespaces import die_with_parent, inside
from railweave.framework.processes.packet_socket import (
    ETH_P_IP,
    Instruction,
    IoVec,
    MMsgHdr,
    packet_counts,
    packet_socket,
    set_buffer,
)
from railweave.framework.processes.udp_frame import udp_frame

RECEIVED, COUNTED = "received", "counted"
PORTS = {RECEIVED: ROCE_PORT + 1, COUNTED: ROCE_PORT + 2}
"""UDP ports of the bare packets. No rule matches on them, and every socket drops all other ports in the
kernel, so the transport does not pay for bare packets."""

BURST = 32
"""Packets that leave a host together: as many as Open vSwitch takes from a port at once."""

PASS_S = 0.0005
"""Seconds of sleep between two bursts."""

_RECEIVE_BUFFER_BYTES = 8 << 20
"""Receive buffer of the host's socket: thousands of packets, so that the reader loses none while it is not
scheduled."""
_libc = ctypes.CDLL(None)

Wait = Callable[[Callable[[], bool], str], None]
"""wait(done, what): returns once done() holds; the caller goes on with its own work meanwhile."""


@dataclass(frozen=True, slots=True)
class SendTrial:
    """Packets that arrived in a test of `seconds`, and the CPU seconds of both ends."""

    arrived: int
    seconds: float
    cpu_s: float


class End:
    """One host's socket: sends its prepared `packets`, all like `frame`, over and over, and counts those that
    arrive."""

    def __init__(self, namespace: str, interface: str, frame: bytes, mode: str, packets: int) -> None:
        self._received = mode == RECEIVED
        with inside(namespace):
            self._socket = packet_socket(_only_udp_to(PORTS[mode]))
            set_buffer(self._socket, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES if self._received else 1)
            self._socket.bind((interface, ETH_P_IP))
        places = packets if self._received else 1
        self._out = _MessageRing(frame * places, len(frame))
        self._into = _MessageRing(bytes(len(frame) * places), len(frame))

    def send(self, packets: int) -> None:
        """Send `packets`, at most BURST per system call, or as many as the kernel takes."""
        fd = self._socket.fileno()
        while packets > 0:
            taken = _libc.sendmmsg(fd, *self._out.next(min(BURST, packets)), socket.MSG_DONTWAIT)
            if taken <= 0:
                return
            self._out.advance(taken)
            packets -= taken

    def arrived(self) -> int:
        """Packets since the last call."""
        if not self._received:
            # the kernel includes those that found the (tiny) receive buffer full
            return packet_counts(self._socket)[0]
        fd, count, taken, wanted = self._socket.fileno(), 0, 1, 1
        while taken == wanted:
            at, wanted = self._into.next(BURST)
            taken = _libc.recvmmsg(fd, at, wanted, socket.MSG_DONTWAIT, None)
            if taken > 0:
                self._into.advance(taken)
                count += taken
        return count


class _MessageRing:
    """An array of struct mmsghdr, one for each `size` bytes of a copy of `content`, taken in turn; of fewer
    than BURST packets, for each of them several times."""

    def __init__(self, content: bytes, size: int) -> None:
        self._memory = ctypes.create_string_buffer(content, len(content))
        first, places = ctypes.addressof(self._memory), len(content) // size
        self._count = -(-max(places, BURST) // places) * places
        self._vectors = (IoVec * self._count)(
            *(IoVec(first + i % places * size, size) for i in range(self._count))
        )
        self._headers = (MMsgHdr * self._count)()
        for i, message in enumerate(self._headers):
            message.header.iov = ctypes.addressof(self._vectors) + i * ctypes.sizeof(IoVec)
            message.header.iov_count = 1
        self._at = 0

    def next(self, most: int) -> tuple[ctypes.c_void_p, int]:
        """Where the next ones are, and how many follow each other there, `most` at most."""
        at = ctypes.addressof(self._headers) + self._at * ctypes.sizeof(MMsgHdr)
        return ctypes.c_void_p(at), min(most, self._count - self._at)

    def advance(self, taken: int) -> None:
        """Go on behind the `taken` next ones."""
        self._at = (self._at + taken) % self._count


def _only_udp_to(port: int) -> tuple[Instruction, ...]:
    """A filter that lets in only UDP packets to this port, behind an IP header without options."""
    return (0x28, 0, 0, 36), (0x15, 0, 1, port), (0x06, 0, 0, 0xFFFF), (0x06, 0, 0, 0)


def offer(ends: Sequence[End], pps: float, seconds: float) -> SendTrial:
    """Send `pps` packets per second, spread evenly over all ends, for `seconds`, and count those that
    arrive."""
    end_pps, due, arrived = pps / len(ends), 0, 0
    for end in ends:
        end.arrived()  # what came before does not count
    cpu, began = time.process_time(), time.perf_counter()
    while (now := time.perf_counter() - began) < seconds:
        before, due = due, int(end_pps * now / BURST) * BURST
        if due > before:
            for end in ends:
                end.send(due - before)
        arrived += sum(end.arrived() for end in ends)
        select.select((), (), (), PASS_S)
    return SendTrial(arrived, time.perf_counter() - began, time.process_time() - cpu)


def frame(src: Endpoint, dst: Endpoint, size: int, mode: str) -> bytes:
    """A UDP packet of `size` bytes, Ethernet header included, that the rules of the pair forward."""
    src_ip, dst_ip = (int(IPv4Address(end.ip)) for end in (src, dst))
    src_mac, dst_mac = (bytes.fromhex(end.mac.replace(":", "")) for end in (src, dst))
    return udp_frame(src_ip, dst_ip, size, dst_port=PORTS[mode], src_mac=src_mac, dst_mac=dst_mac)


class BareSender:
    """Drives the process from the lab's first process."""

    def __init__(self, wait: Wait) -> None:
        self._wait = wait
        self._process = ChildProcess("the bare sender", __name__)
        self.channel, self.stop = self._process.channel, self._process.stop
        self._answers: list[dict[str, Any]] = []

    def open(self, endpoints: Sequence[Endpoint], size: int, packets: int) -> None:
        """Open sockets: every endpoint sends `packets` of `size` bytes to the next, the last to the first."""
        pairs = zip(endpoints, [*endpoints[1:], endpoints[0]], strict=True)
        flows = [
            (a.namespace, a.interface, frame(a, b, size, mode), mode) for a, b in pairs for mode in PORTS
        ]
        self._ask({"do": "open", "flows": flows, "packets": packets})

    def run(self, mode: str, pps: float, seconds: float) -> SendTrial:
        """Offer `pps` packets per second, from all hosts together, for `seconds`."""
        return SendTrial(**self._ask({"do": "run", "mode": mode, "pps": pps, "seconds": seconds}))

    def hear(self) -> None:
        """Read the answers of the process; to be called when `channel` is readable."""
        try:
            self._answers += self.channel.poll()
        except ChannelClosedError:
            raise LabError(self._process.obituary()) from None

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        self.channel.send(order)
        self._wait(lambda: bool(self._answers), "the bare sender")
        return self._answers.pop()


def serve(channel: Channel) -> None:
    """Carry out orders until the channel closes."""
    ends: dict[str, list[End]] = {mode: [] for mode in PORTS}
    while True:
        order = channel.receive()
        if order["do"] == "open":
            for namespace, interface, prepared, mode in order["flows"]:
                ends[mode].append(End(namespace, interface, prepared, mode, order["packets"]))
            channel.send({})
        else:
            channel.send(asdict(offer(ends[order["mode"]], order["pps"], order["seconds"])))


if __name__ == "__main__":
    die_with_parent(signal.SIGKILL)
    gc.disable()
    with suppress(ChannelClosedError):
        serve(Channel.from_fd(int(sys.argv[1])))
