"""The live view of a run: event lines, and bars of its progress and of the fabric, on stderr."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from railweave.framework.cli._bars import FabricBars, rows_of
from railweave.framework.model import Fabric
from railweave.framework.model.events import (
    CircuitsConnected,
    FaultInjected,
    HealthPublished,
    IterationEnded,
    Note,
    PhaseStarted,
    Printed,
    Progress,
    RoutesChanged,
    RunEvent,
    Sampled,
)
from railweave.framework.parameters import units

NOTEWORTHY = 0.15
"""Without -v a score is shown again once it has moved this far from what was last shown."""

_STYLES: dict[type[RunEvent], str] = {
    FaultInjected: "bold red",
    CircuitsConnected: "bold green",
    RoutesChanged: "bold green",
    HealthPublished: "yellow",
    Note: "cyan",
    PhaseStarted: "dim",
}


class Live:
    """Shows the events of a run as they come: lines, and bars on a terminal. Quiet shows nothing.
    `iterations`: None where that is not known. `jobs`: the names of several. `fabric`: with declared
    rates; with it, health and load of its rails, domains or axes have bars too.

    Use as a context manager; `emit` receives the events of `runner.run`. `lines=False` leaves the bars alone.
    """

    def __init__(
        self,
        iterations: int | None,
        *,
        quiet: bool,
        verbose: bool,
        lines: bool = True,
        console: Console | None = None,
        jobs: Sequence[str] = (),
        fabric: Fabric | None = None,
    ) -> None:
        self._console = console or Console(emoji=False, stderr=True, highlight=False, soft_wrap=True)
        self._iterations, self._verbose, self._lines = iterations, verbose, lines and not quiet
        self._shown: dict[str, float] = {}
        self._jobs, self._declared, self._fabric = jobs, fabric, fabric
        self._bar = FabricBars(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            refresh_per_second=4,  # the emulation wants the processors
            disable=quiet or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None, count="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._bar.disable:  # rich may print an empty line
            self._bar.stop()

    def emit(self, event: RunEvent) -> None:
        match event:
            case PhaseStarted():
                self._bar.update(self._task, description=escape(event.name))
                if event.rate_scale is not None and self._declared is not None:
                    self._fabric = self._declared.scaled(event.rate_scale)
            case Progress() | IterationEnded() if self._jobs:  # each has a bar of its own in no terminal
                pass
            case Sampled() if self._fabric is not None and not self._bar.disable:
                self._bar.rows = rows_of(self._fabric, event)
            case Progress():
                self._advance(event.iteration, event.done / max(event.total, 1))
            case IterationEnded():
                self._advance(event.iteration + 1, 0.0)
            case HealthPublished() if not self._verbose:
                event = replace(event, changes=self._noteworthy(event.changes))
        job = self._jobs[event.job] if self._jobs else ""
        line = describe(event, self._iterations, verbose=self._verbose, job=job)
        if line is None or not self._lines:
            return
        wrong = isinstance(event, IterationEnded) and event.wrong
        style = "bold red" if wrong else _STYLES.get(type(event))
        self._console.print(f"[{style}]{escape(line)}[/]" if style else escape(line))

    def _noteworthy(self, changes: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        """The scores that are far from what was last shown of them, and from there to now."""
        far = {}
        for name, (old, new) in changes.items():
            before = self._shown.setdefault(name, old)
            if abs(new - before) >= NOTEWORTHY - 1e-9:
                far[name] = (before, new)
                self._shown[name] = new
        return far

    def _advance(self, done: int, share: float) -> None:
        if self._iterations is None:
            self._bar.update(self._task, description="iterations", count=f"{done}")
            return
        self._bar.update(
            self._task,
            description="iterations",
            total=self._iterations,
            completed=done + share,
            count=f"{min(done + (share > 0), self._iterations)}/{self._iterations}",
        )


def describe(event: RunEvent, iterations: int | None, *, verbose: bool = False, job: str = "") -> str | None:
    """The line for an event; None for one that needs none. `job`: of several, the one it belongs to."""
    t_s = getattr(event, "t_s", None)
    when = " " * 12 if t_s is None else f"{t_s:8.2f} s  "
    match event:
        case PhaseStarted():
            text = f"  {event.text}" if event.text else ""
            took = "" if event.seconds is None else f"  ({event.seconds:.2f} s)"
            return f"{when}{event.name:<8}{text}{took}"
        case IterationEnded():
            out_of = "" if iterations is None or job else f"/{iterations}"
            number = f"{event.iteration + 1:>{max(1, len(out_of) - 1)}}{out_of}"
            wrong = f"  {event.wrong} WRONG" if event.wrong else ""
            who = f"  {job}" + (" alone" if event.alone else "") if job else ""
            return f"{when}iteration {number}  {event.seconds:.3f} s{who}{wrong}"
        case FaultInjected():
            return f"{when}fault     {event.text}"
        case CircuitsConnected():
            return (
                f"{when}circuits  {event.summary}: {event.circuits} on {event.switches} OCS "
                f"({units.time(event.connect_s)} declared)"
            )
        case HealthPublished():
            moved = ", ".join(f"{name} {old:.2f} -> {new:.2f}" for name, (old, new) in event.changes.items())
            if not moved and not verbose:
                return None
            return f"{when}health    {moved or 'links only'}  (version {event.version})"
        case RoutesChanged():
            return (
                f"{when}reroute   {event.pairs_changed} pairs, because {event.why}  (version {event.version})"
            )
        case Printed():
            if not verbose:
                return None
            who = f"{job} " * bool(job) + ("launcher" if event.rank is None else f"rank {event.rank}")
            return "\n".join(f"{who:>10}  {line}" for line in event.text.splitlines())
        case Note():
            return f"{when}note      {event.text}"
        case _:
            return None
