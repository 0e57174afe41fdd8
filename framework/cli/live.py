"""What a person sees while a run goes on: event lines and a progress bar, on stderr."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

NOTEWORTHY = 0.15
"""Without -v a score is shown again once it has moved this far from what was last shown."""

_STYLES = {"fault": "bold red", "reroute": "bold green", "health": "yellow", "note": "cyan", "phase": "dim"}


class Live:
    """Shows the events of a run as they come. Quiet shows nothing; plain lines where there is no terminal.

    Use as a context; `emit` takes the events that `runner.run` gives out.
    """

    def __init__(
        self, iterations: int, *, quiet: bool, verbose: bool, console: Console | None = None
    ) -> None:
        self._console = console or Console(emoji=False, stderr=True, highlight=False, soft_wrap=True)
        self._iterations, self._quiet, self._verbose = iterations, quiet, verbose
        self._shown: dict[str, float] = {}
        self._bar: Progress | None = None
        if not quiet and self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
                refresh_per_second=4,  # the emulation wants the processors
            )
            self._task = self._bar.add_task("starting", total=None, count="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def emit(self, event: Mapping[str, Any]) -> None:
        if self._quiet:
            return
        self._advance(event)
        if event.get("kind") == "health" and not self._verbose:
            event = {**event, "changes": self._noteworthy(event.get("changes") or {})}
        line = describe(event, self._iterations, verbose=self._verbose)
        if line is None:
            return
        style = _STYLES.get(str(event.get("kind")))
        if event.get("kind") == "iteration" and event.get("wrong"):
            style = "bold red"
        console = self._bar.console if self._bar else self._console
        console.print(f"[{style}]{escape(line)}[/]" if style else escape(line))

    def _noteworthy(self, changes: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
        """The scores that are far from what was last shown of them, and from there to now."""
        far = {}
        for name, (old, new) in changes.items():
            before = self._shown.setdefault(name, float(old))
            if abs(float(new) - before) >= NOTEWORTHY - 1e-9:
                far[name] = (before, float(new))
                self._shown[name] = float(new)
        return far

    def _advance(self, event: Mapping[str, Any]) -> None:
        if not self._bar:
            return
        match event.get("kind"):
            case "phase":
                self._bar.update(self._task, description=escape(str(event.get("name"))))
            case "progress":
                share = float(event.get("done", 0)) / max(float(event.get("total", 1)), 1.0)
                self._show(int(event.get("iteration", 0)), share)
            case "iteration":
                self._show(int(event.get("iteration", 0)) + 1, 0.0)

    def _show(self, done: int, share: float) -> None:
        if self._bar:
            self._bar.update(
                self._task,
                description="iterations",
                total=self._iterations,
                completed=done + share,
                count=f"{min(done + (share > 0), self._iterations)}/{self._iterations}",
            )


def describe(event: Mapping[str, Any], iterations: int, *, verbose: bool = False) -> str | None:
    """The line for an event; None for one that needs none. Unknown kinds are shown only when verbose."""
    when = f"{float(event['t_s']):8.2f} s  " if event.get("t_s") is not None else " " * 12
    match event.get("kind"):
        case "phase":
            text = f"  {event['text']}" if event.get("text") else ""
            took = f"  ({float(event['seconds']):.2f} s)" if event.get("seconds") is not None else ""
            return f"{when}{event.get('name'):<8}{text}{took}"
        case "iteration":
            number = int(event.get("iteration", 0)) + 1
            wrong = int(event.get("wrong", 0))
            judged = f"  {wrong} WRONG" if wrong else ""
            return f"{when}iteration {number:>{len(str(iterations))}}/{iterations}  {float(event['seconds']):.3f} s{judged}"
        case "fault":
            return f"{when}fault     {event.get('text')}"
        case "health":
            changes = event.get("changes") or {}
            moved = ", ".join(f"{name} {old:.2f} -> {new:.2f}" for name, (old, new) in changes.items())
            return (
                f"{when}health    {moved or 'links only'}  (version {event.get('version')})"
                if moved or verbose
                else None
            )
        case "reroute":
            return (
                f"{when}reroute   {event.get('pairs_changed')} pairs, because {event.get('why')}"
                f"  (version {event.get('version')})"
            )
        case "note":
            return f"{when}note      {event.get('text')}"
        case "progress":
            return None
        case kind if verbose:
            rest = " ".join(f"{k}={v}" for k, v in event.items() if k not in ("kind", "t_s"))
            return f"{when}{kind}  {rest}"
        case _:
            return None
