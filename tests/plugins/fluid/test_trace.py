"""Link loads over time (`trace`). Expected loads: a lone rail along which an all-gather goes is busy all the
time; the bytes of every link come from the result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import railweave as rw
from railweave.framework.errors import ExperimentError, InputError
from railweave.framework.model.events import Note, RunEvent
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.results.result import RunResult
from railweave.framework.runs import load_trace as trace
from railweave.framework.runs.load_trace import TraceRecorder

ALONG_A_RAIL: dict[str, Any] = {"domains": 4, "rails": 1, "collective": "all-gather", "size": "4M"}
SLOW = "at=1.4s degrade rail:0 to=20%"


@pytest.fixture(scope="module")
def registers() -> Registers:
    return load_plugins()


def traced(
    registers: Registers, out: Path, every: str = "50ms", **keys: Any
) -> tuple[RunResult, Mapping[str, Any]]:
    result = rw.run(registers=registers, engine="fluid", trace=every, out=out, **{"iterations": 3, **keys})
    return result, rw.read(out).trace


def test_a_rail_that_is_always_busy_has_its_rate_and_then_what_the_fault_leaves(
    registers: Registers, tmp_path: Path
) -> None:
    result, loads = traced(registers, tmp_path / "run", faults=[SLOW], feedback=False, **ALONG_A_RAIL)
    on_rail = [i for i, name in enumerate(loads["name"]) if "r0" in name]
    share = loads["load_bps"][:, on_rail] / loads["rate_bps"][on_rail]
    assert loads["t_s"][:-1] == pytest.approx(0.05 * np.arange(1, len(loads["t_s"])))
    assert loads["t_s"][-1] == pytest.approx(1 + 0.4 + 0.6 / 0.2 + 1 / 0.2)  # three iterations
    assert share[:28] == pytest.approx(np.ones_like(share[:28]), rel=1e-3)
    assert share[28:] == pytest.approx(0.2 * np.ones_like(share[28:]), rel=1e-3)
    assert loads["link"].tolist() == list(range(result.fabric.links))


LOSSY = ["at=iter:1 loss rail:1 rate=4%", "at=1.7s degrade domain:1 to=50%", "at=2.3s down link:g0.1->r1"]


@pytest.mark.parametrize(
    "keys",
    [
        {"domains": 4, "rails": 2, "faults": LOSSY},
        {"topology": "torus", "shape": "4x4", "router": "dor", "collective": "direct-all-to-all"},
        {"domains": 4, "rails": 4, "jobs": [{"ranks": "domain:0-1"}, {"ranks": "domain:2-3"}]},
    ],
)
def test_loads_add_up_to_bytes_and_change_no_result(
    registers: Registers, tmp_path: Path, keys: dict[str, Any]
) -> None:
    result, loads = traced(registers, tmp_path / "run", "70ms", **keys)
    bytes_ = np.diff(loads["t_s"], prepend=0) @ loads["load_bps"].astype(float) / 8
    sent = np.array([link.bytes for link in result.links])
    if "faults" not in keys:
        assert bytes_ == pytest.approx(sent, rel=1e-5, abs=2)
    assert (bytes_ <= sent * 1.00001 + 2).all() and bytes_.sum() > 0.95 * sent.sum()  # the rest are trains
    alone = rw.run(registers=registers, engine="fluid", **{"iterations": 3, **keys})
    assert [row.time_us for row in result.rows] == pytest.approx(
        [row.time_us for row in alone.rows], rel=1e-4
    )
    assert [reroute.why for reroute in result.reroutes] == [reroute.why for reroute in alone.reroutes]


def test_where_nothing_is_sent_loads_are_0(registers: Registers, tmp_path: Path) -> None:
    _, loads = traced(registers, tmp_path / "run", domains=2, rails=2, size=0)
    assert loads["load_bps"].shape == (1, 16) and not loads["load_bps"].any()


@given(
    st.lists(st.lists(st.integers(0, 1 << 20), min_size=2, max_size=2), min_size=1, max_size=60),
    st.sampled_from([0.0, 1e-9, 0.3]),
)
def test_more_intervals_than_are_kept_become_longer_ones(sent: list[list[int]], rest_s: float) -> None:
    """Whatever each of them held is in the one that covers it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "MOST_INSTANTS", 9)
        kept, total, now_s = TraceRecorder(0.5, 2), np.cumsum(sent, axis=0), 0.5 * len(sent)
        for now, so_far in enumerate(total, 1):
            if kept.next_s == 0.5 * now:
                kept.add(so_far.astype(float))
        whole = kept.ended(now_s + rest_s, total[-1].astype(float))
    assert len(whole.t_s) <= 8 and whole.t_s[-1] == pytest.approx(now_s + rest_s, abs=1e-6)
    upto = np.minimum(np.round(whole.t_s / 0.5).astype(int), len(sent))
    assert np.cumsum(whole.sent_bytes, axis=0) == pytest.approx(total[upto - 1])


def test_a_note_says_that_intervals_are_longer(
    registers: Registers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "MOST_INSTANTS", 16)
    events: list[RunEvent] = []
    _, loads = traced(registers, tmp_path / "run", on_event=events.append, **ALONG_A_RAIL)
    assert loads["t_s"] == pytest.approx(0.2 * np.arange(1, 16))
    notes = [event.text for event in events if isinstance(event, Note)]
    assert notes == ["trace.npz has the loads of every 200ms: intervals of 50ms would be too many"]


@pytest.mark.parametrize(
    ("every", "engine", "message"),
    [
        ("0", "fluid", "trace: '0' is too small; it takes a time"),
        ("-50ms", "fluid", "trace: '-50ms' is too small"),
        ("often", "fluid", "trace: 'often' is not a time such as 25us or 1.5s, 1e-06 or more, or none"),
        ("50ms", "emulation", "link loads over time: engine emulation cannot.*health.npz.*do it: fluid"),
    ],
)
def test_what_cannot_be_traced_is_refused_by_name(
    registers: Registers, every: str, engine: str, message: str
) -> None:
    with pytest.raises(ExperimentError, match=message):
        rw.load(registers=registers, engine=engine, trace=every)


def test_a_trace_needs_a_directory(registers: Registers) -> None:
    with pytest.raises(InputError, match="trace: it is written into the run directory"):
        rw.run(registers=registers, engine="fluid", trace="50ms", iterations=1)
