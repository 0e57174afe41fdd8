"""Mininet's network and its command line, brought up in batches instead of a process per interface.

Stock Mininet spends its time in fork and exec: a shell per node, five or six tools per interface, one call
per switch. Here shells start on first use, one `ip -batch` creates all cables, and one ovs-vsctl transaction
per shard creates its bridges.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, Node, OVSSwitch
from mininet.topo import Topo

from railweave.framework.lab.interface_names import HOST_PORT, host_name
from railweave.framework.lab.switching.ovs import OvsShard
from railweave.framework.lab.switching.shaping import LINK_MTU
from railweave.framework.model import Fabric
from railweave.framework.model.addressing import dpid, ipv4, ipv4_text, mac_text
from railweave.framework.model.arrays import Int64
from railweave.framework.processes.namespaces import NetNamespace
from railweave.framework.processes.openvswitch import USERSPACE_TYPE
from railweave.framework.processes.programs import run, tool

CONTROLLER_PORT = 6653
"""TCP port of OpenFlow (IANA), in each shard's own network namespace."""
GROUP = 7
"""Interface group of everything in a lab, so the kernel can remove all of it at once."""
MOST_IDLE_MS = 600_000
"""How long a flow that sends nothing stays in a switch's cache (10 s by default): between two iterations of
many paths, at low rates, all of them would go, and the first packet of each take the slow path again."""


class FabricTopo(Topo):  # type: ignore[misc]
    """A Fabric in Mininet's terms: a host and a NIC switch per GPU, a switch per domain, rail or spine."""

    def build(self, fabric: Fabric) -> None:
        for node in range(fabric.n_nodes):
            self.addSwitch(fabric.node_name(node), dpid=f"{dpid(node):016x}", fabric_node=node)
        for gpu in range(fabric.n_gpus):
            host = self.addHost(
                host_name(fabric, gpu), ip=f"{ipv4_text(ipv4(fabric, gpu))}/8", mac=mac_text(gpu)
            )
            self.addLink(host, fabric.node_name(gpu), port1=0, port2=HOST_PORT)
        for link in range(0, fabric.n_links, 2):
            a, b = int(fabric.link_src[link]), int(fabric.link_dst[link])
            self.addLink(
                fabric.node_name(a),
                fabric.node_name(b),
                port1=int(fabric.link_port[link]),
                port2=int(fabric.link_port[link ^ 1]),
            )


class LazyShell:
    """Starts a Mininet node's shell inside `namespace` when its first command is run.

    `made`: Mininet's constructors, which would start it at once, have returned.
    """

    namespace: NetNamespace
    environment: Mapping[str, str] = {}
    made = False
    shell: Any

    def startShell(self, mnopts: str | None = None) -> None:
        if self.made:
            self.inNamespace = False  # the namespace is entered, not made
            Node.startShell(self, mnopts)

    def _popen(self, cmd: Sequence[str], **params: Any) -> Any:
        with self.namespace.entered():
            env = {**os.environ, **self.environment, **params.pop("env", {})}
            return Node._popen(self, cmd, env=env, **params)

    def need_shell(self) -> None:
        if self.shell is None:
            self.startShell()

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        if not self.made:  # Mininet's constructors configure a loopback, which the batch has done
            return ""
        self.need_shell()
        return Node.cmd(self, *args, **kwargs)

    def sendCmd(self, *args: Any, **kwargs: Any) -> Any:
        self.need_shell()
        return Node.sendCmd(self, *args, **kwargs)

    def popen(self, *args: Any, **kwargs: Any) -> Any:
        self.need_shell()
        return Node.popen(self, *args, **kwargs)


class LabHost(LazyShell, Host):  # type: ignore[misc]
    """A GPU's host: a network namespace with one interface, silent until a sender opens its socket."""

    def __init__(self, name: str, namespaces: Mapping[str, NetNamespace], **params: Any) -> None:
        self.namespace = namespaces[name]
        super().__init__(name, **params)
        self.made = True

    def config(self, **_params: Any) -> dict[str, Any]:
        return {}  # done by the batch


class LabSwitch(LazyShell, OVSSwitch):  # type: ignore[misc]
    """A bridge of its shard's Open vSwitch; collects Mininet's own ovs-vsctl commands for one transaction."""

    OVSVersion = "3.1"  # only compared with 1.10

    def __init__(
        self, name: str, fabric_node: int, shard_of: Sequence[OvsShard], kernel: bool, **params: Any
    ) -> None:
        self.fabric_node, self.shard = fabric_node, shard_of[fabric_node]
        self.namespace, self.environment = self.shard.namespace, self.shard.environment
        fixed = {"datapath": "kernel" if kernel else "user", "protocols": "OpenFlow13", "failMode": "secure"}
        super().__init__(name, **{**params, **fixed, "batch": True, "inNamespace": False})
        self.made = True

    @classmethod
    def setup(cls) -> None:
        """Mininet looks for the host's Open vSwitch here; the lab has its own."""

    def bridgeOpts(self) -> str:
        return str(super().bridgeOpts()).replace("datapath_type=netdev", f"datapath_type={USERSPACE_TYPE}")

    def dpctl(self, *args: str) -> Any:
        return self.cmd("ovs-ofctl", "-O", "OpenFlow13", args[0], self, *args[1:])

    def connected(self) -> bool:
        return "true" in self.shard.vsctl(["--columns=is_connected", "list", "Controller"])


class LabIntf(Intf):  # type: ignore[misc]
    """An interface that the batch configures."""

    def updateIP(self) -> Any:
        return self.ip  # it never changes, and ifconfig is not on every machine

    def config(self, **_params: Any) -> dict[str, Any]:
        return {}


class LabLink(Link):  # type: ignore[misc]
    """A veth pair that the batch creates."""

    @classmethod
    def makeIntfPair(cls, *_args: Any, **_params: Any) -> None:
        return None


class LabNet(Mininet):  # type: ignore[misc]
    """Mininet over a Fabric, its objects made; `start` makes the cables and bridges, `stop` removes both.
    `queue_packets`: room of the queue of each port."""

    def __init__(
        self,
        fabric: Fabric,
        shards: Sequence[OvsShard],
        placement: Int64,
        hosts: Mapping[str, NetNamespace],
        *,
        kernel_datapath: bool,
        queue_packets: int,
    ) -> None:
        self._queue_packets = queue_packets
        self.shards, shard_of = shards, [shards[shard] for shard in placement]
        Mininet.inited = True  # else it would raise host-wide limits, which must stay as they are
        super().__init__(
            topo=FabricTopo(fabric), host=partial(LabHost, namespaces=hosts),
            switch=partial(LabSwitch, shard_of=shard_of, kernel=kernel_datapath),
            controller=None, link=LabLink, intf=LabIntf,
        )  # fmt: skip

    def start(self) -> None:
        """Create the cables, then the bridges with their ports and controller; ready for shaping
        afterwards."""
        run([tool("ip"), "-batch", "-"], stdin="".join(self._cable_lines()))
        for switch in self.switches:
            switch.start([])
        with ThreadPoolExecutor() as pool:  # each shard has its own daemons, so shards come up in parallel
            list(pool.map(self._start_shard, self.shards))

    def _start_shard(self, shard: OvsShard) -> None:
        switches = [switch for switch in self.switches if switch.shard is shard]
        ports = [intf.name for switch in switches for intf in switch.intfList() if intf.name != "lo"]
        lines = "".join(f"link set dev {port} txqueuelen {self._queue_packets} up\n" for port in ports)
        run([tool("ip"), "-n", shard.namespace.name, "-batch", "-"], stdin=lines)
        command = ["--", "set", "Open_vSwitch", ".", f"other_config:max-idle={MOST_IDLE_MS}"]
        command += ["--", "--id=@noop", "create", "QoS", "type=linux-noop"]
        for switch in switches:
            name = f"@c{switch.fabric_node}"
            command += shlex.split(" ".join(switch.commands))
            command += [
                "--", f"--id={name}", "create", "Controller", f'target="tcp:127.0.0.1:{CONTROLLER_PORT}"',
                "max_backoff=1000", "inactivity_probe=30000",
                "--", "set", "Bridge", switch.name, f"controller={name}",
            ]  # fmt: skip
        # OVS removes shapers that it did not create, unless the port has a linux-noop QoS
        for port in ports:
            command += ["--", "set", "Port", port, "qos=@noop"]
        shard.vsctl(command)

    def _cable_lines(self) -> list[str]:
        lines = []
        for index, link in enumerate(self.links):
            # not the MAC that packets are sent to, so a host's kernel drops them early; the transport's
            # packet socket receives them all the same
            ends = [
                f"name {intf.name} address 02:01:{end:02x}:{index.to_bytes(3, 'big').hex(':')} "
                f"mtu {LINK_MTU} group {GROUP} netns {intf.node.namespace.name}"
                for end, intf in enumerate((link.intf1, link.intf2))
            ]
            # only the first end (hosts come first) can be set up here, before its peer exists
            lines.append(f"link add {ends[0]} up type veth peer {ends[1]}\n")
        return lines

    def stop(self) -> None:
        """Close the open shells, and remove all interfaces of a shard at once.

        At the end of the namespaces the kernel would wait for each one in turn. The switches must be halted
        (SIGSTOP) meanwhile.
        """
        for node in (*self.hosts, *self.switches):
            if node.shell is not None:
                node.terminate()
        for shard in self.shards:
            bridges = [switch for switch in self.switches if switch.shard is shard]
            lines = [f"link set dev {s.name} group {GROUP}\n" for s in bridges if s.datapath == "kernel"]
            run(
                [tool("ip"), "-n", shard.namespace.name, "-batch", "-"],
                stdin="".join([*lines, f"link del group {GROUP}\n"]),
            )
