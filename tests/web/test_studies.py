"""The page of a study. Expected values: rows made by hand, in a ledger as `sweep` keeps it."""

from __future__ import annotations

import json
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner

from railweave.framework.cli import main
from railweave.framework.studies.ledger import Ledger
from railweave.framework.studies.sweep_file import read_sweep
from tests.web.conftest import Open
from tests.web.hostile import HTML

SWEEP = f"""
name: by-hand
question: Which is faster?
experiment: {{engine: fluid, faults: ["at=iter:2 degrade rail:1 to={{depth}}"]}}
axes:
  router: [hscore, spray]
  depth: [20%, 40%, 60%]
  label: [{{label: {json.dumps(HTML)}, size: 64K}}]
seeds: 2
judge: {{figure: after_us, to: {{router: hscore}}, at_most: 1.5}}
"""


def study(directory: Path) -> Path:
    """spray takes twice as long as hscore, whatever the depth; its last point failed."""
    (directory / "sweep.yaml").write_text(SWEEP)
    points = [*read_sweep(directory / "sweep.yaml").study.points()]
    with Ledger(directory / "rows.jsonl", "by-hand") as ledger:
        for point in points:
            us = (2.0 if point.settings["router"] == "spray" else 1.0) * (10 + point.seed)
            row = {"after_us": us, "verdict": "pass", "iterations_us": [5.0, us, us], "faults_at": [0.5]}
            failed = {"cause": "LabError", "error": HTML}
            ok = point is not points[-1]
            who = {"settings": point.settings, "seed": point.seed, "repeat": 0}
            ledger.add(point.id, "0" * 12, ok, {**who, **(row if ok else failed)})
    return directory


def test_question_answer_figures_and_tables(opened: Open, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["report", str(study(tmp_path))])
    words = "after_us is, relative to router=hscore, 2 (95 % interval 2 to 2, n = 2) with router=spray"
    assert done.exit_code == 0 and words in done.output, done.output
    page = tmp_path / "report.html"
    with opened(page.as_uri(), color_scheme="dark") as seen:
        sentence = seen.page.locator("#sentence").inner_text()
        assert sentence.startswith("Which is faster?") and words in sentence
        titles = seen.page.locator("h2").all_text_contents()
        assert titles[0] == "after_us, relative over depth" and titles[-3:] == [
            "Settings", "Points that failed", "All points",
        ]  # fmt: skip
        assert seen.page.locator("svg.plot").count() == 3
        assert seen.page.locator("section:has(h2:text-is('All points')) tbody tr").count() == 12
        with seen.page.expect_download() as saved:
            seen.page.locator("section .save button", has_text="SVG").first.click()
        assert Path(saved.value.path()).read_text().startswith("<svg")
        assert seen.page.evaluate("window.harm ?? null") is None
        found = Axe().run(seen.page)
        assert found.violations_count == 0, found.generate_report()
    assert (seen.messages, seen.requests) == ([], [page.as_uri()])
    files = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert "all-points.csv" in files and "1-after-us-relative-over-depth.svg" in files
    curves = (tmp_path / "figures" / "1-after-us-relative-over-depth.csv").read_text().splitlines()
    assert curves[0] == "setting,depth,median,low,high,n" and len(curves) == 7


def test_a_study_without_rows_says_so(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    done = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert done.exit_code == 2 and "has no rows yet. Run `railweave sweep" in done.stderr
