"""The processes of this package: what each of them runs in."""

import signal
import sys
from collections.abc import Callable

from railweave.framework.errors import ChannelClosedError, RailweaveError
from railweave.framework.model.events import Event, ProcessDied
from railweave.framework.processes.channel import Channel
from railweave.framework.processes.namespaces import die_with_parent

ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # no threads and memory for linear algebra, which it has none of
    # scapy would keep a cache and create folders in the user's home; a run writes to its run directory alone
    **dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), "/dev/null/none"),
}


def run_child(serve: Callable[[Channel], None]) -> None:
    """The body of such a process: `serve` the channel on descriptor argv[1] until it closes; errors are
    reported as ProcessDied, with exit status 1."""
    die_with_parent(signal.SIGKILL)
    channel = Channel.from_fd(int(sys.argv[1]))
    try:
        serve(channel)
    except ChannelClosedError:
        return
    except RailweaveError as error:
        report(channel, ProcessDied(str(error)))
        raise SystemExit(1) from None


def report(channel: Channel, event: Event) -> None:
    """Send an event; once the parent is gone, to the log of this process."""
    try:
        channel.send(event)
    except ChannelClosedError:
        print(event, file=sys.stderr)  # noqa: T201 - the log is the only place left
