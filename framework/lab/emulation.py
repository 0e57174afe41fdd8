"""The emulated fabric, seen from the lab's first process: build, shape, measure, injure, let go."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from railweave.framework.addressing import ipv4, ipv4_text, mac_text
from railweave.framework.errors import LabError, MachineError
from railweave.framework.lab import datapath, shaping
from railweave.framework.lab.names import HOST_PORT, host_name, interface_name, link_interface
from railweave.framework.lab.namespaces import NetNamespace
from railweave.framework.lab.network import LabNet
from railweave.framework.lab.ovs import SWITCH, OvsShard, run, tool
from railweave.framework.lab.placement import place, shard_count
from railweave.framework.lab.telemetry import ShardQueues, Telemetry
from railweave.framework.model import Endpoint, Fabric
from railweave.framework.model.arrays import Float, Int64

CONTROLLER_PORT = 6653
BACKLOG = 512
Step = Callable[[str], None]


class Emulation:
    """One fabric on Open vSwitch. Steps come in this order: `open_namespaces`, `build`, `shape`, ..., `down`."""

    def __init__(self, fabric: Fabric, path_mtu: int, datapath_asked: str = "auto") -> None:
        self.fabric = fabric
        self.path_mtu = path_mtu
        self.placement: Int64 = place(fabric, shard_count(fabric))
        self.kernel_datapath = False
        self._datapath_asked = datapath_asked
        self.shards: list[OvsShard] = []
        self.hosts: dict[str, NetNamespace] = {}
        self.net: LabNet | None = None
        self.send_buffer_bytes = 0
        self.short_first = True
        self.rates_bps: Float = np.zeros(fabric.n_links)
        self._interface = [link_interface(fabric, link) for link in range(fabric.n_links)]
        self._links_of = [
            np.flatnonzero(self.placement[fabric.link_src] == shard)
            for shard in range(int(self.placement.max()) + 1)
        ]
        self.latency_s: Float = np.zeros(fabric.n_links)
        self._spent_cpu_s = 0.0

    @property
    def datapath(self) -> str:
        """The name of the datapath in use; known once the namespaces are open."""
        return datapath.KERNEL if self.kernel_datapath else datapath.USERSPACE

    # -- bring-up --------------------------------------------------------------------------------------
    def open_namespaces(self) -> list[int]:
        """Make the namespaces, and in each shard a listening socket for the controller: their descriptors.
        MachineError where the datapath asked for cannot be had.

        The sockets belong to this process, so that a controller can die and come back to the same ones.
        """
        self.shards = [OvsShard(i, NetNamespace.create(f"shard{i}")) for i in range(len(self._links_of))]
        self.kernel_datapath = datapath.is_kernel(self._datapath_asked, self.shards[0].namespace)
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
        """Daemons, cables, bridges pointed at their controller; nothing is shaped yet."""
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
        """Make the shard's switch open its send socket with one packet to a host, then enlarge it."""
        gpu = int(np.flatnonzero(self.placement[: self.fabric.n_gpus] == shard.index)[0])
        frame = "ffffffffffff0201000000000800" + "00" * 46
        shard.ofctl(
            "packet-out",
            self.fabric.node_name(gpu),
            f"in_port=controller,packet={frame},actions=output:{HOST_PORT}",
        )
        reached = shard.widen_buffers()
        if reached == 0:
            raise LabError(
                f"shard {shard.index}: ovs-vswitchd did not open its send socket.\n{shard.last_words()}"
            )
        return reached

    def shape(self, scaled: Fabric) -> None:
        """Shape every link to its emulated rate and read the rates back; LabError on the first difference."""
        if np.any(scaled.latency_s > 0) and not shaping.kernel_has_netem(self.shards[0].namespace):
            late = int(np.argmax(scaled.latency_s > 0))
            raise MachineError(
                f"link {scaled.link_name(late)} is declared with a latency, and this kernel has no netem "
                "(CONFIG_NET_SCH_NETEM). Set the latencies to 0, or run in the VM lab (`vagrant up`)."
            )
        for shard, links in zip(self.shards, self._links_of, strict=True):
            wanted = [(self._interface[link], float(scaled.capacity_bps[link])) for link in links]
            latencies = [float(scaled.latency_s[link]) for link in links]
            shaping.shape(
                shard.namespace,
                [(name, rate, late) for (name, rate), late in zip(wanted, latencies, strict=True)],
            )
            shaping.verify(shard.namespace, wanted)
            self.short_first &= shaping.short_first(shard.namespace, [name for name, _ in wanted])
        self.rates_bps, self.latency_s = scaled.capacity_bps.copy(), scaled.latency_s

    def endpoints(self) -> list[Endpoint]:
        """Where each GPU sends from."""
        found = []
        for gpu in range(self.fabric.n_gpus):
            name = host_name(self.fabric, gpu)
            found.append(
                Endpoint(
                    gpu, self.fabric.node_name(gpu), self.hosts[name].path, interface_name(name, 0),
                    mac_text(gpu), ipv4_text(ipv4(self.fabric, gpu)), self.path_mtu,
                )
            )  # fmt: skip
        return found

    def link_interfaces(self) -> list[tuple[str, str]]:
        """(namespace path, interface) of every link: where its packets leave."""
        return [
            (
                self.shards[int(self.placement[self.fabric.link_src[link]])].namespace.path,
                self._interface[link],
            )
            for link in range(self.fabric.n_links)
        ]

    # -- measuring -------------------------------------------------------------------------------------
    def telemetry(self) -> Telemetry:
        return Telemetry(
            [
                (ShardQueues(shard.namespace, [self._interface[link] for link in links]), links)
                for shard, links in zip(self.shards, self._links_of, strict=True)
            ],
            self.fabric.n_links,
        )

    def switch_cpu_s(self) -> float:
        """CPU seconds that the switches have used so far."""
        alive = (shard.pids[SWITCH] for shard in self.shards if SWITCH in shard.pids)
        return self._spent_cpu_s + sum(map(cpu_seconds, alive))

    # -- injured and mended by injury.py ---------------------------------------------------------------
    def interface(self, link: int) -> str:
        """The interface by which a link leaves its node."""
        return self._interface[link]

    def by_shard(self, links: Int64) -> Iterator[tuple[OvsShard, list[int]]]:
        """Each shard that packets of some of these links leave from, with those links."""
        for shard, own in zip(self.shards, self._links_of, strict=True):
            mine = links[np.isin(links, own)].tolist()
            if mine:
                yield shard, mine

    def kill(self, shard: OvsShard) -> None:
        """kill -9 the shard's switch; what it carried is lost until `revive`."""
        self._spent_cpu_s += cpu_seconds(shard.pids[SWITCH])
        shard.kill_switch()
        if self.kernel_datapath:  # it would go on with the flows it was given
            shard.forget_flows()

    def revive(self, shard: OvsShard) -> bool:
        """Start the shard's switch again: bridges and ports come from its database, flows from the controller.

        Whether its links were still shaped; where not, they are again when this returns.
        """
        shard.start_switch()
        if self.kernel_datapath:
            shard.widen_miss_buffers()
        else:
            self._widen(shard)
        links = self._links_of[shard.index]
        wanted = [(self._interface[link], float(self.rates_bps[link])) for link in links]
        try:
            shaping.verify(shard.namespace, wanted)
        except LabError:
            late = [float(self.latency_s[link]) for link in links]
            shaping.shape(shard.namespace, [(*want, s) for want, s in zip(wanted, late, strict=True)])
            shaping.verify(shard.namespace, wanted)
            return False
        return True

    def down(self) -> None:
        """Take interfaces and daemons away; what is left ends with the lab's first process."""
        for shard in self.shards:
            shard.halt()
        alive = all(SWITCH in shard.pids for shard in self.shards)  # a dead one took its bridges with it
        if self.net is not None and not self.kernel_datapath and alive:
            self.net.stop()
        for shard in self.shards:
            shard.stop()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and all its threads, from the scheduler's nanosecond counters; 0 once it is gone."""
    total = 0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return total / 1e9
    return total / 1e9


def proportional_memory_bytes() -> int:
    """Sum of PSS over every process that this one can see: the lab's whole process tree."""
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != 0:
            try:
                text = (entry / "smaps_rollup").read_text()
            except (OSError, ProcessLookupError):  # it ended meanwhile, or is a zombie without memory
                continue
            for line in text.splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total
