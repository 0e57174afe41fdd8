"""UDP packets for measuring and marking, as Ethernet frames that the installed rules forward."""

import struct

from railweave.framework.model.addressing import ENTROPY_BASE, ROCE_PORT

HEADER_BYTES = 14 + 20 + 8
"""Ethernet, IPv4 and UDP."""


def udp_frame(
    src: int,
    dst: int,
    size_bytes: int,
    *,
    src_port: int = ENTROPY_BASE,
    dst_port: int = ROCE_PORT,
    dscp: int = 0,
    identification: int = 0,
    src_mac: bytes = bytes.fromhex("020000000002"),
    dst_mac: bytes = bytes.fromhex("020000000001"),
) -> bytes:
    """The frame of `size_bytes` (HEADER_BYTES or more, without FCS); the payload is zeros, the UDP checksum 0
    (none). IPv4 addresses are numbers, as in model.addressing; MACs are 6 bytes.

    The default MACs belong to no interface, so a host's kernel drops the frame before it looks inside; packet
    sockets receive it all the same.
    """
    ip_bytes = size_bytes - 14
    ip = struct.pack("!BBHHHBBHII", 0x45, dscp << 2, ip_bytes, identification, 0, 64, 17, 0,
                     src, dst)  # fmt: skip
    ip = ip[:10] + struct.pack("!H", internet_checksum(ip)) + ip[12:]
    udp = struct.pack("!HHHH", src_port, dst_port, ip_bytes - 20, 0)
    return dst_mac + src_mac + b"\x08\x00" + ip + udp + bytes(size_bytes - HEADER_BYTES)


def internet_checksum(header: bytes) -> int:
    """The checksum of a header of even length whose own field is 0. Source: RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - ((total & 0xFFFF) + (total >> 16))
