from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from railweave.framework.cli._live import Live, describe
from railweave.framework.cli._summary import report
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
)
from railweave.framework.results.figures import RerouteFigures
from railweave.framework.results.result import RunResult


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (PhaseStarted("bring-up", "16 GPUs"), "bring-up  16 GPUs"),
        (PhaseStarted("up", seconds=5.123), "up        (5.12 s)"),
        (IterationEnded(3, 1.0214, 0), "iteration  4/12  1.021 s"),
        (
            IterationEnded(11, 1.0, 5),
            "iteration 12/12  1.000 s  5 WRONG",
        ),
        (
            FaultInjected(4.25, "at=iter:4 down rail:1"),
            "4.25 s  fault     at=iter:4 down rail:1",
        ),
        (
            CircuitsConnected(5.5, "at=4s replace gpu:0.1", "spare gpu 0", 1, 1, 25e-6, 4.0),
            "5.50 s  circuits  spare gpu 0: 1 on 1 OCS (25us declared)",
        ),
        (
            HealthPublished(4.5, 3, {"rail:1": (0.85, 0.1)}),
            "4.50 s  health    rail:1 0.85 -> 0.10  (version 3)",
        ),
        (
            RoutesChanged(4.8, 3, 24, "rail:1 0.85 -> 0.10"),
            "4.80 s  reroute   24 pairs, because rail:1 0.85 -> 0.10  (version 3)",
        ),
        (Note("as it is"), "note      as it is"),
    ],
)
def test_events_in_words(event: RunEvent, line: str) -> None:
    found = describe(event, 12)
    assert found is not None
    assert found.strip() == line


def test_what_says_little_waits_for_verbose() -> None:
    assert describe(Progress(1, 1, 2), 12) is None
    event = HealthPublished(1.0, 2, {})
    assert describe(event, 12) is None
    assert describe(event, 12, verbose=True) is not None


EVENTS: list[RunEvent] = [
    PhaseStarted("run"),
    Progress(0, 5, 10),
    IterationEnded(0, 1.0, 0),
    Note("[bold]no markup[/bold] 100%"),
]


def shown(*, quiet: bool = False, terminal: bool) -> str:
    out = StringIO()
    console = Console(file=out, force_terminal=terminal, highlight=False, soft_wrap=True, width=80)
    with Live(2, quiet=quiet, verbose=False, console=console) as live:
        for event in EVENTS:
            live.emit(event)
    return out.getvalue()


def test_plain_lines_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(terminal=False)
    assert "\x1b" not in text
    assert [line.strip() for line in text.splitlines()] == [
        "run", "iteration 1/2  1.000 s", "note      [bold]no markup[/bold] 100%",
    ]  # fmt: skip


def test_a_bar_and_colours_on_a_terminal_unless_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[36m" in shown(terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(terminal=True)
    assert "\x1b[36m" not in text
    assert "iteration 1/2" in text


def test_scores_that_creep_are_shown_when_they_have_come_far() -> None:
    steps = [(1.0, 0.95), (0.95, 0.9), (0.9, 0.85), (0.85, 0.8), (0.8, 0.2)]
    for verbose, expected in ((False, ["rail:1 1.00 -> 0.85", "rail:1 0.85 -> 0.20"]), (True, None)):
        out = StringIO()
        console = Console(file=out, highlight=False, soft_wrap=True, width=80)
        with Live(2, quiet=False, verbose=verbose, console=console) as live:
            for version, step in enumerate(steps):
                live.emit(HealthPublished(1.0, version, {"rail:1": step}))
        found = [line.split("health")[1].split("(")[0].strip() for line in out.getvalue().splitlines()]
        assert found == (expected or [f"rail:1 {old:.2f} -> {new:.2f}" for old, new in steps])


def test_of_many_reroutes_the_largest_are_told(result: RunResult) -> None:
    many = tuple(RerouteFigures(float(t), t, 5 if t == 7 else 1 + t % 2, "w") for t in range(30))
    lines = [
        x for x in report(replace(result, reroutes=many), Path("d")).splitlines() if x.startswith("reroute")
    ]
    assert lines[0] == "reroutes    30, the largest were:"
    assert "reroute     7.00 s: 5 pairs, because w" in lines
    assert len(lines) == 9


def test_quiet_says_nothing() -> None:
    assert shown(quiet=True, terminal=True) == ""


def test_a_report_without_fault_scores_or_limits(result: RunResult) -> None:
    rows = tuple(replace(r, ratio_to_bound=None, ratio_to_model=None) for r in result.rows)
    whole = replace(
        result.iterations,
        before=replace(result.iterations.before, iterations=(0, 1, 2, 3)),
        during=replace(result.iterations.after, iterations=()),
        after=replace(result.iterations.after, iterations=()),
        speedup=None,
    )
    plain = replace(
        result, rows=rows, iterations=whole, faults=(), reroutes=(), health=(), memory_peak_mb=None, cpu_s={},
        bottlenecks=(),
    )  # fmt: skip
    assert report(plain, Path("d")).splitlines() == [
        "iterations  10us declared, busbw 196.61 GB/s (median of 4, 10us to 10us; 1s on the run's clock)",
        "rules       320 by ryu in 0.40 s",
        "fidelity    pass",
        "took        up 5.0 s; run 6.0 s; down 0.5 s",
        "written to  d",
    ]


def test_what_ranks_print_waits_for_verbose() -> None:
    event = Printed(3, "one\ntwo")
    assert describe(event, None) is None
    assert describe(event, None, verbose=True) == "    rank 3  one\n    rank 3  two"
    assert describe(IterationEnded(7, 1.0, None), None) == f"{'':12}iteration 8  1.000 s"
