"""Open vSwitch of one shard, in the shard's network namespace."""

import contextlib
import os
import signal
import socket
from pathlib import Path

from railweave.framework.lab.switching.borrowed_sockets import borrowed_sockets, closing_together
from railweave.framework.processes.namespaces import NetNamespace
from railweave.framework.processes.openvswitch import SWITCH, OpenVSwitch
from railweave.framework.processes.packet_socket import set_buffer
from railweave.framework.processes.programs import run, tool

RUN_DIR = Path("/run/railweave")
SEND_BUFFER_BYTES, RECEIVE_BUFFER_BYTES, MISS_BUFFER_BYTES = 64 << 20, 4 << 20, 64 << 20
"""Socket buffers: for the queues of all ports of a shard, for what one port receives, and for first packets
of flows."""


class OvsShard(OpenVSwitch):
    """The daemons of one shard, and what the lab does to them while they run.

    `receivers`: by port, the packet socket on which the userspace datapath receives there; borrowed for as
    long as the switch runs.
    """

    namespace: NetNamespace

    def __init__(self, index: int, namespace: NetNamespace) -> None:
        super().__init__(RUN_DIR / f"shard{index}", namespace)
        self.index = index
        self.receivers: dict[str, socket.socket] = {}

    def kill_switch(self) -> None:
        """kill -9 ovs-vswitchd and wait for its end; `start_switch` starts another."""
        pid = self.pids.pop(SWITCH)
        with closing_together([pid], self._receivers_back()):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def forget_flows(self) -> None:
        """Empty the kernel's flow cache: the next packet of every flow is an upcall to ovs-vswitchd."""
        with self.namespace.entered():
            run([tool("ovs-dpctl"), "del-flows"])

    def widen_buffers(self) -> int:
        """Enlarge the packet sockets of the userspace datapath; returns the bytes granted to the one that
        sends.

        One socket sends for all ports, and the queues of all ports count against its buffer; each port
        receives on a socket of its own, whose default buffer holds 25 packets of 4 KiB. The kernel's defaults
        (net.core.wmem_default, rmem_default) are host-wide and stay as they are, so the sockets themselves
        are borrowed and set; without real root only up to net.core.wmem_max and rmem_max. 0 if no packet was
        sent yet: the first one opens the sending socket.
        """
        granted = 0
        for sock in borrowed_sockets(self.pids[SWITCH], socket.AF_PACKET):
            set_buffer(sock, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            interface, protocol, *_ = sock.getsockname()
            if interface:
                self.receivers[interface] = sock
                continue
            with sock:
                if protocol == 0:
                    set_buffer(sock, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
                    granted = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        return granted

    def _receivers_back(self) -> list[socket.socket]:
        """The borrowed receivers, to be closed."""
        receivers, self.receivers = list(self.receivers.values()), {}
        return receivers

    def widen_miss_buffers(self) -> None:
        """Enlarge the sockets on which the kernel datapath queues its upcalls.

        Until the upcall of a flow's first packet is answered, all packets of the flow queue there, and those
        that do not fit are lost: the default buffer (net.core.rmem_default) holds 24 packets of 4 KiB for the
        whole shard.
        """
        for sock in borrowed_sockets(self.pids[SWITCH], socket.AF_NETLINK):
            with sock:
                set_buffer(sock, socket.SO_RCVBUF, MISS_BUFFER_BYTES)

    def halt(self) -> None:
        """Stop the switch (SIGSTOP) while its interfaces are removed."""
        with contextlib.suppress(KeyError, ProcessLookupError):
            os.kill(self.pids[SWITCH], signal.SIGSTOP)

    def stop(self) -> None:
        with closing_together([self.pids[SWITCH]] if SWITCH in self.pids else [], self._receivers_back()):
            super().stop()
