"""The invariant CRC (ICRC) of RoCEv2: a CRC-32 over the fields that no switch changes.

Source: InfiniBand Annex A17 (RoCEv2), section A17.3.3: the Ethernet CRC-32 over 8 bytes of ones, then the
packet from the IP header on with TOS, TTL, IP checksum, UDP checksum and the BTH byte that holds FECN and
BECN set to ones; sent with the least significant byte first.
"""

import zlib
from collections.abc import Callable

from isal import isal_zlib

Crc = Callable[[bytes | bytearray | memoryview, int], int]


def _fastest() -> Crc:
    """isal's CRC-32 where it agrees with zlib's on this machine, else zlib's."""
    probe = bytes(range(256)) * 5
    for cut in (0, 1, 7, 64, 1280):
        if isal_zlib.crc32(probe[cut:], cut) != zlib.crc32(probe[cut:], cut):
            return zlib.crc32
    fast: Crc = isal_zlib.crc32
    return fast


icrc: Crc = _fastest()
"""icrc(data, start): continues from `start`, the CRC of the bytes before."""

_MASK = bytearray(38)
for _at in (2 + 1, 2 + 8, 2 + 10, 2 + 11, 22 + 6, 22 + 7, 30 + 4):  # TOS, TTL, checksums, FECN and BECN
    _MASK[_at] = 0xFF
_MASK_NUMBER = int.from_bytes(_MASK, "big")


def header_crc(ethertype_to_qp: bytes) -> int:
    """CRC of the masked bytes from the IP header to the destination QP.

    Takes bytes 12..49 of the frame (EtherType, IPv4 without options, UDP, two words of BTH); continue with
    `icrc` from the PSN word on.
    """
    masked = (int.from_bytes(ethertype_to_qp, "big") | _MASK_NUMBER).to_bytes(38, "big")
    return icrc(b"\xff" * 8 + masked[2:], 0)
