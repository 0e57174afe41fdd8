"""Netlink messages and their attributes. Source of the formats: linux/netlink.h, linux/rtnetlink.h."""

import struct
import sys
from collections.abc import Iterator

HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
ERROR, DONE = 2, 3
"""Types of messages: a refusal, whose body begins with minus its errno, and the end of a dump."""
NETLINK_ROUTE = 0
RTM_NEWQDISC, RTM_GETQDISC = 36, 38
"""linux/netlink.h, linux/rtnetlink.h."""
TCMSG = struct.Struct("=BxxxiIII")
"""The body of a message about a queue, before its attributes: family, interface, handle, parent, info."""
_DUMP_REQUEST, _PUT_REQUEST = 0x301, 0x505
"""NLM_F_REQUEST with NLM_F_DUMP; with NLM_F_ACK, NLM_F_CREATE and NLM_F_REPLACE (linux/netlink.h)."""
_TYPE = 0x3FFF  # without the flags of an attribute's type
"""NLA_TYPE_MASK: without the bits for nested and byte order."""


def dump_request(kind: int, body: bytes, sequence: int = 0) -> bytes:
    """A message that asks for all there is of a kind."""
    return HEADER.pack(HEADER.size + len(body), kind, _DUMP_REQUEST, sequence, 0) + body


def put_request(kind: int, body: bytes) -> bytes:
    """A message that makes something, or changes it where it is there; the kernel answers with an ERROR, of
    errno 0 where it has done so."""
    return HEADER.pack(HEADER.size + len(body), kind, _PUT_REQUEST, 0, 0) + body


def messages(data: bytes) -> Iterator[tuple[int, slice]]:
    """The type of each message, and where its body is."""
    at = 0
    while at < len(data):
        length, kind, *_ = HEADER.unpack_from(data, at)
        yield kind, slice(at + HEADER.size, at + length)
        at += (length + 3) & ~3


def attributes(data: bytes, within: slice) -> Iterator[tuple[int, slice]]:
    """The type of each attribute there, and where its value is."""
    at = within.start
    while at < within.stop:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        yield kind & _TYPE, slice(at + _ATTRIBUTE.size, at + length)
        at += (length + 3) & ~3


def refusal(data: bytes) -> int:
    """The errno with which the kernel refused something; 0 where it did not."""
    for kind, body in messages(data):
        if kind == ERROR:
            return -int.from_bytes(data[body][:4], sys.byteorder, signed=True)
    return 0


def text_attribute(kind: int, text: str) -> bytes:
    """A string, with the zero that ends it."""
    return attribute(kind, text.encode() + b"\0")


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute, filled up to whole words."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)
