"""Captures chosen links into one pcapng file: `python -m railweave.traffic.capture FD FILE-FD`.

The file is opened by whoever may; the process inherits its descriptor. Over the channel FD it is told the links
once, says `ready`, and ends with `finished {packets, dropped}` when told to stop or when the channel closes.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from railweave.framework.channel import Channel
from railweave.framework.errors import ChannelClosedError, RailweaveError, TransportError
from railweave.framework.hookspecs import Event
from railweave.framework.lab.namespaces import die_with_parent
from railweave.traffic.child import Child
from railweave.traffic.pcapng import INBOUND, OUTBOUND, PcapngWriter
from railweave.traffic.rocev2.ring import (
    LENGTH_WORD,
    MAC_HALF,
    NANOSECONDS_WORD,
    SECONDS_WORD,
    STATUS_USER,
    RingShape,
)
from railweave.traffic.rocev2.sockets import PacketSocket, open_packet_socket

FRAME_BYTES = 9100
SLOTS = 1024
_DIRECTION_AT = 32 + 10
"""sll_pkttype of the sockaddr_ll behind struct tpacket2_hdr; 4 is outgoing."""

Link = tuple[str, str, str]
"""(namespace path, interface, label in the file)."""


class Capture:
    """Drives a capturing process. `file` is a descriptor open for writing; it may be closed here after this."""

    def __init__(self, links: Sequence[Link], file: int, log_path: str) -> None:
        self._child = Child("railweave.traffic.capture", log_path, [str(file)], [file])
        self._child.order({"links": [list(link) for link in links]})

    def fileno(self) -> int:
        return self._child.channel.fileno()

    def events(self) -> list[Event]:
        """ready {}; finished {packets, dropped}; died {why}."""
        return self._child.events()

    def wait_ready(self, within_s: float) -> None:
        """Return once every link is captured; TransportError with the reason if that fails."""
        self._wait("ready", within_s)

    def stop(self, within_s: float = 10.0) -> int:
        """End the capture with everything written; packets that were missed because memory was full."""
        self._child.order({"stop": True})
        dropped = int(self._wait("finished", within_s).data["dropped"])
        self._child.stop()
        return dropped

    def _wait(self, kind: str, within_s: float) -> Event:
        end = time.monotonic() + within_s
        while (left := end - time.monotonic()) > 0:
            select.select([self], [], [], left)
            for event in self.events():
                if event.kind == kind:
                    return event
                if event.kind == "died":
                    raise TransportError(f"the capture failed: {event.data['why']}")
        raise TransportError(f"the capture did not report {kind} within {within_s:g} s.")


@dataclass
class Tap:
    """One captured link."""

    socket: PacketSocket
    number: int
    packets: int = 0

    def drain(self, writer: PcapngWriter) -> None:
        ring = self.socket.ring
        while ring.words[(slot := ring.slots[ring.at]) >> 2] & STATUS_USER:
            word = slot >> 2
            frame = slot + ring.halves[(slot >> 1) + MAC_HALF]
            seen = ring.words[word + SECONDS_WORD] * 1_000_000_000 + ring.words[word + NANOSECONDS_WORD]
            direction = OUTBOUND if ring.bytes[slot + _DIRECTION_AT] == 4 else INBOUND
            writer.write(
                self.number, seen, ring.bytes[frame : frame + ring.words[word + LENGTH_WORD]], direction
            )
            ring.words[word] = 0
            ring.at = (ring.at + 1) % len(ring.slots)
            self.packets += 1


def capture(channel: Channel, file: BinaryIO) -> None:
    """Serve the channel until it says stop or closes."""
    links = channel.receive()["links"]
    shape = RingShape.of(FRAME_BYTES, SLOTS)
    taps = [
        Tap(open_packet_socket(namespace, interface, shape, outgoing=True), number)
        for number, (namespace, interface, _) in enumerate(links)
    ]
    writer = PcapngWriter(file, [label for _, _, label in links])
    poll = select.epoll()
    poll.register(channel.fileno(), select.EPOLLIN)
    by_fd = {tap.socket.fileno(): tap for tap in taps}
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    channel.send({"kind": "ready", "data": {}})
    try:
        while True:
            for fd, event in poll.poll():
                if fd == channel.fileno():
                    if channel.poll():
                        return
                elif event & ~select.EPOLLIN:
                    by_fd[fd].socket.clear_error()
                else:
                    by_fd[fd].drain(writer)
    finally:
        for tap in taps:
            tap.drain(writer)
        file.flush()
        _say(channel, "finished", packets=sum(t.packets for t in taps), dropped=sum(t.socket.dropped() for t in taps))  # fmt: skip


def _say(channel: Channel, kind: str, **data: Any) -> None:
    try:
        channel.send({"kind": kind, "data": data})
    except ChannelClosedError:
        print(kind, data, file=sys.stderr)  # noqa: T201 - the log of this process is all that is left


def main() -> None:
    die_with_parent(signal.SIGKILL)
    channel = Channel.from_fd(int(sys.argv[1]))
    try:
        with os.fdopen(int(sys.argv[2]), "wb") as file:
            capture(channel, file)
    except ChannelClosedError:
        return
    except RailweaveError as error:
        _say(channel, "died", why=str(error))
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
