"""One connected switch: rules and trains become bytes, handed to the library's sender in large pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, count
from typing import Any

from railweave.controllers import messages
from railweave.controllers.frames import train_frame
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

    def send_train(self, port: int, packets: int, size_bytes: int) -> None:
        message = messages.packet_out(self._datapath, port, train_frame(size_bytes))
        self._datapath.set_xid(message)
        message.serialize()
        data = bytes(message.buf)
        each = max(1, PIECE_BYTES // len(data))
        for begin in range(0, packets, each):
            self._datapath.send(data * min(each, packets - begin))

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
