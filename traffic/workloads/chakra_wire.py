"""Reads protobuf's wire format: varints, and the fields of a message.

A trace needs no more of protobuf than this, and every error in a file is reported with its position; the
protobuf package would be a dependency with compiled parts and generated code, and reports only that parsing
failed. Source: protobuf.dev, "Encoding".
"""

from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types of Protocol Buffers."""
WIDTHS = {FIXED64: 8, FIXED32: 4}
MOST_VARINT_BYTES = 10
"""Bytes of a 64-bit number, 7 bits each."""
ALL_BITS = (1 << 64) - 1
"""64 bits: a longer varint is cut, as by protobuf."""


class WireError(ValueError):
    """Bytes that are not protobuf; `at` is their position in the file."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at


class Field(NamedTuple):
    """One field of a message. `value`: the number of a varint or of fixed width, without sign; 0 for bytes,
    which are data[start:end]."""

    number: int
    wire: int
    value: int
    start: int
    end: int


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The unsigned 64-bit number at `at`, and the position after it."""
    value = shift = 0
    for here in range(at, min(at + MOST_VARINT_BYTES, end)):
        byte = data[here]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ALL_BITS, here + 1
        shift += 7
    if end - at < MOST_VARINT_BYTES:
        raise WireError(at, "it ends within a number")
    raise WireError(at, "a number is longer than 10 bytes")


def varints(data: bytes, at: int, end: int) -> Iterator[int]:
    """The numbers of a packed repeated field."""
    while at < end:
        value, at = varint(data, at, end)
        yield value


def fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """The fields of the message data[at:end] in order, unknown ones included."""
    while at < end:
        began = at
        tag, at = varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise WireError(began, "a field has the number 0")
        value = length = 0
        if wire == VARINT:
            value, at = varint(data, at, end)
        elif wire == BYTES:
            length, at = varint(data, at, end)
        elif wire in WIDTHS:
            length = WIDTHS[wire]
        else:
            raise WireError(began, f"a field is of wire type {wire}")
        if length > end - at:
            raise WireError(began, f"a field of {length} bytes reaches beyond the end of its message")
        if wire in WIDTHS:
            value = int.from_bytes(data[at : at + length], "little")
        yield Field(number, wire, value, at, at + length)
        at += length


def signed(value: int) -> int:
    """Two's complement in 64 bits, as also int32 has it in a varint."""
    return value - (1 << 64) if value >> 63 else value


def signed32(value: int) -> int:
    """Two's complement in 32 bits."""
    return value - (1 << 32) if value >> 31 else value


def zigzag(value: int) -> int:
    """A varint as sint32 or sint64."""
    return value >> 1 ^ -(value & 1)
