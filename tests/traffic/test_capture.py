"""Captures miss nothing of a short run: from the first packet of the first iteration to the last one. Scapy
and tshark, which did not write the files, read them back."""

from __future__ import annotations

import io
import shutil
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader

from railweave.framework.model import PacketFormat
from railweave.framework.model.events import CaptureFinished, ProcessReady
from railweave.framework.processes.channel import Channel
from railweave.traffic.capture import INBOUND, OUTBOUND, PcapngWriter, capture
from railweave.traffic.packets import Opcode

START_NS = 1_700_000_000_123_456_789


def test_an_order_to_stop_that_arrives_with_the_links_is_obeyed() -> None:
    """Both messages are in the socket before the capture reads the first one."""
    ours, end = map(Channel, socket.socketpair())
    ours.send({"links": []})
    ours.send({"stop": True})
    file = io.BytesIO()
    thread = threading.Thread(target=capture, args=(end, file), daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()
    assert ours.poll() == [ProcessReady(), CaptureFinished(packets=0, dropped=0)]
    ours.close()
    end.close()
    assert file.getvalue()[:4] == b"\x0a\x0d\x0d\x0a"


@pytest.mark.lab
@pytest.mark.untimed
def test_a_short_run_captures_every_packet_of_the_schedule_on_its_link(tmp_path: Path) -> None:
    """One iteration over 2 domains x 2 rails: what g0.0 sends to d0 is what the schedule sends from it into
    its domain, every sequence number once."""
    command = [
        str(Path(sys.executable).with_name("railweave")),
        "run",
        "--domains",
        "2",
        "--rails",
        "2",
        "--iterations",
        "1",
        "--size",
        "64K",
        "--rate-scale",
        "1e-5",
        "--fault",
        "none",
        "--no-feedback",
        "--collective",
        "all-reduce",
        "--router",
        "hscore",
        "--pcap",
        "g0.0->d0",
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    with RawPcapNgReader(str(tmp_path / "run" / "capture.pcapng")) as reader:
        frames = [(meta, Ether(frame)) for frame, meta in reader]
    assert {meta.ifname for meta, _ in frames} == {b"g0.0->d0"}
    sent = [
        p for _, p in frames if BTH in p and p[IP].src == "10.0.0.1" and p[BTH].opcode != Opcode.ACKNOWLEDGE
    ]
    assert {packet[IP].dst for packet in sent} == {"10.0.1.1"}
    repetitions = Counter(packet[BTH].psn for packet in sent if packet[IP].id == 0)
    # all-reduce of 64 KiB on 2 x 2 GPUs: half of it twice between the two GPUs of a domain
    packets = 2 * -(-(64 << 10) // 2 // PacketFormat().path_mtu)
    first = min(repetitions)  # the measurement of a packet's latency came before
    assert sorted(repetitions) == list(range(first, first + packets))
    assert set(repetitions.values()) == {1}


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
