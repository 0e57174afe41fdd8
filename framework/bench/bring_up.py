"""How fast a lab comes up and goes down, against stock Mininet in the same run."""

import socket
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from railweave.framework.bench.fabric import square_rail_only
from railweave.framework.experiment.plan import from_document, load_plan
from railweave.framework.lab.plugin import in_lab
from railweave.framework.lab.tasks.run import lab_task
from railweave.framework.model import Fabric
from railweave.framework.model.events import PhaseStarted, RunEvent
from railweave.framework.processes.openvswitch import OpenVSwitch
from railweave.framework.processes.programs import run, tool
from railweave.framework.registry import load_plugins

RATE_SCALE = 1e-5
STOPPING = PhaseStarted("stopping")


def bring_up(gpus: int, repeat: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """Seconds up and down of a shaped rail-only fabric: railweave's lab, and stock Mininet with TCLink over
    the same Topo; medians of `repeat` runs.

    Up: from the start of the first process until the last switch is connected to Ryu, whose import counts;
    railweave's also installs the first rules and starts the transport. Down: until the last process of the
    lab is gone.
    """
    plan = load_plan(None, {**square_rail_only(gpus), "rate_scale": RATE_SCALE}, load_plugins())
    times: dict[str, list[tuple[float, float]]] = {"railweave": [], "mininet": []}
    for number in range(1, repeat + 1):
        for lab, rows in times.items():
            progress(f"{number}/{repeat} {lab}: up and down")
            rows.append(_up_and_down({"document": plan.document(), "lab": lab}))
            progress(f"{number}/{repeat} {lab}: up in {rows[-1][0]:.2f} s, down in {rows[-1][1]:.2f} s")
    ups = {lab: statistics.median(up for up, _ in rows) for lab, rows in times.items()}
    downs = {lab: statistics.median(down for _, down in rows) for lab, rows in times.items()}
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
    stopping: list[float] = []
    in_lab("bring-up", message, lambda _: stopping.append(time.monotonic()))
    return stopping[0] - began, time.monotonic() - stopping[0]


def task(message: Mapping[str, Any], emit: Callable[[RunEvent], None]) -> None:
    """Bring one of the two labs up and down; STOPPING is emitted in between."""
    if message["lab"] == "railweave":
        with lab_task(message, lambda _: None):
            emit(STOPPING)
        return
    plan = from_document(message["document"], load_plugins())
    with _stock_mininet(plan.fabric.scaled(RATE_SCALE), plan.controller):
        emit(STOPPING)


@contextmanager
def _stock_mininet(fabric: Fabric, controller: Any) -> Iterator[None]:
    """Mininet as it comes: TCLink on every cable, OVSSwitch in userspace, Ryu as a remote controller."""
    from mininet.link import TCLink
    from mininet.net import Mininet
    from mininet.node import OVSSwitch, RemoteController

    run([tool("ip"), "link", "set", "lo", "up"])
    listener = socket.create_server(("127.0.0.1", 6653), backlog=512)
    controller.start([listener.fileno()], "/run/controller.log")
    OpenVSwitch(Path("/run/openvswitch")).start()  # where stock Mininet looks for it
    Mininet.inited = True  # else it raises host-wide limits
    net = Mininet(
        topo=_shaped_topo(fabric), link=TCLink, waitConnected=True,
        switch=partial(OVSSwitch, datapath="user", protocols="OpenFlow13"),
        controller=partial(RemoteController, ip="127.0.0.1", port=6653),
    )  # fmt: skip
    net.start()
    yield
    net.stop()
    controller.stop()


def _shaped_topo(fabric: Fabric) -> Any:
    from railweave.framework.lab.switching.mininet_net import FabricTopo

    class Shaped(FabricTopo):
        """The same Topo; rates in Mb/s as TCLink wants them."""

        def addLink(self, a: str, b: str, port1: int, port2: int) -> Any:
            rate = {}
            if a in fabric.node_ids and b in fabric.node_ids:
                links, there = fabric.out_links(fabric.node_ids[a]), fabric.node_ids[b]
                link = next(x for x in links if fabric.link_dst[x] == there)
                rate = {"bw": float(fabric.capacity_bps[link]) / 1e6}
            return super().addLink(a, b, port1=port1, port2=port2, **rate)

    return Shaped(fabric)
