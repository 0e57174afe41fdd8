"""Brings a lab up and down: railweave's, or stock Mininet over the same fabric."""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mininet.link import TCLink
from mininet.net import Mininet
from mininet.node import OVSSwitch, RemoteController

from railweave.framework.experiment.plan import from_document
from railweave.framework.lab.switching.mininet_net import FabricTopo
from railweave.framework.lab.tasks.run import lab_task
from railweave.framework.model import Fabric
from railweave.framework.model.events import PhaseStarted, RunEvent
from railweave.framework.processes.openvswitch import OpenVSwitch
from railweave.framework.processes.programs import run, tool
from railweave.framework.registry import load_plugins

STOPPING = PhaseStarted("stopping")


def task(message: Mapping[str, Any], emit: Callable[[RunEvent], None]) -> None:
    """Bring one of the two labs up and down; STOPPING is emitted in between."""
    if message["lab"] == "railweave":
        with lab_task(message, lambda _: None):
            emit(STOPPING)
        return
    plan = from_document(message["document"], load_plugins())
    with _stock_mininet(plan.fabric.scaled(float(plan.experiment.rate_scale)), plan.controller):
        emit(STOPPING)


@contextmanager
def _stock_mininet(fabric: Fabric, controller: Any) -> Iterator[None]:
    """Mininet as it comes: TCLink on every cable, OVSSwitch in userspace, Ryu as a remote controller."""
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
    class Shaped(FabricTopo):
        """The same Topo; rates in Mb/s as TCLink wants them."""

        def addLink(self, a: str, b: str, port1: int, port2: int) -> Any:
            rate = {}
            if a in fabric.node_ids and b in fabric.node_ids:
                links, target = fabric.out_links(fabric.node_ids[a]), fabric.node_ids[b]
                link = next(x for x in links if fabric.link_dst[x] == target)
                rate = {"bw": float(fabric.capacity_bps[link]) / 1e6}
            return super().addLink(a, b, port1=port1, port2=port2, **rate)

    return Shaped(fabric)
