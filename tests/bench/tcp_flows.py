"""TCP between the hosts of a lab, as fast as it goes: one process holds both ends of all flows."""

import selectors
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

from railweave.framework.errors import ChannelClosedError, LabError
from railweave.framework.model import Endpoint
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.child import ChildProcess
from railweave.framework.processes.namespaces import die_with_parent, inside

PORT = 5202
CHUNK = 1 << 16
END = socket.SOCK_STREAM | socket.SOCK_NONBLOCK


class TcpFlows:
    """A flow from the first endpoint of each pair to the second, until `stop`. The hosts need addresses
    (switching/host_addresses.py). `hear` is to be called when `channel` is readable."""

    def __init__(self, pairs: Sequence[tuple[Endpoint, Endpoint]]) -> None:
        self._process = ChildProcess("the TCP flows", __name__)
        self.channel, self.stop = self._process.channel, self._process.stop
        self._process.send([(near.namespace, far.namespace, far.ip) for near, far in pairs])

    def hear(self) -> None:
        """Raises LabError: the process says nothing as long as all flows go on."""
        with suppress(ChannelClosedError):
            self.channel.poll()
        raise LabError(self._process.obituary())


def carry(channel: Channel) -> None:
    """Open the flows that `channel` names, (namespace, namespace, address), and keep them full until it
    closes."""
    flows, selector, data = channel.receive(), selectors.DefaultSelector(), bytes(CHUNK)
    selector.register(channel, selectors.EVENT_READ)
    for namespace, address in sorted({(to, address) for _, to, address in flows}):
        with inside(namespace):
            listener = socket.create_server((address, PORT), backlog=len(flows))
        selector.register(listener, selectors.EVENT_READ, listener)
    for namespace, _, address in flows:
        with inside(namespace):
            sender = socket.socket(socket.AF_INET, END)
            sender.connect_ex((address, PORT))
        selector.register(sender, selectors.EVENT_WRITE)
    while True:
        for key, ready in selector.select():
            end = key.fileobj
            if end is channel:
                channel.receive()
            elif key.data is not None:
                selector.register(key.data.accept()[0], selectors.EVENT_READ)
            elif ready & selectors.EVENT_WRITE:
                end.send(data)  # type: ignore[union-attr]
            else:
                end.recv(CHUNK)  # type: ignore[union-attr]


if __name__ == "__main__":
    die_with_parent(signal.SIGKILL)
    with suppress(ChannelClosedError):
        carry(Channel.from_fd(int(sys.argv[1])))
