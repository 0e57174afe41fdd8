"""The process that runs the commands of `lab.exec`: `python -m railweave.framework.lab.programs.executor FD
DOOR`, a child of the lab's first process.

It is told once which hosts there are. Through the socket DOOR come sockets, one for each request
(commands.py). When the channel closes it ends, and with it whatever still runs.
"""

import selectors
import signal
import socket
import sys
from contextlib import suppress

from railweave.framework.errors import ChannelClosedError
from railweave.framework.lab.programs.commands import Commands
from railweave.framework.lab.programs.rank_space import User
from railweave.framework.model.events import ProcessReady
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.namespaces import die_with_parent


def main() -> None:
    die_with_parent(signal.SIGKILL)
    channel, door = Channel.from_fd(int(sys.argv[1])), socket.socket(fileno=int(sys.argv[2]))
    door.set_inheritable(False)
    selector = selectors.DefaultSelector()
    with suppress(ChannelClosedError):
        commands = Commands(selector, channel.receive()["hosts"], {}, "/", User.invoking())

        def admit() -> None:
            word, fds, _, _ = socket.recv_fds(door, 1, 1)
            if not word:
                selector.unregister(door)
            for fd in fds:
                commands.attend(socket.socket(fileno=fd))

        selector.register(door, selectors.EVENT_READ, admit)
        selector.register(channel, selectors.EVENT_READ, channel.poll)
        channel.send(ProcessReady())
        while True:
            for key, _ in selector.select():
                key.data()


if __name__ == "__main__":
    main()
