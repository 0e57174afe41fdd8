"""The one hand-packed frame, read back by scapy."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from railweave.framework.processes.udp_frame import HEADER_BYTES, udp_frame

NET = 10 << 24


@pytest.mark.parametrize("size", [HEADER_BYTES, 128, 4154])
def test_scapy_reads_what_was_packed(size: int) -> None:
    frame = udp_frame(NET | 1, NET | 2, size, src_port=49153, dst_port=4791, dscp=63, identification=7)
    packet = Ether(frame)
    assert len(frame) == size
    assert (packet[IP].src, packet[IP].dst, packet[IP].len) == ("10.0.0.1", "10.0.0.2", size - 14)
    assert (packet[IP].tos, packet[IP].id, packet[IP].ttl) == (63 << 2, 7, 64)
    assert (packet[UDP].sport, packet[UDP].dport, packet[UDP].len, packet[UDP].chksum) == (
        49153,
        4791,
        size - 34,
        0,
    )
    checksum = packet[IP].chksum
    del packet[IP].chksum
    assert IP(bytes(packet[IP])).chksum == checksum
    assert (packet.src, packet.dst) == ("02:00:00:00:00:02", "02:00:00:00:00:01")
