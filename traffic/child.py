"""A process of ours at the other end of a channel, and the events that it reports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from railweave.framework.channel import Channel
from railweave.framework.errors import ChannelClosedError
from railweave.framework.hookspecs import Event

STOP_S = 3.0
LAST_LINES = 6


NOWHERE = "/dev/null/none"
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # threads and memory for algebra that we do not do
    # scapy would keep a cache and make folders in the user's home; a run leaves its run directory alone
    **dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), NOWHERE),
}


class Child:
    """`python -m MODULE FD [arguments]` with a channel on FD; it ends when the channel closes.

    Its standard output and error go to `log_path`, appended. `pass_fds` stay open in it under their numbers.
    """

    def __init__(
        self, module: str, log_path: str, arguments: Sequence[str] = (), pass_fds: Sequence[int] = ()
    ) -> None:
        self._log_path = log_path
        self._dead = False
        self.channel, theirs = Channel.pair()
        with theirs, Path(log_path).open("ab") as log:
            fd = theirs.fileno()
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(fd), *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(fd, *pass_fds),
                env={**os.environ, **ENVIRONMENT},
            )  # fmt: skip

    def order(self, message: Mapping[str, Any]) -> None:
        """Send it; a child that is gone is reported by `events`, not here."""
        with suppress(ChannelClosedError):
            self.channel.send(message)

    def events(self) -> list[Event]:
        """Everything reported since the last call. The end of the process is reported once, as `died`."""
        if self._dead:
            return []
        try:
            events = [Event(message["kind"], message["data"]) for message in self.channel.poll()]
        except ChannelClosedError:
            self._dead = True
            return [Event("died", {"why": self._obituary()})]
        self._dead = any(event.kind == "died" for event in events)
        return events

    def stop(self) -> None:
        """Close the channel and wait for the end; kill what does not follow."""
        self.channel.close()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _obituary(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
        lines = Path(self._log_path).read_text(errors="replace").splitlines()[-LAST_LINES:]
        words = "\n".join(lines) or "it left no word"
        return f"the process {self.process.args!r} ended with status {self.process.returncode}:\n{words}"
