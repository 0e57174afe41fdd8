"""The page of a run that goes on: it follows, comes back after a cut, and becomes the report."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import railweave as rw
from railweave.framework.experiment.plan import Plan
from railweave.framework.model.events import (
    FaultInjected,
    IterationEnded,
    Note,
    PhaseStarted,
    RoutesChanged,
    Sampled,
)
from railweave.framework.page.serving.live_page import SNAPSHOT_S, LivePage, followed
from tests.web.browser import until
from tests.web.conftest import Open
from tests.web.cut import Way

SLOW = "at=iter:1 degrade rail:1 to=20%"
GPUS, DOMAINS = 4, 2
COMMAND = Path(sys.executable).with_name("railweave")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return rw.load(engine="fluid", domains=DOMAINS, rails=2, size="64K")


@pytest.fixture
def live(plan: Plan, tmp_path: Path) -> Iterator[tuple[str, LivePage]]:
    with followed(plan, tmp_path / "a-run") as served:
        served[1].emit(PhaseStarted("up", rate_scale=0.01))
        yield served


def sample(plan: Plan, t_s: float, rail_1: float) -> Sampled:
    """Every score is 1, but for that of rail 1."""
    n, scores = plan.fabric.n_links, np.ones(plan.fabric.n_nodes)
    scores[GPUS + DOMAINS + 1] = rail_1
    nothing = np.zeros(n)
    return Sampled(t_s, 0.25, nothing, nothing, nothing, nothing, np.ones(n), scores)


def test_it_follows_the_run_to_its_report(opened: Open, live: tuple[str, LivePage], plan: Plan) -> None:
    url, run = live
    with opened(url, offline=False) as seen:
        page = seen.page
        assert page.locator("#verdict").inner_text() == "running"
        run.emit(IterationEnded(0, 1.0, 0, end_s=1.0))
        run.emit(FaultInjected(1.5, SLOW))
        run.emit(sample(plan, 1.75, 0.2))
        rail = f"#picture .node{GPUS + DOMAINS + 1}, #picture #node{GPUS + DOMAINS + 1}"
        page.wait_for_selector(f":is({rail})[data-value='0.2']", state="attached")
        page.wait_for_selector(".mark.fault", state="attached")
        assert page.locator(".iteration").count() == 1
        run.emit(RoutesChanged(2.0, 1, 4, "rail:1 1.00 -> 0.20"))
        page.wait_for_selector(".mark.reroute", state="attached")
        for number, end_s in ((1, 2.5), (2, 3.6), (3, 4.5)):
            run.emit(IterationEnded(number, 1.0, 0, end_s=end_s))
        page.wait_for_selector(".iteration.after", state="attached")
        parts = page.evaluate("railweave.run.iterations.part")
        assert parts == ["before", "during", "after", "after"]
        (snapshot,) = json.loads(run.snapshot())["runs"]
        assert snapshot["iterations"]["part"] == parts
        run.end(None)
        until(page, "document.querySelector('#verdict').innerText == 'incomplete'")
        assert "has ended" in page.locator("#live").inner_text()
        time.sleep(0.3)
    assert seen.messages == []
    assert {urlsplit(request)[:2] for request in seen.requests} == {urlsplit(url)[:2]}


def test_it_comes_back_after_a_cut_and_misses_nothing(opened: Open, live: tuple[str, LivePage]) -> None:
    """Iterations 0 to 59 arrive once each and in order, over three connections of the event stream."""
    url, run = live
    with Way(url) as way, opened(way.url, offline=False) as seen:
        for first in (0, 20, 40):
            for number in range(first, first + 20):
                run.emit(IterationEnded(number, 1.0, 0))
            until(seen.page, f"railweave.run.iterations.number.length == {first + 20}")
            way.cut()
            for number in (first + 18, first + 19):  # while nobody is connected
                run.emit(RoutesChanged(float(number), number, 1, str(number)))
            until(seen.page, "(n) => railweave.run.marks.length == n", 2 * (first // 20 + 1))
        numbers = seen.page.evaluate("railweave.run.iterations.number")
        marks = seen.page.evaluate("railweave.run.marks.map((mark) => mark.t_s)")
        until(seen.page, "document.querySelector('#live').innerText.startsWith('Live')")
    assert numbers == list(range(60)) and marks == [18.0, 19.0, 38.0, 39.0, 58.0, 59.0]
    assert way.connections > 3
    assert all("net::ERR_" in message for message in seen.messages)  # the browser's own, of the cuts


STATE = """() => {
  const { events, rows, series, ...run } = railweave.run;
  const bytes = Object.entries(rows).map(([mask, row]) => [mask, row?.map((one) => [...one])]);
  return [run, series.t_s, bytes];
}"""
"""What a page knows of its run, but for the number of the last message."""


@pytest.mark.parametrize("samples", [20, 401], ids=["few", "halved"])
def test_who_followed_the_run_knows_what_one_that_comes_now_is_given(
    opened: Open, live: tuple[str, LivePage], plan: Plan, samples: int
) -> None:
    url, run = live
    with opened(url, offline=False) as seen:
        for number in range(samples):
            run.emit(sample(plan, 0.25 * (number + 1), 1.0 if number % 2 else 0.5))
        run.emit(IterationEnded(0, 1.0, 0, end_s=1.0))
        run.emit(FaultInjected(1.5, SLOW))
        run.emit(RoutesChanged(2.0, 1, 4, "rail:1 1.00 -> 0.20"))
        run.emit(IterationEnded(1, 1.5, 0, end_s=2.5))
        run.emit(Note("nothing else happened"))
        until(seen.page, "railweave.run.notes.length == 1")
        followed_it = seen.page.evaluate(STATE)
        time.sleep(SNAPSHOT_S)  # no snapshot is older than that
        with opened(url, offline=False) as newcomer:
            assert newcomer.page.evaluate(STATE) == followed_it
    assert followed_it[0]["iterations"]["part"] == ["before", "during"]
    assert followed_it[0]["end_s"] == max(2.5, 0.25 * samples)
    assert len(followed_it[1]) == min(samples, 200)


def test_jobs_have_their_lanes_from_the_first_iteration_on(opened: Open, tmp_path: Path) -> None:
    plan = rw.load(engine="fluid", domains=2, rails=2, jobs=["ranks=domain:0 name=left", "ranks=domain:1"])
    with followed(plan, tmp_path / "a-run") as (url, run), opened(url, offline=False) as seen:
        run.emit(PhaseStarted("up", rate_scale=0.01))
        for number in range(12):
            run.emit(IterationEnded(number // 2, 1.0, 0, end_s=1.0 + number // 2, job=number % 2))
        until(seen.page, "document.querySelectorAll('.iteration.job1').length == 6")
        assert "job left" in (seen.page.locator(".timeline").text_content() or "")
        assert seen.page.locator("#sentence").inner_text() == (
            "The run is under way: 12 iterations have ended."
        )
        assert seen.page.locator("#mask input[value=jobs]").count() == 0  # whose bytes is not known yet
        run.end(None)
    assert seen.messages == []


@pytest.mark.lab
def test_a_fault_is_on_the_page_while_the_run_goes_on(opened: Open, tmp_path: Path) -> None:
    """Of a real run: the fault and the score that it leads to, each before the run has ended."""
    command = [str(COMMAND), "run", "--live", "--out", str(tmp_path / "run")]
    command += ["--domains", "2", "--rails", "4", "--size", "256K", "--rate-scale", "2e-5"]
    command += ["--iterations", "8", "--fault", "at=iter:3 degrade rail:1 to=20%"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert run.stderr is not None
            lines = iter(run.stderr)
            url = next(match[1] for line in lines if (match := re.match(r"\s*live\s+(\S+)", line)))
            with opened(url, offline=False) as seen:
                next(line for line in lines if re.match(r"\s*[\d.]+ s  fault ", line))
                seen.page.wait_for_selector(".mark.fault", state="attached")
                assert seen.page.evaluate("railweave.run.state") != "complete"
                next(line for line in lines if re.match(r"\s*[\d.]+ s  health +rail:1 ", line))
                rail = "#picture .node11, #picture #node11"  # after 8 GPUs, 2 domains and rail 0
                until(seen.page, "(rail) => document.querySelector(rail).dataset.value < 1", rail)
                assert seen.page.evaluate("railweave.run.state") != "complete"
                for _ in lines:
                    pass
                until(seen.page, "railweave.run.state == 'complete'")
        finally:
            run.terminate()
    assert seen.messages == []
