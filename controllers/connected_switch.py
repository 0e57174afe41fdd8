"""One connected switch: encodes rules and trains, and hands them to the library's sender in large pieces."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address
from itertools import chain, count
from typing import Any

from railweave.controllers import messages
from railweave.controllers.frames import FIRST, LAST, train_frame
from railweave.controllers.library import hub, ofproto, parser
from railweave.framework.model import Rule
from railweave.framework.model.addressing import TRAIN_SEEN, TRAIN_SINK

PIECE_BYTES = 1 << 16
"""How much is handed over at once. Answers to echo requests pass between pieces; one system call per message
would cost more than the messages."""

PACKETS_AT_ONCE = 1000
"""Packets that one message may send; each is an action of 16 bytes, and a message holds 64 KiB."""


class ConnectedSwitch:
    """Sends to a datapath of the library."""

    def __init__(self, datapath: Any) -> None:
        self.datapath = datapath
        self._bundles = count(1)

    def read_flows(self) -> int:
        """Request every flow of every table."""
        everything = (ofproto.OFPTT_ALL, ofproto.OFPP_ANY, ofproto.OFPG_ANY, 0, 0, parser.OFPMatch())
        return self._send([parser.OFPFlowStatsRequest(self.datapath, 0, *everything)])

    def read_ports(self) -> int:
        """Request the counters of every port."""
        return self._send([parser.OFPPortStatsRequest(self.datapath, 0, ofproto.OFPP_ANY)])

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
        """Packets back to back out of a port; in a `timed` train the first and the last carry its number.

        One message makes all of them, so nothing gets in between.
        """
        out = parser.OFPActionOutput(port)
        if not timed:
            for first in range(0, packets, PACKETS_AT_ONCE):
                self._packet_out(train_frame(size_bytes), [out] * min(PACKETS_AT_ONCE, packets - first))
            return
        to_sink, to_seen = (
            parser.OFPActionSetField(ipv4_dst=str(IPv4Address(to))) for to in (TRAIN_SINK, TRAIN_SEEN)
        )
        last = parser.OFPActionSetField(udp_src=LAST)
        self._packet_out(
            train_frame(size_bytes, timed, FIRST),
            [out, to_sink, *[out] * (packets - 2), to_seen, last, out],
        )

    def _packet_out(self, frame: bytes, actions: Sequence[Any]) -> None:
        """Apply `actions` to `frame`, past all flow tables."""
        message = parser.OFPPacketOut(
            self.datapath,
            buffer_id=ofproto.OFP_NO_BUFFER,
            in_port=ofproto.OFPP_CONTROLLER,
            actions=list(actions),
            data=frame,
        )
        self._send([message])

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
