"""A progress bar on stderr for what is computed in the command's own process."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_S = 2.0
"""No progress bar before this."""


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Shows what is done of all there is, after two seconds and on a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(title)
    began = time.monotonic()

    def show(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if not bar.live.is_started and time.monotonic() - began > QUIET_S:
            bar.start()

    try:
        yield show
    finally:
        bar.stop()
