"""Pauses in whole runs: results, SONiC's RoCEv2 test plan (examples/sonic-rocev2), a deadlock, refusals.
Expected: what the plan says has to happen, and bytes over the port's rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import railweave as rw
from railweave.framework.cli._summary import report
from railweave.framework.errors import ExperimentError, TransportError
from railweave.framework.model import PacketFormat
from railweave.framework.page.data.figure_texts import figures
from railweave.framework.page.data.items import items, shown
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.results.figures import Row
from railweave.framework.results.result import RunResult

PLAN = Path(__file__).parents[3] / "examples" / "sonic-rocev2"
PAUSED = {f"g{i}.0->r0" for i in (1, 2, 3)}
"""Links of the senders of TC2."""
LOSSLESS = {"name": "packet", "pfc": True}


@pytest.fixture(scope="module")
def registers() -> Registers:
    return load_plugins()


def scenario(name: str, registers: Registers, **keys: Any) -> tuple[RunResult, list[Row]]:
    """A run of the test plan, and its iterations."""
    (path,) = PLAN.glob(f"{name}-*.yaml")
    result = rw.run(path, registers=registers, **keys)
    return result, [row for row in result.rows if row.iteration is not None]


def pauses(rows: list[Row]) -> list[int]:
    return [row.pause_figures.pauses for row in rows if row.pause_figures is not None]


def lost(result: RunResult) -> int:
    """Packets that were dropped or sent again."""
    return sum(link.drops for link in result.links) + sum(row.retransmitted or 0 for row in result.rows)


def test_tc1_without_congestion_nothing_is_marked_or_paused(registers: Registers) -> None:
    result, rows = scenario("tc1", registers)
    assert [(row.marked, row.cnps) for row in rows] == [(0, 0)] * 3
    assert pauses(rows) == [0, 0, 0] and lost(result) == 0


def test_tc2_an_incast_pauses_all_its_senders_and_loses_nothing(registers: Registers) -> None:
    """And the port is busy all the time: 48 MiB and their headers at 400 Gb/s."""
    result, rows = scenario("tc2", registers)
    assert min(pauses(rows)) > 0 and lost(result) == 0
    assert {link.name for link in result.links if link.pauses} == PAUSED
    assert all(0 < (link.paused or 0) < 1 for link in result.links if link.pauses)
    least_us = 3 * PacketFormat().wire_bytes(16 << 20) * 8 / 400e9 * 1e6
    assert all(least_us < row.declared_time_us < 1.01 * least_us for row in rows)


def test_the_page_says_for_how_long_each_link_was_paused(registers: Registers) -> None:
    result, _ = scenario("tc2", registers)
    fabric = rw.topology("rail-only", domains=4, rails=1)
    columns = items(fabric, shown(fabric, None), result)
    paused = {name: share for name, share in zip(columns.name, columns.paused, strict=True) if share}
    assert paused == {link.name: round(link.paused, 4) for link in result.links if link.paused}
    assert len(paused) == 3


def test_a_run_keeps_when_links_were_paused(registers: Registers, tmp_path: Path) -> None:
    """Of the same links as the figures of the run, for no longer than these say, and at least to the last
    sample, which comes half a second before the end at most."""
    result, rows = scenario("tc2", registers, out=tmp_path / "run")
    samples = rw.read(tmp_path / "run").samples
    paused_s = samples["paused_s"].sum(axis=0)
    assert {link.name for link, s in zip(result.links, paused_s, strict=True) if s} == PAUSED
    end_s = max(row.t_s + row.time_us * 1e-6 for row in rows)
    for link, sampled_s in zip(result.links, paused_s, strict=True):
        whole_s = (link.paused or 0.0) * end_s
        assert whole_s - (end_s - samples["t_s"][-1]) - 0.01 < sampled_s < 1.01 * whole_s + 1e-6
    assert (samples["paused_s"] <= np.diff(samples["t_s"], prepend=0.0)[:, None] + 1e-6).all()
    scenario("tc3", registers, out=tmp_path / "lossy")
    assert np.isnan(rw.read(tmp_path / "lossy").samples["paused_s"]).all()


def test_tc3_dcqcn_alone_marks_and_never_pauses(registers: Registers) -> None:
    result, rows = scenario("tc3", registers)
    assert (rows[0].marked or 0) > 0 and (rows[0].cnps or 0) > 0
    assert all(row.pause_figures is None for row in result.rows) and lost(result) == 0
    assert all(link.pauses is None and link.paused is None for link in result.links)


def test_tc4_dcqcn_leaves_few_pauses(registers: Registers) -> None:
    """Fewer by far than without, and none once the rates have found their level."""
    result, rows = scenario("tc4", registers)
    without, other_rows = scenario("tc4", registers, control="window")
    assert lost(result) == 0 and lost(without) == 0
    assert min(pauses(other_rows)) > 10 * max(pauses(rows)) > 0
    assert pauses(rows)[1:] == [0, 0]


def test_a_summary_adds_pauses_up(registers: Registers) -> None:
    result, rows = scenario("tc2", registers)
    whole = result.summary.pause_figures
    assert whole is not None
    assert whole.pauses == sum(pauses(rows)) and whole.links == 3 and whole.depth == 1
    paused_us = sum(row.pause_figures.paused_us for row in rows if row.pause_figures)
    assert whole.paused_us == pytest.approx(paused_us)
    assert f"pauses      {whole.pauses} of 3 links, " in report(result)
    (shown,) = (figure.value for figure in figures(result) if figure.name == "Pauses")
    assert shown == str(whole)


def test_waiting_for_a_pause_is_no_sign_of_bad_health(registers: Registers) -> None:
    """A storm from one receiver: links that wait serve less than they could, and keep their score."""
    keys: dict[str, Any] = {"topology": "fat-tree", "k": 4, "router": "ecmp", "collective": "incast"}
    result = rw.run(registers=registers, engine=LOSSLESS, size="4M", iterations=2, faults="none", **keys)
    (paused,) = {row.pause_figures.depth > 1 for row in result.rows if row.pause_figures}
    assert paused
    assert all(link.h_score == 1 for link in result.links)


def test_a_deadlock_fails_the_run_with_its_cycle_of_links(registers: Registers) -> None:
    """An all-to-all on a ring whose NICs queue all that windows allow."""
    cycle = "g0->g1, g1->g2, g2->g3, g3->g4, g4->g0"
    with pytest.raises(TransportError, match=f"deadlock: links {cycle} are paused") as caught:
        rw.run(
            registers=registers, engine={**LOSSLESS, "nic": "fifo"}, topology="ring", nodes=5,
            collective="direct-all-to-all", size="16M", iterations=1, faults="none",
        )  # fmt: skip
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"xon": "300K"}, "xon 300K lies above xoff 256K"),
        ({"xon": "300K", "pfc": False}, "xon 300K lies above xoff 256K"),
        ({"headroom": "4K"}, "headroom 4K is too small for .*Raise headroom"),
        ({"headroom": "0"}, "headroom 0 is too small for .*Raise headroom"),
        ({"buffer": "200K"}, "xoff 256K and headroom .* are more than the buffer of a port, 200K"),
        ({"buffer": "10K", "buffer_model": "shared"}, "headroom of the ports of .* is more than its buffer"),
        ({"response": "1"}, "response"),
        ({"trimming": True, "buffer": "1M"}, "trimming and pfc: queues that pause are never full"),
    ],
)
def test_thresholds_that_contradict_are_refused_first(
    registers: Registers, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(ExperimentError, match=why) as caught:
        plan = rw.load(registers=registers, engine={**LOSSLESS, **options})
        plan.engine.estimate(plan)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("option", ["pfc", "buffer_model"])
def test_a_lab_refuses_by_name(registers: Registers, option: str) -> None:
    with pytest.raises(ExperimentError, match=f"engine emulation has no option '{option}'"):
        rw.load(registers=registers, engine={"name": "emulation", option: "true"})
