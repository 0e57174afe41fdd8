"""Pages of comparisons and chaos campaigns. Expected values: rows made by hand, written as commands do."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner

from railweave.framework.cli import main
from railweave.framework.results.figures import Accuracy, FaultFigures
from railweave.framework.studies.campaigns import ChaosRun
from railweave.framework.studies.comparison import Comparison, Variant
from railweave.framework.studies.shared_rails import SharedRails
from tests.web.conftest import Open
from tests.web.hostile import HTML

FAULT = "at=iter:4 degrade rail:1 to=20%"
EXPERIMENT = {"topology": {"name": "rail-only", "domains": 4, "rails": 4}, "faults": [FAULT]}
SLOW, FAST = Variant("hscore", "no-feedback"), Variant("spray")
ROUTERS = [
    Comparison(SLOW, 3, 10.0, 40.0, (39.0, 44.0), 1.0, 0, ("pass", "pass", "degraded"), (1e-5,)),
    Comparison(FAST, 3, 10.0, 16.0, (15.0, 20.0), 2.5, 0, ("pass",), (1e-5,)),
]
JOBS = [
    SharedRails(0, 1, (1.0, 1.02), (1.0, 1.02), 1.0, 0, ("pass",), (1e-5,)),
    SharedRails(50, 1, (2.0, 1.5), (1.5, 2.0), 0.98, 0, ("pass",), (1e-5,)),
]
SEEN = FaultFigures(FAULT, "degrade", "rail:1", 2.0, 8, detected_s=0.25, recovered_s=0.5)
NEVER = FaultFigures(HTML, "loss", "rail:1", 2.0, 8)
CHAOS = [
    ChaosRun(0, (FAULT,), "completes", (), None, 0, "pass", 3.5, (), (SEEN,), Accuracy(0.5, None), None),
    ChaosRun(1, (HTML,), "fails", ("g0.1",), HTML, 0, "", 3.5, (), (NEVER,), None, "left behind: veth0"),
]
PAGES: dict[str, tuple[int, str, list[Any], str, list[str]]] = {
    "compare": (2, "rows", ROUTERS, "spray takes 16 us an iteration, 2.5 times as fast as hscore",
                ["10", "40", "10", "16"]),
    "compare-jobs": (1, "rows", JOBS, "take 2 times as long with 50 % of their rails",
                     ["1", "1.02", "2", "1.5"]),
    "chaos": (2, "runs", CHAOS, "1 of 2 runs ended as expected. Run 1 did not: left behind: veth0.",
              ["0.25", "0.5"]),
}  # fmt: skip
"""By the command's schema: its version, the rows, what the sentence says, and the figures of the bars."""


@pytest.mark.parametrize("name", PAGES)
def test_sentence_bars_and_table(opened: Open, tmp_path: Path, name: str) -> None:
    version, key, rows, words, figures = PAGES[name]
    document = {
        "schema": {"name": f"railweave.{name}", "version": version},
        "experiment": EXPERIMENT,
        key: [asdict(row) for row in rows],
    }
    (tmp_path / "rows.json").write_text(json.dumps(document))
    done = CliRunner().invoke(main, ["report", str(tmp_path / "rows.json")])
    assert done.exit_code == 0 and words in done.output, done.output
    page = tmp_path / "rows.html"
    with opened(page.as_uri(), color_scheme="dark") as seen:
        assert words in seen.page.locator("#sentence").inner_text()
        assert seen.page.locator(".bar text").all_text_contents() == figures
        widths = [float(bar.get_attribute("width") or 0) for bar in seen.page.locator(".bar rect").all()]
        assert widths == pytest.approx([widths[0] * float(figure) / float(figures[0]) for figure in figures])
        assert seen.page.locator("tbody tr").count() == len(rows)
        assert seen.page.evaluate("window.harm ?? null") is None
        found = Axe().run(seen.page)
        assert found.violations_count == 0, found.generate_report()
    assert (seen.messages, seen.requests) == ([], [page.as_uri()])


def test_a_file_that_no_command_wrote_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('{"schema": {"name": ["railweave.compare"], "version": 2}}')
    done = CliRunner().invoke(main, ["report", str(tmp_path / "rows.json")])
    assert done.exit_code == 2 and "Reports are made of runs and of railweave.compare 2" in done.stderr
