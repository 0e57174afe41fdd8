"""The page of the fixture's run: rail 1 slows at 2 s, seen half a second later, rerouted at 4.5 s."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from railweave.framework import api
from railweave.framework.page.data.course import Course, events_of
from railweave.framework.page.data.directories import page_of_run
from railweave.framework.page.data.run_page import Known, run_page
from railweave.framework.page.data.sentence import spaced_time
from railweave.framework.registry import load_plugins
from railweave.framework.results.result import RunResult
from railweave.topologies.rail_only import RailOnly


def test_marks_items_and_key_figures_are_those_of_the_result(result: RunResult) -> None:
    (link,), (fault,) = result.links, result.faults
    links = (replace(link, bytes=3000, loss=0.25), replace(link, name="d0->g0.0", bytes=1000))
    key_figures = replace(result.key_figures, max_mean_ratio={"d": 1.5, "r": 1.0}, retransmission_rate=None)
    run = replace(result, links=links, faults=(replace(fault, detected_s=0.5),), key_figures=key_figures)
    fabric = RailOnly().build({"domains": 4, "rails": 4, "domain_rate": 72e6, "rail_rate": 8e6})
    page = run_page(Known("a run", fabric, "fluid", "", "", result=run, course=Course.of(events_of(run))))
    rail = page.items.name.index("rail:1")
    assert [(mark.t_s, mark.kind, mark.items) for mark in page.marks] == [
        (2.0, "fault", (rail,)), (2.5, "seen", (rail,)), (4.5, "reroute", (rail,)),
    ]  # fmt: skip
    there = page.items.name.index("g0.0->d0")
    back = page.items.name.index("d0->g0.0")
    assert [(page.items.bytes[i], page.items.loss[i]) for i in (there, back)] == [(3000, 0.25), (1000, 0)]
    figures = {figure.name: figure.value for figure in page.figures}
    assert figures["MMR"] == "d 1.50, r 1.00"
    assert "Retransmitted" not in figures
    assert figures["JCT ratio"] == "2.40"  # 5.75 s for four iterations whose limit is 0.6 s
    assert figures["Reroutes"] == "1"
    assert page.iterations.held_by == (None, None, "rail:1", None)
    assert page.iterations.part == ("before", "before", "during", "after")


def test_a_page_says_where_sampling_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model stops sampling where nothing can change; its curves are flat from there on."""
    monkeypatch.chdir(tmp_path)
    api.run(engine="fluid", out="run", faults=["at=iter:2 degrade rail:1 to=20%"], iterations=40)
    (page,) = page_of_run(Path("run"), load_plugins()).runs
    last_s = float(api.read("run").samples["t_s"][-1])
    assert last_s < 0.9 * page.end_s
    assert f"Nothing was sampled after {spaced_time(last_s)}: from there on" in page.resolution
    assert page.what.startswith("rail-only, 16 GPUs · router hscore · all-reduce of 1M · engine fluid")


def test_the_header_of_a_page_names_oracle_and_no_feedback() -> None:
    fabric = RailOnly().build({"domains": 4, "rails": 4, "domain_rate": 72e6, "rail_rate": 8e6})
    for text, words in (
        ("oracle: true\n", "oracle: the router is told"),
        ("feedback: false\n", "no feedback"),
    ):
        page = run_page(Known("a run", fabric, "fluid", text, "", running=True))
        assert words in page.what
