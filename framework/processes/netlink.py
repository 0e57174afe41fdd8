"""Netlink messages and their attributes. Source of the formats: linux/netlink.h."""

import struct
from collections.abc import Iterator

HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
ERROR, DONE = 2, 3
"""Types of messages: a refusal, whose body begins with minus its errno, and the end of a dump."""
_DUMP_REQUEST = 0x301
_TYPE = 0x3FFF  # without the flags of an attribute's type


def dump_request(kind: int, body: bytes, sequence: int = 0) -> bytes:
    """A message that asks for all there is of a kind."""
    return HEADER.pack(HEADER.size + len(body), kind, _DUMP_REQUEST, sequence, 0) + body


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


def text_attribute(kind: int, text: str) -> bytes:
    """A string, with the zero that ends it."""
    value = text.encode() + b"\0"
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)
