"""The emulated fabric, as the lab's first process builds it, shapes it, changes it and takes it down."""

import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from railweave.framework.errors import LabError, MachineError
from railweave.framework.experiment.ramp import Ramp
from railweave.framework.lab.interface_names import HOST_PORT, host_name, interface_name
from railweave.framework.lab.switching import datapath, red, shaping
from railweave.framework.lab.switching.mininet_net import CONTROLLER_PORT, LabNet
from railweave.framework.lab.switching.ovs import OvsShard
from railweave.framework.lab.switching.shard_placement import place, shard_count
from railweave.framework.model import Endpoint, Fabric
from railweave.framework.model.addressing import ipv4, ipv4_text, mac_text
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.processes.namespaces import NetNamespace
from railweave.framework.processes.openvswitch import SWITCH
from railweave.framework.processes.packet_socket import ETH_P_IP, packet_socket, receive_memory
from railweave.framework.processes.programs import run, tool

QUEUE_PACKETS, CONTROLLED_QUEUE_PACKETS = 1000, 4096
"""Room of a link's queue: the kernel's usual, for the windows of the transport; and under a congestion
control, which may have none (DCQCN), for 16 pairs with the 256 packets each that acknowledgements can tell
of. Each packet of room takes 24 bytes of every link."""
BACKLOG = 512
"""Connections that wait while the controller is started: all switches connect at once."""
OTHER_FILES = 64
"""Open files of the lab's first process besides those of cables and GPUs, rounded up."""


def check_descriptors(fabric: Fabric, most: int) -> None:
    """Raises MachineError where a process may not have as many open files as a lab of this fabric needs: two
    borrowed sockets a cable, a namespace a GPU, and what Python and Mininet open."""
    needed = fabric.n_links + fabric.n_gpus + OTHER_FILES
    if 0 <= most < needed:
        raise MachineError(
            f"a process may have {most} open files here (ulimit -Hn), and a lab of {fabric.n_gpus} GPUs and "
            f"{fabric.n_links} links needs {needed}. Raise it, as with `ulimit -n {max(needed, 4096)}`."
        )


class Emulation:
    """One fabric on Open vSwitch. Call `open_namespaces`, `build` and `shape` in this order, and `down` at
    the end.

    `datapath`: its name; valid once the namespaces are open. `interfaces`: of every link, the one by which it
    leaves its node, with its shaper and queue. `scaled`: the fabric with the emulated rates, once it is
    shaped; `rates_bps` (n_links,): those in force, which faults change. `short_packets_wait`: why short
    packets cannot overtake queued ones, "" where they do.
    """

    def __init__(
        self,
        fabric: Fabric,
        path_mtu: int,
        wanted_datapath: str = "auto",
        queue_packets: int = QUEUE_PACKETS,
    ) -> None:
        self.fabric, self.scaled = fabric, fabric
        self.placement: Int64 = place(fabric, shard_count(fabric))
        self.kernel_datapath, self.datapath = False, datapath.USERSPACE
        self._path_mtu, self._wanted_datapath = path_mtu, wanted_datapath
        self._queue_packets = queue_packets
        self.shards: list[OvsShard] = []
        self.hosts: dict[str, NetNamespace] = {}
        self.net: LabNet | None = None
        self.send_buffer_bytes = 0
        self.short_packets_wait = ""
        self.rates_bps: Float = np.zeros(fabric.n_links)
        self._ramp: Ramp | None = None
        self._marking: Int64 = np.zeros(0, np.int64)
        self.interfaces = [
            interface_name(fabric.node_name(node), port)
            for node, port in zip(fabric.link_src.tolist(), fabric.link_port.tolist(), strict=True)
        ]
        self._links_of = [
            np.flatnonzero(self.placement[fabric.link_src] == shard)
            for shard in range(int(self.placement.max()) + 1)
        ]
        self._spent_cpu_s = 0.0

    # -- bring-up --------------------------------------------------------------------------------------
    def open_namespaces(self) -> list[int]:
        """Create the namespaces, and in each shard a listening socket for the controller; return their
        descriptors.

        The sockets belong to this process, so a restarted controller listens on the same ones. Raises
        MachineError where the wanted datapath is not available.
        """
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        check_descriptors(self.fabric, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two borrowed sockets a cable
        self.shards = [OvsShard(i, NetNamespace.create(f"shard{i}")) for i in range(len(self._links_of))]
        self.kernel_datapath = datapath.is_kernel(self._wanted_datapath, self.shards[0].namespace)
        self.datapath = datapath.KERNEL if self.kernel_datapath else datapath.USERSPACE
        self.hosts = {
            name: NetNamespace.create(name)
            for name in (host_name(self.fabric, gpu) for gpu in range(self.fabric.n_gpus))
        }
        self._listeners = []
        for shard in self.shards:
            with shard.namespace.entered():
                run([tool("ip"), "link", "set", "lo", "up"])
                self._listeners.append(socket.create_server(("127.0.0.1", CONTROLLER_PORT), backlog=BACKLOG))
        return [listener.fileno() for listener in self._listeners]

    def build(self) -> None:
        """Start the daemons, create cables and bridges, and set their controller; nothing is shaped yet."""
        for shard in self.shards:
            shard.start_database()
            shard.start_switch()
        self.net = LabNet(
            self.fabric, self.shards, self.placement, self.hosts, kernel_datapath=self.kernel_datapath,
            queue_packets=self._queue_packets,
        )  # fmt: skip
        self.net.start()
        self.send_buffer_bytes = min(map(self._widen, self.shards))

    def _widen(self, shard: OvsShard) -> int:
        """Enlarge the sockets of the shard's switch; returns the bytes granted to the one that sends, 0 with
        the kernel datapath. One packet to a host makes the switch open it."""
        if self.kernel_datapath:
            shard.widen_miss_buffers()
            return 0
        gpu = int(np.flatnonzero(self.placement[: self.fabric.n_gpus] == shard.index)[0])
        frame = "ffffffffffff0201000000000800" + "00" * 46
        shard.ofctl(
            "packet-out",
            self.fabric.node_name(gpu),
            f"in_port=controller,packet={frame},actions=output:{HOST_PORT}",
        )
        buffer_bytes = shard.widen_buffers()
        if buffer_bytes == 0:
            raise LabError(
                f"shard {shard.index}: ovs-vswitchd did not open its send socket.\n{shard.log_tail()}"
            )
        return buffer_bytes

    def shape(self, scaled: Fabric) -> None:
        """Shape every link to its emulated rate and read the rates back.

        Raises ExperimentError for rates that cannot be shaped to, MachineError for latencies without netem,
        LabError for a rate in force that differs from the one asked for.
        """
        for link in (int(scaled.capacity_bps.argmin()), int(scaled.capacity_bps.argmax())):
            shaping.check_rate(scaled.link_name(link), float(scaled.capacity_bps[link]))
        if np.any(scaled.latency_s > 0) and not shaping.kernel_has_netem(self.shards[0].namespace):
            late = int(np.argmax(scaled.latency_s > 0))
            raise MachineError(
                f"link {scaled.link_name(late)} is declared with a latency, and this kernel has no netem "
                "(CONFIG_NET_SCH_NETEM). Set the latencies to 0, or run in the VM lab (`vagrant up`)."
            )
        self.scaled, self.rates_bps = scaled, scaled.capacity_bps
        for shard in self.shards:
            self._shape(shard)
            reason = shaping.put_in_bands(shard.namespace, [interface for interface, _ in self._rates(shard)])
            self.short_packets_wait = self.short_packets_wait or reason

    def unshape(self) -> None:
        """Undo `shape`."""
        for shard in self.shards:
            shaping.unshape(shard.namespace, [interface for interface, _ in self._rates(shard)])

    def _shape(self, shard: OvsShard) -> None:
        rates, latencies_s = self._rates(shard), self.scaled.latency_s[self._links_of[shard.index]].tolist()
        shaping.shape(shard.namespace, [(*rate, s) for rate, s in zip(rates, latencies_s, strict=True)])
        shaping.verify(shard.namespace, rates)
        self._put_red(shard)

    def mark(self, links: Int64, ramp: Ramp) -> None:
        """Let shaped links mark by a ramp, by the kernel's RED. Raises LabError where it has none."""
        self._marking, self._ramp = links, ramp
        for shard in self.shards:
            self._put_red(shard)

    def _put_red(self, shard: OvsShard) -> None:
        if self._ramp is not None:
            mine = np.intersect1d(self._links_of[shard.index], self._marking).tolist()
            red.put(shard.namespace, [self.interfaces[link] for link in mine], self._ramp)

    def _rates(self, shard: OvsShard) -> list[tuple[str, float]]:
        return [(self.interfaces[link], float(self.rates_bps[link])) for link in self._links_of[shard.index]]

    def endpoints(self) -> list[Endpoint]:
        """Where each GPU sends from."""
        return [
            Endpoint(
                gpu,
                self.fabric.node_name(gpu),
                self.hosts[name].path,
                interface_name(name, 0),
                mac_text(gpu),
                ipv4_text(ipv4(self.fabric, gpu)),
                self._path_mtu,
            )
            for gpu, name in enumerate(self.hosts)
        ]

    def link_interfaces(self) -> list[tuple[str, str]]:
        """(namespace path, interface) of every link: where its packets leave."""
        shards = [self.shards[shard] for shard in self.placement[self.fabric.link_src]]
        return [(shard.namespace.path, name) for shard, name in zip(shards, self.interfaces, strict=True)]

    @contextlib.contextmanager
    def host_sockets(self, timeout_s: float) -> Iterator[list[socket.socket]]:
        """Packet sockets for IPv4 during the block, one on the interface of each GPU's host."""
        with contextlib.ExitStack() as opened:
            sockets = []
            for name, namespace in self.hosts.items():
                with namespace.entered():
                    sock = opened.enter_context(packet_socket())
                    sock.bind((interface_name(name, 0), ETH_P_IP))
                sock.settimeout(timeout_s)
                sockets.append(sock)
            yield sockets

    def switch_cpu_s(self) -> float:
        """CPU seconds that the switches have used so far."""
        alive = [shard.pids[SWITCH] for shard in self.shards if SWITCH in shard.pids]
        return self._spent_cpu_s + sum(map(cpu_seconds, alive))

    def receiver(self, link: int) -> socket.socket | None:
        """The packet socket on which the switch at the far end of a link receives; None with the kernel
        datapath, and while that switch is down."""
        shard = self.shards[int(self.placement[self.fabric.link_dst[link]])]
        return shard.receivers.get(self.interfaces[link ^ 1])

    def waiting_bytes(self) -> int:
        """Memory of the packets that wait for the switches of the userspace datapath at their ports."""
        return sum(receive_memory(receiver) for shard in self.shards for receiver in shard.receivers.values())

    # -- changed by faults/injector.py -----------------------------------------------------------------
    def by_shard(self, links: Int64, *, far: bool = False) -> Iterator[tuple[OvsShard, list[int]]]:
        """Each shard in which some of these links are shaped (`far`: received), with those links."""
        shards = self.placement[(self.fabric.link_dst if far else self.fabric.link_src)[links]]
        for shard in self.shards:
            mine = links[shards == shard.index].tolist()
            if mine:
                yield shard, mine

    def kill(self, shard: OvsShard) -> None:
        """kill -9 the shard's switch; packets through it are lost until `revive`."""
        self._spent_cpu_s += cpu_seconds(shard.pids[SWITCH])
        shard.kill_switch()
        if self.kernel_datapath:  # the kernel would keep forwarding by its cached flows
            shard.forget_flows()

    def revive(self, shard: OvsShard) -> bool:
        """Start the shard's switch again: bridges and ports come from its database, flows from the
        controller.

        Returns whether its links were still shaped; if not, they are shaped again when this returns.
        """
        shard.start_switch()
        self._widen(shard)
        try:
            shaping.verify(shard.namespace, self._rates(shard))
        except LabError:
            self._shape(shard)
            return False
        return True

    def down(self) -> None:
        """Remove interfaces and daemons; the kernel removes the rest when the lab's first process ends."""
        for shard in self.shards:
            shard.halt()
        alive = all(SWITCH in shard.pids for shard in self.shards)  # a killed one took its bridges with it
        if self.net is not None and not self.kernel_datapath and alive:
            self.net.stop()
        for shard in self.shards:
            shard.stop()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and all its threads, from the scheduler's nanosecond counters; 0 once it is
    gone."""
    total = 0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9
