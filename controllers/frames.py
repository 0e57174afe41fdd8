"""The frame of a measuring train: real enough for a shaped link, known to no rule."""

from __future__ import annotations

import struct

from railweave.framework.addressing import ROCE_PORT

SOURCE = bytes((192, 0, 2, 1))
DESTINATION = bytes((192, 0, 2, 2))
"""TEST-NET-1 (RFC 5737): outside 10/8, where every GPU is, so no rule with a destination takes a train further."""
DSCP = 63
"""No version tag and no rule uses it."""
MAC_SOURCE = bytes.fromhex("02ffffffff01")
MAC_DESTINATION = bytes.fromhex("02ffffffff02")
HEADER_BYTES = 14 + 20 + 8


def train_frame(size_bytes: int) -> bytes:
    """One Ethernet frame of `size_bytes` (without its FCS): IPv4, UDP to 4791 with checksum 0 (none), zeros.

    `size_bytes` is at least HEADER_BYTES.
    """
    ip_bytes = size_bytes - 14
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, DSCP << 2, ip_bytes, 0, 0, 64, 17, 0, SOURCE, DESTINATION)
    ip = ip[:10] + struct.pack("!H", _checksum(ip)) + ip[12:]
    udp = struct.pack("!HHHH", ROCE_PORT, ROCE_PORT, ip_bytes - 20, 0)
    frame = MAC_DESTINATION + MAC_SOURCE + b"\x08\x00" + ip + udp
    return frame + bytes(size_bytes - len(frame))


def _checksum(header: bytes) -> int:
    """The Internet checksum of a header whose own field is 0. Source: RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - ((total & 0xFFFF) + (total >> 16))
