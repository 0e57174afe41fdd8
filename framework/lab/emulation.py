"""The emulated fabric, seen from the lab's first process: build, shape, measure, injure, let go."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np

from railweave.framework.addressing import ipv4, ipv4_text, mac_text
from railweave.framework.errors import LabError, MachineError
from railweave.framework.lab import shaping
from railweave.framework.lab.names import HOST_PORT, host_name, interface_name, link_interface
from railweave.framework.lab.namespaces import NetNamespace
from railweave.framework.lab.network import LabNet
from railweave.framework.lab.ovs import OvsShard, run, tool
from railweave.framework.lab.placement import place, shard_count
from railweave.framework.lab.telemetry import ShardQueues, Telemetry
from railweave.framework.model import Endpoint, Fabric
from railweave.framework.model.arrays import Float, Int64

CONTROLLER_PORT = 6653
BACKLOG = 512
Step = Callable[[str], None]


class Emulation:
    """One fabric on Open vSwitch. Steps come in this order: `open_namespaces`, `build`, `shape`, ..., `down`."""

    def __init__(self, fabric: Fabric, path_mtu: int) -> None:
        self.fabric = fabric
        self.path_mtu = path_mtu
        self.placement: Int64 = place(fabric, shard_count(fabric))
        self.kernel_datapath = shaping.kernel_datapath_present()
        self.shards: list[OvsShard] = []
        self.hosts: dict[str, NetNamespace] = {}
        self.net: LabNet | None = None
        self.send_buffer_bytes = 0
        self.rates_bps: Float = np.zeros(fabric.n_links)
        self._interface = [link_interface(fabric, link) for link in range(fabric.n_links)]
        self._links_of = [
            np.flatnonzero(self.placement[fabric.link_src] == shard)
            for shard in range(int(self.placement.max()) + 1)
        ]
        self._injured: set[str] = set()

    # -- bring-up --------------------------------------------------------------------------------------
    def open_namespaces(self) -> list[int]:
        """Make the namespaces, and in each shard a listening socket for the controller: their descriptors.

        The sockets belong to this process, so that a controller can die and come back to the same ones.
        """
        self.shards = [OvsShard(i, NetNamespace.create(f"shard{i}")) for i in range(len(self._links_of))]
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
        if not self.kernel_datapath:
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
        self.rates_bps = scaled.capacity_bps.copy()

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
        return sum(cpu_seconds(shard.pids["ovs-vswitchd"]) for shard in self.shards)

    # -- faults ----------------------------------------------------------------------------------------
    def set_rates(self, links: Int64, rates_bps: Float) -> None:
        """Change the emulated rate of links (one rate per link given); waiting packets stay in their queues."""
        for shard, own in zip(self.shards, self._links_of, strict=True):
            mine = np.isin(links, own)
            if mine.any():
                changes = [
                    (self._interface[link], float(rate))
                    for link, rate in zip(links[mine], rates_bps[mine], strict=True)
                ]
                shaping.reshape(shard.namespace, changes)
                shaping.verify(shard.namespace, changes)
        self.rates_bps = self.rates_bps.copy()
        self.rates_bps[links] = rates_bps

    def set_carrier(self, links: Int64, up: bool) -> None:
        """Plug cables in or out; a cable is both directions."""
        for shard, own in zip(self.shards, self._links_of, strict=True):
            mine = [self._interface[link] for link in links if link in own]
            if mine:
                state = "up" if up else "down"
                lines = "".join(f"link set dev {interface} {state}\n" for interface in mine)
                run([tool("ip"), "-n", shard.namespace.name, "-batch", "-"], given=lines)

    def set_loss(self, links: Int64, share: float) -> None:
        """Drop this share of packets at random before each link's queue; 0 ends it."""
        for shard, own in zip(self.shards, self._links_of, strict=True):
            for interface in (self._interface[link] for link in links if link in own):
                table = f"netdev loss_{interface.replace('.', '_').replace('-', '_')}"
                script = f"delete table {table}\n" if interface in self._injured else ""
                self._injured.discard(interface)
                if share > 0:
                    script += (
                        f'table {table} {{ chain out {{ type filter hook egress device "{interface}" priority 0\n'
                        f"numgen random mod 1000000 < {round(share * 1e6)} counter drop\n}}\n}}\n"
                    )
                    self._injured.add(interface)
                if script:
                    with shard.namespace.entered():
                        run([tool("nft"), "-f", "-"], given=script)

    def down(self) -> None:
        """Take interfaces and daemons away; what is left ends with the lab's first process."""
        for shard in self.shards:
            shard.halt()
        if self.net is not None and not self.kernel_datapath:
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
