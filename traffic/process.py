"""The transport process: `python -m railweave.traffic.process FD`, driven over the inherited socket FD.

Messages in: open {endpoints, path_mtu, options}, entropies {fields of EntropyTable}, begin {collective, options,
schedule, iteration, seed}. Messages out: {kind, data}, the events of hookspecs.Event. It ends when the channel does.
"""

from __future__ import annotations

import gc
import signal
import sys
from typing import Any

from railweave.framework.channel import Channel
from railweave.framework.errors import ChannelClosedError, RailweaveError
from railweave.framework.lab.namespaces import die_with_parent
from railweave.traffic.service import Service


def main() -> None:
    die_with_parent(signal.SIGKILL)
    channel = Channel.from_fd(int(sys.argv[1]))
    gc.disable()  # nothing here makes cycles at a rate that matters; the service collects between iterations
    try:
        Service(channel).serve()
    except ChannelClosedError:
        return
    except RailweaveError as error:
        _say(channel, {"kind": "died", "data": {"why": str(error)}})
        raise SystemExit(1) from None


def _say(channel: Channel, message: dict[str, Any]) -> None:
    try:
        channel.send(message)
    except ChannelClosedError:
        print(message, file=sys.stderr)  # noqa: T201 - the log of this process is all that is left


if __name__ == "__main__":
    main()
