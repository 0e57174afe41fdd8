"""The frames of measuring trains: real enough for a shaped link, known to no rule but the one that times them."""

from __future__ import annotations

import struct

from railweave.framework.addressing import ROCE_PORT, TRAIN_SEEN, TRAIN_SINK

SOURCE = bytes((192, 0, 2, 1))
"""TEST-NET-1 (RFC 5737), as where trains go to: outside 10/8, where every GPU is, so no rule takes them further."""
DSCP = 63
"""No version tag and no rule uses it."""
MAC_SOURCE = bytes.fromhex("02ffffffff01")
MAC_DESTINATION = bytes.fromhex("02ffffffff02")
HEADER_BYTES = 14 + 20 + 8
FIRST, LAST = 1, 2
"""What a marked packet is of its train."""
NUMBERS = 1 << 16

_IDENTIFICATION, _DESTINATION = 14 + 4, 14 + 16


def train_frame(size_bytes: int, number: int = 0, mark: int = 0) -> bytes:
    """One Ethernet frame of `size_bytes` (without its FCS): IPv4, UDP to 4791 with checksum 0 (none), zeros.

    With a `mark` (FIRST, LAST) it is addressed to whom switches hand to their controller, and carries the train's
    `number` (below NUMBERS) as IPv4 identification and the mark as source port. `size_bytes` is at least
    HEADER_BYTES.
    """
    ip_bytes = size_bytes - 14
    to = (TRAIN_SEEN if mark else TRAIN_SINK).to_bytes(4, "big")
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, DSCP << 2, ip_bytes, number, 0, 64, 17, 0, SOURCE, to)
    ip = ip[:10] + struct.pack("!H", _checksum(ip)) + ip[12:]
    udp = struct.pack("!HHHH", mark or ROCE_PORT, ROCE_PORT, ip_bytes - 20, 0)
    frame = MAC_DESTINATION + MAC_SOURCE + b"\x08\x00" + ip + udp
    return frame + bytes(size_bytes - len(frame))


def marked(head: bytes) -> tuple[int, int] | None:
    """(number, mark) of a marked packet, given its headers; None for any other packet."""
    if len(head) < HEADER_BYTES:
        return None
    (number,) = struct.unpack_from("!H", head, _IDENTIFICATION)
    destination, mark = struct.unpack_from("!4sH", head, _DESTINATION)
    if int.from_bytes(destination, "big") != TRAIN_SEEN or mark not in (FIRST, LAST):
        return None
    return number, mark


def _checksum(header: bytes) -> int:
    """The Internet checksum of a header whose own field is 0. Source: RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - ((total & 0xFFFF) + (total >> 16))
