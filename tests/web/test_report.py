"""Reports as a browser shows them, from disk and without a network. Expected values: of the run directory."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe

import railweave as rw
from tests.web import colours
from tests.web.browser import Browser, Page
from tests.web.conftest import Open, RunOf
from tests.web.fabrics import FABRICS

MOST_BYTES = 1.5e6


@pytest.fixture
def rails(run_of: RunOf) -> str:
    """The address of a report of 16 GPUs, rail 1 of which slows down."""
    return (run_of("rail-only") / "report.html").as_uri()


SHAPES = """() => Object.fromEntries([...document.querySelectorAll("#picture .item[id]")].map((shape) => [
  shape.id,
  { ...shape.dataset, colour: getComputedStyle(shape).stroke, kind: shape.classList.value },
]))"""
"""By id, the coloured shapes of the picture: what they say they show, and the colour they have."""
FIVE_SCORES = """() => {
  [0, 50, 100, 150, 200].forEach((byte, i) => railweave.rows.score.forEach((row) => { row[i] = byte; }));
  railweave.choose({});
}"""
INTRUDERS = """async () => {
  const refused = [];
  document.addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
  const put = (tag, values) => document.body.append(Object.assign(document.createElement(tag), values));
  put("script", { textContent: "window.harm = 1" });
  put("script", { src: "https://127.0.0.1:9/x.js" });
  put("img", { src: "https://127.0.0.1:9/x.png" });
  put("link", { rel: "stylesheet", href: "https://127.0.0.1:9/x.css" });
  put("iframe", { src: "https://127.0.0.1:9/" });
  await fetch("https://127.0.0.1:9/").catch(() => {});
  await new Promise((done) => setTimeout(done, 300));
  return [refused.sort(), window.harm ?? null];
}"""


def test_before_anything_is_drawn_the_page_says_so(browser: Browser, rails: str) -> None:
    """As where scripts are off."""
    page = browser.new_page(java_script_enabled=False)
    page.goto(rails)
    assert page.inner_text("body").strip() == "Loading; this page needs JavaScript."
    page.close()


def test_pauses_have_a_curve_and_colours_where_links_are_paused(
    opened: Open, rails: str, tmp_path: Path
) -> None:
    """Of three senders' links, as health.npz has them; nothing of it in a run without PFC."""
    keys: dict[str, Any] = {"topology": {"name": "rail-only", "domains": 4, "rails": 1}, "faults": "none"}
    engine = {"name": "packet", "pfc": True, "xoff": "64K"}
    rw.run(collective="incast", size="4M", iterations=2, engine=engine, out=tmp_path / "run", **keys)
    samples = rw.read(tmp_path / "run").samples
    share = samples["paused_s"] / np.diff(samples["t_s"], prepend=0.0)[:, None]
    fabric = rw.topology("rail-only", domains=4, rails=1)
    most = {fabric.link_name(i): value for i, value in enumerate(share.max(axis=0)) if value}
    captions = "() => [...document.querySelectorAll('figcaption b')].map((b) => b.textContent)"
    values = """() => railweave.run.items.name.map((name, item) => [name, Math.max(
      ...railweave.run.series.t_s.map((_, i) => railweave.value("paused", item, i) ?? 0))])"""
    with opened((tmp_path / "run" / "report.html").as_uri()) as seen:
        assert "pauses" in seen.page.evaluate(captions)
        shown = {name: value for name, value in seen.page.evaluate(values) if value and name in most}
        assert seen.page.locator("#mask input[value=paused]").count() == 1
    assert shown == {name: pytest.approx(value, abs=0.01) for name, value in most.items()}
    assert len(shown) == 3
    with opened(rails) as seen:
        assert "pauses" not in seen.page.evaluate(captions)
        assert seen.page.locator("#mask input[value=paused]").count() == 0


@pytest.mark.parametrize("name", FABRICS)
def test_picture_and_samples_agree(opened: Open, run_of: RunOf, name: str) -> None:
    """Every cable of the fabric is one shape whose figure is the worse direction's last score."""
    path = run_of(name) / "report.html"
    run = rw.read(run_of(name))
    assert path.stat().st_size < MOST_BYTES
    with opened(path.as_uri()) as seen:
        assert seen.page.locator("#verdict").inner_text() == run.result.fidelity.verdict
        drawn = seen.page.evaluate(SHAPES)
    assert (seen.messages, seen.requests) == ([], [path.as_uri()])
    scores = run.samples["link_score"]
    last = scores[-1] if len(scores) else np.array([link.h_score for link in run.result.links])
    cables = {int(id.removeprefix("link")): shape for id, shape in drawn.items() if id.startswith("link")}
    if name != "1024":
        assert sorted(cables) == list(range(0, len(last), 2))
    for link, shape in cables.items():
        assert float(shape["value"]) == pytest.approx(last[link : link + 2].min(), abs=0.0026)
        assert run.result.links[link].kind in shape["kind"].split() or name == "1024"
    by_value: dict[str, set[str]] = {}
    for shape in drawn.values():
        by_value.setdefault(shape["value"], set()).add(shape["colour"])
    assert all(len(each) == 1 for each in by_value.values())
    assert len(by_value) > 1 or not run.result.faults


def test_the_picture_follows_the_clock(opened: Open, rails: str, run_of: RunOf) -> None:
    run = rw.read(run_of("rail-only"))
    t_s, scores = run.samples["t_s"], run.samples["element_score"]
    node = 16 + 4 + 1  # GPUs, domains, rail 0
    with opened(rails) as seen:
        for at in (0.5, 4.5, 8.0):
            seen.page.evaluate("(t) => railweave.choose({ t })", at)
            now = seen.page.evaluate("railweave.run.series.t_s[railweave.instant]")
            there = scores[np.searchsorted(t_s, now, "right") - 1, node]
            shown = seen.page.locator(f"#picture .node{node}, #picture #node{node}").first
            assert float(shown.get_attribute("data-value") or "nan") == pytest.approx(there, abs=0.0026)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_roles_and_contrasts(opened: Open, rails: str, scheme: str) -> None:
    """As axe-core judges them (WCAG 2.2)."""
    with opened(rails, color_scheme=scheme) as seen:
        for state in (
            {},
            {"item": "rail:1", "t": 4.5, "against": "1"},
            {"mask": "plain", "item": "g0.1->r1"},
        ):
            seen.page.evaluate("(state) => railweave.choose(state)", state)
            found = Axe().run(seen.page)
            assert found.violations_count == 0, found.generate_report()


def test_jobs_colour_what_they_used(opened: Open, run_of: RunOf) -> None:
    """An element's figure is the number of jobs whose data it carried, by the result."""
    jobs = rw.read(run_of("jobs")).result.jobs
    used = [{name for name, sent in (job.element_bytes or {}).items() if sent} for job in jobs]
    with opened((run_of("jobs") / "report.html").as_uri() + "#mask=jobs") as seen:
        drawn = {shape["item"]: shape["value"] for shape in seen.page.evaluate(SHAPES).values()}
        assert seen.page.locator("#scale").inner_text().split()[:2] == [job.name for job in jobs]
    rails = {f"rail:{i}" for i in range(4)}
    assert {name: int(value) for name, value in drawn.items() if ":" in name} == {
        name: sum(name in one for one in used) for name in used[0] | used[1] | rails
    }
    assert used[0] & used[1] == rails


def test_each_of_many_jobs_has_its_colour_in_bars_and_picture(opened: Open, tmp_path: Path) -> None:
    """Nine jobs, a domain each: one more than there are colours, so the last has that of the first."""
    jobs = [f"ranks=domain:{i}" for i in range(9)]
    rw.run(engine="fluid", domains=9, rails=2, size="64K", iterations=1, alone=0, jobs=jobs, out=tmp_path)
    colours_of = "(all) => all.map((one) => getComputedStyle(one)"
    with opened((tmp_path / "report.html").as_uri() + "#mask=jobs") as seen:
        keys = seen.page.locator("#scale i").evaluate_all(f"{colours_of}.backgroundColor)")[:9]
        bars = seen.page.locator("#timeline rect").evaluate_all(f"{colours_of}.fill)")
        domains = [seen.page.locator(f"#picture rect#node{node}") for node in range(18, 27)]
        drawn = [domain.evaluate("(one) => getComputedStyle(one).stroke") for domain in domains]
    assert (len(set(keys)), keys[8], drawn, sorted(bars)) == (8, keys[0], keys, sorted(keys))
    assert seen.messages == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_are_apart_whatever_cones_one_has(opened: Open, rails: str, scheme: str) -> None:
    """Five steps of health, on shapes that are given them: apart from each other by four just noticeable
    differences, and from the paper by the contrast that WCAG asks of graphics."""
    with opened(rails, color_scheme=scheme) as seen:
        seen.page.evaluate(FIVE_SCORES)
        names = [seen.page.evaluate("(i) => railweave.run.items.shape[i]", i) for i in range(5)]
        steps = [_colour(seen.page, f"#picture .{name}, #picture #{name}") for name in names]
        paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    for sight in colours.SIGHTS:
        apart = [colours.distance(a, b, sight) for a, b in pairwise(steps)]
        assert min(apart) > 9, (sight, apart)
    assert min(colours.contrast(step, paper) for step in steps) >= 3


def _colour(page: Page, shape: str) -> str:
    return str(page.locator(shape).first.evaluate("(shape) => getComputedStyle(shape).stroke"))


def test_nothing_that_gets_into_the_page_can_ask_for_anything(opened: Open, rails: str) -> None:
    """The policy holds: a script, an image, a style sheet and a fetch put into the page are all refused."""
    with opened(rails, offline=False) as seen:
        refused = seen.page.evaluate(INTRUDERS)
    assert refused == [
        ["connect-src", "frame-src", "img-src", "script-src-elem", "script-src-elem", "style-src-elem"], None,
    ]  # fmt: skip
    assert seen.requests[0] == rails and set(seen.requests[1:]) == seen.refused


def test_it_prints_in_light_and_whole(opened: Open, rails: str, tmp_path: Path) -> None:
    with opened(rails, color_scheme="dark") as seen:
        seen.page.pdf(path=tmp_path / "page.pdf", format="A4")
        assert (tmp_path / "page.pdf").stat().st_size > 10_000
        seen.page.emulate_media(media="print")
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
