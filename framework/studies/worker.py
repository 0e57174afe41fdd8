"""A process that computes points: `python -m railweave.framework.studies.worker FD`.

Plugins are loaded, and code is compiled, once for all points that it gets.
"""

import signal
import sys

from railweave.framework.errors import ChannelClosedError
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.namespaces import die_with_parent
from railweave.framework.registry import load_plugins
from railweave.framework.studies.computing import Task, computed


def main() -> None:
    die_with_parent(signal.SIGKILL)
    channel, registers = Channel.from_fd(int(sys.argv[1])), load_plugins()
    try:
        channel.send("ready")
        while True:
            task = Task(**channel.receive())
            channel.send((task.id, computed(task, registers)))
    except ChannelClosedError:
        return


if __name__ == "__main__":
    main()
