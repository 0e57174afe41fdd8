"""Captures miss nothing of a short run: from the first packet of the first iteration to the last one."""

from __future__ import annotations

import io
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader

from railweave.framework.model import PacketFormat
from railweave.framework.model.events import CaptureFinished, ProcessReady
from railweave.framework.processes.channel import Channel
from railweave.traffic.capture import capture
from railweave.traffic.packets import Opcode


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
def test_a_short_run_captures_every_packet_of_the_schedule_on_its_link(tmp_path: Path) -> None:
    """One iteration over 2 domains x 2 rails: what g0.0 sends to d0 is what the schedule sends from it into
    its domain, every sequence number from the first on, once."""
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
    assert sorted(repetitions) == list(range(packets))
    assert set(repetitions.values()) == {1}
