"""One connected switch: encodes rules and trains, and hands them to the library's sender in large pieces."""

from collections.abc import Iterable, Sequence
from itertools import chain, count, islice, repeat
from typing import Any

from railweave.controllers import messages
from railweave.controllers.frames import FIRST, LAST, train_frame
from railweave.controllers.library import hub, parser
from railweave.framework.model import Rule

PIECE_BYTES = 1 << 16
"""How much is handed over at once. Answers to echo requests pass between pieces; one system call per message
would cost more than the messages."""


class ConnectedSwitch:
    """Sends to a datapath of the library."""

    def __init__(self, datapath: Any) -> None:
        self.datapath = datapath
        self._bundles = count(1)

    def read_flows(self) -> int:
        return self._send([messages.flow_request(self.datapath)])

    def read_ports(self) -> int:
        return self._send([messages.port_request(self.datapath)])

    def change(self, add: Sequence[Rule], delete: Sequence[int]) -> int:
        """Adds, then deletes, as one transaction, then a barrier. Replacements precede deletions."""
        datapath = self.datapath
        changes = chain(
            (messages.flow_mod(datapath, rule) for rule in add),
            (messages.removal(datapath, cookie) for cookie in delete),
        )
        bundle = messages.bundle(datapath, next(self._bundles), changes) if add or delete else ()
        return self._send(chain(bundle, [parser.OFPBarrierRequest(datapath)]))

    def send_train(self, port: int, packets: int, size_bytes: int, timed: int = 0) -> None:
        """Packets back to back out of a port; in a `timed` train the first and the last carry its number."""
        plain = self._packet_out(port, train_frame(size_bytes))
        first, last = (
            self._packet_out(port, train_frame(size_bytes, timed, mark)) if timed else plain
            for mark in (FIRST, LAST)
        )
        train = chain([first], repeat(plain, packets - 2), [last]) if packets > 1 else iter([plain])
        packets_at_once = max(1, PIECE_BYTES // len(plain))
        for piece in iter(lambda: b"".join(islice(train, packets_at_once)), b""):
            self.datapath.send(piece)

    def _packet_out(self, port: int, frame: bytes) -> bytes:
        message = messages.packet_out(self.datapath, port, frame)
        self.datapath.set_xid(message)
        message.serialize()
        return bytes(message.buf)

    def _send(self, requests: Iterable[Any]) -> int:
        """Hand over the messages, in order; the number of the last one, which its answer carries."""
        piece = bytearray()
        number = 0
        for message in requests:
            number = self.datapath.set_xid(message) if message.xid is None else message.xid
            message.serialize()
            piece += message.buf
            if len(piece) >= PIECE_BYTES:
                self.datapath.send(bytes(piece))
                piece.clear()
                hub.sleep(0)
        if piece:
            self.datapath.send(bytes(piece))
        return number
