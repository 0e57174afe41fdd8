"""Whole runs on the engine `fluid`, through the calls that users make. Expected times: closed forms of the
collectives, and the rates that faults leave."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import railweave as rw
from railweave.framework.cli import main
from railweave.framework.cli._summary import report
from railweave.framework.errors import ExperimentError, TransportError
from railweave.framework.judging.run_result import run_result
from railweave.framework.model import Measurement, PacketFormat
from railweave.framework.model.events import Progress
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.results.nccl_table import nccl_table
from railweave.framework.results.result import RunResult
from railweave.framework.runs import runner
from railweave.framework.solver.quotient import Quotient
from railweave.framework.solver.reduction import quotients
from railweave.plugins.fluid import work
from railweave.plugins.fluid.measurements import ModelSource
from railweave.plugins.fluid.model import FlowModel

SLOW = "at=iter:2 degrade rail:1 to=20%"


@pytest.fixture(scope="module")
def registers() -> Registers:
    return load_plugins()


def run(registers: Registers, **keys: Any) -> RunResult:
    return rw.run(registers=registers, engine="fluid", **{"iterations": 3, **keys})


def times_s(result: RunResult, job: int = 0) -> list[float]:
    return [row.time_us * 1e-6 for row in result.rows if row.iteration is not None and row.job == job]


# -- healthy ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("collective", ["all-reduce", "reduce-scatter", "all-gather", "all-to-all"])
def test_healthy_iterations_take_the_closed_form(registers: Registers, collective: str) -> None:
    result = run(registers, collective=collective, domains=4, rails=4, size="1M")
    assert result.fidelity.verdict == "pass"
    assert times_s(result) == pytest.approx([1.0] * 3, rel=1e-12)  # rate_scale auto: the first takes 1 s
    for row in result.rows:
        assert row.ratio_to_model == pytest.approx(1, rel=1e-3)
        assert row.ratio_to_bound is not None and 0.1 < row.ratio_to_bound <= 1


def test_a_torus_has_what_its_links_carry(registers: Registers) -> None:
    """All-to-all on a 3 x 3 torus with `dor`: each GPU sends 3 of its 8 messages up its first ring, and the
    link there carries these 3 and no other."""
    keys = {"topology": "torus", "shape": "3x3", "router": "dor", "collective": "direct-all-to-all"}
    result = run(registers, **keys, size=9 * 40960, iterations=1)
    plan = rw.load(registers=registers, **keys)
    message_us = 8e6 * plan.packet.wire_bytes(40960) / plan.fabric.capacity_bps[0]
    assert result.rows[0].declared_time_us == pytest.approx(3 * message_us, rel=1e-3)


RAILS = {"domains": 4, "rails": 4}
TORUS = {"topology": "torus", "shape": "4x4", "router": "dor"}
COLLECTIVES = [
    *({**RAILS, "collective": name} for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")),
    *({**TORUS, "collective": name} for name in ("multi-ring-all-reduce", "direct-all-to-all", "broadcast")),
    {**RAILS, "collective": "tree-all-reduce"},
    {**RAILS, "workload": "ptdp", "tp": 4, "pp": 2, "dp": 2, "size": 1 << 22},
]


@pytest.mark.parametrize("keys", COLLECTIVES, ids=lambda keys: keys.get("collective", "ptdp"))
@pytest.mark.parametrize("faults", [(), ("at=0.4s degrade link:g0.0->g0.1 to=30%",)])
def test_symmetries_change_no_time(
    registers: Registers, keys: dict[str, Any], faults: tuple[str, ...]
) -> None:
    """A compact schedule by classes, entry by entry, and as the list of its transfers."""
    if faults and "topology" not in keys:
        faults = ("at=0.4s degrade rail:1 to=30%", "at=0.6s degrade domain:2 to=50%")
    keys = {**keys, "faults": faults, "iterations": 1, "rate_scale": 1e-5, "feedback": False}
    results = [run(registers, **keys, **{"engine.symmetry": on}) for on in (True, False)]
    plan = rw.load(registers=registers, engine="fluid", **keys)
    listed = replace(plan, schedules=tuple(schedule.expand() for schedule in plan.schedules))
    results.append(runner.run(listed, registers))
    for one in results[1:]:
        assert times_s(one) == pytest.approx(times_s(results[0]), rel=2e-4)
        assert one.rows[0].phase_us == pytest.approx(results[0].rows[0].phase_us, rel=2e-4)
        assert one.rows[0].packets == results[0].rows[0].packets
        for link, first in zip(one.links, results[0].links, strict=True):
            assert link.bytes == pytest.approx(first.bytes, rel=1e-4, abs=2)
    assert times_s(results[1]) == pytest.approx(times_s(results[0]), rel=1e-9)


TOGETHER: list[tuple[dict[str, Any], int]] = [
    ({**RAILS, "jobs": [{"ranks": "rail:0-1"}, {"ranks": "rail:2-3"}]}, 8),
    ({**RAILS, "jobs": [{"ranks": "domain:0-1"}, {"ranks": "domain:2-3", "collective": "all-to-all"}],
      "faults": ["at=iter:1+100ms degrade rail:1 to=30%", "at=iter:3 down link:g0.1->r1"]}, 36),
    # detours over each other's GPUs: alike only if both turn at once
    ({"topology": "ring", "nodes": 8, "collective": "ring-all-reduce",
      "jobs": [{"ranks": "all/2"}, {"ranks": "all/2+1"}]}, 2),
    # of two in a row along each axis one is like the next but one
    ({**TORUS, "collective": "direct-all-to-all", "jobs": [{"ranks": "all", "share": True}] * 2}, 480 // 4),
]  # fmt: skip
"""Jobs, and how many of their pairs differ."""


@pytest.mark.parametrize(("keys", "pairs"), TOGETHER)
def test_symmetries_of_jobs_change_no_time(
    registers: Registers, keys: dict[str, Any], pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: dict[bool, list[tuple[bool, int]]] = {True: [], False: []}
    results = []

    def counted(*args: Any, **options: Any) -> tuple[Quotient, ...]:
        parts = quotients(*args, **options)
        sizes[not results].append((options["symmetry"], parts[0].networks[0].n_pairs))
        return parts

    monkeypatch.setattr("railweave.plugins.fluid.model.quotients", counted)
    keys = {"iterations": 5, **keys}
    for symmetry in (True, False):
        results.append(run(registers, **keys, **{"engine.symmetry": symmetry}))
    one, other = results
    ((_, all_pairs),) = {*sizes[False]}
    assert sizes[True][0] == (True, pairs) and pairs < all_pairs and (False, all_pairs) in sizes[False]
    assert "faults" in keys or len(sizes[True]) == len(sizes[False]) == 1
    # what several jobs did before a fault is computed anew
    assert {n for symmetry, n in sizes[True] if not symmetry} == ({all_pairs} if "faults" in keys else set())
    for job in (0, 1):
        assert times_s(one, job) == pytest.approx(times_s(other, job), rel=1e-9)
    assert "faults" in keys or one.counts["tasks"] < other.counts["tasks"]
    assert one.health == other.health and len(one.faults) == len(keys.get("faults", ()))
    for link, same in zip(one.links, other.links, strict=True):
        assert link.bytes == pytest.approx(same.bytes, rel=1e-9, abs=1)


def test_computations_take_their_time(registers: Registers) -> None:
    """Of a pipeline whose traffic waits for the computations: what the iteration takes longer is theirs."""
    keys: dict[str, Any] = {**RAILS, "workload": "ptdp", "tp": 4, "pp": 2, "dp": 2, "rate_scale": 1e-5}
    only_sends, computes = (run(registers, **keys, **{"workload.compute": gpu}) for gpu in ("none", "a100"))
    assert only_sends.summary.compute_us is None and computes.summary.compute_us is not None
    assert 0 < computes.summary.compute_us < computes.summary.time_us
    assert "computations" in report(computes) and "computations" not in report(only_sends)
    assert computes.summary.time_us > only_sends.summary.time_us


def test_nothing_is_compared_sent_again_or_installed(registers: Registers, tmp_path: Path) -> None:
    result = run(registers, domains=2, rails=2, out=tmp_path / "run")
    row = result.summary
    assert (row.wrong, row.retransmitted, row.duplicates) == (None, None, None) and row.packets > 0
    assert result.controller.rules == 0 and result.memory_peak_mb is not None
    assert " N/A " in nccl_table(result) and "validation: 0" in nccl_table(result)
    again = rw.read(tmp_path / "run").result
    assert again == result


def test_a_given_rate_scale_is_taken_as_it_is(registers: Registers) -> None:
    declared = run(registers, domains=2, rails=2, rate_scale=1)
    slower = run(registers, domains=2, rails=2, rate_scale=0.001)
    assert declared.fabric.rate_scale == 1 and slower.fabric.rate_scale == 0.001
    assert times_s(slower) == pytest.approx([1000 * s for s in times_s(declared)], rel=1e-9)


def test_a_run_repeats_bit_for_bit(registers: Registers) -> None:
    first, again = (run(registers, domains=3, rails=2, faults=[SLOW]) for _ in range(2))
    assert first.rows == again.rows and first.links == again.links and first.reroutes == again.reroutes


def test_iterations_that_repeat_are_computed_once(registers: Registers) -> None:
    once, often = (run(registers, domains=2, rails=2, iterations=n) for n in (1, 40))
    assert once.counts == often.counts and once.counts["events"] > 0
    assert len({(row.time_us, row.phase_us, row.packets) for row in often.rows if row.iteration}) == 1
    assert len({(one.element, one.share) for one in often.bottlenecks[:-1]}) == 1


def test_only_pairs_that_send_are_routed(registers: Registers) -> None:
    plan = rw.load(registers=registers, engine="fluid", domains=4, rails=4)
    assert plan.pairs is not None and len(plan.pairs[0]) == 32  # a ring in every domain, one on every rail
    assert sum(len(block.src) for block in plan.first_paths) == 32


# -- a lab's latency -------------------------------------------------------------------------------------
LATE: dict[str, Any] = {"rate_scale": 1, "engine.packet_latency": 1.0}
"""At declared rates a message takes microseconds, which count nothing next to a second of latency."""


def test_a_message_is_later_with_every_switch_it_crosses(registers: Registers) -> None:
    """To the next GPU it is one second on average: 3 switches or 5, 4 on average. The one to the GPU across
    takes 5. Around a ring of 4 an all-reduce takes 6 steps; when a link is down, two of the six in a row are
    detours of 4 switches instead of 2."""
    square = run(registers, domains=2, rails=2, collective="direct-all-to-all", **LATE)
    assert times_s(square) == pytest.approx([5 / 4] * 3, rel=1e-3)
    assert square.fidelity.verdict == "pass" and square.fabric.packet_latency_us == 1e6
    keys: dict[str, Any] = {"topology": "ring", "nodes": 4, "collective": "ring-all-reduce", "iterations": 4}
    ring = run(registers, **keys, **LATE, faults=["at=iter:1 down link:g0->g1"])
    assert times_s(ring)[0] == pytest.approx(6, rel=1e-3)
    assert times_s(ring)[2:] == pytest.approx([8, 8], rel=1e-3)


def test_the_scale_is_chosen_without_the_latency(registers: Registers) -> None:
    keys: dict[str, Any] = {"topology": "ring", "nodes": 4, "collective": "ring-all-reduce", "faults": []}
    late = run(registers, **keys, **{"engine.packet_latency": "2ms"})
    assert times_s(late) == pytest.approx([1 + 6 * 0.002] * 3, rel=1e-6)
    assert late.fabric.rate_scale == run(registers, **keys).fabric.rate_scale


@pytest.mark.parametrize(
    ("keys", "share"),
    [
        # windows of 8: one acknowledgement of 66 bytes for every 2 packets of 4154, next to as much data
        ({"domains": 4, "rails": 1}, 33 / 4154),
        # windows of 64: one for 8 packets
        ({"domains": 4, "rails": 1, "transport.min_window": 64}, 66 / 8 / 4154),
        # they go back over cables that carry nothing else
        ({"topology": "ring", "nodes": 4}, 0),
    ],
)
def test_like_on_a_lab_acknowledgements_take_their_part(
    registers: Registers, keys: dict[str, Any], share: float
) -> None:
    alone, shared = (
        times_s(run(registers, collective="ring-all-reduce", rate_scale=1e-5, **keys, **latency))
        for latency in ({}, {"engine.packet_latency": 1e-9})
    )
    assert np.array(shared) / alone == pytest.approx(1 + share, rel=1e-6)


# -- faults ----------------------------------------------------------------------------------------------
def test_a_degraded_rail_is_left_as_on_the_lab(registers: Registers) -> None:
    """The lab's iterations took 1.71 times their healthy time after the reroute (README.md)."""
    result = run(registers, iterations=7, domains=4, rails=4, faults=[SLOW])
    assert [reroute.pairs_changed for reroute in result.reroutes] == [4]
    assert result.health[-1].elements["rail:1"] == pytest.approx(0.2)
    assert times_s(result)[-1] == pytest.approx(1.71, rel=0.02)
    assert result.bottlenecks[-1].element == "rail:0"


def test_a_repaired_rail_is_used_again(registers: Registers) -> None:
    """Nothing uses it any more: trains measure it, and once its score is back, its traffic is, too."""
    faults = [SLOW, "at=iter:6 restore rail:1"]
    result = run(registers, domains=4, rails=4, iterations=12, faults=faults)
    seen = [point.elements["rail:1"] for point in result.health]
    assert min(seen) == pytest.approx(0.2) and seen[-1] == 1
    assert result.reroutes[-1].t_s - result.faults[-1].t_s < 3  # a train every 2 s, and its time
    assert [reroute.pairs_changed for reroute in result.reroutes] == [4, 4]
    assert times_s(result)[-1] == pytest.approx(times_s(result)[0], rel=1e-9)


def test_lost_packets_cost_what_they_cost_the_transport(registers: Registers) -> None:
    """Every message of 32 packets over a rail passes two links, waits 72 packet times x loss / (1 - loss) at
    each, and has 1 - loss of the rate (health/loss.py); every loss is counted."""
    faults = ["at=iter:1 loss rail:1 rate=4%", "at=iter:2 corrupt rail:1 rate=5%"]
    keys: dict[str, Any] = {"domains": 4, "rails": 2, "feedback": False, "iterations": 5}
    result = run(registers, **keys, faults=faults)
    rails = np.array([row.phase_us for row in result.rows if row.iteration is not None])[:, 1]
    lost = 1 - 0.96 * 0.95
    packet, messages = PacketFormat(4096), (1 << 20) // 2 // 4
    waits = 2 * 72 * packet.full_packet_bytes / int(packet.wire_bytes_of(np.array([messages]))[0])
    assert rails[1] / rails[0] == pytest.approx((1 + waits * 0.04) / 0.96, rel=1e-6)
    assert rails[2] / rails[0] == pytest.approx((1 + waits * lost) / (1 - lost), rel=1e-6)
    link = next(one for one in result.links if one.name == "g0.1->r1")
    sent = [1, 1 / 0.96, *[1 / (1 - lost)] * 3]
    assert link.loss == pytest.approx(1 - 5 / sum(sent), rel=1e-3)
    assert result.health[-1].links["g0.1->r1"] < 0.8 and result.health[-1].elements["rail:0"] == 1


def test_a_loss_that_is_over_is_forgotten(registers: Registers) -> None:
    faults = ["at=iter:1 loss rail:1 rate=20%", "at=iter:5 restore rail:1"]
    result = run(registers, domains=4, rails=4, iterations=10, faults=faults)
    assert min(point.elements["rail:1"] for point in result.health) < 0.75
    assert result.health[-1].elements["rail:1"] == 1


def test_a_wrong_icrc_costs_time_and_blames_no_link(registers: Registers) -> None:
    fault = "at=iter:1 corrupt rail:1 rate=10% icrc=yes"
    result = run(registers, domains=4, rails=4, faults=[fault], feedback=False)
    assert times_s(result)[1] > 1.2 * times_s(result)[0]
    assert not result.health and all(link.loss == 0 for link in result.links)


def test_samples_that_are_left_out_would_change_nothing(
    registers: Registers, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: dict[str, Any] = {"domains": 4, "rails": 4, "iterations": 14, "health": {"dwell": "500ms"}}
    faults = [SLOW, "at=iter:8+300ms down link:g1.2->r2"]
    settled = run(registers, **keys, faults=faults)
    monkeypatch.setattr(FlowModel, "watched", True)
    always = run(registers, **keys, faults=faults)
    assert times_s(settled) == pytest.approx(times_s(always), rel=0.02)  # samples may lie elsewhere
    late = settled.reroutes[-1].t_s - always.reroutes[-1].t_s
    assert len(settled.reroutes) >= 2 and abs(late) < 0.05
    assert [one.pairs_changed for one in settled.reroutes] == [one.pairs_changed for one in always.reroutes]
    assert [point.elements for point in settled.health] == [point.elements for point in always.health]


REPEATING: list[dict[str, Any]] = [
    {**RAILS, "faults": [SLOW, "at=iter:8+300ms restore rail:1"], "iterations": 14},
    {**RAILS, "faults": ["at=1.33s degrade link:g1.2->r2 to=30%", "at=4s down rail:0"], "router": "spray"},
    {**TORUS, "faults": ["at=1.2s degrade link:g0.0->g0.1 to=30%"], "collective": "multi-ring-all-reduce"},
    {**RAILS, "faults": [SLOW], "estimator.allowance": 0, "estimator.allowance_time": 0, "iterations": 4},
    {**RAILS, "faults": ["at=1s degrade rail:1 to=30%"],
     "jobs": [{"ranks": "domain:0-1"}, {"ranks": "domain:2-3"}]},
]  # fmt: skip


@pytest.mark.parametrize("keys", REPEATING)
def test_samples_that_repeat_are_not_computed_and_change_no_score(
    registers: Registers, keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor a sample that is kept."""
    computed: list[float] = []
    measure = ModelSource.measure

    def counted(source: ModelSource) -> Measurement:
        computed.append(source._model.now_s)
        return measure(source)

    monkeypatch.setattr(ModelSource, "measure", counted)
    keys = {"iterations": 8, **keys}
    repeating, some = run(registers, **keys, out=tmp_path / "some"), len(computed)
    monkeypatch.setattr(ModelSource, "repeated", lambda source: None)
    all_computed, every = run(registers, **keys, out=tmp_path / "all"), len(computed) - some
    assert repeating.health == all_computed.health and repeating.reroutes == all_computed.reroutes
    assert repeating.rows == all_computed.rows and len(repeating.health) > 1
    assert some < every / 2 or "estimator.allowance" in keys
    for name in ("queue_bytes", "sent_bytes", "waited_bytes"):
        kept = [rw.read(tmp_path / place).samples[name] for place in ("some", "all")]
        assert kept[0] == pytest.approx(kept[1], rel=1e-4, abs=1.0)


def test_without_feedback_the_slow_rail_stays_in_use(registers: Registers) -> None:
    """The rails' phases take the 20 % of their rate that is left, the others what they took."""
    result = run(registers, domains=4, rails=4, faults=[SLOW], feedback=False)
    phases = [row.phase_us for row in result.rows if row.iteration is not None]
    on_rails = np.array(phases[0]) / np.array(phases[2]) < 0.5
    assert on_rails.any() and not on_rails.all()
    assert np.array(phases[2])[on_rails] == pytest.approx(5 * np.array(phases[0])[on_rails], rel=1e-9)
    assert np.array(phases[2])[~on_rails] == pytest.approx(np.array(phases[0])[~on_rails], rel=1e-9)


def test_a_fault_in_the_middle_of_an_iteration_slows_the_rest_of_it(registers: Registers) -> None:
    """A ring of 4 over one rail sends all the time: half at full rate, half at a quarter."""
    keys: dict[str, Any] = {"domains": 4, "rails": 1, "feedback": False, "collective": "ring-all-reduce"}
    result = run(registers, **keys, faults=["at=1.5s degrade rail:0 to=25%"])
    assert times_s(result) == pytest.approx([1.0, 0.5 + 0.5 * 4, 4.0], rel=1e-3)
    assert [fault.t_s for fault in result.faults] == [1.5]


@pytest.mark.parametrize("iteration", [1, 3, 7])
def test_faults_at_one_moment_happen_in_the_order_in_which_they_are_written(
    registers: Registers, iteration: int
) -> None:
    """Healthy iterations take 1 s each."""
    for slow, back in (("iter:{}", "{}s"), ("{}s", "iter:{}"), ("{}s", "{}s"), ("iter:{}", "iter:{}")):
        slowed = f"at={slow.format(iteration)} degrade rail:1 to=50%"
        restored = f"at={back.format(iteration)} restore rail:1"
        for faults in ((slowed, restored), (restored, slowed)):
            result = run(registers, **RAILS, iterations=9, feedback=False, faults=faults)
            slow_ones = [seconds > 1.1 for seconds in times_s(result)]
            assert slow_ones == [faults[-1] == slowed and i >= iteration for i in range(9)]
            assert [fault.text for fault in result.faults] == list(faults)


@pytest.mark.parametrize(
    "faults",
    [
        ["at=0s degrade rail:1 to=20%"],
        ["at=0.3s degrade rail:1 to=20%"],
        ["at=0.3s degrade rail:1 to=20%", "at=0.3s degrade rail:2 to=50%"],
        ["at=1s restore rail:1", "at=iter:1 degrade rail:1 to=20%"],
    ],
)
def test_faults_at_the_beginning_or_at_one_moment_are_measured(
    registers: Registers, faults: list[str]
) -> None:
    result = run(registers, domains=4, rails=4, faults=faults)
    assert not result.notes and result.fidelity.verdict == "pass"
    assert result.health[-1].elements["rail:1"] < 0.5 and len(result.faults) == len(faults)


@pytest.mark.parametrize("verb", ["degrade rail:1 to=20%", "down rail:1"])
def test_a_fault_in_the_last_microsecond_shows_in_no_time(registers: Registers, verb: str) -> None:
    result = run(registers, domains=4, rails=4, faults=[f"at=2.999999s {verb}"])
    assert times_s(result) == pytest.approx([1.0] * 3, rel=1e-4) and not result.notes
    assert result.fidelity.verdict == "pass" and len(result.faults) == 1 and not result.health


def test_a_repaired_fabric_is_as_fast_as_before(registers: Registers) -> None:
    faults = ["at=iter:1 degrade rail:0 to=25%", "at=iter:2 restore rail:0"]
    result = run(registers, domains=4, rails=2, faults=faults, feedback=False)
    first, slow, last = times_s(result)
    assert slow > 2 * first and last == pytest.approx(first, rel=1e-9)


@pytest.mark.parametrize("fault", ["down rail:1", "kill switch:r1 back=10s"])
def test_flows_leave_links_that_are_cut(registers: Registers, fault: str) -> None:
    result = run(registers, domains=4, rails=2, faults=[f"at=iter:1+300ms {fault}"])
    assert len(result.reroutes) == 1 and result.reroutes[0].t_s < 1.5
    assert result.summary.iteration is None and result.rows[2].ratio_to_bound is not None


def test_a_killed_switch_is_its_links_down_and_truth_knows_it(registers: Registers) -> None:
    """Until it is started, whatever is done to its links."""
    kill, down, back = (
        ["at=iter:1+300ms kill switch:r1 back=900ms", "at=iter:1+600ms restore rail:1"],
        ["at=iter:1+300ms down switch:r1"],
        ["at=iter:1+1200ms up switch:r1"],
    )
    killed, cut = (run(registers, **RAILS, iterations=6, faults=faults) for faults in (kill, down + back))
    assert killed.accuracy == cut.accuracy and cut.accuracy.precision == cut.accuracy.recall == 1
    assert [point.links for point in killed.health] == [point.links for point in cut.health]
    assert killed.reroutes == cut.reroutes and len(cut.reroutes) == 2
    (first, _, last), others = killed.faults, cut.faults
    for one, other in zip((first, last), others, strict=True):
        assert (one.t_s, one.links, one.detected_s) == (other.t_s, other.links, other.detected_s)


LONE_RING: dict[str, Any] = {"domains": 4, "rails": 1, "collective": "ring-all-reduce", "rate_scale": 1e-5}


def test_a_flap_holds_flows_up(registers: Registers) -> None:
    """Twice in the first iteration of a lone ring, which nothing can take elsewhere. Senders try again after
    two round trips of a window (8 packets at 4 Mb/s) and 20 ms, then 6 windows later; pairs that stood still
    are forgotten when `dead_after` is over."""
    keys = {**LONE_RING, "feedback": False, "iterations": 6}
    flap = "at=0.2s flap rail:0 period=1s times=2"
    healthy, flapping = (times_s(run(registers, **keys, faults=faults)) for faults in ([], [flap]))
    window_s = 8 * 8 * rw.load(registers=registers, engine="fluid", **keys).packet.full_packet_bytes / 4e6
    assert flapping[0] - healthy[0] == pytest.approx(2 * (2 * window_s + 0.02 + 6 * window_s), abs=1e-3)
    assert flapping[1:] == pytest.approx(healthy[1:], rel=1e-3)


def test_a_link_that_is_back_does_not_wait_for_the_slowest_sender(registers: Registers) -> None:
    """A ring with one cable cut, so that a pair has 11 hops of 150 ms, where its neighbours have one, and a
    cable of theirs that flaps: the first sender to try again proves that it is back, within two seconds. The
    pair of 11 hops tries again after 20 s; until then nothing would pass, and pairs of one hop would be given
    up."""
    latency_s = 3e-6
    faults = ["at=iter:1 down link:g0->g11", "at=iter:2 flap link:g11->g10 period=700ms times=3"]
    result = run(
        registers, topology={"name": "ring", "nodes": 12, "latency": latency_s}, size="1M", iterations=4,
        rate_scale=2e-5, timeout="60s", faults=faults,
    )  # fmt: skip
    _, cut_s, flapping_s, after_s = times_s(result)
    assert after_s == pytest.approx(cut_s, rel=0.01)
    round_trip_s = 2 * 11 * latency_s / 2e-5
    assert flapping_s - after_s <= 3 * 0.7 + 2 * round_trip_s + 20


def test_senders_try_new_paths_after_their_timeout(registers: Registers) -> None:
    """Routes change with the next sample; what was under way has stood still for two round trips of a window
    and 20 ms by then. The smallest window is two packets, by default it is eight."""
    keys: dict[str, Any] = {**LONE_RING, "domains": 2, "rails": 2, "iterations": 2}
    fault = "at=0.3s down link:g0.0->r0"
    waiting = run(registers, **keys, faults=[fault])
    impatient = run(
        registers, **keys, faults=[fault], **{"transport.min_window": 1, "transport.target_delay": 0}
    )
    assert waiting.reroutes[0].t_s == impatient.reroutes[0].t_s == pytest.approx(0.3, abs=0.026)
    packet_s = 8 * rw.load(registers=registers, engine="fluid", **keys).packet.full_packet_bytes / 4e6
    assert times_s(waiting)[0] - times_s(impatient)[0] == pytest.approx(2 * 6 * packet_s, abs=1e-3)


@pytest.mark.parametrize("fault", ["loss rail:1 rate=100%", "corrupt rail:1 rate=100% icrc=yes"])
def test_a_link_that_loses_every_packet_holds_flows_as_one_that_is_down(
    registers: Registers, fault: str
) -> None:
    keys: dict[str, Any] = {"domains": 4, "rails": 2, "feedback": False, "iterations": 4}
    back = "at=iter:1+2s restore rail:1"
    lossy, cut = (run(registers, **keys, faults=[f"at=iter:1 {one}", back]) for one in (fault, "down rail:1"))
    assert times_s(lossy) == pytest.approx(times_s(cut), rel=1e-9) and times_s(lossy)[1] > 2.5
    more = 0.01 if fault.startswith("loss") else 1e-6  # tries of the silent paths, and trains over them
    assert sum(link.bytes for link in lossy.links) == pytest.approx(
        sum(link.bytes for link in cut.links), rel=more
    )
    with pytest.raises(TransportError, match=r"stood still for 4\.5 s: .* lose every packet \(8 of them\)"):
        run(registers, **keys, faults=[f"at=iter:1 {fault}"])


def test_senders_stand_still_where_no_answer_comes_back(registers: Registers) -> None:
    """All that g0.0 sends arrives, but every acknowledgement is lost, so it goes over the other rail, as it
    does where both directions lose every packet; without feedback the run fails."""
    keys: dict[str, Any] = {"domains": 2, "rails": 2, "collective": "ring-all-reduce", "iterations": 4}
    one_way, both = "loss link:r0->g0.0 rate=100%", "loss nic:0.0 rate=100%"
    answers, all_lost = (
        times_s(run(registers, **keys, faults=[f"at=iter:1 {fault}"]))[-1] for fault in (one_way, both)
    )
    assert answers == pytest.approx(all_lost, rel=0.01)
    with pytest.raises(TransportError, match=r"stood still for 4\.5 s"):
        run(registers, **keys, faults=[f"at=iter:1 {one_way}"], feedback=False)


def test_a_fabric_cut_in_two_names_the_ranks(registers: Registers) -> None:
    with pytest.raises(TransportError, match=r"failed at g1\.0: .* pairs, such as .* stood still for 4\.5 s"):
        run(registers, domains=3, rails=1, faults=["at=iter:1 down gpu:1.0"])


# -- several jobs ----------------------------------------------------------------------------------------
def test_jobs_share_the_links_they_have_in_common(registers: Registers) -> None:
    """Two rings over the same rail: each link carries both, at half its rate."""
    ring: dict[str, object] = {"collective": "ring-all-reduce", "share": True}
    jobs = [{"ranks": "gpu:*.0", **ring}, {"ranks": "gpu:*.0", **ring, "name": "second"}]
    result = run(registers, domains=4, rails=2, jobs=jobs, alone=1)
    assert [job.interference for job in result.jobs] == pytest.approx([2.0, 2.0], rel=0.01)
    assert result.fairness == pytest.approx(1.0, rel=1e-3)


def test_jobs_on_the_same_gpus_do_not_wait_for_each_others_messages(registers: Registers) -> None:
    """The first iteration of each of two all-reduces that begin together. In a domain and on rail 1, which
    both use, each gets half of a link all the time; rails 0 and 2 are theirs alone, and a phase lasts as long
    as its slowest ring. So both take twice the closed form."""
    jobs = [f"ranks=rail:{low}-{low + 1} share=true iterations=1" for low in (0, 1)]
    result = run(registers, domains=4, rails=3, jobs=jobs, alone=1)
    for job in result.jobs:
        assert job.alone_us is not None and times_s(result, job.job)[0] * 1e6 / job.alone_us < 2.001
    assert times_s(result, 0) == pytest.approx(times_s(result, 1), rel=1e-3)


def test_jobs_that_begin_and_end_at_any_time_are_watched_over(registers: Registers) -> None:
    jobs = [{"ranks": "domain:0-1"}, {"ranks": "domain:2-3", "collective": "all-to-all", "pause": "100ms"}]
    result = run(
        registers, domains=4, rails=4, jobs=jobs, iterations=6, faults=["at=2s degrade rail:1 to=30%"]
    )
    assert (
        result.fidelity.verdict == "pass"
    )  # the pairs of each job leave when the links that they use are slow
    assert [reroute.pairs_changed for reroute in result.reroutes] == [2, 2]
    assert result.health[-1].elements["rail:1"] == pytest.approx(0.3)


def test_a_job_that_is_cut_off_fails_alone(registers: Registers) -> None:
    jobs = [{"ranks": "domain:0-1", "name": "cut"}, {"ranks": "domain:2-3", "iterations": 12}]
    result = run(registers, domains=4, rails=2, jobs=jobs, faults=["at=iter:1 down gpu:0.0"])
    cut, other = result.jobs
    assert cut.error is not None and "failed at g0.0" in cut.error and other.error is None
    assert len(times_s(result, 1)) == 12


# -- refusals --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"faults": ["at=1s reorder rail:0 rate=5%"]}, "'at=1s reorder .*: engine fluid cannot.* emulation"),
        ({"faults": ["at=1s kill switch:r1"]}, "kill switch:r1': engine fluid cannot.* until `back`"),
        ({"faults": ["at=1s kill controller"]}, "kill controller.*fluid cannot.*it needs no controller"),
        ({"pcap": ["g0.0->rail0"]}, "captures: engine fluid cannot, because it has no packets"),
        ({"program": "true", "iterations": None}, "programs: engine fluid cannot"),
    ],
)  # fmt: skip
def test_what_it_lacks_is_refused_by_name(registers: Registers, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        rw.load(registers=registers, engine="fluid", domains=2, rails=2, **keys)


def test_there_is_no_lab_with_it(registers: Registers) -> None:
    with pytest.raises(ExperimentError, match="engine fluid: there is no lab with it"):
        with rw.lab(registers=registers, engine="fluid"):
            pass


def test_the_engine_takes_a_document_as_any_engine(registers: Registers) -> None:
    plan = rw.load(registers=registers, engine="fluid", domains=2, rails=2, iterations=1)
    findings = plan.engine.run(plan, load_plugins(), lambda event: None)
    assert len(findings.iterations) == 1 and findings.facts.computed_in_s is not None


# -- any operating system --------------------------------------------------------------------------------
def test_a_run_needs_nothing_that_only_unix_has(tmp_path: Path) -> None:
    script = Path(__file__).with_name("bare_system.py")
    words = ["run", "--engine", "fluid", "--domains", "2", "--rails", "2", "--out", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert rw.read(tmp_path / "run").result.memory_peak_mb is None


# -- the verdict -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "pass"), (1.011, "degraded"), (0.98, "invalid")])
def test_the_verdict_grants_a_hundredth_of_the_closed_form_and_nothing_below_the_limit(
    registers: Registers, factor: float, verdict: str
) -> None:
    """An all-gather along a lone rail takes what its links need, headers of small packets included."""
    keys = {"domains": 4, "rails": 1, "collective": "all-gather", "size": "4M"}
    plan = rw.load(registers=registers, engine="fluid", iterations=2, **keys)
    findings = plan.engine.run(plan, load_plugins(), lambda event: None)
    slower = tuple(
        replace(record, result=replace(record.result, seconds=factor * record.result.seconds))
        for record in findings.iterations
    )
    result = run_result(plan, replace(findings, iterations=slower), 0.0, pytest.fail)
    assert result.fidelity.verdict == verdict, result.fidelity


# -- size ------------------------------------------------------------------------------------------------
def test_a_dry_run_says_what_the_run_would_take_and_starts_nothing(tmp_path: Path) -> None:
    words = ["run", "--engine", "fluid", "--domains", "8", "--rails", "8", "--dry-run", "--json", "-"]
    shown = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "run")])
    document = json.loads(shown.stdout)
    assert shown.exit_code == 0 and not (tmp_path / "run").exists()
    assert document["events"] >= document["iterations"][0]["transfers"] > 0
    assert 0 < document["memory_bytes"] < document["machine_bytes"]


def test_more_than_the_memory_there_is_is_refused_with_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "machine_bytes", lambda: 1 << 20)
    shown = CliRunner().invoke(main, ["run", "--engine", "fluid", "--dry-run"])
    assert shown.exit_code == 2 and "0.0601 GB of memory, and this machine has 0.00105 GB" in shown.output


def test_the_files_of_a_large_fabric_are_small(registers: Registers, tmp_path: Path) -> None:
    """65 x 64 GPUs: the busiest links are named and traced, arrays hold them all."""
    keys = {"domains": 65, "rails": 64, "collective": "permutation", "iterations": 1, "trace": "50ms"}
    result = run(registers, **keys, out=tmp_path / "run")
    trace = rw.read(tmp_path / "run").trace
    assert trace["load_bps"].shape == (20, 1000)
    assert trace["name"].tolist() == [link.name for link in result.links]
    assert len(result.links) == 1000 and len(result.elements) == 65 + 64
    assert sum(path.stat().st_size for path in (tmp_path / "run").iterdir()) < 2 << 20
    arrays = rw.read(tmp_path / "run").links
    assert {len(values) for values in arrays.values()} == {4 * 65 * 64}
    assert max(link.utilisation for link in result.links) == arrays["utilisation"].max()
    on_rails = sum(element.bytes for element in result.elements if element.name.startswith("rail"))
    assert on_rails == pytest.approx(arrays["bytes"][arrays["kind"] == 1].sum())


def test_what_takes_long_shows_how_far_it_is(registers: Registers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "SHOWN_AFTER_S", 0.0)
    monkeypatch.setattr(work, "SHOWN_EVERY_S", 0.0)
    seen: list[Progress] = []
    run(registers, domains=4, rails=4, on_event=lambda e: seen.append(e) if isinstance(e, Progress) else None)
    assert seen and all(event.done <= event.total for event in seen)


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    """In the middle of a computation of many seconds; the test's own time limit is the judge."""
    script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    script += "from railweave.framework.cli import main; main()"
    words = ["run", "--engine", "fluid", "--domains", "32", "--rails", "32"]
    words += ["--collective", "direct-all-to-all", "--fault", "none", "--out", str(tmp_path / "run")]
    with subprocess.Popen([sys.executable, "-c", script, *words], stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None and any("bring-up" in line for line in run.stderr)
        run.send_signal(signal.SIGINT)
        assert "interrupted" in run.stderr.read()
    assert run.returncode == 130 and not (tmp_path / "run" / "result.json").exists()
