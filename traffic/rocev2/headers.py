"""The constant part of packet headers: parsed once when packets arrive, built once when they are sent."""

import struct
from dataclasses import dataclass

from railweave.framework.model.addressing import ROCE_PORT
from railweave.traffic.packets import PSN_AT, Addresses, Opcode, header, header_crc, padding, templates

KEY_AT = 12
"""Bytes KEY_AT..PSN_AT of a frame (EtherType to destination QP) are the same in many packets: they are parsed
once, and the result is cached under the bytes themselves."""
_FIELDS = struct.Struct("!HBBHHHxB2x8x2xHH2xBBHxBH")
MARKED = 1 << 24
"""In the kind of a packet, above repetition and opcode: a switch marked it, because packets waited there."""
_CE = 0b11
"""Congestion experienced: both bits of the ECN field (RFC 3168, section 5)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the constant part of a header says. Offsets count from the start of the frame.

    `repetition` is 0 in a first transmission; `marked`: by a switch where packets wait; `crc` is the ICRC so
    far; `body_at`..`body_end` the payload without padding; `icrc_at` its ICRC.
    """

    opcode: int
    repetition: int
    marked: bool
    qp: int
    crc: int
    body_at: int
    body_end: int
    icrc_at: int


def read_shape(key: bytes) -> Shape | None:
    """The shape that 38 header bytes describe, or None if they are not a RoCEv2 packet of a known kind.

    The bytes are not trusted yet: the ICRC covers them, and is checked for every packet.
    """
    ethertype, version, service, length, repetition, fragment, protocol, *transport = _FIELDS.unpack(key)
    port, udp_length, opcode, flags, pkey, qp_high, qp_low = transport
    if (
        (ethertype, version, protocol, port, pkey) != (0x0800, 0x45, 17, ROCE_PORT, 0xFFFF)
        or fragment & 0x3FFF  # more fragments follow, or this is a later one
        or udp_length != length - 20
        or opcode not in templates()
        or flags & 0x0F
    ):
        return None
    body_at = len(templates()[opcode])
    icrc_at = KEY_AT + 2 + length - 4
    body_end = icrc_at - (flags >> 4 & 3)
    if body_end < body_at:
        return None
    marked, qp = service & _CE == _CE, qp_high << 16 | qp_low
    return Shape(opcode, repetition, marked, qp, header_crc(key), body_at, body_end, icrc_at)


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """What all packets of one kind on one path have in common: `first`, the 50 bytes before the PSN word, and
    `crc`, the ICRC so far. From there on each has `own_bytes` of its own before its payload of
    `payload_bytes`, and `pad_bytes` behind it."""

    first: bytes
    crc: int
    own_bytes: int
    payload_bytes: int
    pad_bytes: int


class Heads(dict[int, Head]):
    """Heads of one direction of a pair on one entropy, built at their first use.

    Key: repetition << 24 | opcode << 16 | bytes after BTH and RETH or AETH, which acknowledgements count
    among their own.
    """

    def __init__(self, to: Addresses, udp_src: int) -> None:
        super().__init__()
        self._to = to
        self._udp_src = udp_src

    def __missing__(self, key: int) -> Head:
        repetition, opcode, size = key >> 24, key >> 16 & 0xFF, key & 0xFFFF
        first = header(opcode, self._to, self._udp_src, size, repetition)
        varying = len(templates()[opcode]) - PSN_AT
        if opcode == Opcode.ACKNOWLEDGE:
            varying, size = varying + size, 0
        entry = Head(first, header_crc(first[KEY_AT:PSN_AT]), varying, size, padding(size))
        if repetition == 0:  # any other number is used once in 65535 retransmissions
            self[key] = entry
        return entry
