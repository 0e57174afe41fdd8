"""iperf3's UDP between the hosts of a lab: kernel sockets on both ends, over the same switches and rules."""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from railweave.framework.bench.bare_sender import SendTrial, Wait
from railweave.framework.model import Endpoint
from railweave.framework.processes.namespaces import inside
from railweave.framework.processes.programs import tool

PORT = 5201
"""TCP port, iperf's usual one."""
GRACE_S = 6.0
"""Seconds beyond its test after which a client is killed."""
_LISTENS = re.compile(rf"^ *\d+: 00000000:{PORT:04X} \S+ 0A ", re.MULTILINE)


class Iperf:
    """A server on every host, and a client on every host to the next one, the last to the first. The hosts
    need addresses (switching/host_addresses.py)."""

    def __init__(self, endpoints: Sequence[Endpoint], payload_bytes: int, wait: Wait) -> None:
        self._wait, self._payload = wait, payload_bytes
        self._pairs = list(zip(endpoints, [*endpoints[1:], endpoints[0]], strict=True))
        self._serve()

    def _serve(self) -> None:
        self._servers = [
            _started(near, ["-s", "-4", "-p", str(PORT)], subprocess.DEVNULL) for near, _ in self._pairs
        ]
        self._wait(lambda: all(_listens(server.pid) for server in self._servers), "iperf3's servers")

    def run(self, pps: float, seconds: float) -> SendTrial:
        """Offer `pps` packets per second, spread evenly over the hosts, for `seconds`. If any client fails,
        nothing counts as arrived: under overload iperf3's control connection starves too."""
        bits = round(pps / len(self._pairs) * self._payload * 8)
        reports = self._clients(bits, max(1, round(seconds)))
        if any("error" in report for report in reports):
            self.stop()  # some servers wait for clients that are gone
            self._serve()
            return SendTrial(0, seconds, 0.0)
        ends = [report["end"]["sum_received"] for report in reports]  # as its servers counted
        arrived = sum(end["bytes"] for end in ends) // self._payload
        spent = sum(end["seconds"] for end in ends) / len(ends)
        cpu = [report["end"]["cpu_utilization_percent"] for report in reports]
        used = sum(usage["host_total"] + usage["remote_total"] for usage in cpu) / 100 * spent
        return SendTrial(arrived, spent, used)

    def stop(self) -> None:
        for server in self._servers:
            server.kill()
        for server in self._servers:
            server.wait()

    def _clients(self, bits: int, seconds: int) -> list[dict[str, Any]]:
        options = [
            "-u", "-l", str(self._payload), "-b", str(bits), "-t", str(seconds), "-i", "0", "-J",
            "--connect-timeout", "5000", "-p", str(PORT),
        ]  # fmt: skip
        running = []
        for near, far in self._pairs:
            output = tempfile.TemporaryFile()  # noqa: SIM115 - read and closed below
            running.append((_started(near, ["-c", far.ip, *options], output), output))
        end = time.monotonic() + seconds + GRACE_S
        self._wait(
            lambda: all(client.poll() is not None for client, _ in running) or time.monotonic() > end,
            "iperf3",
        )
        answers = []
        for client, output in running:
            with output:
                client.kill()
                client.wait()
                output.seek(0)
                answers.append(json.loads(output.read() or b'{"error": "no report"}'))
        return answers


def _started(at: Endpoint, words: list[str], output: Any) -> subprocess.Popen[bytes]:
    with inside(at.namespace):
        return subprocess.Popen(
            [tool("iperf3"), *words], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def _listens(pid: int) -> bool:
    return bool(_LISTENS.search(Path(f"/proc/{pid}/net/tcp").read_text()))
