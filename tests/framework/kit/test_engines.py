"""What `plugin check --kind engine` finds; what must be found follows from how each engine was broken."""

from __future__ import annotations

from typing import Any

import pytest

from railweave.framework.kit.plugin_check import check_plugin as report_of
from railweave.framework.kit.pytest_fixtures import CheckPlugin
from railweave.framework.registry import load_plugins
from tests.framework.kit import broken_engines as broken
from tests.framework.kit.broken_engines import Changed, Lacks, times, with_engine

BROKEN: dict[str, tuple[Any, str, str]] = {
    "too fast": (
        Changed(times(0.5)),
        "line rate",
        "a message takes 0.5 s, bytes over capacity are 1 s: too fast",
    ),
    "too slow": (Changed(times(1.5)), "line rate", "too slow"),
    "loses bytes": (
        Changed(broken.without_bytes),
        "bytes kept",
        "sent 957096 bytes, by the routes 1063440",
    ),
    "ignores faults": (broken.IgnoresFaults(), "a slow link acts", "the findings have the faults []"),
    "only records faults": (broken.Records(), "a slow link acts", "to=50%: a message takes 1 s"),
    "survives a cut": (broken.IgnoresFaults(), "a cut path fails", "the message arrives all the same"),
    "does not refuse": (Lacks(("reorder",)), "refusals", "lacks does not name 'reorder'"),
    "misspelt": (Lacks(pcpa="it has no packets"), "refusals", "lacks names 'pcpa', which nothing asks for"),
    "steps of others": (Lacks(flap="it cannot"), "refusals", "lacks names 'flap', and "),
    "no reason": (Lacks(trace=""), "refusals", "lacks['trace'] is '': give the reason"),
    "goes on": (broken.GoesOn(), "ends on Ctrl-C", "KeyboardInterrupt must leave it"),
    "silent": (broken.Silent(), "ends on Ctrl-C", "it emits no IterationEnded"),
    "leaves a thread": (broken.LeavesAThread(), "ends on Ctrl-C", "Ctrl-C leaves thread Thread-"),
    "moody": (broken.Moody(), "equal in, equal out", "run again, its iterations, reroutes or bytes differ"),
    "raises": (broken.Raises(), "line rate", "engine broken: run() fails with ZeroDivisionError"),
    "nothing": (Changed(lambda findings: None), "line rate", "run() returns nothing instead of Findings"),
    "no estimate": (broken.NoEstimate(), "estimate", "estimate() returns a int instead of an Estimate"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_is_found_by_name(case: str) -> None:
    engine, check, message = BROKEN[case]
    report = report_of("engine", "broken", with_engine("broken", engine), fabrics=["rail-only"])
    failed = {outcome.check: outcome.text() for outcome in report.failed}
    assert message in failed[check], report.text()


def test_an_engine_that_is_only_called_otherwise_passes(check_plugin: CheckPlugin) -> None:
    check_plugin("engine", "sound", with_engine("sound", Changed()), fabrics=["rail-only"])


@pytest.mark.parametrize("options", [{}, {"symmetry": "no"}, {"numba": "off"}])
def test_fluid_passes(options: dict[str, object], check_plugin: CheckPlugin) -> None:
    report = check_plugin("engine", "fluid", options=options)
    assert len(report.outcomes) == 9 and not any(o.status == "skipped" for o in report.outcomes)


def test_no_lab_is_started_without_being_asked(check_plugin: CheckPlugin) -> None:
    outcomes = check_plugin("engine", "emulation", load_plugins()).outcomes
    assert [o.check for o in outcomes if o.status == "skipped"] == ["line rate"]
    assert "--lab" in outcomes[-1].detail


@pytest.mark.lab
@pytest.mark.quiet
def test_emulation_passes(check_plugin: CheckPlugin) -> None:
    report = check_plugin("engine", "emulation", load_plugins(), lab=True)
    assert not any(outcome.status == "skipped" for outcome in report.outcomes)
