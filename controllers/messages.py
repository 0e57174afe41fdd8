"""OpenFlow 1.3 messages from rules. Pure: the same rule gives the same bytes.

The library writes every field and every instruction, but each distinct one only once: most of a flow-mod's
cost in Python is the checking and packing of its match, and rules share their fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from railweave.controllers.library import ofproto, parser
from railweave.framework.addressing import ipv4_text
from railweave.framework.model import Match, Output, Rule, SetDscp

ETH_TYPE_IPV4 = 0x0800
IP_PROTO_UDP = 17
WHOLE_COOKIE = (1 << 64) - 1
HEAD_BYTES = 64
"""What the controller is sent of a packet that a rule outputs to it: its headers."""
BUNDLE_FLAGS = ofproto.ONF_BF_ATOMIC | ofproto.ONF_BF_ORDERED

_MATCH_HEAD = struct.Struct("!HH")


class WrittenMatch(parser.OFPMatch):  # type: ignore[misc]
    """A match whose bytes are known."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def serialize(self, buf: bytearray, offset: int) -> int:
        buf[offset:] = self.data
        return len(self.data)


class WrittenInstruction(parser.OFPInstruction):  # type: ignore[misc]
    """An instruction whose bytes are known."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.len = len(data)

    def serialize(self, buf: bytearray, offset: int) -> None:
        buf[offset:] = self.data


class Parts:
    """Matches and instructions as the library writes them, each distinct field or action list once."""

    def __init__(self) -> None:
        self._fields: dict[tuple[str, Any], bytes] = {}
        self._matches: dict[Match, WrittenMatch] = {}
        self._instructions: dict[tuple[Any, int | None], list[WrittenInstruction]] = {}
        self.anything = _written_match(b"")

    def match(self, match: Match) -> WrittenMatch:
        """IPv4, and what `match` asks for, in the order of field numbers (prerequisites first)."""
        if match not in self._matches:
            self._matches[match] = self._write(match)
        return self._matches[match]

    def instructions(self, rule: Rule) -> list[WrittenInstruction]:
        """Apply-actions, or nothing, which drops. An output to the port the packet came from becomes IN_PORT:
        a switch does not send a packet back otherwise."""
        key = (rule.actions, rule.match.in_port)
        if key not in self._instructions:
            self._instructions[key] = _instructions(rule)
        return self._instructions[key]

    def _write(self, match: Match) -> WrittenMatch:
        field = self._field
        data = field("eth_type", ETH_TYPE_IPV4)
        if match.in_port is not None:
            data = field("in_port", match.in_port) + data
        if match.ip_dscp is not None:
            data += field("ip_dscp", match.ip_dscp)
        if match.udp_src is not None:
            data += field("ip_proto", IP_PROTO_UDP)
        if match.ipv4_src is not None:
            data += field("ipv4_src", match.ipv4_src)
        if match.ipv4_dst is not None:
            data += field("ipv4_dst", match.ipv4_dst)
        if match.udp_src is not None:
            data += field("udp_src", match.udp_src)
        return _written_match(data)

    def _field(self, name: str, value: int | tuple[int, int]) -> bytes:
        key = (name, value)
        if key not in self._fields:
            given: Any = value
            if isinstance(value, tuple):  # a switch refuses bits of a value outside its mask
                given = (ipv4_text(value[0] & value[1]), ipv4_text(value[1]))
            written = bytearray()
            ofproto.oxm_serialize(*ofproto.oxm_from_user(name, given), written, 0)
            self._fields[key] = bytes(written)
        return self._fields[key]


def flow_mod(datapath: Any, rule: Rule, parts: Parts) -> Any:
    """OFPFlowMod that adds the rule, or replaces the one of equal match and priority."""
    return parser.OFPFlowMod(
        datapath,
        cookie=rule.cookie,
        priority=rule.priority,
        match=parts.match(rule.match),
        instructions=parts.instructions(rule),
    )


def removal(datapath: Any, cookie: int, parts: Parts) -> Any:
    """OFPFlowMod that deletes whatever carries exactly this cookie, in any table."""
    return parser.OFPFlowMod(
        datapath,
        cookie=cookie,
        cookie_mask=WHOLE_COOKIE,
        table_id=ofproto.OFPTT_ALL,
        command=ofproto.OFPFC_DELETE,
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
        match=parts.anything,
    )


def bundle(datapath: Any, number: int, messages: Iterable[Any]) -> Iterable[Any]:
    """The messages as one transaction: the switch makes all of them true at one instant, in their order, or
    refuses all. It also applies them many times faster than one by one. Source: ONF extension 230."""

    def control(type_: int) -> Any:
        return parser.ONFBundleCtrlMsg(datapath, number, type_, BUNDLE_FLAGS, [])

    yield control(ofproto.ONF_BCT_OPEN_REQUEST)
    for message in messages:
        yield parser.ONFBundleAddMsg(datapath, number, BUNDLE_FLAGS, message, [])
    yield control(ofproto.ONF_BCT_COMMIT_REQUEST)


def flow_request(datapath: Any) -> Any:
    """Asks for every flow of every table."""
    return parser.OFPFlowStatsRequest(
        datapath, 0, ofproto.OFPTT_ALL, ofproto.OFPP_ANY, ofproto.OFPG_ANY, 0, 0, parser.OFPMatch()
    )


def port_request(datapath: Any) -> Any:
    """Asks for the counters of every port."""
    return parser.OFPPortStatsRequest(datapath, 0, ofproto.OFPP_ANY)


def packet_out(datapath: Any, port: int, frame: bytes) -> Any:
    """Sends `frame` out of `port`, past all tables."""
    return parser.OFPPacketOut(
        datapath,
        buffer_id=ofproto.OFP_NO_BUFFER,
        in_port=ofproto.OFPP_CONTROLLER,
        actions=[parser.OFPActionOutput(port)],
        data=frame,
    )


def _written_match(fields: bytes) -> WrittenMatch:
    length = _MATCH_HEAD.size + len(fields)
    return WrittenMatch(_MATCH_HEAD.pack(ofproto.OFPMT_OXM, length) + fields + bytes(-length % 8))


def _instructions(rule: Rule) -> list[WrittenInstruction]:
    if not rule.actions:
        return []
    actions = []
    for action in rule.actions:
        match action:
            case SetDscp(value):
                actions.append(parser.OFPActionSetField(ip_dscp=value))
            case Output(port):
                back = port == rule.match.in_port
                out = ofproto.OFPP_IN_PORT if back else port
                head = HEAD_BYTES if port == ofproto.OFPP_CONTROLLER else ofproto.OFPCML_MAX
                actions.append(parser.OFPActionOutput(out, head))
    written = bytearray()
    parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions).serialize(written, 0)
    return [WrittenInstruction(bytes(written))]
