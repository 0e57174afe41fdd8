"""Bridges on an Open vSwitch of their own, for the benchmark and the tests."""

from collections.abc import Iterable

from railweave.framework.model.addressing import dpid
from railweave.framework.processes.openvswitch import USERSPACE_TYPE, OpenVSwitch
from railweave.framework.processes.programs import run, tool

PORT = 6653
"""TCP port of OpenFlow (IANA)."""
_ADD = (
    f"-- add-br b{{node}} -- set bridge b{{node}} datapath_type={USERSPACE_TYPE} protocols=OpenFlow13 "
    "fail-mode=secure "
    "other-config:disable-in-band=true other-config:datapath-id={dpid:016x}"
)
_CONNECT = f"-- set-controller b{{node}} tcp:127.0.0.1:{PORT} -- set controller b{{node}} max_backoff=1000"


class PrivateSwitches(OpenVSwitch):
    """Bridges named b0, b1, ...: b7 is the switch of node 7.

    They are made in the caller's network namespace, which must be private, and need root there, mapped or
    real.
    """

    def start(self) -> None:
        run([tool("ip"), "link", "set", "lo", "up"])
        super().start()

    def add_bridges(self, nodes: Iterable[int]) -> None:
        """In one transaction, without a controller."""
        self.vsctl([word for node in nodes for word in _ADD.format(node=node, dpid=dpid(node)).split()])

    def remove_bridges(self, nodes: Iterable[int]) -> None:
        self.vsctl([word for node in nodes for word in ("--", "del-br", f"b{node}")])

    def connect(self, nodes: Iterable[int]) -> None:
        """Point the bridges at the controller. It retries every second at most, instead of every eight."""
        self.vsctl([word for node in nodes for word in _CONNECT.format(node=node).split()])

    def flow_count(self, node: int) -> int:
        words = self.ofctl("dump-aggregate", f"b{node}").split("flow_count=")
        return int(words[1].split()[0])
