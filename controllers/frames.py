"""The frames of measuring trains. Only the rule that times them matches them."""

import struct

from railweave.framework.model.addressing import ROCE_PORT, TRAIN_SEEN, TRAIN_SINK
from railweave.framework.processes.udp_frame import HEADER_BYTES, udp_frame

SOURCE = 192 << 24 | 2 << 8 | 1
"""In TEST-NET-1 (RFC 5737), like the destination: GPUs are in 10/8, so no rule forwards a train."""
DSCP = 63
"""DSCP of trains, which no version tag and no rule uses."""
MAC_SOURCE = bytes.fromhex("02ffffffff01")
MAC_DESTINATION = bytes.fromhex("02ffffffff02")
FIRST, LAST = 1, 2
"""Which packet of its train a marked packet is."""
NUMBERS = 1 << 16
"""Numbers of trains that a header tells apart."""

_IDENTIFICATION = 14 + 4
"""Bytes before it in the frame; the destination follows after 10 bytes, and then the source port."""


def train_frame(size_bytes: int, number: int = 0, mark: int = 0) -> bytes:
    """One Ethernet frame of `size_bytes` (without its FCS): IPv4, UDP to 4791 with checksum 0 (none), zeros.

    Without a `mark` its source port is 4791 too: links serve it after everything else. With a `mark` (FIRST,
    LAST) its destination is TRAIN_SEEN, which switches send to their controller; it carries the train's
    `number` (below NUMBERS) as IPv4 identification and the mark as source port. `size_bytes` is at least
    HEADER_BYTES.
    """
    to = TRAIN_SEEN if mark else TRAIN_SINK
    return udp_frame(
        SOURCE,
        to,
        size_bytes,
        src_port=mark or ROCE_PORT,
        dscp=DSCP,
        identification=number,
        src_mac=MAC_SOURCE,
        dst_mac=MAC_DESTINATION,
    )


def marked(head: bytes) -> tuple[int, int] | None:
    """(number, mark) of a marked packet, given its headers; None for any other packet."""
    if len(head) < HEADER_BYTES:
        return None
    number, destination, mark = struct.unpack_from("!H10xIH", head, _IDENTIFICATION)
    return (number, mark) if destination == TRAIN_SEEN and mark in (FIRST, LAST) else None
