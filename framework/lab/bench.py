"""Benchmarks of the lab, each as ratios to a known way in the same run."""

from __future__ import annotations

import json
import math
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from railweave.framework.channel import Channel
from railweave.framework.errors import InputError, LabError
from railweave.framework.experiment import from_document, load
from railweave.framework.lab.conductor import Conductor
from railweave.framework.lab.ovs import run, tool
from railweave.framework.lab.plugin import as_error
from railweave.framework.lab.sandbox import Sandbox, check_machine, unshare_command
from railweave.framework.model import Fabric
from railweave.framework.registry import load as load_registers

RATE_SCALE = 1e-5
STOCK_RUN_DIR = Path("/run/openvswitch")


def bring_up(gpus: int, repeat: int) -> dict[str, Any]:
    """Up and down of a shaped rail-only fabric, ours and stock Mininet's with TCLink over the same Topo.

    Up: from the start of the first process to the last switch connected to Ryu, its import counted, for ours also
    the first rules and the transport. Down: until the last process of the lab is gone.
    """
    rails = max(k for k in range(1, math.isqrt(gpus) + 1) if gpus % k == 0)
    if rails == 1:
        raise InputError(
            f"--gpus {gpus}: a rail-only fabric needs domains x rails; {gpus} is prime. Try {gpus + 1}."
        )
    plan = load(
        None,
        {"topology": "rail-only", "topology.domains": gpus // rails, "topology.rails": rails, "fault": "none",
         "rate_scale": RATE_SCALE},
        load_registers(),
    )  # fmt: skip
    times: dict[str, list[tuple[float, float]]] = {"railweave": [], "mininet": []}
    for _ in range(repeat):
        for way, rows in times.items():
            rows.append(_up_and_down({"document": plan.document(), "way": way}))
    ups = {way: statistics.median(up for up, _ in rows) for way, rows in times.items()}
    downs = {way: statistics.median(down for _, down in rows) for way, rows in times.items()}
    return {
        "gpus": gpus,
        "links": plan.fabric.n_links,
        "repeat": repeat,
        "up_s": ups,
        "down_s": downs,
        "up_ratio": ups["mininet"] / ups["railweave"],
        "down_ratio": downs["mininet"] / downs["railweave"],
    }


def _up_and_down(message: Mapping[str, Any]) -> tuple[float, float]:
    began = time.monotonic()
    up = stopping = 0.0
    with Sandbox("bring-up", message) as lab:
        for said in lab.messages():
            if said["kind"] == "error":
                raise as_error(said)
            if said["kind"] == "phase" and said["name"] == "stopping":
                up, stopping = time.monotonic() - began, time.monotonic()
        lab.wait()
    return up, time.monotonic() - stopping


def task(message: Mapping[str, Any], channel: Channel) -> None:
    """Inside: bring up and down one of the two ways."""
    registers = load_registers()
    plan = from_document(message["document"], registers)
    if message["way"] == "railweave":
        conductor = Conductor(plan, registers, lambda _: None)
        try:
            conductor.bring_up()
            channel.send({"kind": "phase", "name": "stopping"})
        finally:
            conductor.down()
    else:
        _stock(plan.fabric.scaled(RATE_SCALE), plan.controller, channel)
    channel.send({"kind": "result"})


def _stock(fabric: Fabric, controller: Any, channel: Channel) -> None:
    """Mininet as it comes: TCLink on every cable, OVSSwitch in userspace, Ryu as a remote controller."""
    from mininet.link import TCLink
    from mininet.net import Mininet
    from mininet.node import OVSSwitch, RemoteController

    run([tool("ip"), "link", "set", "lo", "up"])
    listener = socket.create_server(("127.0.0.1", 6653), backlog=512)
    controller.start([listener.fileno()], "/run/controller.log")
    _host_ovs()
    Mininet.inited = True  # it would raise host-wide limits otherwise
    net = Mininet(
        topo=_shaped_topo(fabric), link=TCLink, waitConnected=True,
        switch=partial(OVSSwitch, datapath="user", protocols="OpenFlow13"),
        controller=partial(RemoteController, ip="127.0.0.1", port=6653),
    )  # fmt: skip
    net.start()
    channel.send({"kind": "phase", "name": "stopping"})
    net.stop()
    controller.stop()


def _host_ovs() -> None:
    """Open vSwitch where stock Mininet looks for it."""
    STOCK_RUN_DIR.mkdir()
    database = STOCK_RUN_DIR / "conf.db"
    run([tool("ovsdb-tool"), "create", str(database), "/usr/share/openvswitch/vswitch.ovsschema"])
    quiet = ["--detach", "--no-chdir", "-vconsole:off", "-vsyslog:off"]
    run([tool("ovsdb-server"), *quiet, "--pidfile", f"--log-file={STOCK_RUN_DIR}/db.log",
         f"--remote=punix:{STOCK_RUN_DIR}/db.sock", str(database)])  # fmt: skip
    run([tool("ovs-vswitchd"), *quiet, "--pidfile", f"--log-file={STOCK_RUN_DIR}/vs.log",
         f"unix:{STOCK_RUN_DIR}/db.sock"])  # fmt: skip


def _shaped_topo(fabric: Fabric) -> Any:
    from railweave.framework.lab.network import FabricTopo

    class Shaped(FabricTopo):
        """The same Topo; rates in Mb/s as TCLink wants them."""

        def addLink(self, a: str, b: str, port1: int, port2: int) -> Any:
            return super().addLink(a, b, port1=port1, port2=port2, **self._rate(a, b))

        @staticmethod
        def _rate(a: str, b: str) -> dict[str, float]:
            if a not in fabric.node_ids or b not in fabric.node_ids:
                return {}
            node = fabric.node_ids[a]
            link = next(x for x in fabric.out_links(node) if fabric.link_dst[x] == fabric.node_ids[b])
            return {"bw": float(fabric.capacity_bps[link]) / 1e6}

    return Shaped(fabric)


def transport(seconds: float) -> dict[str, Any]:
    """Payload packets per second of one core over one veth (railweave.traffic.bench, in namespaces of its own)."""
    return _module("railweave.traffic.bench", ["--seconds", str(seconds), "--json", "-"])


def install(rules: int) -> dict[str, Any]:
    """Rules per second through the controller (railweave.controllers.bench, in namespaces of its own)."""
    return _module("railweave.controllers.bench", ["--rules", str(rules), "--json", "-"])


def _module(name: str, arguments: list[str]) -> dict[str, Any]:
    check_machine()
    done = subprocess.run(
        [*unshare_command(), sys.executable, "-P", "-W", "ignore", "-m", name, *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise LabError(f"{name} failed ({done.returncode}):\n{done.stderr.strip()[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures
