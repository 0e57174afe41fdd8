"""The emulated fabric, as the lab's first process builds it, shapes it, changes it and takes it down."""

import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from railweave.framework.errors import LabError, MachineError
from railweave.framework.lab.names import HOST_PORT, host_name, interface_name, link_interface
from railweave.framework.lab.switching import datapath, shaping
from railweave.framework.lab.switching.mininet_net import LabNet
from railweave.framework.lab.switching.ovs import OvsShard
from railweave.framework.lab.switching.placement import place, shard_count
from railweave.framework.model import Endpoint, Fabric
from railweave.framework.model.addressing import ipv4, ipv4_text, mac_text
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.processes.namespaces import NetNamespace
from railweave.framework.processes.openvswitch import SWITCH
from railweave.framework.processes.programs import run, tool

CONTROLLER_PORT = 6653
BACKLOG = 512


class Emulation:
    """One fabric on Open vSwitch. Call `open_namespaces`, `build` and `shape` in this order, and `down` at
    the end.

    `short_packets_wait`: why short packets cannot overtake queued ones, "" where they do.
    """

    def __init__(self, fabric: Fabric, path_mtu: int, wanted_datapath: str = "auto") -> None:
        self.fabric = fabric
        self.path_mtu = path_mtu
        self.placement: Int64 = place(fabric, shard_count(fabric))
        self.kernel_datapath = False
        self._wanted_datapath = wanted_datapath
        self.shards: list[OvsShard] = []
        self.hosts: dict[str, NetNamespace] = {}
        self.net: LabNet | None = None
        self.send_buffer_bytes = 0
        self.short_packets_wait = ""
        self.rates_bps: Float = np.zeros(fabric.n_links)
        self.healthy_bps = self.rates_bps
        self._interface = [link_interface(fabric, link) for link in range(fabric.n_links)]
        self._links_of = [
            np.flatnonzero(self.placement[fabric.link_src] == shard)
            for shard in range(int(self.placement.max()) + 1)
        ]
        self.latency_s: Float = np.zeros(fabric.n_links)
        self._spent_cpu_s = 0.0

    @property
    def datapath(self) -> str:
        """The name of the datapath in use; valid once the namespaces are open."""
        return datapath.KERNEL if self.kernel_datapath else datapath.USERSPACE

    # -- bring-up --------------------------------------------------------------------------------------
    def open_namespaces(self) -> list[int]:
        """Create the namespaces, and in each shard a listening socket for the controller; return their
        descriptors.

        The sockets belong to this process, so a restarted controller listens on the same ones. Raises
        MachineError where the wanted datapath is not available.
        """
        self.shards = [OvsShard(i, NetNamespace.create(f"shard{i}")) for i in range(len(self._links_of))]
        self.kernel_datapath = datapath.is_kernel(self._wanted_datapath, self.shards[0].namespace)
        self.hosts = {
            name: NetNamespace.create(name)
            for name in (host_name(self.fabric, gpu) for gpu in range(self.fabric.n_gpus))
        }
        self._listeners = []
        for shard in self.shards:
            with shard.namespace.entered():
                run([tool("ip"), "link", "set", "lo", "up"])
                listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("127.0.0.1", CONTROLLER_PORT))
                listener.listen(BACKLOG)
                self._listeners.append(listener)
        return [listener.fileno() for listener in self._listeners]

    def build(self) -> None:
        """Start the daemons, create cables and bridges, and set their controller; nothing is shaped yet."""
        for shard in self.shards:
            shard.start_database()
            shard.start_switch()
        self.net = LabNet(
            self.fabric, self.shards, self.placement, self.hosts, kernel_datapath=self.kernel_datapath
        )
        self.net.start(CONTROLLER_PORT)
        if self.kernel_datapath:
            for shard in self.shards:
                shard.widen_miss_buffers()
        else:
            self.send_buffer_bytes = min(self._widen(shard) for shard in self.shards)

    def _widen(self, shard: OvsShard) -> int:
        """Make the shard's switch open its send socket by one packet to a host, then enlarge the socket."""
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
        self.healthy_bps, self.latency_s = scaled.capacity_bps, scaled.latency_s
        self.rates_bps = scaled.capacity_bps.copy()
        for shard, links in zip(self.shards, self._links_of, strict=True):
            self._shape(shard)
            reason = shaping.short_first(shard.namespace, [self._interface[link] for link in links])
            self.short_packets_wait = self.short_packets_wait or reason

    def _shape(self, shard: OvsShard) -> None:
        links = self._links_of[shard.index]
        wanted = zip(self._rates(shard), self.latency_s[links].tolist(), strict=True)
        shaping.shape(shard.namespace, [(*rate, latency_s) for rate, latency_s in wanted])
        shaping.verify(shard.namespace, self._rates(shard))

    def _rates(self, shard: OvsShard) -> list[tuple[str, float]]:
        return [(self._interface[link], float(self.rates_bps[link])) for link in self._links_of[shard.index]]

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
                self.path_mtu,
            )
            for gpu, name in enumerate(self.hosts)
        ]

    def link_interfaces(self) -> list[tuple[str, str]]:
        """(namespace path, interface) of every link: where its packets leave."""
        shard_of_link = self.placement[self.fabric.link_src]
        paths = [shard.namespace.path for shard in self.shards]
        return [(paths[shard], name) for shard, name in zip(shard_of_link, self._interface, strict=True)]

    def switch_cpu_s(self) -> float:
        """CPU seconds that the switches have used so far."""
        alive = (shard.pids[SWITCH] for shard in self.shards if SWITCH in shard.pids)
        return self._spent_cpu_s + sum(map(cpu_seconds, alive))

    # -- changed by faults/injector.py -----------------------------------------------------------------
    def interface(self, link: int) -> str:
        """The interface by which a link leaves its node."""
        return self._interface[link]

    def by_shard(self, links: Int64) -> Iterator[tuple[OvsShard, list[int]]]:
        """Each shard in which some of these links are shaped, with those links."""
        for shard, own in zip(self.shards, self._links_of, strict=True):
            mine = links[np.isin(links, own)].tolist()
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
        if self.kernel_datapath:
            shard.widen_miss_buffers()
        else:
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
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return total / 1e9
    return total / 1e9
