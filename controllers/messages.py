"""OpenFlow 1.3 messages from rules. Pure: the same rule gives the same bytes.

The library encodes every field and every instruction, but each distinct one only once: most of a flow-mod's
cost in Python is the checking and packing of its match, and rules have most of their fields in common.
"""

import functools
import struct
from collections.abc import Iterable
from typing import Any

from railweave.controllers.library import ofproto, parser
from railweave.framework.model import Action, Match, Rule, SetDscp
from railweave.framework.model.addressing import ipv4_text

ETH_TYPE_IPV4 = 0x0800
IP_PROTO_UDP = 17
"""IEEE 802 and IANA."""
WHOLE_COOKIE = (1 << 64) - 1
"""Mask of a cookie, all of it."""
HEAD_BYTES = 64
"""Bytes of a packet that a rule sends to the controller: its headers."""
ONF = 0x4F4E4600
BUNDLE_CONTROL, BUNDLE_ADD = 2300, 2301
OPEN_REQUEST, COMMIT_REQUEST = 0, 4
ATOMIC_ORDERED = 1 | 2
"""Experimenter messages of bundles for OpenFlow 1.3 (ONF extension 230): experimenter, types, orders,
flags."""

_BUNDLE_CONTROL = struct.Struct("!IHH")
_BUNDLE_ADD = struct.Struct("!I2xH")
BUNDLED_AT = ofproto.OFP_EXPERIMENTER_HEADER_SIZE + _BUNDLE_ADD.size
"""Bytes of a bundle-add message before the change in it."""
_MATCH_HEAD = struct.Struct("!HH")


class EncodedMatch(parser.OFPMatch):  # type: ignore[misc]
    """A match whose bytes are known."""

    def __init__(self, fields: bytes) -> None:
        length = _MATCH_HEAD.size + len(fields)
        self.data = _MATCH_HEAD.pack(ofproto.OFPMT_OXM, length) + fields + bytes(-length % 8)

    def serialize(self, buf: bytearray, offset: int) -> int:
        buf[offset:] = self.data
        return len(self.data)


class EncodedInstruction(parser.OFPInstruction):  # type: ignore[misc]
    """An instruction whose bytes are known."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.len = len(data)

    def serialize(self, buf: bytearray, offset: int) -> None:
        buf[offset:] = self.data


EVERYTHING = EncodedMatch(b"")


def flow_mod(datapath: Any, rule: Rule) -> Any:
    """OFPFlowMod that adds the rule, or replaces the rule of the same match and priority."""
    return parser.OFPFlowMod(
        datapath,
        cookie=rule.cookie,
        priority=rule.priority,
        match=_match(rule.match),
        instructions=_instructions(rule.actions, rule.match.in_port),
    )


def removal(datapath: Any, cookie: int) -> Any:
    """OFPFlowMod that deletes every flow with exactly this cookie, in any table."""
    return parser.OFPFlowMod(
        datapath,
        cookie=cookie,
        cookie_mask=WHOLE_COOKIE,
        table_id=ofproto.OFPTT_ALL,
        command=ofproto.OFPFC_DELETE,
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
        match=EVERYTHING,
    )


def bundle(datapath: Any, number: int, changes: Iterable[Any]) -> Iterable[Any]:
    """The changes as one transaction: the switch applies them in order and at one instant, or refuses them
    all.

    A bundle also installs many times faster than single messages. Only Ryu and os-ken have classes for its
    messages, so they are written as experimenter messages here. Source: ONF extension 230, sections 5 and 6.
    """
    experimenter = functools.partial(parser.OFPExperimenter, datapath, ONF)
    yield experimenter(BUNDLE_CONTROL, _BUNDLE_CONTROL.pack(number, OPEN_REQUEST, ATOMIC_ORDERED))
    head = _BUNDLE_ADD.pack(number, ATOMIC_ORDERED)
    for change in changes:
        xid = datapath.set_xid(change)  # the change and the message that holds it must have the same
        change.serialize()
        add = experimenter(BUNDLE_ADD, head + change.buf)
        add.xid = xid
        yield add
    yield experimenter(BUNDLE_CONTROL, _BUNDLE_CONTROL.pack(number, COMMIT_REQUEST, ATOMIC_ORDERED))


@functools.cache
def _match(match: Match) -> EncodedMatch:
    """IPv4 and the fields of `match`, in the order of field numbers (prerequisites first)."""
    fields = (
        ("in_port", match.in_port),
        ("eth_type", ETH_TYPE_IPV4),
        ("ip_dscp", match.ip_dscp),
        ("ip_proto", None if match.udp_src is None else IP_PROTO_UDP),
        ("ipv4_src", match.ipv4_src),
        ("ipv4_dst", match.ipv4_dst),
        ("udp_src", match.udp_src),
    )
    return EncodedMatch(b"".join(_field(name, value) for name, value in fields if value is not None))


@functools.cache
def _field(name: str, value: int | tuple[int, int]) -> bytes:
    user_value: Any = value
    if isinstance(value, tuple):  # a switch refuses bits of a value outside its mask
        user_value = (ipv4_text(value[0] & value[1]), ipv4_text(value[1]))
    encoded = bytearray()
    ofproto.oxm_serialize(*ofproto.oxm_from_user(name, user_value), encoded, 0)
    return bytes(encoded)


@functools.cache
def _instructions(actions: tuple[Action, ...], in_port: int | None) -> list[EncodedInstruction]:
    """Apply-actions, or nothing, which drops.

    An output to the ingress port becomes IN_PORT; a switch would not send the packet back otherwise.
    """
    if not actions:
        return []
    applied = [
        parser.OFPActionSetField(ip_dscp=action.value)
        if isinstance(action, SetDscp)
        else parser.OFPActionOutput(
            ofproto.OFPP_IN_PORT if action.port == in_port else action.port,
            HEAD_BYTES if action.port == ofproto.OFPP_CONTROLLER else ofproto.OFPCML_MAX,
        )
        for action in actions
    ]
    encoded = bytearray()
    parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, applied).serialize(encoded, 0)
    return [EncodedInstruction(bytes(encoded))]
