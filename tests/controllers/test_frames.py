"""The frame of a train, against RFC 791 and 768."""

from __future__ import annotations

import struct

import pytest

from railweave.controllers.frames import FIRST, HEADER_BYTES, LAST, marked, train_frame


@pytest.mark.parametrize("size_bytes", [HEADER_BYTES, 60, 1000, 4158])
def test_the_frame_is_udp_to_4791_of_the_size_asked(size_bytes: int) -> None:
    frame = train_frame(size_bytes)
    assert len(frame) == size_bytes
    assert frame[12:14] == b"\x08\x00"
    header = frame[14:34]
    assert header[0] == 0x45
    assert header[1] >> 2 == 63
    assert struct.unpack("!H", header[2:4]) == (size_bytes - 14,)
    assert header[9] == 17
    assert struct.unpack("!HHHH", frame[34:42]) == (4791, 4791, size_bytes - 34, 0)


def test_the_checksum_verifies() -> None:
    total = sum(struct.unpack("!10H", train_frame(1000)[14:34]))
    while total >> 16:  # RFC 1071: the one's complement sum over a right header, its checksum included
        total = (total & 0xFFFF) + (total >> 16)
    assert total == 0xFFFF


def test_it_goes_to_no_gpu() -> None:
    assert train_frame(60)[30] != 10


@pytest.mark.parametrize("mark", [FIRST, LAST])
def test_a_marked_packet_says_of_which_train_and_what_it_is(mark: int) -> None:
    frame = train_frame(9000, 0xBEEF, mark)
    assert marked(frame[:64]) == (0xBEEF, mark)
    assert frame[30:34] == bytes((192, 0, 2, 3))


def test_no_other_packet_is_marked() -> None:
    assert marked(train_frame(1000)) is None
    assert marked(train_frame(1000, 5, FIRST)[:20]) is None
