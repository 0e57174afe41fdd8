"""Reading the constant part of an arriving packet's headers, and writing that of a departing one."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from railweave.framework.addressing import ROCE_PORT
from railweave.traffic.icrc import header_crc
from railweave.traffic.packets import BODY_AT, PSN_AT, WITH_RETH, Addresses, Opcode, header

KEY_AT = 12
"""Bytes KEY_AT..PSN_AT of a frame (EtherType to destination QP) are the same in many packets: they are read
once, and the result is kept under the bytes themselves."""
_FIELDS = struct.Struct("!HBxHHHxB2x8x2xHH2xBBHxBH")
_MORE_OR_OFFSET = 0x3FFF
_RETH_BYTES, _AETH_BYTES = 16, 4
_OPCODES = frozenset(int(opcode) for opcode in Opcode)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the constant part of a header says. Offsets count from the start of the frame.

    `repetition` is 0 in what is sent for the first time; `crc` is the ICRC so far; `body_at`..`body_end` the payload without padding; `icrc_at` its ICRC.
    """

    opcode: int
    repetition: int
    qp: int
    crc: int
    body_at: int
    body_end: int
    icrc_at: int


def read_shape(key: bytes) -> Shape | None:
    """The shape behind 38 header bytes, or None if they are not a RoCEv2 packet of a kind that we know.

    The bytes are not yet trusted: the ICRC covers them, and is checked packet by packet.
    """
    (
        ethertype,
        version,
        length,
        repetition,
        fragment,
        protocol,
        port,
        udp_length,
        opcode,
        flags,
        pkey,
        high,
        low,
    ) = _FIELDS.unpack(key)
    if ethertype != 0x0800 or version != 0x45 or protocol != 17 or port != ROCE_PORT:
        return None
    if fragment & _MORE_OR_OFFSET or udp_length != length - 20:
        return None
    if opcode not in _OPCODES or flags & 0x0F or pkey != 0xFFFF:
        return None
    extension = _RETH_BYTES if opcode in WITH_RETH else _AETH_BYTES if opcode == Opcode.ACKNOWLEDGE else 0
    body_at = BODY_AT + extension
    icrc_at = KEY_AT + 2 + length - 4
    body_end = icrc_at - (flags >> 4 & 3)
    if body_end < body_at:
        return None
    return Shape(opcode, repetition, high << 16 | low, header_crc(key), body_at, body_end, icrc_at)


class Heads(dict[int, tuple[bytes, int]]):
    """Ready headers of one direction of a pair on one entropy, made when first asked for.

    Key: repetition << 24 | opcode << 16 | payload bytes. Value: the first 50 bytes, and the ICRC so far.
    """

    def __init__(self, to: Addresses, udp_src: int) -> None:
        super().__init__()
        self._to = to
        self._udp_src = udp_src

    def __missing__(self, key: int) -> tuple[bytes, int]:
        repetition = key >> 24
        head = header(key >> 16 & 0xFF, self._to, self._udp_src, key & 0xFFFF, repetition)
        made = (head, header_crc(head[KEY_AT:PSN_AT]))
        if repetition == 0:  # each other number is used once in a long while
            self[key] = made
        return made
