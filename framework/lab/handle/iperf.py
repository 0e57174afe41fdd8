"""What iperf3 measures between two hosts of an open lab."""

import json
import math
import time

from railweave.framework.errors import ProgramError
from railweave.framework.lab.handle.client import LabClient

PORT = "5210"
"""TCP and UDP port of measurements; not iperf3's own, which a user may have in use."""
LISTENS_WITHIN_S = 10.0
"""Seconds for a server to listen."""
REFUSED = "Connection refused"


def shaped_bps(lab: LabClient, src: str, dst: str) -> float:
    """The emulated rate of the narrowest link between two hosts, without faults; inf if there is no path."""
    fabric = lab.plan.fabric
    ids = {fabric.link_name(link): link for link in range(fabric.n_links)}
    paths = lab.routes(*(fabric.node_name(lab.gpu(host)) for host in (src, dst))).paths
    rates = [float(fabric.capacity_bps[ids[hop.link]]) for path in paths for hop in path.hops]
    return min(rates, default=math.inf) * lab.rate_scale


def received_bps(lab: LabClient, src: str, dst: str, seconds: float = 10.0, udp: str = "") -> float:
    """The rate at which host `dst` received what host `src` sent for `seconds`: payload, in emulated bit/s.

    By TCP, or by UDP packets at the rate `udp`, as iperf3 writes it (2M). Raises ProgramError if iperf3
    fails.
    """
    words = ["iperf3", "-c", lab.address(dst), "-p", PORT, "-t", f"{seconds:g}", "-J"]
    words += ["-u", "-b", udp] if udp else []
    end = time.monotonic() + LISTENS_WITHIN_S
    with lab.start(dst, ["iperf3", "-s", "-1", "-p", PORT]):
        while True:
            done = lab.exec(src, words, timeout=seconds + 60)
            report = json.loads(done.stdout or "{}")
            if "error" not in report and not done.returncode:
                break
            why = report.get("error") or done.stderr.strip() or f"it ended with status {done.returncode}"
            if REFUSED not in why or time.monotonic() > end:
                raise ProgramError(f"iperf3 from {src} to {dst} failed: {why}.")
            time.sleep(0.05)
    received: float = report["end"]["sum_received"]["bits_per_second"]
    return received
