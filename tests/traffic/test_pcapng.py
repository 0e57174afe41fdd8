"""Files that scapy and tshark, which did not write them, read back."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import RawPcapNgReader

from railweave.traffic.pcapng import INBOUND, OUTBOUND, PcapngWriter

START_NS = 1_700_000_000_123_456_789


@given(frames=st.lists(st.tuples(st.integers(0, 1), st.binary(min_size=14, max_size=70)), max_size=8))
def test_scapy_reads_what_was_written(frames: list[tuple[int, bytes]]) -> None:
    file = io.BytesIO()
    writer = PcapngWriter(file, ["g0.0->d0", "r1->g0.1"])
    for i, (interface, frame) in enumerate(frames):
        writer.write(interface, START_NS + i, frame, OUTBOUND)
    file.seek(0)
    found = [(meta, bytes(frame)) for frame, meta in RawPcapNgReader(file)]  # type: ignore[arg-type]
    assert [frame for _, frame in found] == [frame for _, frame in frames]
    assert [meta.ifname for meta, _ in found] == [(b"g0.0->d0", b"r1->g0.1")[i] for i, _ in frames]
    times = [(meta.tshigh << 32 | meta.tslow) for meta, _ in found]
    assert times == [START_NS + i for i in range(len(frames))]


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_shows_names_directions_and_nanoseconds(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    with path.open("wb") as file:
        writer = PcapngWriter(file, ["g0.0->d0", "d0->g0.1"])
        writer.write(1, START_NS, bytes(60), INBOUND)
        writer.write(0, START_NS + 1, bytes(61), OUTBOUND)
    fields = ["frame.interface_name", "frame.time_epoch", "frame.len", "frame.packet_flags_direction"]
    out = subprocess.run(
        ["tshark", "-r", str(path), "-T", "fields", *(x for f in fields for x in ("-e", f))],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    rows = [row.split("\t") for row in out.splitlines()]
    assert [row[0] for row in rows] == ["d0->g0.1", "g0.0->d0"]
    assert [row[1] for row in rows] == ["1700000000.123456789", "1700000000.123456790"]
    assert [row[2] for row in rows] == ["60", "61"]
    assert [int(row[3], 0) for row in rows] == [1, 2]
