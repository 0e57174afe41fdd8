"""Every fault in a run on real switches: the run ends, every element is right, and the fault was really in
force."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from railweave.framework.model.arrays import Float

pytestmark = pytest.mark.lab

SMALL = ("--domains", "2", "--rails", "4", "--size", "256K")
TORUS = ("--topology", "torus", "--router", "wfr", "--collective", "ring-all-reduce", "--size", "64K")
SCALE = 2e-5
RAIL_BPS, DOMAIN_BPS = 400e9 * SCALE, 3.6e12 * SCALE
"""Emulated rates of a healthy fabric."""


def command(out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            str(Path(sys.executable).with_name("railweave")),
            "run",
            "--rate-scale",
            str(SCALE),
            *words,
            "--json",
            "-",
            "--out",
            str(out),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


class Run:
    """A run with these faults, which ended and gave right results."""

    def __init__(
        self,
        out: Path,
        *faults: str,
        iterations: int = 6,
        fabric: tuple[str, ...] = SMALL,
        more: tuple[str, ...] = (),
    ) -> None:
        words = [word for fault in faults for word in ("--fault", fault)]
        done = command(out, *fabric, "--iterations", str(iterations), *words, *more)
        assert done.returncode == 0, done.stderr[-3000:]
        self.result: dict[str, Any] = json.loads(done.stdout)
        self.rows = [row for row in self.result["rows"] if row["iteration"] is not None]
        assert [row["wrong"] for row in self.rows] == [0] * iterations
        self.events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
        with np.load(out / "health.npz") as samples:
            self.samples = {name: samples[name] for name in samples.files}
        self.link = {row["name"]: i for i, row in enumerate(self.result["links"])}

    def fired(self) -> dict[str, float]:
        return {fault["text"]: fault["t_s"] for fault in self.result["faults"]}

    def count(self, what: str, iterations: range) -> int:
        return sum(self.rows[i][what] for i in iterations)

    def lost(self, iterations: range) -> int:
        """Packets that had to be sent again: of others, late on a busy machine, both copies arrived."""
        return self.count("retransmitted", iterations) - self.count("duplicates", iterations)

    def notes(self) -> str:
        return "\n".join(event["text"] for event in self.events if event["kind"] == "note")

    def carried_bps(self, name: str, since_s: float) -> float:
        """What a link sent from then on, over the time in which packets waited for it at both ends of an
        interval between samples: its rate, however seldom a slow machine samples queues, or less where the
        machine stands still."""
        t_s, link = self.samples["t_s"], self.link[name]
        waits = self.samples["queue_bytes"][:, link] > 0
        busy = waits[1:] & waits[:-1] & (t_s[:-1] > since_s)
        return float(8 * self.samples["waited_bytes"][1:, link][busy].sum() / np.diff(t_s)[busy].sum())

    def served_bps(self, *names: str, at: Any = slice(None)) -> Float:
        """Every service rate that was measured on these links, at those samples."""
        rates = self.samples["service_bps"][at][:, [self.link[name] for name in names]]
        return np.asarray(rates[~np.isnan(rates)])


def test_duplicated_packets_arrive_twice_until_it_is_restored(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", "at=iter:1 duplicate rail:1 rate=20%", "at=iter:4 restore rail:1")
    assert run.count("duplicates", range(1, 4)) > 5
    assert run.count("duplicates", range(1)) == run.count("duplicates", range(5, 6)) == 0
    # a copy that nobody needed is not answered by sending more
    assert run.count("retransmitted", range(6)) <= 2


@pytest.mark.parametrize("link", ["g0.1->r1", "r1->g0.1"])
def test_a_link_that_loses_everything_stays_down(link: str, tmp_path: Path) -> None:
    """Whichever end it is at, the score of what lets nothing through never returns."""
    run = Run(tmp_path / "run", f"at=iter:1 loss link:{link} rate=1", iterations=8)
    scores = [change["links"][link] for change in run.result["health"] if link in change["links"]]
    assert 0 in scores and not any(scores[scores.index(0) :])


def test_reordered_packets_are_put_in_order(tmp_path: Path) -> None:
    """What overtakes makes others look lost: the sender repeats some of them, and they arrive twice. That the
    order changes is counted in test_impairment.py."""
    run = Run(
        tmp_path / "run",
        "at=iter:1 reorder rail:1 rate=30%",
        "at=iter:1 reorder rail:2 rate=30%",
        iterations=8,
    )
    assert all(t_s is not None for t_s in run.fired().values())
    again = run.count("retransmitted", range(8))
    # nothing was lost, so each repeated packet arrives twice: in time to be counted, or after its iteration
    assert 0 < run.count("duplicates", range(8)) <= again
    assert all(link["drops"] == 0 for link in run.result["links"])


def test_loss_in_one_direction(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", "at=iter:1 loss nic:0.1 way=in rate=10%", "at=iter:4 restore nic:0.1")
    assert run.result["faults"][0]["links"] == 1
    assert run.count("retransmitted", range(1, 4)) > 0
    assert run.lost(range(5, 6)) == 0
    assert {row["name"] for row in run.result["links"] if row["loss"] > 0} == {"r1->g0.1"}


def test_a_lossy_rail_is_seen_at_both_ends(tmp_path: Path) -> None:
    """Its ground truth is 0.9 / 1.6. Nothing leaves it, so that each of its links loses far more than the 8
    packets from which a loss is stated. The loss of a link is that of the whole run, whose first iteration
    lost nothing."""
    run = Run(tmp_path / "run", "at=iter:1 loss rail:1 rate=10%", iterations=10, more=("--no-feedback",))
    for end in (0, -1):
        lossy = [row["loss"] for row in run.result["links"] if row["name"].split("->")[end] == "r1"]
        assert len(lossy) == 2 and 0.02 < np.mean(lossy) < 0.15
    assert all(row["loss"] == 0 for row in run.result["links"] if "r1" not in row["name"].split("->"))
    last = run.result["health"][-1]["elements"]
    assert last["rail:1"] == pytest.approx(0.9 / 1.6, abs=0.2)
    assert min(score for name, score in last.items() if name != "rail:1") > 0.9


def test_damaged_packets_do_not_arrive_and_wrong_icrcs_do(tmp_path: Path) -> None:
    run = Run(
        tmp_path / "run", "at=iter:1 corrupt nic:0.1 rate=10%", "at=iter:1 corrupt rail:2 rate=10% icrc=yes"
    )
    losing = {row["name"] for row in run.result["links"] if row["loss"] > 0}
    assert losing == {"g0.1->r1", "r1->g0.1"}
    assert run.count("wrong_icrc", range(1)) == 0 < run.count("wrong_icrc", range(1, 6))
    assert all(point["elements"]["rail:2"] == 1 for point in run.result["health"])


def test_a_slow_gpu_in_one_direction(tmp_path: Path) -> None:
    run = Run(
        tmp_path / "run",
        "at=iter:1 degrade gpu:1.2 way=out to=20%",
        more=("--no-feedback",),
    )
    assert run.result["faults"][0]["links"] == 2
    (fired,) = run.fired().values()
    assert 0.5 < run.carried_bps("g1.2->r2", fired) / (0.2 * RAIL_BPS) < 1.2
    into = run.served_bps("r2->g1.2")
    assert into.size == 0 or into.min() > 0.7 * RAIL_BPS


def test_a_slow_domain_switch(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", "at=iter:2 degrade domain:0 to=20%", fabric=(*SMALL[:-1], "1M"))
    last = run.result["health"][-1]["elements"]
    assert last["domain:0"] < 0.7 < last["domain:1"]
    (fired,) = run.fired().values()
    for rail in range(4):
        assert 0.5 < run.carried_bps(f"g0.{rail}->d0", fired) / (0.2 * DOMAIN_BPS) < 1.35


@pytest.mark.parametrize(("target", "links", "score"), [("nic:0.1", 2, 0.5), ("rail:1", 4, 0.0)])
def test_what_is_down_is_left(target: str, links: int, score: float, tmp_path: Path) -> None:
    """Of the two cables of a rail of two GPUs one is half."""
    run = Run(tmp_path / "run", f"at=iter:2 down {target}")
    assert run.result["faults"][0]["links"] == links
    assert run.result["health"][-1]["elements"]["rail:1"] == pytest.approx(score)
    assert "rail:1" in run.result["reroutes"][0]["why"]
    # what was under way is sent again, and later iterations touch the dead cable no more
    assert run.lost(range(4, 6)) == 0


def test_a_gpu_without_any_link_is_named(tmp_path: Path) -> None:
    done = command(tmp_path / "run", *SMALL, "--iterations", "6", "--fault", "at=iter:2 down gpu:0.1")
    assert done.returncode == 1
    assert "g0.1" in done.stderr.splitlines()[-1]


def test_a_flapping_rail(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", "at=iter:2 flap rail:1 period=400ms times=2", iterations=10)
    fired = run.fired()
    times = list(fired.values())
    assert [text.split()[1] for text in fired] == ["down", "up", "down", "up"]
    # none comes before its time; the first one's is written down once it is done
    assert all(t_s - times[0] > 0.2 * i - 0.1 for i, t_s in enumerate(times))
    scores = [point["elements"]["rail:1"] for point in run.result["health"]]
    assert 0.0 in scores
    down = [event for event in run.events if event["kind"] == "fault" and " down " in event["text"]]
    assert len(down) == 2


def test_an_optical_switch_down(tmp_path: Path) -> None:
    """X:0,0 joins one cable of the 4x4x4 torus."""
    run = Run(tmp_path / "run", "at=iter:1 down ocs:X:0,0", iterations=3, fabric=TORUS)
    assert run.result["faults"][0]["links"] == 2
    assert "g0.0.0->g3.0.0 1.00 -> 0.00" in run.result["reroutes"][0]["why"]
    assert run.lost(range(2, 3)) == 0


def test_a_killed_switch_comes_back_with_everything(tmp_path: Path) -> None:
    """Without trains: behind one of 0.6 s over the slow rail packets outwait their timeouts, and here a
    retransmission is to mean a loss."""
    run = Run(
        tmp_path / "run",
        "at=iter:1 degrade rail:1 to=20%",
        "at=iter:2+50ms kill switch:g0.0 back=500ms",
        iterations=16,
        more=("--no-feedback", "--measure", "queue"),
    )
    notes = run.notes()
    assert "ovs-vswitchd of shard 0 is back" in notes and "its shapers are unchanged" in notes
    fired = run.fired()
    killed, back = (
        fired["at=iter:2+50ms kill switch:g0.0 back=500ms"],
        fired["at=iter:2+0.55s start switch:g0.0"],
    )
    assert back - killed > 0.4
    # all of this lab's switches are in one shard: for that long nothing moved, and then everything did
    assert run.count("retransmitted", range(2, 4)) > 0
    assert run.lost(range(5, 16)) == 0
    assert all(link["drops"] == 0 for link in run.result["links"]), "wide buffers again"
    # telemetry goes on, over links that are as slow as they were made; the first rates are bounds from above
    assert 0.5 < run.carried_bps("g0.1->r1", back + 0.3) / (0.2 * RAIL_BPS) < 1.2


def test_a_cable_that_goes_while_no_controller_listens_is_found_when_it_is_back(tmp_path: Path) -> None:
    """The restarted controller asks for the carrier of every port."""
    run = Run(tmp_path / "run", "at=iter:2 kill controller", "at=iter:2 down link:d0->g0.0", iterations=4)
    assert run.result["reroutes"]
    (down,) = [fault for fault in run.result["faults"] if fault["verb"] == "down"]
    assert down["recovered_s"] is not None
