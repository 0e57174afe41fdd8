"""One connected switch: rules and trains become bytes, handed to the library's sender in large pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, count, islice, repeat
from typing import Any

from railweave.controllers import messages
from railweave.controllers.frames import FIRST, LAST, train_frame
from railweave.controllers.library import hub, parser
from railweave.framework.model import Rule

PIECE_BYTES = 1 << 16
"""What is handed over at once. Answers to echo requests pass between pieces; one system call a message would
cost more than the messages."""


class ConnectedSwitch:
    """Sends to a datapath of the library. `parts` is shared by all switches: their rules have much in common."""

    def __init__(self, datapath: Any, parts: messages.Parts) -> None:
        self._datapath = datapath
        self._parts = parts
        self._bundles = count(1)

    def read_flows(self) -> int:
        return self._send([messages.flow_request(self._datapath)])

    def change(self, add: Sequence[Rule], delete: Sequence[int]) -> int:
        """Adds, then deletes, as one transaction, then a barrier: what is deleted has its replacement already."""
        datapath = self._datapath
        changes = chain(
            (messages.flow_mod(datapath, rule, self._parts) for rule in add),
            (messages.removal(datapath, cookie, self._parts) for cookie in delete),
        )
        bundle = messages.bundle(datapath, next(self._bundles), changes) if add or delete else ()
        return self._send(chain(bundle, [parser.OFPBarrierRequest(datapath)]))

    def read_ports(self) -> int:
        return self._send([messages.port_request(self._datapath)])

    def send_train(self, port: int, packets: int, size_bytes: int, timed: int = 0) -> None:
        """Packets back to back out of a port; of a `timed` train the first and the last carry its number."""
        plain = self._packet_out(port, train_frame(size_bytes))
        first, last = (
            self._packet_out(port, train_frame(size_bytes, timed, mark)) if timed else plain
            for mark in (FIRST, LAST)
        )
        pieces = chain([first], repeat(plain, packets - 2), [last]) if packets > 1 else iter([plain])
        each = max(1, PIECE_BYTES // len(plain))
        for piece in iter(lambda: b"".join(islice(pieces, each)), b""):
            self._datapath.send(piece)

    def _packet_out(self, port: int, frame: bytes) -> bytes:
        message = messages.packet_out(self._datapath, port, frame)
        self._datapath.set_xid(message)
        message.serialize()
        return bytes(message.buf)

    def _send(self, given: Iterable[Any]) -> int:
        """Hand over the messages, in order; the number of the last, which its answer carries."""
        piece = bytearray()
        number = 0
        for message in given:
            number = self._datapath.set_xid(message)
            message.serialize()
            piece += message.buf
            if len(piece) >= PIECE_BYTES:
                self._datapath.send(bytes(piece))
                piece.clear()
                hub.sleep(0)
        if piece:
            self._datapath.send(bytes(piece))
        return number
