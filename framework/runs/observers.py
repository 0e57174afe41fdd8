"""Calls the observers and reports of plugins; their mistakes never lose the run."""

import contextlib
import io
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from railweave.framework.errors import PLUGIN_FAILURES, describe, raised_at
from railweave.framework.hookspecs import Callers, Report
from railweave.framework.results.directory import OwnFiles

SLOW_S = 0.005
"""A fifth of the default interval between two measurements of health."""


class Observers:
    """Calls each plugin's `on_*` hooks. `note` receives, as text, an exception (the first from each line of
    code), a call slower than `slow_s` (the first of each hook), and every line that an observer prints."""

    def __init__(self, observers: Callers, note: Callable[[str], None], slow_s: float = SLOW_S) -> None:
        self._callers, self._note, self._slow_s = cache(observers.callers), note, slow_s
        self._noted: set[tuple[str, str]] = set()
        self.seconds: dict[str, float] = defaultdict(float)
        """Time spent in each plugin's observers so far."""

    def heard(self, hook: str) -> bool:
        """Whether a plugin has `hook`: where none has, its arguments need not be made."""
        return bool(self._callers(hook))

    def fire(self, hook: str, /, *, only: str = "", **arguments: Any) -> None:
        """Call `hook` of every plugin that has it, or of the plugin `only`; arguments as in the hookspec."""
        for plugin, call in self._callers(hook):
            if only not in ("", plugin):
                continue
            began, subject = time.perf_counter(), f"observer {plugin}: {hook}"
            own_files = (
                OwnFiles(arguments["directory"]) if hook == "on_run_end" and arguments["directory"] else None
            )
            try:
                with _printing(plugin, self._note):
                    call(**arguments)
            except PLUGIN_FAILURES as error:  # whatever an observer raises, the run goes on
                self._once(subject, raised_at(error), f"{subject} fails with {describe(error)}")
            if own_files is not None:
                _protect(own_files, subject, self._note)
            took = time.perf_counter() - began
            self.seconds[plugin] += took
            if took > self._slow_s and hook not in ("on_run_start", "on_run_end"):
                self._once(subject, "slow", f"{subject} took {1e3 * took:.0f} ms; it delays the health loop")

    def _once(self, subject: str, which: str, text: str) -> None:
        if (subject, which) not in self._noted:
            self._noted.add((subject, which))
            self._note(text)


def write_reports(
    reports: Mapping[str, Report], result: Mapping[str, Any], directory: str, note: Callable[[str], None]
) -> None:
    """Let every report write into the run directory; `note` receives what fails and what is printed. The
    run's own files stay as they are."""
    for name, report in reports.items():
        own_files = OwnFiles(directory)
        try:
            with _printing(name, note):
                report.write(result, directory)
        except PLUGIN_FAILURES as error:  # whatever a report raises, the run has its result
            note(f"report {name} fails with {describe(error)}")
        _protect(own_files, f"report {name}", note)


def _protect(own_files: OwnFiles, subject: str, note: Callable[[str], None]) -> None:
    for name in own_files.restored():
        note(
            f"{subject} fails: it wrote {name}, which is the run's own file; that is as before. Write another"
        )


@contextlib.contextmanager
def _printing(name: str, note: Callable[[str], None]) -> Iterator[None]:
    """Pass on what is printed inside the block, line by line: the lab has no terminal, and `--json -` owns
    stdout."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        for line in printed.getvalue().splitlines():
            note(f"{name}: {line}")
