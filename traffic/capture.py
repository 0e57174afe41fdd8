"""Captures chosen links into one pcapng file: `python -m railweave.traffic.capture FD FILE-FD`.

The parent process opens the file and passes its descriptor on. Over the channel FD the capture receives the
list of links, reports ProcessReady once it sees their packets, and ends with CaptureFinished when it is told
to stop or the channel closes.
"""

import os
import select
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from railweave.framework.errors import TransportError
from railweave.framework.model.events import CaptureFinished, Event, ProcessDied, ProcessReady
from railweave.framework.processes.channel import Channel
from railweave.traffic.child import report, run_child, start_child
from railweave.traffic.pcapng import INBOUND, OUTBOUND, PcapngWriter
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
SLOTS = 1024
WITHIN_S = 10.0
_DIRECTION_AT = 32 + 10
"""sll_pkttype of the sockaddr_ll behind struct tpacket2_hdr; 4 is outgoing."""

Awaited = TypeVar("Awaited", bound=Event)
Link = tuple[str, str, str]
"""(namespace path, interface, label in the file)."""


class Capture:
    """Drives a capture process, which sees every link once this is made; TransportError with the reason if
    that fails. `file` is a descriptor open for writing; the caller may close it at once."""

    def __init__(self, links: Sequence[Link], file: int, log_path: str) -> None:
        self._child = start_child("the capture", "railweave.traffic.capture", log_path, [str(file)], [file])
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
                if fd not in by_fd:
                    continue
                if event & ~select.EPOLLIN:
                    by_fd[fd].socket.clear_error()
                else:
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
