"""iperf3's UDP between the hosts of a lab: kernel sockets on both ends, over the same switches and rules."""

from __future__ import annotations

import fcntl
import json
import re
import socket
import struct
import subprocess
import tempfile
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from railweave.framework.lab.bare import Trial, Wait, inside
from railweave.framework.lab.ovs import run, tool
from railweave.framework.model import Endpoint

PORT = 5201
GRACE_S = 6.0
"""Beyond its length, a client that is not done after so long is given up."""
_SIOCETHTOOL, _TX_CHECKSUM_OFF = 0x8946, (0x17, 0)
_LISTENS = re.compile(rf"^ *\d+: 00000000:{PORT:04X} \S+ 0A ", re.MULTILINE)


class Iperf:
    """A server on every host, and a client on every host to the one behind it, the last to the first.

    Hosts of a lab have no address: they get theirs here, and permanent neighbours, for there is no ARP. The
    transport's packets stay unanswered all the same: they are not sent to the interfaces' own MAC.
    """

    def __init__(self, endpoints: Sequence[Endpoint], payload_bytes: int, wait: Wait) -> None:
        self._wait, self._payload = wait, payload_bytes
        self._pairs = list(zip(endpoints, [*endpoints[1:], endpoints[0]], strict=True))
        self._servers: list[subprocess.Popen[bytes]] = []

    def open(self) -> None:
        """Give the hosts addresses and start the servers; returns once they listen."""
        macs = {end.gpu: _mac(end) for end, _ in self._pairs}
        for near, far in self._pairs:
            _batch(near, [f"addr add {near.ip}/8 dev {near.interface}", _neighbour(near, far, macs[far.gpu])])
            _batch(far, [_neighbour(far, near, macs[near.gpu])])
            with inside(near.namespace):
                _checksum_whole(near.interface)
        self._serve()

    def _serve(self) -> None:
        words = ["-s", "-4", "-p", str(PORT)]
        self._servers = [_started(near, words, subprocess.DEVNULL) for near, _ in self._pairs]
        self._wait(lambda: all(_listens(each.pid) for each in self._servers), "iperf3's servers")

    def run(self, pps: float, seconds: float) -> Trial:
        """Offer `pps` packets per second, all hosts alike, for so long. Nothing counts as arrived when a client did not
        get through: under too much load iperf3's control connection starves, too."""
        bits = round(pps / len(self._pairs) * self._payload * 8)
        said = self._clients(bits, max(1, round(seconds)))
        if any("error" in answer for answer in said):
            self.stop()  # some of them wait for clients that are gone
            self._serve()
            return Trial(pps, 0, 0, seconds, 0.0)
        ends = [answer["end"]["sum_received"] for answer in said]  # as its servers counted
        arrived = sum(each["bytes"] for each in ends) // self._payload
        spent = sum(each["seconds"] for each in ends) / len(ends)
        sent = sum(answer["end"]["sum_sent"]["packets"] for answer in said)
        cpu = [answer["end"]["cpu_utilization_percent"] for answer in said]
        used = sum(each["host_total"] + each["remote_total"] for each in cpu) / 100 * spent
        return Trial(pps, sent, arrived, spent, used)

    def stop(self) -> None:
        for server in self._servers:
            server.kill()
        for server in self._servers:
            server.wait()
        self._servers.clear()

    def _clients(self, bits: int, seconds: int) -> list[dict[str, Any]]:
        length = ["-l", str(self._payload), "-b", str(bits), "-t", str(seconds)]
        options = ["-u", *length, "-i", "0", "-J", "--connect-timeout", "5000", "-p", str(PORT)]
        running = []
        for near, far in self._pairs:
            words = tempfile.TemporaryFile()  # noqa: SIM115 - read and closed below
            running.append((_started(near, ["-c", far.ip, *options], words), words))
        end = time.monotonic() + seconds + GRACE_S
        self._wait(
            lambda: all(each.poll() is not None for each, _ in running) or time.monotonic() > end, "iperf3"
        )
        answers = []
        for client, words in running:
            with words:
                client.kill()
                client.wait()
                words.seek(0)
                answers.append(json.loads(words.read() or b'{"error": "it said nothing"}'))
        return answers


def _started(at: Endpoint, words: list[str], output: Any) -> subprocess.Popen[bytes]:
    with inside(at.namespace):
        return subprocess.Popen(
            [tool("iperf3"), *words], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def _listens(pid: int) -> bool:
    return bool(_LISTENS.search(Path(f"/proc/{pid}/net/tcp").read_text()))


def _mac(end: Endpoint) -> str:
    with inside(end.namespace), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
        sock.bind((end.interface, 0))
        return ":".join(f"{byte:02x}" for byte in sock.getsockname()[4])


def _neighbour(at: Endpoint, other: Endpoint, mac: str) -> str:
    return f"neigh replace {other.ip} lladdr {mac} dev {at.interface} nud permanent"


def _batch(at: Endpoint, lines: list[str]) -> None:
    with inside(at.namespace):
        run([tool("ip"), "-batch", "-"], given="".join(f"{line}\n" for line in lines))


def _checksum_whole(interface: str) -> None:
    """Let the kernel write whole checksums: the userspace datapath hands on what it gets."""
    order = array("I", _TX_CHECKSUM_OFF)
    request = struct.pack("16sP16x", interface.encode(), order.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock.fileno(), _SIOCETHTOOL, request)
