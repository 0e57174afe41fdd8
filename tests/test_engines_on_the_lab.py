"""The model against real packets: three combinations of `compare --quick`, with short messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.bench import engine_cases
from railweave.framework.registry import load_plugins

pytestmark = [pytest.mark.lab, pytest.mark.quiet, pytest.mark.timeout(400)]

SOME = (
    ("rail-only", "hscore", engine_cases.DEGRADED), ("rail-only", "hscore", engine_cases.JOBS),
    ("torus", "wfr", engine_cases.DOWN),
)  # fmt: skip
APART = 0.2
"""A lab of a busy machine with steps of few packets is further from the model than docs/fidelity.md says."""


def test_slow_elements_dead_cables_and_two_jobs_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine_cases, "QUICK", SOME)
    short = {"size": "256K", "iterations": 6, "alone": 1}  # of jobs, five together
    rows = list(
        engine_cases.compared(
            ("emulation", "fluid"), load_plugins(), short, quick=True, resume=None, progress=lambda text: None
        )
    )
    assert [row.failed for row in rows] == [""] * len(SOME)
    for row in rows:
        assert row.agreement is not None
        if row.agreement.verdicts[0] != "pass":  # the machine, not the fabric, made its times
            continue
        for stage in row.agreement.stages:
            by_chance = stage.name == "fault" or stage.name.endswith("together")  # which phases of jobs meet
            if stage.difference is not None and not by_chance:
                assert abs(stage.difference) < APART, (row.name, stage)
