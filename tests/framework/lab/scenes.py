"""What happens inside the namespaces of a test: `python scenes.py NAME ARGS`, the result as JSON on the last line."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from railweave.framework.errors import LabError, MachineError
from railweave.framework.faults import parse, resolve
from railweave.framework.lab import shaping
from railweave.framework.lab.children import Watch
from railweave.framework.lab.emulation import Emulation
from railweave.framework.lab.impairment import Impairment, script
from railweave.framework.lab.injury import Injury
from railweave.framework.lab.namespaces import NetNamespace, mount
from railweave.framework.lab.ovs import SWITCH, run, tool
from railweave.framework.lab.telemetry import ShardQueues, Telemetry
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup

SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23


def rail_fabric(domains: int, rails: int, domain_bps: float, rail_bps: float) -> Fabric:
    n = domains * rails
    groups = [NodeGroup("gpu", 0, (domains, rails), "g"), NodeGroup("domain", n, (domains,), "d"),
              NodeGroup("rail", n + domains, (rails,), "r")]  # fmt: skip
    builder = FabricBuilder("rail-only", groups, {})
    gpus = np.arange(n)
    builder.cables(gpus, n + gpus // rails, "d", domain_bps, element=n + gpus // rails)
    builder.cables(gpus, n + domains + gpus % rails, "r", rail_bps, element=n + domains + gpus % rails)
    return builder.build()


def _cable() -> tuple[NetNamespace, socket.socket, socket.socket]:
    """A veth pair a-b between two namespaces: the sender's namespace, a socket on each end."""
    near, far = NetNamespace.create("near"), NetNamespace.create("far")
    run([tool("ip"), "link", "add", "name", "a", "mtu", "9000", "netns", "near", "type", "veth", "peer", "name", "b",
         "mtu", "9000", "netns", "far"])  # fmt: skip
    sockets = []
    for space, end in ((near, "a"), (far, "b")):
        run([tool("ip"), "-n", space.name, "link", "set", "dev", end, "up"])
        with space.entered():
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            sock.bind((end, 0x88B5))  # the local experimental ethertype
        sockets.append(sock)
    return near, sockets[0], sockets[1]


def trains(packets: int, size: int, rate_bps: float, times: int) -> dict[str, Any]:
    """Arrival of the last of `packets` back-to-back packets, in packet times, of each of `times` trains."""
    near, sender, receiver = _cable()
    shaping.shape(near, [("a", rate_bps, 0.0)])
    shaping.verify(near, [("a", rate_bps)])
    frame = bytes.fromhex("ffffffffffff02000000000188b5") + bytes(size - 14)
    receiver.settimeout(30)
    packet_times = []
    for _ in range(times):
        began = time.monotonic()
        for _ in range(packets):
            sender.send(frame)
        for _ in range(packets):
            receiver.recv(64)
        packet_times.append((time.monotonic() - began) * rate_bps / (8 * size))
        time.sleep(2 * 8 * size / rate_bps)  # the bucket fills again
    return {"packet_times": packet_times}


def drains(packets: int, size: int, rate_bps: float, times: int) -> list[dict[str, Any]]:
    """What telemetry says while each of `times` trains drains: first backlog, service rates, and once it is idle."""
    near, sender, _receiver = _cable()
    shaping.shape(near, [("a", rate_bps, 0.0)])
    telemetry = Telemetry([(ShardQueues(near, ["a"]), np.array([0]))], 1)
    frame = bytes.fromhex("ffffffffffff02000000000188b5") + bytes(size - 14)
    up = np.ones(1, bool)
    found = []
    for _ in range(times):
        began = time.monotonic()
        for _ in range(packets):
            sender.send(frame)
        looks = [telemetry.measure(began, up)]
        while looks[-1].queue_bytes[0] > 0:
            time.sleep(0.02)
            looks.append(telemetry.measure(began, up))
        rates = [float(m.service_bps[0]) for m in looks if not np.isnan(m.service_bps[0])]
        found.append({
            "first_queue_packets": float(looks[0].queue_bytes[0]) / size,
            "rates": rates,
            "sent_packets": float(sum(m.sent_packets[0] for m in looks)),
            "sent_bytes": float(sum(m.sent_bytes[0] for m in looks)),
            "idle_has_rate": not np.isnan(telemetry.measure(began, up).service_bps[0]),
        })  # fmt: skip
        time.sleep(2 * 8 * size / rate_bps)  # the bucket fills again
    return found


def unshaped_is_refused() -> dict[str, Any]:
    """A rate changed behind our back is found by the verification."""
    near, *_ = _cable()
    shaping.shape(near, [("a", 4e6, 0.0)])
    run([tool("tc"), "-n", "near", "class", "change", "dev", "a", "parent", "1:", "classid", "1:1", "htb", "rate",
         "5mbit", "burst", "100"])  # fmt: skip
    try:
        shaping.verify(near, [("a", 4e6)])
    except LabError as error:
        return {"error": str(error)}
    return {"error": ""}


def impaired(kind: str, share: float, packets: int, size: int, rate_bps: float, burst: int) -> dict[str, Any]:
    """Numbered packets over an impaired cable, in bursts: what arrives, and what the shaper counted."""
    # every processor has a backlog of its own, and one that is held up lets packets of another overtake
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    near, sender, receiver = _cable()
    shaping.shape(near, [("a", rate_bps, 0.0)])
    run([tool("ip"), "-n", "near", "link", "set", "dev", "lo", "up"])
    with near.entered():
        run([tool("nft"), "-f", "-"], given=script("a", Impairment(**{kind: share})))
    telemetry = Telemetry([(ShardQueues(near, ["a"]), np.array([0]))], 1)
    head = bytes.fromhex("ffffffffffff02000000000188b5")
    began = time.monotonic()
    for first in range(0, packets, burst):
        for number in range(first, min(first + burst, packets)):
            sender.send(head + number.to_bytes(4, "big") + bytes(size - 18))
        while telemetry.snapshot().queue_bytes[0] > 0:
            time.sleep(0.002)
    seconds = time.monotonic() - began
    arrived, totals = _numbers(receiver), telemetry.snapshot()
    with near.entered():
        run([tool("nft"), "-f", "-"], given=script("a", Impairment()))
    for number in range(burst):
        sender.send(head + number.to_bytes(4, "big") + bytes(size - 18))
    return {"arrived": arrived, "healed": _numbers(receiver), "sent_packets": int(totals.sent_packets[0]),
            "sent_bytes": int(totals.sent_bytes[0]), "seconds": seconds}  # fmt: skip


def _numbers(receiver: socket.socket) -> list[int]:
    found = []
    receiver.settimeout(0.5)
    try:
        while True:
            found.append(int.from_bytes(receiver.recv(64)[14:18], "big"))
    except TimeoutError:
        return found


def loss_through_a_switch(share: float, packets: int, burst: int) -> dict[str, Any]:
    """Bursts from g0.0 to g1.0 through Open vSwitch, which sends in batches, with loss on the first cable."""
    from railweave.framework.experiment import load
    from railweave.framework.lab.conductor import Conductor
    from railweave.framework.lab.verify import Marker
    from railweave.framework.registry import load as registers

    known = registers()
    overrides = {
        "topology.domains": 2,
        "topology.rails": 2,
        "fault": "none",
        "rate_scale": 1e-4,
        "router": "shortest",
    }
    conductor = Conductor(load(None, overrides, known), known, lambda _: None)
    try:
        conductor.bring_up()
        fabric = conductor.plan.fabric
        link = next(i for i in range(fabric.n_links) if fabric.link_name(i) == "g0.0->r0")
        conductor.injury.impair(np.array([link]), "loss", share)
        entropy = int(conductor.control.entropies.udp_src[0])
        with Marker(conductor) as marker:
            sender, receiver = marker._sockets[0], marker._sockets[2]
            receiver.settimeout(0.05)
            frame, arrived = marker._frame(0, 2, entropy), []
            shard = conductor.lab.shards[0]
            for _ in range(0, packets, burst):
                shard.halt()  # so that it finds the whole burst at once
                for _ in range(burst):
                    sender.send(frame)
                os.kill(shard.pids[SWITCH], signal.SIGCONT)
                arrived.append(_drained(receiver, burst))
    finally:
        conductor.down()
    return {"arrived": arrived}


def _drained(receiver: socket.socket, most: int) -> int:
    for count in range(most):
        try:
            receiver.recv(64)
        except TimeoutError:
            return count
    return most


def bring_up(domains: int, rails: int) -> dict[str, Any]:
    """Build, shape, degrade, cut and look at a small fabric."""
    lab = Emulation(rail_fabric(domains, rails, 36e6, 4e6), 4096)
    lab.open_namespaces()
    lab.build()
    lab.shape(lab.fabric)
    rail = domains * rails + domains
    links = lab.fabric.element_links(rail)
    injury = Injury(lab, Watch(), lambda _shard, _name: lambda: None, print)
    injury.set_rates(links, lab.fabric.capacity_bps[links] * 0.2)
    rates = {}
    for (path, interface), asked in zip(lab.link_interfaces(), lab.rates_bps, strict=True):
        space = next(s.namespace for s in lab.shards if s.namespace.path == path)
        rates[interface] = [float(asked), float(shaping.rates_in_force(space, [interface])[0])]
    for kind in ("loss", "reorder", "duplicate"):
        injury.impair(links[:2], kind, 0.5)
    injury.heal(links)
    injury.set_carrier(links[:2], up=False)
    ports = lab.shards[0].vsctl(["--format=json", "--columns=name,ofport", "list", "Interface"])
    refused = _refused(injury, lab, int(links[0]))
    lab.down()
    return {"rates": rates, "ports": json.loads(ports)["data"], "send_buffer": lab.send_buffer_bytes,
            "refused": refused}  # fmt: skip


def _refused(injury: Injury, lab: Emulation, link: int) -> str:
    """What is said of a fault that the kernel does not take; here because it has no such interface any more."""
    (shard, _), *_ = lab.by_shard(np.array([link]))
    run([tool("ip"), "-n", shard.namespace.name, "link", "del", "dev", lab.interface(link)])
    text = f"at=0s duplicate link:{lab.fabric.link_name(link)} rate=1%"
    try:
        injury.inject(resolve(parse(text), lab.fabric), lab.fabric.capacity_bps, None)
    except MachineError as error:
        return str(error)
    return ""


def sabotage() -> dict[str, Any]:
    """A sound lab, then one rule of one switch turned to the wrong port."""
    from railweave.framework.experiment import load
    from railweave.framework.lab.conductor import Conductor
    from railweave.framework.lab.verify import verify
    from railweave.framework.registry import load as registers

    known = registers()
    overrides = {
        "topology.domains": 2,
        "topology.rails": 2,
        "fault": "none",
        "rate_scale": 1e-5,
        "router": "shortest",
    }
    conductor = Conductor(load(None, overrides, known), known, lambda _: None)
    try:
        conductor.bring_up()
        before = verify(conductor)
        shard = conductor.lab.shards[0]
        # what comes from g0.0 and is to cross rail 0 is sent to where it came from instead
        shard.ofctl("mod-flows", "r0", "ip,actions=in_port")
        after = verify(conductor)
    finally:
        conductor.down()
    assert after.difference is not None
    return {
        "before": [before.sound, before.pairs, before.hops],
        "after": after.sound,
        "lost": after.lost,
        "link": after.difference.link,
        "pair": after.difference.pair,
        "hop": after.difference.hop,
    }


def reroutes(kind: str, count: int) -> dict[str, Any]:
    sys.path.insert(0, str(Path(__file__).parent))
    from under_load import rerouted_under_load

    return rerouted_under_load(kind, count)


def degraded(measure: str) -> dict[str, Any]:
    sys.path.insert(0, str(Path(__file__).parent))
    import one_source

    return one_source.degraded(measure)


if __name__ == "__main__":
    mount("tmpfs", "/run", "tmpfs", data="mode=755")
    scene, *words = sys.argv[1:]
    print(json.dumps(globals()[scene](*(json.loads(word) for word in words))))
