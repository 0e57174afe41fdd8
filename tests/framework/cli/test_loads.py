"""`railweave loads` against closed forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main
from railweave.framework.registry import Registers, load_plugins

Call = Callable[..., Result]


@pytest.fixture(scope="module")
def registers() -> Registers:
    return load_plugins()


@pytest.fixture
def call(registers: Registers) -> Call:
    return lambda *words: CliRunner().invoke(
        main, ["loads", *map(str, words)], obj=registers, prog_name="railweave"
    )


def document(call: Call, *words: object) -> Any:
    shown = call(*words, "--json")
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.output)


def test_dor_on_4x4x4_is_the_optimum(call: Call) -> None:
    """n k / 8 = 64 x 4 / 8 units of all-to-all a direction (half cut of the torus):
    32 on every directed link."""
    found = document(call, "--topology", "torus", "--shape", "4x4x4", "--router", "dor")
    assert found["schema"] == {"name": "railweave.loads", "version": 2}
    assert found["pairs"] == 64 * 63 and found["throughput_ratio"] == 1
    assert {(k["most"], k["least"], k["mean"], k["links"]) for k in found["kinds"]} == {(32, 32, 32, 64)}


def test_a_lost_ocs_cuts_dor_and_not_wfr(call: Call) -> None:
    """One cable of 4x4x4 (T-O3). It carried 32 units each way, one per pair: 64 pairs."""
    words = ("--topology", "torus", "--shape", "4x4x4", "--fault", "down ocs:X:0,0")
    cut = document(call, *words, "--router", "dor")
    assert cut["unreachable"]["pairs"] == cut["unreachable"]["amount"] == 64
    assert len(cut["unreachable"]["first"]) == 64 and ["g0.0.0", "g3.0.0"] in cut["unreachable"]["first"]
    assert cut["throughput_ratio"] == 0 and cut["throughput_ratio_of_routed"] == 1
    assert sum(k["down"] for k in cut["kinds"]) == 2
    around = document(call, *words, "--router", "wfr")
    assert around["unreachable"]["pairs"] == 0 and 0.25 < around["throughput_ratio"] < 1


def test_only_pairs_over_the_fault_move_where_the_order_stays(call: Call) -> None:
    """Y of 4x4x4 is not last in XYZ: its cable carried 32 pairs each way. With `dor` they have no path."""
    words = ("--topology", "torus", "--shape", "4x4x4", "--fault", "down ocs:Y:0,0", "--router")
    assert document(call, *words, "wfr")["moved_pairs"] == 64
    assert document(call, *words, "dor")["moved_pairs"] == 0
    shown = call(*words, "wfr").output
    assert "moved by the faults, and back by their repair: 64 pairs (1.6%)" in shown


def test_a_slow_rail_without_a_way_around(call: Call) -> None:
    """2 domains: every GPU's traffic to its twin crosses its rail; at 20 %, a fifth.
    Shortest does not turn away."""
    found = document(
        call, "--domains", 2, "--rails", 2, "--router", "shortest", "--fault", "degrade rail:1 to=20%"
    )
    assert found["throughput_ratio"] == pytest.approx(0.2)
    assert found["busiest"][0]["link"].find("r1") >= 0 and found["busiest"][0]["of_busiest"] == 1


def test_a_matrix_by_hand(call: Call, tmp_path: Path) -> None:
    """One flow of 10 bytes over its rail: two links carry it, all others nothing."""
    matrix = np.zeros((4, 4))
    matrix[0, 2] = 10
    path = tmp_path / "m.npy"
    np.save(path, matrix)
    found = document(call, "--domains", 2, "--rails", 2, "--pattern", path)
    assert [(b["link"], b["load"]) for b in found["busiest"]] == [("g0.0->r0", 10), ("r0->g1.0", 10)]
    assert (found["unit"], found["pairs"]) == ("bytes", 1)


def test_permutations_are_seeded(call: Call) -> None:
    words = ("--domains", 4, "--rails", 4, "--pattern", "permutation", "--seed")
    assert document(call, *words, 3) == document(call, *words, 3)
    assert document(call, *words, 3) != document(call, *words, 4)


def test_the_text(call: Call) -> None:
    shown = call(
        "--topology", "torus", "--shape", "4x4", "--router", "dor", "--fault", "down link:g0.0->g1.0"
    ).output
    assert "all-to-all on torus, router dor, 240 pairs; loads in units" in shown
    # a direction carries n k / 8 = 16 x 4 / 8, and a cable is two
    assert "unreachable: 16 pairs, the first g0.0 -> g1.0; 16 units" in shown
    assert "throughput relative to the healthy fabric: 0 (pairs are unreachable)" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--router", "dor"), "router dor does not serve this rail-only"),
        (("--pattern", "permutatio"), "Did you mean permutation"),
        (("--fault", "down ocs:X:0,0"), "no optical circuit switches"),
        (("--seed", "-1"), "--seed"),
        (("--topology", "torus", "--router", "dor", "--shape", "4x0"), "length 0 along y is no ring"),
    ],
)
def test_what_has_no_loads_is_refused(call: Call, words: tuple[str, ...], message: str) -> None:
    refused = call(*words)
    assert refused.exit_code == 2 and message in refused.output
