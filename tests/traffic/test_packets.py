"""Our bytes against scapy's own building, against tshark, and against a packet that real hardware sent."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import RawPcapWriter

from railweave.framework.model import PacketFormat
from railweave.traffic.packets import (
    ACK_REQUEST,
    AETH_ACK,
    RETH,
    WITH_RETH,
    Addresses,
    Opcode,
    header,
    header_crc,
    icrc,
    packet,
    reth,
)
from railweave.traffic.rocev2.headers import KEY_AT, Heads, read_shape

PAIR = Addresses("02:00:00:00:00:01", "02:00:00:00:01:02", "10.0.1.1", "10.3.2.1", 0x1A2B)


def built(
    opcode: Opcode, payload: bytes, psn_word: int = 7, udp_src: int = 0xC003, repetition: int = 0
) -> bytes:
    extension = b""
    if opcode in WITH_RETH:
        extension = reth(0x1122334455667788, 2, len(payload))
    elif opcode is Opcode.ACKNOWLEDGE:
        extension = struct.pack("!I", AETH_ACK | 5)
    elif opcode is Opcode.NOTIFICATION:
        extension, payload = bytes(16), b""
    return packet(header(opcode, PAIR, udp_src, len(payload), repetition), psn_word, extension + payload)


def by_scapy(frame: bytes) -> bytes:
    """The same packet built anew by scapy, which computes lengths, checksum and ICRC itself."""
    decoded = Ether(frame).copy()
    decoded[BTH].icrc = None
    del decoded[IP].len, decoded[IP].chksum, decoded[UDP].len
    return bytes(decoded)


packets = st.builds(
    built,
    opcode=st.sampled_from(list(Opcode)),
    payload=st.binary(max_size=300),
    psn_word=st.integers(0, 0xFFFFFF).flatmap(lambda psn: st.sampled_from([psn, psn | ACK_REQUEST])),
    udp_src=st.integers(0xC000, 0xFFFF),
    repetition=st.integers(0, 0xFFFF),
)


@given(frame=packets)
def test_scapy_builds_the_same_bytes(frame: bytes) -> None:
    assert by_scapy(frame) == frame


def test_scapy_reads_every_field() -> None:
    first = Ether(built(Opcode.WRITE_FIRST, b"x" * 256, ACK_REQUEST | 0xABCDEF))
    assert (first.src, first.dst) == ("02:00:00:00:00:01", "02:00:00:00:01:02")
    assert (first[IP].src, first[IP].dst, first[IP].tos, first[IP].ttl) == ("10.0.1.1", "10.3.2.1", 2, 64)
    assert (first[UDP].sport, first[UDP].dport, first[UDP].chksum) == (0xC003, 4791, 0)
    bth = first[BTH]
    assert (bth.opcode, bth.dqpn, bth.psn, bth.ackreq, bth.pkey) == (6, 0x1A2B, 0xABCDEF, 1, 0xFFFF)
    assert (first[RETH].va, first[RETH].rkey, first[RETH].dlen) == (0x1122334455667788, 2, 256)
    assert bytes(first[Raw]) == b"x" * 256
    ack = Ether(built(Opcode.ACKNOWLEDGE, b"\0\0\0\0", 9))
    assert (ack[AETH].syndrome, ack[AETH].msn, ack[BTH].psn) == (0x1F, 5, 9)
    assert Ether(built(Opcode.WRITE_LAST, b"abcde"))[BTH].padcount == 3


def test_wire_bytes_are_those_that_packet_format_counts() -> None:
    for size in (0, 1, 4095, 4096, 4097, 10000):
        sent, index = 0, 0
        n = max(1, -(-size // 4096))
        for index in range(n):
            only, first, last = n == 1, index == 0, index == n - 1
            opcode = (
                Opcode.WRITE_ONLY if only else Opcode.WRITE_FIRST if first else Opcode.WRITE_LAST if last
                else Opcode.WRITE_MIDDLE
            )  # fmt: skip
            sent += len(built(opcode, bytes(min(4096, size - index * 4096))))
        assert sent == PacketFormat(4096).wire_bytes(size)


def test_icrc_of_a_packet_that_real_hardware_sent() -> None:
    """A congestion notification captured on a ConnectX-4 Lx, from scapy's own RoCE tests: its ICRC is
    82 fd 00 2a on the wire; it has TOS and BECN set, which the ICRC must mask."""
    ip = struct.pack("!BBHHHBBH", 0x45, 0xC2, 60, 0x718C, 0x4000, 64, 17, 0x9161)
    ip += bytes([10, 0, 17, 1, 10, 0, 18, 1])
    udp = struct.pack("!HHHH", 0, 4791, 40, 0)
    bth = struct.pack("!BBHBBHI", 0x81, 0, 0xFFFF, 0x40, 0, 0x0118, 0)
    rest = bth[8:] + bytes(16)
    found = icrc(rest, header_crc(struct.pack("!H", 0x0800) + ip + udp + bth[:8]))
    assert struct.pack("<I", found) == bytes.fromhex("82fd002a")


@given(data=st.binary(max_size=500), start=st.integers(0, 2**32 - 1))
def test_icrc_is_zlibs_crc32(data: bytes, start: int) -> None:
    assert icrc(data, start) == zlib.crc32(data, start)


@given(frame=packets, tos=st.integers(0, 255), ttl=st.integers(0, 255), marks=st.integers(0, 255))
def test_what_switches_may_rewrite_leaves_the_icrc(frame: bytes, tos: int, ttl: int, marks: int) -> None:
    changed = bytearray(frame)
    changed[15], changed[22], changed[46] = tos, ttl, marks
    changed[24:26] = b"\xaa\x55"  # IP checksum
    changed[40:42] = b"\x12\x34"  # UDP checksum
    assert header_crc(bytes(changed[12:50])) == header_crc(frame[12:50])
    shape = read_shape(bytes(changed[KEY_AT:50]))
    assert shape is not None
    carried = struct.unpack_from("<I", changed, shape.icrc_at)[0]
    assert icrc(bytes(changed[50 : shape.icrc_at]), shape.crc) == carried


@given(frame=packets)
def test_shapes_agree_with_scapy(frame: bytes) -> None:
    shape, decoded = read_shape(frame[KEY_AT:50]), Ether(frame)
    assert shape is not None
    assert (shape.opcode, shape.qp, shape.repetition) == (
        decoded[BTH].opcode,
        decoded[BTH].dqpn,
        decoded[IP].id,
    )
    assert shape.icrc_at == len(frame) - 4
    payload = bytes(decoded[Raw]) if Raw in decoded else b""
    kept = len(payload) - decoded[BTH].padcount
    assert frame[shape.body_at : shape.body_end] == payload[:kept]


def test_heads_are_the_headers_that_packets_are_made_of() -> None:
    heads = Heads(PAIR, 0xC003)
    frame = built(Opcode.WRITE_LAST, b"abcdef")
    head = heads[int(Opcode.WRITE_LAST) << 16 | 6]
    assert frame.startswith(head.first)
    assert len(head.first) == 50
    assert icrc(frame[50:-4], head.crc) == struct.unpack("<I", frame[-4:])[0]
    assert (head.own_bytes, head.payload_bytes, head.pad_bytes) == (4, 6, 2)
    repeated = heads[9 << 24 | int(Opcode.WRITE_LAST) << 16 | 6]
    assert struct.unpack_from("!H", repeated.first, 18) == (9,)


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 0x86), (2, 0x46), (9, 0x20), (11, 6), (25, 0), (27, 0), (30, 0x04), (31, 0x01), (32, 0x12)],
    ids=["ethertype", "options", "fragment", "tcp", "port", "length", "opcode", "version", "pkey"],
)
def test_headers_of_other_kinds_are_not_read(at: int, value: int) -> None:
    key = bytearray(built(Opcode.WRITE_MIDDLE, b"abcd")[KEY_AT:50])
    key[at] = value
    assert read_shape(bytes(key)) is None


def test_padding_longer_than_the_payload_is_refused() -> None:
    key = bytearray(built(Opcode.WRITE_ONLY, b"")[KEY_AT:50])
    key[31] |= 0x30
    assert read_shape(bytes(key)) is None


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_decodes_opcode_and_psn(tmp_path: Path) -> None:
    frames = [
        built(opcode, bytes(random.Random(1).randbytes(64)), ACK_REQUEST | 1000 + int(opcode))
        for opcode in Opcode
    ]
    path = tmp_path / "roce.pcap"
    with RawPcapWriter(str(path), linktype=1) as writer:
        for frame in frames:
            writer.write(frame)
    fields = [
        "infiniband.bth.opcode",
        "infiniband.bth.psn",
        "infiniband.bth.destqp",
        "infiniband.bth.a",
        "udp.dstport",
    ]
    found = subprocess.run(
        ["tshark", "-r", str(path), "-T", "fields", *(x for f in fields for x in ("-e", f))],
        capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    rows = [row.split("\t") for row in found if row]
    for row, opcode in zip(rows, Opcode, strict=True):
        assert [int(row[0], 0), int(row[1], 0), int(row[2], 0)] == [int(opcode), 1000 + int(opcode), 0x1A2B]
        assert row[3] in ("1", "True")
        assert row[4] == "4791"
