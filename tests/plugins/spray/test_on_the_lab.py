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

    All that leaves g0.1 for g1.1 is captured where it enters the domain; the first sendings (IP identification 0)
    of each direction's flow are counted by UDP source port, which names the rail.
    """
    command = [str(Path(sys.executable).with_name("railweave")), "run", "--domains", "2", "--rails", "4", "--router",
               "spray", "--size", "1M", "--iterations", "5", "--rate-scale", "1e-5", "--fault",
               "at=iter:1 degrade rail:1 to=20%", "--pcap", "g0.1->d0", "--json", "-", "--out", str(tmp_path / "run")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["rows"][-1]["wrong"] == 0 and result["reroutes"]
    counts: dict[tuple[bytes, int], Counter[int]] = defaultdict(Counter)
    with PcapNgReader(str(tmp_path / "run" / "capture.pcapng")) as packets:
        for packet in packets:
            frame = bytes(packet)
            ends, number, tag = frame[26:34], frame[18:20], frame[15] >> 2
            if len(frame) > 1000 and number == b"\0\0" and ends in (THERE, BACK):
                counts[ends, tag][int.from_bytes(frame[34:36], "big")] += 1
    sprayed = [ports for ports in counts.values() if len(ports) > 1]
    assert len(sprayed) >= 2  # both directions
    for ports in sprayed:
        assert len(ports) == 3
        assert sum(ports.values()) > 100 and max(ports.values()) - min(ports.values()) <= 1
