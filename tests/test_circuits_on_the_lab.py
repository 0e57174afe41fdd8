"""Circuits on the lab: carrier and rules, next to what the engine fluid says of the same experiment."""

from __future__ import annotations

from typing import Any

import pytest

import railweave as rw
from railweave.framework.errors import FaultError
from railweave.framework.model.events import CircuitsConnected, IterationEnded, RunEvent
from railweave.framework.results.result import RunResult

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

KEYS: dict[str, Any] = {
    "domains": 2, "rails": 2, "spares": 1, "spare_domains": 1, "ocs_time": "25us", "size": "256K",
    "iterations": 6, "rate_scale": 2e-5, "feedback": False,
}  # fmt: skip


def run(engine: str, faults: list[str]) -> tuple[RunResult, list[RunEvent]]:
    events = list[RunEvent]()
    return rw.run(engine=engine, faults=faults, on_event=events.append, **KEYS), events


@pytest.mark.parametrize("verb, circuits", [("replace gpu:0.1", 1), ("replace domain:1", 2)])
def test_a_spare_takes_over(verb: str, circuits: int) -> None:
    """GPU 1.1 runs at a tenth until a spare has its place (the domain), or that of GPU 0.1; every result is
    right, and no iteration begins before the declared time is over (a law of the lab: machines are late,
    never early). The engine fluid has the same groups, circuits and declared time."""
    slow = "gpu:0.1" if "gpu" in verb else "gpu:1.1"
    faults = [f"at=iter:2 degrade {slow} to=10%", f"at=iter:4 {verb}"]
    result, events = run("emulation", faults)
    computed, _ = run("fluid", faults)
    assert result.wrong == 0 and result.compared > 0
    swap = result.faults[1].circuits
    assert swap is not None and swap.connected_s is not None and computed.faults[1].circuits is not None
    assert (swap.summary, swap.circuits) == (computed.faults[1].circuits.summary, circuits)
    assert swap.connect_s == pytest.approx(25e-6)
    assert swap.connected_s >= swap.connect_s / 2e-5
    (light_s,) = (e.t_s for e in events if isinstance(e, CircuitsConnected) and e.fault)
    ends = [float(e.end_s or 0) for e in events if isinstance(e, IterationEnded)]
    begins = [row.t_s for row in result.rows if row.iteration is not None]
    assert ends[3] < light_s <= begins[4]
    groups = [(g.before.iterations, g.during.iterations, g.after.iterations)
              for g in (result.iterations, computed.iterations)]  # fmt: skip
    assert groups[0] == groups[1] == ((0, 1), (2, 3), (4, 5))
    before, during, after = (
        g.median_us for g in (result.iterations.before, result.iterations.during, result.iterations.after)
    )
    assert before is not None and during is not None and after is not None
    assert during > 2 * before and during > 2 * after  # 10 % of the rate takes ten times as long


def test_links_are_dark_while_traffic_runs() -> None:
    """A circuit that moves to another port in the middle of an iteration stops it for the declared time, at
    least: packets wait or are sent again, and none is wrong."""
    keys = {**KEYS, "spare_ports": 1, "iterations": 3}
    result = rw.run(engine="emulation", faults=["at=iter:1+0.05s reconnect link:g0.1->r1"], **keys)
    assert result.wrong == 0
    swap = result.faults[0].circuits
    assert swap is not None and swap.summary == "g0.1->r1 at port 5 of ocs o0"
    assert swap.connected_s is not None and swap.connected_s >= swap.connect_s / 2e-5
    times_s = [1e-6 * row.time_us for row in result.rows if row.iteration is not None]
    assert times_s[1] >= swap.connected_s


def test_spares_of_an_open_lab_are_used_once() -> None:
    """Faults by hand count with those before; the run after it finds links that are healthy."""
    with rw.lab(domains=2, rails=2, spares=1, rate_scale=2e-5, ocs_time="1us") as lab:
        lab.fault("replace gpu:0.1")
        lab.fault("replace gpu:1.0")  # that of the other domain
        with pytest.raises(FaultError, match=r"no spare is left for gpu:0\.0"):
            lab.fault("replace gpu:0.0")
        result = lab.run(size="64K", iterations=2)
    assert result.wrong == 0 and result.compared > 0
