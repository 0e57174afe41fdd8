"""What happens inside the namespaces of a test: `python scenes.py NAME ARGS`, the result as JSON on the last
line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from railweave.framework.errors import LabError, MachineError
from railweave.framework.experiment.faults import parse, resolve
from railweave.framework.experiment.ramp import LEVELS, Ramp
from railweave.framework.lab.faults.impairment import Impairment, script
from railweave.framework.lab.faults.injector import Injector
from railweave.framework.lab.faults.wire_loss import ingress_script, lose
from railweave.framework.lab.measuring.arrivals import IngressCounters
from railweave.framework.lab.measuring.queue_counters import ShardQueues, read_all
from railweave.framework.lab.measuring.queue_telemetry import QueueTelemetry
from railweave.framework.lab.measuring.sampler import Sampler
from railweave.framework.lab.switching import red, shaping
from railweave.framework.lab.switching.emulation import Emulation
from railweave.framework.lab.switching.marking import EcnMarker
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup
from railweave.framework.processes.event_loop import Watch
from railweave.framework.processes.namespaces import NetNamespace, mount
from railweave.framework.processes.openvswitch import SWITCH
from railweave.framework.processes.packet_socket import ETH_P_ALL, ETH_P_IP, packet_counts
from railweave.framework.processes.programs import run, tool
from railweave.framework.processes.udp_frame import HEADER_BYTES, udp_frame

SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23


def rail_fabric(domains: int, rails: int, domain_bps: float, rail_bps: float) -> Fabric:
    n = domains * rails
    groups = [
        NodeGroup("gpu", 0, (domains, rails), "g"),
        NodeGroup("domain", n, (domains,), "d"),
        NodeGroup("rail", n + domains, (rails,), "r"),
    ]
    builder = FabricBuilder("rail-only", groups, {})
    gpus = np.arange(n)
    builder.cables(gpus, n + gpus // rails, "d", domain_bps, element=n + gpus // rails)
    builder.cables(gpus, n + domains + gpus % rails, "r", rail_bps, element=n + domains + gpus % rails)
    return builder.build()


def _cable() -> tuple[NetNamespace, socket.socket, socket.socket]:
    """A veth pair a-b between two namespaces: the sender's namespace, a socket on each end."""
    near, far = NetNamespace.create("near"), NetNamespace.create("far")
    return near, *_join(near, far, "a", "b")


EXPERIMENTAL = 0x88B5
"""The local experimental ethertype."""


def _join(
    near: NetNamespace, far: NetNamespace, *ends: str, ethertype: int = EXPERIMENTAL
) -> tuple[socket.socket, socket.socket]:
    """A veth pair from `near` to `far`, called as `ends` say: a socket on each end."""
    run(
        [
            tool("ip"),
            "link",
            "add",
            "name",
            ends[0],
            "mtu",
            "9000",
            "netns",
            near.name,
            "type",
            "veth",
            "peer",
            "name",
            ends[1],
            "mtu",
            "9000",
            "netns",
            far.name,
        ]
    )
    sockets = []
    for space, end in zip((near, far), ends, strict=True):
        run([tool("ip"), "-n", space.name, "link", "set", "dev", end, "up"])
        with space.entered():
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            sock.bind((end, ethertype))
        sockets.append(sock)
    return sockets[0], sockets[1]


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
    """What telemetry says while each of `times` trains drains: first backlog, service rates, and once it is
    idle."""
    near, sender, _receiver = _cable()
    shaping.shape(near, [("a", rate_bps, 0.0)])
    queues = [ShardQueues(near, {0: "a"})]
    sampler = Sampler([ShardQueues(near, {0: "a"})], np.array([rate_bps]), size)
    sampler.start()
    telemetry = QueueTelemetry(sampler, queues)
    frame = bytes.fromhex("ffffffffffff02000000000188b5") + bytes(size - 14)
    up = np.ones(1, bool)
    found = []
    for _ in range(times):
        began = time.monotonic()
        for _ in range(packets):
            sender.send(frame)
        samples = [telemetry.measure(began, up)]
        while samples[-1].queue_bytes[0] > 0 or not sum(m.sent_packets[0] for m in samples):
            time.sleep(0.02)
            samples.append(telemetry.measure(began, up))
        rates = [float(m.service_bps[0]) for m in samples if not np.isnan(m.service_bps[0])]
        found.append(
            {
                "first_queue_packets": float(max(m.queue_bytes[0] for m in samples)) / size,
                "rates": rates,
                "sent_packets": float(sum(m.sent_packets[0] for m in samples)),
                "sent_bytes": float(sum(m.sent_bytes[0] for m in samples)),
                "idle_has_rate": not np.isnan(telemetry.measure(began, up).service_bps[0]),
            }
        )
        time.sleep(2 * 8 * size / rate_bps)  # the bucket fills again
    return found


def odd_rates_are_accepted() -> list[float]:
    """Rates of many digits pass the verification; what tc prints of each."""
    near, *_ = _cable()
    shaping.shape(near, [("a", 1e6, 0.0)])
    printed = []
    for rate_bps in (1234.0, 4938243.0, 1234567891.0):
        shaping.reshape(near, [("a", rate_bps)])
        shaping.verify(near, [("a", rate_bps)])
        printed.append(float(shaping.rates_in_force(near, ["a"])[0]))
    return printed


def unshaped_is_refused() -> dict[str, Any]:
    """A rate changed behind our back is found by the verification."""
    near, *_ = _cable()
    shaping.shape(near, [("a", 4e6, 0.0)])
    run(
        [
            tool("tc"),
            "-n",
            "near",
            "class",
            "change",
            "dev",
            "a",
            "parent",
            "1:",
            "classid",
            "1:1",
            "htb",
            "rate",
            "5mbit",
            "burst",
            "100",
        ]
    )
    try:
        shaping.verify(near, [("a", 4e6)])
    except LabError as error:
        return {"error": str(error)}
    return {"error": ""}


def packets_in_bands(ports: int) -> dict[str, Any]:
    """Two long packets of RoCEv2, one of a train and three more long ones, then a short one, an
    acknowledgement and a short packet of something else out of the first and the last of `ports` shaped ports
    of a namespace: the sizes of what arrives."""
    from railweave.controllers.frames import train_frame

    near, far = NetNamespace.create("near"), NetNamespace.create("far")
    lines = [
        f"link add name a{i} netns near type veth peer name b{i} netns far\n" for i in range(1, ports - 1)
    ]
    run([tool("ip"), "-batch", "-"], stdin="".join(lines))
    cables = [_join(near, far, f"a{i}", f"b{i}", ethertype=ETH_P_IP) for i in (0, ports - 1)]
    shaping.shape(near, [(f"a{i}", 1e6, 0.0) for i in range(ports)])
    reason = shaping.put_in_bands(near, [f"a{i}" for i in range(ports)])
    long = _roce(4000, 0x07)
    frames = [long, long, train_frame(3000), long, long, long]
    frames += [_roce(100, 0x08), _roce(90, 0x11), udp_frame(1, 2, 80, dst_port=53)]
    arrived = []
    for sender, receiver in cables:
        for frame in frames:
            sender.send(frame)
        arrived.append([14 + (word & 0xFFFF) for word in _numbers(receiver)])  # IPv4's total length
    return {"reason": reason, "arrived": arrived}


def marks(ports: int, packets: int) -> dict[str, Any]:
    """Data out of the first and the last of `ports` ports of a namespace, which count as queues of as many
    bytes as asked, in a process that has none of the descriptors of this one: how many arrive marked of each,
    what the links counted, and the same of acknowledgements and of packets that take no part in ECN."""
    near, far = NetNamespace.create("near"), NetNamespace.create("far")
    lines = [
        f"link add name a{i} netns near type veth peer name b{i} netns far\n" for i in range(1, ports - 1)
    ]
    run([tool("ip"), "-batch", "-"], stdin="".join(lines))
    cables = [_join(near, far, f"a{i}", f"b{i}", ethertype=ETH_P_IP) for i in (0, ports - 1)]
    shard: Any = SimpleNamespace(namespace=near)
    interfaces = {2 * i: f"a{i}" for i in range(ports)}
    marker = EcnMarker.loaded(Ramp(10_000, 50_000, 0.5), [(shard, interfaces)], 2 * ports)
    able, deaf = ((_roce(200, 0x07, ecn), _roce(90, 0x11, ecn)) for ecn in (2, 0))
    found: list[list[int]] = []
    asked, told = os.pipe()
    heard, answer = os.pipe()
    if (follower := os.fork()) == 0:
        os.close(near.fd)
        os.close(told)
        marker.open()
        while line := os.read(asked, 8):
            queue_bytes = np.zeros(2 * ports)
            queue_bytes[0] = int(line)
            marker.follow(queue_bytes)
            os.write(answer, b"!")
        os._exit(0)
    for queue in (0, 10_000, 20_000, 30_000, 49_999, 50_000, 0):
        before = marker.read()
        os.write(told, str(queue).encode().ljust(8))
        os.read(heard, 1)
        _await_level(near, marker.ramp.levels(np.array([float(queue)]))[0])
        row = [queue]
        for sender, receiver in cables:
            receiver.settimeout(10.0)  # a machine may stand still for a second
            for frame in (able[0], able[1], deaf[0]):
                row.append(0)
                for _ in range(packets):
                    sender.send(frame)
                    row[-1] += receiver.recv(64)[15] & 3 == 3
        counted = marker.read() - before
        found.append([*row, int(counted[0]), int(counted[2 * ports - 2])])
    os.write(told, b"60000".ljust(8))
    os.read(heard, 1)
    _await_level(near, LEVELS)
    os.close(told)  # the process ends
    os.waitpid(follower, 0)
    marker.stop()
    _await_level(near, 0)
    return {"rows": found, "silent": bool(np.isnan(marker.read()[1::2]).all())}


def red_marks(lengths: list[int], pmax: float, packets: int) -> dict[str, Any]:
    """Data that enters a queue of so many packets of 1,000 bytes, which stays as long because one leaves in a
    second and more than fits is dropped: how many of `packets` RED marks at each length, and the queue. Then,
    once the queue has drained, of data that leaves one by one, how much RED marks and how much arrives
    marked."""
    near, far = NetNamespace.create("near"), NetNamespace.create("far")
    sender, receiver = _join(near, far, "a", "b", ethertype=ETH_P_IP)
    shaping.shape(near, [("a", 8e3, 0.0)])
    red.put(near, ["a"], Ramp(10_000, 50_000, pmax))
    fifo = "parent 4:1 handle 5: pfifo limit"
    shaping.tc_batch(near, [f"qdisc add dev a {fifo} {lengths[0]}\n"])
    queues, (able, deaf) = ShardQueues(near, {0: "a"}), (_roce(1000, 0x07, ecn) for ecn in (2, 0))
    rows = []
    for length in lengths:
        shaping.tc_batch(near, [f"qdisc change dev a {fifo} {length}\n"])
        _fill(sender, deaf, length + 1)
        before = queues.marked()[0]
        _fill(sender, able, packets)
        rows.append([length, queues.marked()[0] - before, int(read_all([queues], 1).queue_bytes[0])])
    shaping.reshape(near, [("a", 1e9)])
    while read_all([queues], 1).queue_bytes[0] > 0:
        time.sleep(0.01)
    for _ in range(int(read_all([queues], 1).sent_packets[0])):
        receiver.recv(64)
    before, marked = queues.marked()[0], 0
    for _ in range(packets):
        sender.send(able)
        marked += receiver.recv(64)[15] & 3 == 3
    return {"rows": rows, "counted_later": queues.marked()[0] - before, "marked_later": marked}


def _fill(sender: socket.socket, frame: bytes, packets: int) -> None:
    """Send so many packets into a queue that may be full."""
    for _ in range(packets):
        with contextlib.suppress(OSError):  # ENOBUFS
            sender.send(frame)


def has_red() -> bool:
    """Whether this kernel has RED; the loopback on which that is tried is as before."""
    near = NetNamespace.create("near")
    has = red.kernel_has_red(near)
    with near.entered():
        assert "noqueue" in run([tool("tc"), "qdisc", "show", "dev", "lo"])
    return has


def _await_level(namespace: NetNamespace, level: int) -> None:
    """Return once the first port marks by this level and no other does; nft itself says nothing."""
    wanted = f"jump p{level}" if level else ""
    while True:
        with namespace.entered():
            listing = run([tool("nft"), "list", "map", "netdev", "marks", "level"])
        if listing.count("jump") == bool(level) and wanted in listing:
            return


def _roce(size: int, opcode: int, ecn: int = 0) -> bytes:
    frame = udp_frame(1, 2, size)
    frame = frame[:15] + bytes([frame[15] | ecn]) + frame[16:]
    return frame[:HEADER_BYTES] + bytes([opcode]) + frame[HEADER_BYTES + 1 :]


def impaired(kind: str, share: float, packets: int, size: int, rate_bps: float, burst: int) -> dict[str, Any]:
    """Numbered packets over an impaired cable, in bursts: what arrives, and what the shaper counted."""
    # every processor has a backlog of its own, and packets of a delayed one are overtaken
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    near, sender, receiver = _cable()
    shaping.shape(near, [("a", rate_bps, 0.0)])
    run([tool("ip"), "-n", "near", "link", "set", "dev", "lo", "up"])
    with near.entered():
        run([tool("nft"), "-f", "-"], stdin=script("a", Impairment(**{kind: share})))
    queues = [ShardQueues(near, {0: "a"})]
    head = bytes.fromhex("ffffffffffff02000000000188b5")
    began = time.monotonic()
    for first in range(0, packets, burst):
        for number in range(first, min(first + burst, packets)):
            sender.send(head + number.to_bytes(4, "big") + bytes(size - 18))
        while read_all(queues, 1).queue_bytes[0] > 0:
            time.sleep(0.002)
    seconds = time.monotonic() - began
    arrived, totals = _numbers(receiver), read_all(queues, 1)
    with near.entered():
        run([tool("nft"), "-f", "-"], stdin=script("a", Impairment()))
    for number in range(burst):
        sender.send(head + number.to_bytes(4, "big") + bytes(size - 18))
    return {
        "arrived": arrived,
        "healed": _numbers(receiver),
        "sent_packets": int(totals.sent_packets[0]),
        "sent_bytes": int(totals.sent_bytes[0]),
        "seconds": seconds,
    }


def lost_on_the_wire(share: float, packets: int) -> dict[str, Any]:
    """Packets over a shaped cable of which the far end loses a share, then none: to a socket like those of
    Open vSwitch, and through ingress rules. What was sent, and what arrived."""
    near, far = NetNamespace.create("near"), NetNamespace.create("far")
    sender, answerer = _join(near, far, "a", "b")
    shaping.shape(near, [("a", 1e8, 0.0)])
    queues = ShardQueues(near, {0: "a"})
    with far.entered():
        receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        receiver.bind(("b", ETH_P_ALL))
    ingress = IngressCounters(far, {7: "b"})
    frame = bytes.fromhex("ffffffffffff02000000000188b5") + bytes(200)

    def counts() -> tuple[float, int, int]:
        return read_all([queues], 1).sent_packets[0], packet_counts(receiver)[0], ingress.read()[7]

    def passed() -> list[int]:
        before = counts()
        for _ in range(packets):
            sender.send(frame)
            answerer.send(frame)  # what leaves there is not received
            time.sleep(0.0002)
        time.sleep(0.1)
        after = counts()
        return [int(after[0] - before[0]), after[1], after[2] - before[2]]

    found = []
    for at_socket, at_ingress in ((share, 0.0), (0.0, share), (0.0, 0.0)):
        lose(receiver, at_socket)
        with far.entered():
            run([tool("nft"), "-f", "-"], stdin=ingress_script("b", at_ingress))
        found.append(passed())
    return {"passed": found}


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
    from railweave.framework.experiment.plan import load_plan
    from railweave.framework.lab.emulated_run import lab_session
    from railweave.framework.lab.tasks.verify import LOST_AFTER_S, MARKED_BYTES
    from railweave.framework.model.addressing import ipv4
    from railweave.framework.registry import load_plugins as registers

    known = registers()
    overrides = {
        "topology.domains": 2,
        "topology.rails": 2,
        "fault": "none",
        "rate_scale": 1e-4,
        "router": "shortest",
    }
    with lab_session(load_plan(None, overrides, known), known, lambda _: None) as session:
        fabric = session.plan.fabric
        link = next(i for i in range(fabric.n_links) if fabric.link_name(i) == "g0.0->r0")
        session.engine.injector.lose(np.array([link]), "loss", share)
        entropy = int(session.control.entropies.udp_src[0])
        with session.engine.lab.host_sockets(LOST_AFTER_S) as sockets:
            sender, receiver = sockets[0], sockets[2]
            receiver.settimeout(0.05)
            ends = ipv4(fabric, 0), ipv4(fabric, 2)
            frame, arrived = udp_frame(*ends, MARKED_BYTES, src_port=entropy), []
            shard = session.engine.lab.shards[0]
            for _ in range(0, packets, burst):
                shard.halt()  # so that it finds the whole burst at once
                for _ in range(burst):
                    sender.send(frame)
                os.kill(shard.pids[SWITCH], signal.SIGCONT)
                arrived.append(_drained(receiver, burst))
            measured = session.parts.source.totals().lost
            session.engine.lab.kill(shard)
            session.engine.injector._start(shard)
            session.engine.until(lambda: session.parts.rules.at_rest, "the rules to be back")
            before = session.parts.source.totals()
            for _ in range(packets):
                sender.send(frame)
                time.sleep(0.001)
            time.sleep(0.5)
            after = session.parts.source.totals()
    return {
        "arrived": arrived,
        "measured": measured.tolist(),
        "link": link,
        "sent_after_restart": float(after.sent_packets[link] - before.sent_packets[link]),
        "lost_after_restart": float(after.lost[link] - before.lost[link]),
    }


def _drained(receiver: socket.socket, most: int) -> int:
    for count in range(most):
        try:
            receiver.recv(64)
        except TimeoutError:
            return count
    return most


def bring_up(domains: int, rails: int) -> dict[str, Any]:
    """Build, shape, degrade, cut and inspect a small fabric."""
    lab = Emulation(rail_fabric(domains, rails, 36e6, 4e6), 4096)
    lab.open_namespaces()
    lab.build()
    lab.shape(lab.fabric)
    rail = domains * rails + domains
    links = lab.fabric.element_links(rail)
    injector = Injector(lab, Watch(), lambda: None, lambda _shard, _name: lambda: None, print)
    injector.set_rates(links, lab.fabric.capacity_bps[links] * 0.2)
    rates = {}
    for (path, interface), asked in zip(lab.link_interfaces(), lab.rates_bps, strict=True):
        space = next(s.namespace for s in lab.shards if s.namespace.path == path)
        rates[interface] = [float(asked), float(shaping.rates_in_force(space, [interface])[0])]
    for kind in ("reorder", "duplicate", "wrong_icrc"):
        injector.impair(links[:2], kind, 0.5)
    injector.lose(links[:2], "loss", 0.5)
    injector.heal(links)
    injector.set_carrier(links[:2], up=False)
    ports = lab.shards[0].vsctl(["--format=json", "--columns=name,ofport", "list", "Interface"])
    refused = _refused(injector, lab, int(links[0]))
    lab.down()
    return {
        "rates": rates,
        "ports": json.loads(ports)["data"],
        "send_buffer": lab.send_buffer_bytes,
        "refused": refused,
    }


def _refused(injector: Injector, lab: Emulation, link: int) -> str:
    """What is said of a fault that the kernel does not take; here because it has no such interface any
    more."""
    (shard, _), *_ = lab.by_shard(np.array([link]))
    run([tool("ip"), "-n", shard.namespace.name, "link", "del", "dev", lab.interfaces[link]])
    text = f"at=0s duplicate link:{lab.fabric.link_name(link)} rate=1%"
    try:
        injector.inject(resolve(parse(text), lab.fabric))
    except MachineError as error:
        return str(error)
    return ""


def sabotage() -> dict[str, Any]:
    """A sound lab, then one rule of one switch turned to the wrong port."""
    from railweave.framework.experiment.plan import load_plan
    from railweave.framework.lab.emulated_run import lab_session
    from railweave.framework.lab.tasks.verify import verify
    from railweave.framework.registry import load_plugins as registers

    known = registers()
    overrides = {
        "topology.domains": 2,
        "topology.rails": 2,
        "fault": "none",
        "rate_scale": 1e-5,
        "router": "shortest",
    }
    with lab_session(load_plan(None, overrides, known), known, lambda _: None) as session:
        before = verify(session)
        shard = session.engine.lab.shards[0]
        # what comes from g0.0 and is to cross rail 0 is sent to where it came from instead
        shard.ofctl("mod-flows", "r0", "ip,actions=in_port")
        after = verify(session)
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


def degraded(measure: str, feedback: bool) -> dict[str, Any]:
    sys.path.insert(0, str(Path(__file__).parent))
    import one_source

    return one_source.degraded(measure, feedback)


if __name__ == "__main__":
    mount("tmpfs", "/run", "tmpfs", data="mode=755")
    scene, *words = sys.argv[1:]
    print(json.dumps(globals()[scene](*(json.loads(word) for word in words))))
