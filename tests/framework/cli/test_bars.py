"""Bars of the fabric below the progress bar, read back from what a terminal was sent."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console, ConsoleDimensions

from railweave.framework.cli._bars import BarRow, rows_of
from railweave.framework.cli._live import Live
from railweave.framework.model import Fabric
from railweave.framework.model.events import PhaseStarted, Sampled
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.torus import Torus

SCALE = 100


def rail_only(domains: int = 2) -> Fabric:
    return RailOnly().build({"domains": domains, "rails": 2, "domain_rate": 72e6, "rail_rate": 8e6})


def sampled(fabric: Fabric, scores: dict[str, float] | None = None) -> Sampled:
    """Two seconds in which the first link carried 0.8 of its rate at a hundredth of the declared one, the
    others 0.3; elements score as told, the others 1."""
    n = fabric.n_links
    load, element = np.full(n, 0.3), np.ones(fabric.n_nodes)
    load[0] = 0.8
    for name, score in (scores or {}).items():
        kind, _, place = name.partition(":")
        (node,) = [
            node for node in range(fabric.n_gpus, fabric.n_nodes)
            if fabric.node_kind(node) == kind and fabric.coordinates(node) == (int(place),)
        ]  # fmt: skip
        element[node] = score
    sent = load * fabric.capacity_bps / SCALE * 2 / 8
    return Sampled(2.0, 2.0, np.zeros(n), sent, np.zeros(n), np.zeros(n), np.ones(n), element)


def test_a_row_for_each_rail_then_each_domain() -> None:
    fabric = rail_only()
    rows = rows_of(fabric.scaled(1 / SCALE), sampled(fabric, {"rail:1": 0.2}))
    assert [(row.name, row.score) for row in rows] == [
        ("rail:0", 1.0), ("rail:1", 0.2), ("domain:0", 1.0), ("domain:1", 1.0),
    ]  # fmt: skip
    busiest = fabric.link_element[0]  # the element of the link with 0.8
    assert [row.load for row in rows].count(0.8) == 1
    assert sorted(row.load for row in rows) == [0.3, 0.3, 0.3, 0.8]
    assert fabric.node_kind(int(busiest)) == next(r.name for r in rows if r.load == 0.8).split(":")[0]


def test_links_of_no_switch_have_a_row_for_each_axis() -> None:
    fabric = Torus().build({"shape": "4x4", "link_rate": 8e6})
    sample = sampled(fabric)
    score = np.ones(fabric.n_links)
    score[int(np.flatnonzero(fabric.link_kind == fabric.kinds.index("y+"))[0])] = 0.4
    rows = {row.name: row for row in rows_of(fabric.scaled(1 / SCALE), replace(sample, link_score=score))}
    assert {name: row.score for name, row in rows.items()} == {
        "links x+": 1.0, "links x-": 1.0, "links y+": 0.4, "links y-": 1.0,
    }  # fmt: skip
    assert rows["links x+"] == BarRow("links x+", 1.0, 0.8)


def shown(
    fabric: Fabric, sample: Sampled, *, height: int = 24, width: int = 80, terminal: bool = True
) -> str:
    out = StringIO()
    console = Console(file=out, force_terminal=terminal, highlight=False, width=width, height=height)
    with Live(2, quiet=False, verbose=False, console=console, fabric=fabric) as live:
        live.emit(PhaseStarted("up", rate_scale=1 / SCALE))
        live.emit(sample)
        live._bar.refresh()
    return out.getvalue()


def plain(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "\n").splitlines()


@pytest.mark.parametrize("no_color", ["", "1"])
def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch, no_color: str) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    fabric = rail_only()
    text = shown(fabric, sampled(fabric, {"rail:1": 0.25}))
    (row,) = [line for line in plain(text) if line.startswith("rail:1")][:1]
    health = row.split("health ")[1].split("0.25")[0]
    assert len(health.rstrip("━╸╺ ")) == 0
    if no_color:  # without colours the rest of a bar is blank, so that its length can be seen
        assert health.count("━") + health.count("╸") == 4  # a quarter of 16
    assert bool(re.search(r"\x1b\[3[0-9]", text)) is not bool(no_color)


def test_no_terminal_no_bars() -> None:
    fabric = rail_only()
    assert shown(fabric, sampled(fabric), terminal=False).strip() == "up"


def test_a_small_terminal_gets_the_worst_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    fabric = rail_only(domains=40)
    lines = plain(shown(fabric, sampled(fabric, {"domain:33": 0.5}), height=8, width=60))
    assert any(line.startswith("domain:33") for line in lines)
    assert any(line.startswith("and 38 more") for line in lines)
    assert all(len(line) <= 60 for line in lines)


def test_another_size_of_the_terminal_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    fabric, out = rail_only(domains=10), StringIO()
    console = Console(file=out, force_terminal=True, highlight=False, width=100, height=60)
    with Live(2, quiet=False, verbose=False, console=console, fabric=fabric) as live:
        live.emit(sampled(fabric))
        live._bar.refresh()
        before = out.tell()
        console.size = ConsoleDimensions(50, 8)
        live._bar.refresh()
        text = out.getvalue()
        large, small = plain(text[:before]), plain(text[before:])
        assert sum(line.startswith(("rail:", "domain:")) for line in large[-13:]) == 12
        assert sum(line.startswith(("rail:", "domain:")) for line in small) == 4
        assert all(len(line) <= 50 for line in small)
