"""Circuits that are connected anew during a run on the engine fluid.

Source of expected times: an iteration over links that are all lit takes T (that of the first one, which is
healthy); ranks wait with the next iteration until light passes, which is the declared time after the command.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import railweave as rw
from railweave.framework.model.events import CircuitsConnected, IterationEnded, RunEvent
from railweave.framework.results.result import RunResult

CASES: list[tuple[dict[str, Any], str, int, int]] = [
    ({"topology": "torus", "shape": "4x4x4", "spare_cubes": 1}, "replace cube:0.0.0", 48, 48),
    ({"topology": "torus", "shape": "4x4x4"}, "reconnect link:g3.0.0->g0.0.0", 1, 1),
    ({"domains": 3, "rails": 4, "spares": 1}, "replace gpu:1.2", 1, 1),
    ({"domains": 3, "rails": 4, "spare_domains": 1}, "replace domain:1", 4, 1),
]
CONNECT_S = 40e-6


def run(faults: list[str], events: list[RunEvent] | None = None, **keys: Any) -> RunResult:
    on_event = (lambda event: None) if events is None else events.append
    keys = {"iterations": 8, "size": "1M", **keys}
    return rw.run(engine="fluid", faults=faults, on_event=on_event, **keys)


def times_s(result: RunResult) -> np.ndarray[Any, Any]:
    return np.array([1e-6 * row.declared_time_us for row in result.rows if row.iteration is not None])


@pytest.mark.parametrize("keys, verb, circuits, switches", CASES)
def test_before_during_and_after_a_swap(
    keys: dict[str, Any], verb: str, circuits: int, switches: int
) -> None:
    """The iterations take T each; between the fourth and the fifth lies the declared time alone."""
    events = list[RunEvent]()
    result = run([f"at=iter:4 {verb}"], events, ocs_time=f"{CONNECT_S}s", feedback=False, **keys)
    times, scale = times_s(result), result.fabric.rate_scale
    assert times == pytest.approx(np.full(8, times[0]), rel=1e-9)
    ends = [e.end_s for e in events if isinstance(e, IterationEnded)]
    gaps = np.diff(np.array(ends, float)) * scale - times[0]
    assert gaps == pytest.approx([0, 0, 0, CONNECT_S, 0, 0, 0], abs=1e-9)
    made = result.faults[0].circuits
    assert made is not None and (made.circuits, made.switches) == (circuits, switches)
    assert made.connect_s == CONNECT_S and made.connected_s is not None
    assert made.connected_s * scale == pytest.approx(CONNECT_S)
    before, swap = (e for e in events if isinstance(e, CircuitsConnected))
    assert before.t_s == 0 and before.summary == "set before the run"
    assert swap.t_s - swap.since_s == pytest.approx(made.connected_s) and swap.circuits == circuits


@pytest.mark.parametrize("keys, verb, circuits, switches", CASES)
def test_what_takes_over_is_healthy(keys: dict[str, Any], verb: str, circuits: int, switches: int) -> None:
    """A degraded unit slows iterations until another takes its place; then they take T again."""
    target = verb.split()[1].replace("domain:1", "gpu:1.0")
    faults = [f"at=iter:1 degrade {target} to=20%", f"at=iter:2 {verb}"]
    few_samples = {"feedback": False, "health": {"interval": 10.0}}
    times = times_s(run(faults, iterations=4, **few_samples, **keys))
    assert times[[0, 2, 3]] == pytest.approx(np.full(3, times[0]), rel=1e-9)
    assert times[1] > 1.5 * times[0]


def test_a_unit_that_is_not_replaced_stays_degraded() -> None:
    """The control of the test above."""
    times = times_s(run(["at=iter:2 degrade gpu:1.2 to=20%"], feedback=False, domains=3, rails=4, spares=1))
    assert (times[2:] > 1.5 * times[0]).all()


def test_a_failure_in_the_middle_of_an_iteration() -> None:
    """GPU 0.1 fails; its pairs stand still until a spare has its place and light passes, then senders try
    again: not earlier than the gap allows, and at most one wait between two tries later."""
    faults = ["at=iter:3+0.2s down gpu:0.1", "at=iter:3+0.7s replace gpu:0.1"]
    result = run(faults, domains=2, rails=4, spares=1, size="4M", feedback=False)
    times, scale = times_s(result), result.fabric.rate_scale
    swap = result.faults[1].circuits
    assert swap is not None and swap.connected_s is not None
    stood_s = (0.5 + swap.connected_s) * scale
    assert times[0] + stood_s <= times[3] <= times[0] + stood_s + 0.5 * scale
    assert times[4:] == pytest.approx(np.full(4, times[0]), rel=1e-9)


def test_a_declared_time_of_the_fault_itself() -> None:
    """`time=` in place of the fabric's; TPUv4's switches take milliseconds."""
    result = run(["at=iter:4 replace gpu:0.1 time=500us"], domains=2, rails=4, spares=1, feedback=False)
    made = result.faults[0].circuits
    assert made is not None and made.connected_s is not None
    assert made.connected_s * result.fabric.rate_scale == pytest.approx(500e-6)


def test_routes_return_after_a_swap() -> None:
    """With feedback the last iterations take T again."""
    times = times_s(run(["at=iter:4 replace gpu:0.1"], domains=4, rails=4, spares=1, iterations=14))
    assert times[-3:] == pytest.approx(np.full(3, times[0]), rel=1e-6)


def test_a_fault_while_circuits_are_dark_outlasts_them() -> None:
    """A circuit taken down while it is connected anew stays down, and one that is repaired stays dark until
    its time: light never passes early. The first phase is within domains, and needs none."""
    swap = "at=iter:2 replace domain:0 time=10us"
    keys: dict[str, Any] = {"domains": 2, "rails": 4, "spare_domains": 1, "iterations": 4}
    plain = run([swap], feedback=False, **keys)
    scale, connected = plain.fabric.rate_scale, plain.faults[0].circuits
    assert connected is not None and connected.connected_s is not None
    early = run([swap, "at=iter:2+0.01s restore gpu:0.1"], feedback=False, **keys)
    assert early.faults[0].circuits == connected
    late_s = 2 * connected.connected_s
    down = ["at=iter:2+0.01s down nic:0.1", f"at=iter:2+{late_s:.6f}s up nic:0.1"]
    times = times_s(run([swap, *down], feedback=False, **keys))
    waits_for_light_s = times[0] - 1e-6 * plain.rows[0].phase_us[0]
    assert times[2] - waits_for_light_s >= (late_s - connected.connected_s) * scale * (1 - 1e-6)
    assert times[3] == pytest.approx(times[0], rel=1e-9)


def test_other_jobs_go_on_during_a_swap() -> None:
    """Law: jobs on disjoint GPUs do not change each other. The job without the GPU does not wait for it."""
    jobs = [{"ranks": "domain:0-1"}, {"ranks": "domain:2-3"}]
    keys: dict[str, Any] = {"domains": 4, "rails": 2, "spares": 1, "jobs": jobs, "iterations": 5, "alone": 0}
    events, without = list[RunEvent](), list[RunEvent]()
    run(["at=iter:2 replace gpu:0.1 time=200us"], events, feedback=False, **keys)
    run([], without, feedback=False, **keys)

    def ends(found: list[RunEvent], job: int) -> list[float]:
        return [float(e.end_s or 0) for e in found if isinstance(e, IterationEnded) and e.job == job]

    assert ends(events, 1) == pytest.approx(ends(without, 1), rel=1e-9)
    assert ends(events, 0)[-1] > ends(without, 0)[-1] * 1.5
