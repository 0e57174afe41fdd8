"""RoCEv2 packets: scapy builds one template per kind; addresses and numbers are patched into copies of its
bytes.

Layout (RoCEv2 annex A17, InfiniBand volume 1 chapter 9): Ethernet 14, IPv4 20, UDP 8, BTH 12, then RETH 16 in
the first packet of a write, or AETH 4 in an acknowledgement; payload, padding to 4 bytes, ICRC 4.

The invariant CRC (ICRC) is a CRC-32 over the fields that no switch changes. Source: annex A17, section
A17.3.3: the Ethernet CRC-32 over 8 bytes of ones, then the packet from the IP header on with TOS, TTL, IP
checksum, UDP checksum and the BTH byte that holds FECN and BECN set to ones; sent with the least significant
byte first.
"""

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache
from socket import inet_aton
from types import MappingProxyType

from isal import isal_zlib
from scapy.contrib.roce import AETH, BTH, CNPPadding
from scapy.fields import IntField, XIntField, XLongField
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, bind_layers
from scapy.utils import checksum

from railweave.framework.model.addressing import ROCE_PORT

PSN_AT = 50
"""Offset of the last word of the BTH: AckReq, 7 reserved bits, 24 bits of PSN."""
ACK_REQUEST = 1 << 31
PSN_MASK = 0xFFFFFF
"""Bits of the last word of the BTH."""
AETH_ACK = 0x1F << 24
"""Syndrome of a positive acknowledgement without credit count; the low 24 bits carry the MSN."""
_IP_AT, _UDP_AT, _BTH_AT = 14, 34, 42
"""Offsets of the headers of IPv4 and UDP, and of the BTH, in a frame."""

Crc = Callable[[bytes | bytearray | memoryview, int], int]
icrc: Crc = isal_zlib.crc32
"""icrc(data, start): continues from `start`, the CRC of the bytes before. As zlib's, many times faster."""

_VARIABLE = (2 + 1, 2 + 8, 2 + 10, 2 + 11, 22 + 6, 22 + 7, 30 + 4)  # TOS, TTL, checksums, FECN and BECN
"""Bytes that routers may change, behind the EtherType, which the ICRC takes as ones (InfiniBand, annex
A17)."""
_MASK = int.from_bytes(bytes(0xFF * (at in _VARIABLE) for at in range(38)), "big")


def header_crc(ethertype_to_qp: bytes) -> int:
    """CRC of the masked bytes from the IP header to the destination QP.

    Takes bytes 12..49 of the frame (EtherType, IPv4 without options, UDP, two words of BTH); continue with
    `icrc` from the PSN word on.
    """
    masked = (int.from_bytes(ethertype_to_qp, "big") | _MASK).to_bytes(38, "big")
    return icrc(b"\xff" * 8 + masked[2:], 0)


class Opcode(IntEnum):
    """BTH opcodes of the reliable connection service that the transport uses."""

    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST = 0x08
    WRITE_ONLY = 0x0A
    ACKNOWLEDGE = 0x11
    NOTIFICATION = 0x81
    """A congestion notification packet, CNP (annex A17, section A17.9): BECN set, 16 reserved bytes."""


WITH_RETH = (Opcode.WRITE_FIRST, Opcode.WRITE_ONLY)


class RETH(Packet):  # type: ignore[misc]  # scapy has no types
    """RDMA extended transport header; scapy has none."""

    name = "RETH"
    fields_desc = [XLongField("va", 0), XIntField("rkey", 0), IntField("dlen", 0)]  # noqa: RUF012 - scapy


for _opcode in WITH_RETH:
    bind_layers(BTH, RETH, opcode=int(_opcode))


@cache
def templates() -> Mapping[int, bytes]:
    """One packet of every kind without payload and ICRC, as scapy builds it; addresses and numbers are 0."""
    templates_by_opcode = {}
    for opcode in Opcode:
        packet = (
            Ether(src="00:00:00:00:00:00", dst="00:00:00:00:00:00", type=0x0800)
            / IP(src="0.0.0.0", dst="0.0.0.0", ttl=64, tos=0x02, flags="DF", id=0)
            / UDP(sport=0, dport=ROCE_PORT, chksum=0)
            / BTH(opcode=int(opcode), becn=opcode is Opcode.NOTIFICATION, pkey=0xFFFF, icrc=0)
        )
        extension = RETH() if opcode in WITH_RETH else AETH() if opcode is Opcode.ACKNOWLEDGE else b""
        if opcode is Opcode.NOTIFICATION:
            extension = CNPPadding()
        templates_by_opcode[int(opcode)] = bytes(packet / extension)[:-4]
    return MappingProxyType(templates_by_opcode)


class Addresses:
    """The addresses of one direction of a pair: Ethernet and IPv4 as bytes, and the destination's QP
    number."""

    def __init__(self, src_mac: str, dst_mac: str, src_ip: str, dst_ip: str, qp: int) -> None:
        self.ethernet = bytes.fromhex((dst_mac + src_mac).replace(":", ""))
        self.ip = inet_aton(src_ip) + inet_aton(dst_ip)
        self.qp = qp


def padding(payload_bytes: int) -> int:
    """Zero bytes that fill the payload up to a multiple of 4 (BTH PadCnt)."""
    return -payload_bytes % 4


def header(opcode: int, to: Addresses, udp_src: int, payload_bytes: int, repetition: int = 0) -> bytes:
    """The first 50 bytes, everything before the PSN word, of a packet that carries `payload_bytes` after BTH
    and RETH or AETH. `repetition` numbers retransmissions (1..65535; 0 is a first transmission) and is the IP
    identification."""
    template = templates()[opcode]
    head = bytearray(template[:PSN_AT])
    pad = padding(payload_bytes)
    ip_bytes = len(template) - _IP_AT + payload_bytes + pad + 4
    head[0:12] = to.ethernet
    struct.pack_into("!HH", head, _IP_AT + 2, ip_bytes, repetition)
    struct.pack_into("!H8s", head, _IP_AT + 10, 0, to.ip)
    struct.pack_into("!H", head, _IP_AT + 10, checksum(bytes(head[_IP_AT:_UDP_AT])))
    struct.pack_into("!HHH", head, _UDP_AT, udp_src, ROCE_PORT, ip_bytes - 20)
    head[_BTH_AT + 1] |= pad << 4
    struct.pack_into("!I", head, _BTH_AT + 4, head[_BTH_AT + 4] << 24 | to.qp)
    return bytes(head)


def reth(virtual_address: int, remote_key: int, length: int) -> bytes:
    return struct.pack("!QII", virtual_address, remote_key, length)


def packet(head: bytes, psn_word: int, body: bytes) -> bytes:
    """A whole packet, for tests and benchmarks; `body` is RETH or AETH and the payload, unpadded."""
    tail = struct.pack("!I", psn_word) + body + bytes(padding(len(body)))
    return head + tail + struct.pack("<I", icrc(tail, header_crc(head[12:PSN_AT])))
