"""Captures chosen links into one pcapng file: `python -m railweave.traffic.capture FD FILE-FD`.

The parent process opens the file and passes its descriptor on. Over the channel FD the capture receives the
list of links, reports ProcessReady once it sees their packets, and ends with CaptureFinished when it is told
to stop or the channel closes.
"""

import os
import select
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from railweave.framework.errors import TransportError
from railweave.framework.model.events import CaptureFinished, Event, ProcessDied, ProcessReady
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.child import ChildProcess
from railweave.traffic.child import ENVIRONMENT, report, run_child
from railweave.traffic.rocev2.sockets import (
    LENGTH_WORD,
    MAC_HALF,
    NANOSECONDS_WORD,
    SECONDS_WORD,
    STATUS_USER,
    PacketSocket,
    RingShape,
    open_packet_socket,
)

FRAME_BYTES = 9100
"""Bytes of a frame that are kept: more than the largest of a lab, 9,014."""
SLOTS = 1024
"""Frames of an interface that may wait to be written."""
WITHIN_S = 10.0
"""Seconds for the process that captures to report."""
_DIRECTION_AT = 32 + 10
"""sll_pkttype of the sockaddr_ll behind struct tpacket2_hdr; 4 is outgoing."""

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
"""Types of blocks of pcapng: section header, interface description, enhanced packet
(draft-ietf-opsawg-pcapng)."""
_LINK_ETHERNET = 1
"""LINKTYPE_ETHERNET."""
_IF_NAME, _IF_RESOLUTION, _PACKET_FLAGS, _USER_APPLICATION = 2, 9, 2, 4
"""Options of these blocks."""
INBOUND, OUTBOUND = 1, 2
"""Directions of epb_flags."""

Awaited = TypeVar("Awaited", bound=Event)
Link = tuple[str, str, str]
"""(namespace path, interface, label in the file)."""


class CaptureProcess:
    """Drives a capture process, which sees every link once this is made; TransportError with the reason if
    that fails. `file` is a descriptor open for writing; the caller may close it at once."""

    def __init__(self, links: Sequence[Link], file: int, log_path: str) -> None:
        self._child = ChildProcess(
            "the capture",
            "railweave.traffic.capture",
            [str(file)],
            log_path=log_path,
            files=[file],
            environment=ENVIRONMENT,
        )
        self._child.send({"links": [list(link) for link in links]})
        self._wait(ProcessReady)

    def stop(self) -> int:
        """Write what has arrived and end; the number of packets missed because the receive ring was full."""
        self._child.send({"stop": True})
        dropped = self._wait(CaptureFinished).dropped
        self._child.stop()
        return dropped

    def _wait(self, kind: type[Awaited]) -> Awaited:
        end = time.monotonic() + WITHIN_S
        poll = select.poll()  # unlike select, for any number of open descriptors
        poll.register(self._child.channel, select.POLLIN)
        while (left := end - time.monotonic()) > 0:
            poll.poll(left * 1000)
            for event in self._child.events():
                if isinstance(event, kind):
                    return event
                if isinstance(event, ProcessDied):
                    raise TransportError(f"the capture failed: {event.why}")
        raise TransportError(f"the capture did not report {kind.kind} within {WITHIN_S:g} s.")


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _block(kind: int, body: bytes) -> bytes:
    total = len(body) + 12
    return struct.pack("<II", kind, total) + body + struct.pack("<I", total)


class PcapngWriter:
    """Writes pcapng with named interfaces, directions and nanosecond timestamps, for Wireshark, tshark and
    scapy: one section with the interfaces `names`, to which packets refer by position.

    scapy 2.8's PcapNgWriter can name interfaces and directions, but only for Packet objects (21 us per packet
    of 4 KiB, 7.5 us here), it rounds times to microseconds, and it does not list a link that carried nothing.
    Source: IETF draft "PCAP Next Generation (pcapng) Capture File Format", sections 4.1 to 4.3.
    """

    def __init__(self, file: BinaryIO, names: Sequence[str]) -> None:
        self._file = file
        head = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)  # the length of the section is not known
        file.write(_block(_SECTION, head + _option(_USER_APPLICATION, b"railweave") + _option(0, b"")))
        for name in names:
            options = _option(_IF_NAME, name.encode()) + _option(_IF_RESOLUTION, b"\x09") + _option(0, b"")
            file.write(_block(_INTERFACE, struct.pack("<HHI", _LINK_ETHERNET, 0, 0) + options))

    def write(self, interface: int, time_ns: int, frame: bytes | memoryview, direction: int) -> None:
        """One Ethernet frame captured `time_ns` after 1970; `direction` is INBOUND or OUTBOUND."""
        frame = bytes(frame)
        head = struct.pack(
            "<IIIII", interface, time_ns >> 32 & 0xFFFFFFFF, time_ns & 0xFFFFFFFF, len(frame), len(frame)
        )
        options = _option(_PACKET_FLAGS, struct.pack("<I", direction)) + _option(0, b"")
        self._file.write(_block(_PACKET, head + _padded(frame) + options))


@dataclass
class Tap:
    """One captured link: its socket, its number in the file, and how many packets were written."""

    socket: PacketSocket
    number: int
    packets: int = 0

    def drain(self, writer: PcapngWriter) -> None:
        """Write every packet that has arrived."""
        ring = self.socket.ring
        while ring.words[(slot := ring.slots[ring.at]) >> 2] & STATUS_USER:
            word = slot >> 2
            frame = slot + ring.halves[(slot >> 1) + MAC_HALF]
            time_ns = ring.words[word + SECONDS_WORD] * 1_000_000_000 + ring.words[word + NANOSECONDS_WORD]
            direction = OUTBOUND if ring.bytes[slot + _DIRECTION_AT] == 4 else INBOUND
            data = ring.bytes[frame : frame + ring.words[word + LENGTH_WORD]]
            writer.write(self.number, time_ns, data, direction)
            ring.words[word] = 0
            ring.at = (ring.at + 1) % len(ring.slots)
            self.packets += 1


def capture(channel: Channel, file: BinaryIO) -> None:
    """Capture the links named by the first message until any other message comes or the channel closes."""
    links = channel.receive()["links"]
    shape = RingShape(FRAME_BYTES, SLOTS)
    taps = [
        Tap(open_packet_socket(namespace, interface, shape, outgoing=True), number)
        for number, (namespace, interface, _) in enumerate(links)
    ]
    writer = PcapngWriter(file, [label for _, _, label in links])
    poll = select.epoll()
    by_fd = {tap.socket.fileno(): tap for tap in taps}
    for fd in (channel.fileno(), *by_fd):
        poll.register(fd, select.EPOLLIN)
    channel.send(ProcessReady())
    try:
        # Asked before every wait: the order to stop may have been read together with the list of links, and
        # then nothing arrives on the descriptor any more.
        while not channel.poll():
            for fd, event in poll.poll():
                if fd in by_fd and event & ~select.EPOLLIN:
                    by_fd[fd].socket.clear_error()
                elif fd in by_fd:
                    by_fd[fd].drain(writer)
    finally:
        for tap in taps:
            tap.drain(writer)
        file.flush()
        dropped = sum(tap.socket.dropped() for tap in taps)
        report(channel, CaptureFinished(sum(tap.packets for tap in taps), dropped))


def main() -> None:
    with os.fdopen(int(sys.argv[2]), "wb") as file:
        run_child(lambda channel: capture(channel, file))


if __name__ == "__main__":
    main()
