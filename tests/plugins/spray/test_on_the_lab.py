"""Spraying on the wire: an even spread is exact, for three rails too."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from scapy.utils import PcapNgReader

THERE, BACK = bytes([10, 0, 1, 1, 10, 1, 1, 1]), bytes([10, 1, 1, 1, 10, 0, 1, 1])
"""IPv4 source and destination of g0.1 -> g1.1, and the other way."""


@pytest.mark.lab
def test_packets_of_a_flow_differ_by_at_most_one_between_its_rails(tmp_path: Path) -> None:
    """2 domains x 4 rails, rail 1 known to be slow, so that its pairs are sprayed over the three others.

    All that leaves g0.1 for g1.1 is captured where it enters the domain; the first sendings (IP
    identification 0) of each direction's flow are counted by UDP source port, which names the rail.
    """
    command = [
        str(Path(sys.executable).with_name("railweave")),
        "run",
        "--domains",
        "2",
        "--rails",
        "4",
        "--router",
        "spray",
        "--size",
        "1M",
        "--iterations",
        "5",
        "--rate-scale",
        "1e-5",
        "--fault",
        "at=iter:1 degrade rail:1 to=20%",
        "--pcap",
        "g0.1->d0",
        "--json",
        "-",
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["rows"][-1]["wrong"] == 0 and result["reroutes"]
    flows: dict[tuple[bytes, int], list[tuple[int, int]]] = defaultdict(list)
    with PcapNgReader(str(tmp_path / "run" / "capture.pcapng")) as packets:
        for packet in packets:
            frame = bytes(packet)
            ends, repetition, tag = frame[26:34], frame[18:20], frame[15] >> 2
            if len(frame) > 1000 and repetition == b"\0\0" and ends in (THERE, BACK):
                psn, udp_src = int.from_bytes(frame[51:54], "big"), int.from_bytes(frame[34:36], "big")
                flows[ends, tag].append((psn, udp_src))
    in_order = [[udp_src for _, udp_src in sorted(flow)] for flow in flows.values()]
    sprayed = [ports for ports in in_order if len(set(ports)) > 1]
    assert len(sprayed) >= 2  # both directions
    for ports in sprayed:
        told = start_of_turns(ports)
        assert told < 32  # what leaves between the switches' change of tag and the sender's change of paths
        counts = Counter(ports[told:])
        assert len(counts) == 3
        assert counts.total() > 100 and max(counts.values()) - min(counts.values()) <= 1


def start_of_turns(ports: list[int]) -> int:
    """From where on any three packets in a row take three rails;
    those before it were sent over earlier paths."""
    broken = [i for i in range(len(ports) - 2) if len(set(ports[i : i + 3])) < 3]
    return broken[-1] + 1 if broken else 0
