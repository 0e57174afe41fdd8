"""Figures of the page's own making: instants, totals, orders of tables, files for spreadsheets, the same
point of another run. Expected values: of the results, or by hand."""

from __future__ import annotations

import csv
import json
from bisect import bisect_left
from pathlib import Path

import pytest
from click.testing import CliRunner

import railweave as rw
from railweave.framework.cli import main
from tests.web.conftest import Open
from tests.web.test_use import saved


def test_the_instant_shown_is_the_first_that_ends_at_the_time_or_later(opened: Open, address: str) -> None:
    with opened(address) as seen:
        ends = seen.page.evaluate("railweave.run.series.t_s")
        times = [0.0, ends[0], ends[3], (ends[3] + ends[4]) / 2, ends[-1]]
        shown = seen.page.evaluate("(times) => times.map((t) => railweave.instantAt(t))", times)
    assert shown == [bisect_left(ends, t) for t in times]


def test_the_totals_of_a_link_are_those_of_the_result(opened: Open, run: Path, address: str) -> None:
    link = next(one for one in rw.read(run).result.links if one.name == "g0.0->r0")
    with opened(f"{address}#item=g0.0-%3Er0") as seen:
        rows = seen.page.locator("#detail .totals").first
        names, values = (rows.locator(tag).all_inner_texts() for tag in ("dt", "dd"))
        words = {name: value.removesuffix(" %") for name, value in zip(names, values, strict=True)}
    assert float(words["mean utilisation"]) == pytest.approx(100 * link.utilisation, rel=0.01)
    assert float(words["lost"]) == link.loss == 0
    assert words["dropped"] == f"{link.drops} packets"
    assert float(words["score at the end"]) == pytest.approx(link.h_score, abs=0.005)


def test_a_click_on_a_head_sorts_by_it(opened: Open, run: Path, address: str) -> None:
    result = rw.read(run).result
    used = sorted(one.utilisation for one in (*result.links, *result.elements))
    with opened(address) as seen:
        head = seen.page.locator("#links thead button", has_text="utilisation")
        first = seen.page.locator("#links tbody tr").first.locator("td").nth(3)
        for expected in (used[-1], used[0]):
            head.click()
            assert float(first.inner_text().removesuffix(" %")) == pytest.approx(100 * expected, rel=0.01)


def test_saved_names_are_no_formulas(opened: Open, tmp_path: Path) -> None:
    """Names that no run takes, in a result that somebody else wrote."""
    names = ["=1+1", "@x", "-a"]
    jobs = [{"ranks": f"domain:{i}", "name": f"job-{i}"} for i in range(3)]
    rw.run(engine="fluid", iterations=1, alone=0, size="64K", jobs=jobs, out=tmp_path / "run")
    result = tmp_path / "run" / "result.json"
    text = result.read_text()
    for number, name in enumerate(names):
        text = text.replace(f'"job-{number}"', json.dumps(name))
    result.write_text(text)
    done = CliRunner().invoke(main, ["report", str(tmp_path / "run"), "--out", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.output
    with opened((tmp_path / "page.html").as_uri(), accept_downloads=True) as seen:
        table = saved(seen.page, "#jobs", "CSV", tmp_path)
    cells = [row[0] for row in csv.reader(table.read_text().splitlines())]
    assert cells == ["job", *(f"'{name}" for name in names)]


def test_another_run_is_compared_at_the_same_point_of_its_iterations(
    opened: Open, run: Path, tmp_path: Path
) -> None:
    """At a quarter of the seventh iteration, which without feedback takes longer and begins later."""
    fault = "at=iter:4 degrade rail:1 to=20%"
    rw.run(engine="fluid", iterations=8, feedback=False, faults=[fault], out=tmp_path / "blind")
    page = tmp_path / "both.html"
    done = CliRunner().invoke(main, ["report", str(run), str(tmp_path / "blind"), "--out", str(page)])
    assert done.exit_code == 0, done.output
    shown, other = (rw.read(path).result.rows[6] for path in (run, tmp_path / "blind"))
    at_s, there_s = (row.t_s + 0.25 * row.time_us * 1e-6 for row in (shown, other))
    with opened(f"{page.as_uri()}#t={at_s}&against=run1") as seen:
        words = seen.page.locator("#difference p.quiet").first.inner_text()
    assert f"against {there_s:.4g} s of blind, at the same point of its iterations" in words
