"""Using a report: by keyboard, by links, by files saved from it, on a narrow screen; comparing within it."""

from __future__ import annotations

import csv
from pathlib import Path
from shutil import copytree
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

import railweave as rw
from railweave.framework.cli import main
from railweave.framework.model import HealthSnapshot, Output
from railweave.framework.model.ofctl_text import flow_text
from railweave.framework.results.rule_file import by_switch, rules_json
from tests.fakes.fake_switch import compile_rules
from tests.web.browser import Page
from tests.web.conftest import Open

FOCUSED = """() => {
  const at = document.activeElement;
  const style = getComputedStyle(at.matches("#mask input") ? at.nextElementSibling : at);
  return [at.id || at.name || at.textContent.trim(), style.outlineStyle !== "none"];
}"""
STATE = "({ ...railweave.state })"


def test_by_keyboard_alone(opened: Open, address: str) -> None:
    """Tab reaches every kind of control, which is then seen to have the focus; arrows move in it."""
    with opened(address) as seen:
        keys, reached = seen.page.keyboard, {}
        for _ in range(60):
            keys.press("Tab")
            name, visible = seen.page.evaluate(FOCUSED)
            reached[name] = visible
            if name == "mask":
                keys.press("ArrowRight")
            if name == "picture":
                keys.press("ArrowRight")
                first = seen.page.evaluate("railweave.state.item")
                keys.press("ArrowRight")
                assert first and seen.page.evaluate("railweave.state.item") not in (None, first)
                assert seen.page.locator("#detail h3").inner_text()
                keys.press("Escape")
                assert seen.page.evaluate("railweave.state.item") is None
            if name == "instant":
                end = seen.page.evaluate("railweave.now")
                keys.press("ArrowLeft")
                assert 0.99 * end < seen.page.evaluate("railweave.now") < end
                break
        assert {"mask", "picture", "previous", "play", "next", "instant"} <= reached.keys()
        assert all(reached.values()), reached
        assert seen.page.evaluate("railweave.state.mask") == "load"
    assert seen.messages == []


def test_what_one_sees_is_a_link(opened: Open, address: str) -> None:
    with opened(address) as seen:
        seen.page.locator("#mask input[value=queue]").check(force=True)
        seen.page.locator("#instant").fill("20")
        seen.page.locator("#picture rect#node21").click()  # on its name
        state, link = seen.page.evaluate(STATE), seen.page.url
        assert state["mask"] == "queue" and state["t"] and state["item"]
    with opened(link) as again:
        assert again.page.evaluate(STATE) == state
        assert again.page.locator("#mask input[value=queue]").is_checked()
        assert again.page.locator("#instant").input_value() == "20"
        assert again.page.locator("#detail h3").inner_text().startswith(state["item"])
    with opened(f"{address}#mask=%3Cb%3E&t=x&item=nobody&run=99&against=y&constructor=z") as strange:
        assert strange.page.locator("#picture svg").count() == 1
        assert not strange.page.evaluate("Object.hasOwn(railweave.state, 'constructor')")
        assert strange.messages == []


def test_drawing_anew_leaves_nothing_of_before(opened: Open, address: str) -> None:
    """Observers of sizes and canvases that are alive, which Chromium counts after a garbage collection: five
    more if each time left one. It may leave a last one for later."""
    with opened(address) as seen:
        seen.page.evaluate("railweave.dispatchEvent(new Event('run'))")
        before = alive(seen.page)
        for _ in range(5):
            seen.page.evaluate("railweave.dispatchEvent(new Event('run'))")
        assert min(before) > 0
        assert all(now < then + 5 for now, then in zip(alive(seen.page), before, strict=True))
    assert seen.messages == []


def alive(page: Page) -> list[int]:
    page.wait_for_selector("#traffic-map canvas")  # the last one to be drawn
    session, counts = page.context.new_cdp_session(page), []
    for kind in ("ResizeObserver", "HTMLCanvasElement"):
        prototype = session.send("Runtime.evaluate", {"expression": f"{kind}.prototype"})["result"][
            "objectId"
        ]
        objects = session.send("Runtime.queryObjects", {"prototypeObjectId": prototype})["objects"][
            "objectId"
        ]
        length = {"objectId": objects, "functionDeclaration": "function () { return this.length }"}
        counts.append(session.send("Runtime.callFunctionOn", length)["result"]["value"])
    session.detach()
    return counts


def test_saved_files_hold_the_figures(opened: Open, run: Path, address: str, tmp_path: Path) -> None:
    result = rw.read(run).result
    with opened(address, accept_downloads=True) as seen:
        table = saved(seen.page, "#links", "CSV", tmp_path)
        picture = saved(seen.page, "#fabric", "SVG", tmp_path)
    rows = {row[0]: row for row in csv.reader(table.read_text().splitlines())}
    assert {link.name: link.bytes for link in result.links}.items() <= {
        name: int(row[2]) for name, row in rows.items() if "->" in name
    }.items()
    drawn = ElementTree.fromstring(picture.read_text())
    ids = {element.get("id") for element in drawn.iter()}
    assert {f"link{link}" for link in range(0, len(result.links), 2)} <= ids
    assert not list(drawn.iter("{http://www.w3.org/2000/svg}script"))
    with opened(picture.as_uri(), ready="svg", color_scheme="dark") as alone:  # its colours are its own
        assert alone.page.locator("#node21").first.evaluate(
            "(node) => getComputedStyle(node).stroke"
        ) not in (
            "none",
            "",
        )
    assert (alone.messages, alone.requests) == ([], [picture.as_uri()])


def saved(page: Page, section: str, kind: str, to: Path) -> Path:
    with page.expect_download() as download:
        page.locator(f"{section} .save button", has_text=kind).first.click()
    path = to / download.value.suggested_filename
    download.value.save_as(path)
    return path


@pytest.mark.parametrize("width", [360, 800])
def test_a_narrow_screen_needs_no_scrolling_sideways(opened: Open, address: str, width: int) -> None:
    with opened(address, viewport={"width": width, "height": 700}) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_route_of_a_pair_is_drawn(opened: Open, run: Path, address: str) -> None:
    """Two GPUs of one rail meet at its switch, two of one domain at the domain's."""
    names = [link.name for link in rw.read(run).result.links]
    drawn = """[...document.querySelectorAll("#picture .link.item")]
      .filter((link) => link.dataset.value).map((link) => [link.id, link.dataset.value])"""

    def cables(*path: str) -> list[list[str]]:
        return sorted([f"link{names.index(link) & ~1}", "1"] for link in path)

    with opened(f"{address}#mask=routes&from=g0.1&to=g1.1&t=1") as seen:
        assert sorted(seen.page.evaluate(drawn)) == cables("g0.1->r1", "r1->g1.1")
        lit = '[...document.querySelectorAll("#picture rect.item")].filter((one) => one.dataset.value)'
        assert seen.page.evaluate(f"{lit}.map((one) => one.id)") == ["node21"]  # the switch of rail 1
        seen.page.get_by_label("receiving GPU").select_option("g0.2")
        assert sorted(seen.page.evaluate(drawn)) == cables("g0.1->d0", "d0->g0.2")
        assert "to=g0.2" in seen.page.url
    assert seen.messages == []


def test_a_switch_and_a_link_show_their_rules(opened: Open, run: Path, tmp_path: Path) -> None:
    """As the compiler gives them: of rail 1 all, of a link those that send out of its port."""
    plan = rw.load(rw.read(run).result.experiment)
    fabric, names = plan.fabric, [link.name for link in rw.read(run).result.links]
    rules = compile_rules(fabric, plan.router.routes(fabric, HealthSnapshot.healthy(fabric)))
    lab = tmp_path / "lab"
    copytree(run, lab)
    (lab / "rules.json").write_text(rules_json(by_switch(fabric, rules)))
    done = CliRunner().invoke(main, ["report", str(lab)])
    assert done.exit_code == 0, done.output

    def flows(switch: str, port: int | None = None) -> list[str]:
        own = [rule for rule in rules if rule.switch == fabric.node_ids[switch]]
        return sorted(flow_text(r, cookie=False) for r in own if port is None or Output(port) in r.actions)

    shown = "[...document.querySelectorAll('#detail .rules code')].map((one) => one.textContent)"
    port = int(fabric.link_port[names.index("g0.1->r1")])
    with opened(f"{(lab / 'report.html').as_uri()}#item=rail%3A1") as seen:
        assert sorted(seen.page.evaluate(shown)) == flows("r1") != []
        assert f"{len(flows('r1'))} in switch r1: {len(flows('r1'))} for" in seen.page.inner_text("#detail")
        seen.page.evaluate("railweave.choose({ item: 'g0.1->r1' })")
        assert sorted(seen.page.evaluate(shown)) == flows("g0.1", port) != []
        words = f"{len(flows('g0.1', port))} of the {len(flows('g0.1'))} in switch g0.1 send over this link"
        assert words in seen.page.inner_text("#detail")
    with opened(f"{(run / 'report.html').as_uri()}#item=rail%3A1") as model:
        assert "The engine fluid is a model" in model.page.inner_text("#detail")
    assert seen.messages == model.messages == []


def test_an_instant_that_is_held_shows_what_has_changed(opened: Open, run: Path, address: str) -> None:
    samples = rw.read(run).samples
    node = 21
    before, after = (samples["element_score"][i, node] for i in (0, -1))
    with opened(address) as seen:
        seen.page.evaluate("railweave.choose({ t: 0.1 })")
        seen.page.get_by_role("button", name="Hold this instant").click()
        seen.page.evaluate("railweave.choose({ t: null })")
        change = seen.page.locator(f"#picture #node{node}, #picture .node{node}").first
        assert float(change.get_attribute("data-value") or "nan") == pytest.approx(before - after, abs=0.006)
        same = seen.page.locator("#picture #node20, #picture .node20").first
        assert float(same.get_attribute("data-value") or "nan") == 0
        rows = seen.page.locator("#difference tbody tr")
        assert rows.first.locator("td").all_inner_texts() == [
            "rail:1",
            f"{before:.2f}",
            f"{after:.2f}",
            "worse",
        ]
        assert rows.count() == 9  # the rail and its links
        with opened(seen.page.url) as again:
            assert again.page.locator("#difference tbody tr").count() == 9
        seen.page.get_by_role("button", name="Stop comparing").click()
        assert float(change.get_attribute("data-value") or "nan") == pytest.approx(after, abs=0.003)
    assert seen.messages == []


def test_two_runs_on_one_page(opened: Open, run: Path, tmp_path: Path) -> None:
    """The same experiment without feedback: medians from the fault on, from both results."""
    blind = tmp_path / "blind"
    rw.run(
        engine="fluid", iterations=8, feedback=False, faults=["at=iter:4 degrade rail:1 to=20%"], out=blind
    )
    page = tmp_path / "both.html"
    done = CliRunner().invoke(main, ["report", str(run), str(blind), "--out", str(page)])
    assert done.exit_code == 0, done.output
    times = [
        np.median([row.declared_time_us for row in rw.read(path).result.rows if (row.iteration or 0) >= 4])
        for path in (run, blind)
    ]
    words = f"{times[1] / times[0]:.2f} times as long from the fault on"
    with opened(page.as_uri()) as seen:
        assert words in seen.page.locator("#sentence").inner_text()
        assert words in done.output
        seen.page.get_by_label("shown run").select_option("1")
        seen.page.get_by_role("button", name="Compare with rail-only").click()
        assert seen.page.evaluate(STATE)["against"] == "run0"
        seen.page.evaluate("railweave.choose({ mask: 'load', t: 8 })")
        rows = seen.page.locator("#difference tbody tr")
        assert rows.count() > 0
        with opened(seen.page.url) as again:
            assert again.page.locator("#difference tbody tr").count() == rows.count()
    assert seen.messages == []
