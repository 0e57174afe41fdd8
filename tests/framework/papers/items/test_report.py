"""Items as rows, as JSON and as the page docs/papers.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.framework.errors import MachineError
from railweave.framework.papers.items.computed import computed
from railweave.framework.papers.items.item import Claim, Claims, Item
from railweave.framework.papers.items.recorded import Recorded, recorded
from railweave.framework.papers.items.registry import PAPERS
from railweave.framework.papers.items.report import COLUMNS, document, page, section, table_of
from railweave.framework.papers.items.workbench import Workbench
from railweave.framework.registry import load_plugins

ENGINE = "fluid"
DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "papers.md").read_text()
SLOW = ("t03", "t06", "t07", "r12")
"""Items that the page has, but that take seconds."""


@pytest.fixture(scope="module")
def workbench() -> Workbench:
    return Workbench(load_plugins(), ENGINE)


def failing(_: Workbench) -> Claims:
    raise MachineError("no solver is installed. Install one.")


def counting(_: Workbench, *, number: int = 3) -> Claims:
    return Claims((Claim("count", 2, number, "steps"), Claim("other", None, 0.25)))


GOOD = Item("x01", "a count", "table 1", command="railweave run --engine {engine}", why="It is ours.",
            compute=counting)  # fmt: skip
BAD = Item("x02", "a solver", "table 2", "ILP", "railweave x", "No reason.", failing)
LATER = Item("x03", "a lab", "figure 1", missing="a circuit")


def test_rows_and_documents(workbench: Workbench) -> None:
    good, bad, later = computed([GOOD, BAD, LATER], workbench)
    assert table_of([good]) == (
        ("item", "figure", "source", "ours", "difference", "method", "why"),
        [
            ("x01", "count", "2 steps", "3 steps", "+50.00 %", "formula", "It is ours."),
            ("", "other", "-", "0.25", "-", "", ""),
        ],
    )
    assert document(good, ENGINE) == {
        "id": "x01", "title": "a count", "place": "table 1", "state": "computed",
        "source": {"count": 2, "other": None}, "ours": {"count": 3, "other": 0.25},
        "difference": {"count": 0.5, "other": None}, "units": {"count": "steps"}, "why": "It is ours.",
        "method": "formula", "command": "railweave run --engine fluid",
        "computed_by": f"{__name__}.counting", "picture": False, "lab": None,
    }  # fmt: skip
    assert table_of([bad])[1][0][-1] == "failed: no solver is installed. Install one."
    assert (bad.state, later.state) == ("failed", "not there yet")
    assert table_of([later])[1][0][-1] == "not there yet: a circuit"
    assert document(later, ENGINE)["ours"] is None
    assert good.peak_mb > 1


def test_the_page_counts_what_is_there(workbench: Workbench) -> None:
    paper = next(iter(PAPERS.values()))
    text = page([(paper, [*computed([GOOD, BAD, LATER], workbench)])], ENGINE)
    assert "Of 3 tables, figures and claims 1 are computed and 1 are not there yet; 1 failed." in " ".join(
        text.split()
    )
    assert "| count | 2 steps | 3 steps | +50.00 % |" in text


def test_docs_have_every_item() -> None:
    headings = [line for line in PAGE.splitlines() if line.startswith("### ")]
    assert headings == [f"### {item.id}: {item.title}" for paper in PAPERS.values() for item in paper.items]
    for paper in PAPERS.values():
        for item in paper.items:
            assert (DOCS / "papers" / f"{item.id}.svg").is_file() == item.picture


@pytest.mark.parametrize("key", PAPERS)
def test_docs_are_what_the_command_writes(key: str, workbench: Workbench) -> None:
    """Make it anew with `railweave paper all --out docs`."""
    items = [item for item in PAPERS[key].items if item.id not in SLOW]
    for row in computed(items, workbench):
        assert "\n\n".join(section(row, ENGINE)) in PAGE
        if row.lab is not None and row.outcome is not None and not row.lab.refused:
            assert row.lab.ours.keys() == row.outcome.ours.keys()


def test_runs_are_recorded_on_the_lab() -> None:
    """Record anew: `railweave paper PAPER ITEM --lab --json > FILE; python .ci/lab_results.py FILE`."""
    runs = {item.id for paper in PAPERS.values() for item in paper.items if item.method == "run"}
    assert recorded().keys() == runs
    assert all(entry.ours or entry.refused for entry in recorded().values())


def test_what_a_lab_made_of_an_item_stands_next_to_it(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    day, line = "2026-11-27", "railweave paper x x01 --lab"
    (good,) = computed([GOOD], workbench)
    for entry, column, words in (
        (Recorded(day, line, {"count": 4}), ["4 steps", "-"], "column lab."),
        (Recorded(day, line, refused="no netem."), ["-", "-"], "refused: no netem."),
    ):
        monkeypatch.setattr("railweave.framework.papers.items.computed.recorded", lambda: {"x01": entry})  # noqa: B023
        head, lines = table_of([good])
        assert [line[head.index("lab")] for line in lines] == column
        assert lines[0][head.index("method")] == f"formula; lab: {day}"
        assert f"On the lab, {day}, `{line}`: {words}" in section(good, ENGINE)


def test_lines_of_docs_are_short() -> None:
    long = [line for line in PAGE.splitlines() if len(line) > COLUMNS and not line.startswith("|")]
    assert not long
