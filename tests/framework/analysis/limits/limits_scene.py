"""One shaped cable in private namespaces, trains of packets over it; prints the excess as the last line.

`python limits_scene.py RATE_BPS SIZE TRAIN:GAP...`, gaps in packet times: the most packets that any window of
time passed beyond rate x time, by the kernel's own time stamps.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from pathlib import Path
from threading import Thread

from railweave.framework.lab.switching import shaping
from railweave.framework.processes.namespaces import NetNamespace, mount
from railweave.framework.processes.programs import run, tool

SO_TIMESTAMPNS, PROTOCOL = 35, 0x88B5


def listen(receiver: socket.socket, packets: int, at: list[float]) -> None:
    """Add the time of arrival of each packet, by the kernel."""
    for _ in range(packets):
        _, ancillary, _, _ = receiver.recvmsg(64, 128)
        whole, nano = struct.unpack("ll", ancillary[0][2])
        at.append(whole + nano * 1e-9)


def main(rate_bps: float, size: int, trains: list[tuple[int, float]]) -> dict[str, float]:
    mount("tmpfs", "/run", "tmpfs")
    here = NetNamespace.current()
    link = ["link", "add", "va", "mtu", "9000", "type", "veth", "peer", "name", "vb", "mtu", "9000"]
    run([tool("ip"), *link])
    for end in ("va", "vb"):
        Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
        run([tool("ip"), "link", "set", end, "up"])
    shaping.shape(here, [("va", rate_bps, 0.0)])
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(PROTOCOL)) as receiver,
    ):
        sender.bind(("va", 0))
        receiver.bind(("vb", PROTOCOL))
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        receiver.settimeout(10)
        packets = sum(count for count, _ in trains)
        at: list[float] = []
        listener = Thread(target=listen, args=(receiver, packets, at))  # the socket's buffer holds 25 packets
        listener.start()
        frame = bytes.fromhex("ffffffffffff02000000000188b5") + bytes(size - 14)
        packet_s = 8 * size / rate_bps
        for count, gap in trains:
            for _ in range(count):
                sender.send(frame)
            time.sleep(gap * packet_s)  # the idle time is what the scene is about
        listener.join()
    assert len(at) == packets, f"{len(at)} of {packets} packets came"
    excess, earliest = 0.0, float("-inf")
    for i, t in enumerate(at):
        earliest = max(earliest, t / packet_s - i)
        excess = max(excess, i + 1 - t / packet_s + earliest)
    return {"excess_packets": excess}


if __name__ == "__main__":
    rate, size, *trains = sys.argv[1:]
    pairs = [(int(count), float(gap)) for count, gap in (train.split(":") for train in trains)]
    print(json.dumps(main(float(rate), int(size), pairs)))
