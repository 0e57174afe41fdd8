"""What computed runs have in common, whatever their model: the clock, links over time, the run as a whole."""

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from railweave.framework.experiment.plan import Plan
from railweave.framework.hookspecs import Callers
from railweave.framework.model import HealthSnapshot, Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.model.events import RunEvent
from railweave.framework.model.findings import Findings, LinkTrace
from railweave.framework.parameters.units import time as time_text
from railweave.framework.runs.load_trace import TraceRecorder
from railweave.framework.runs.parts import RunEngine
from railweave.framework.runs.recorder import Recorder
from railweave.framework.runs.session import Session


def switches_crossed(plan: Plan) -> float:
    """How many switches a packet from a GPU to the next crosses on average, its own and the other's included:
    over these paths a lab measures its latency (lab/switching/calibration.py)."""
    fabric = plan.fabric
    gpus = np.arange(fabric.n_gpus)
    table = plan.router.routes(fabric, HealthSnapshot.healthy(fabric))
    links = np.diff(table.paths(gpus, np.roll(gpus, -1)).hop_start)
    return float(links.mean()) + 1 if len(links) else 1.0


class TimedModel(Protocol):
    """A model by the run's clock, in seconds."""

    now_s: float

    def advance(self, until_s: float) -> None:
        """Go on until then, or to the first end of an iteration if that is earlier."""

    def data_bytes(self) -> Float:
        """(n_links,): bytes of data that links have sent so far."""
        ...


ModelT = TypeVar("ModelT", bound=TimedModel)


class ModelClock(Generic[ModelT]):
    """The run's clock; it moves as far as it is waited for, and keeps what links have sent by then, if the
    plan wants a trace."""

    def __init__(self, plan: Plan) -> None:
        self.model: ModelT | None = None
        self._wanted_s = wanted_s = plan.experiment.trace
        self._trace = None if wanted_s == "none" else TraceRecorder(wanted_s, plan.fabric.n_links)

    def start(self) -> None:
        """It stands anyway until somebody waits."""

    def now_s(self) -> float:
        return 0.0 if self.model is None else self.model.now_s

    def wait(self, until_s: float) -> None:
        model, trace = self.model, self._trace
        assert model is not None
        model.advance(until_s if trace is None else min(until_s, trace.next_s))
        if trace is not None and model.now_s >= trace.next_s:
            trace.add(model.data_bytes())

    def traced(self, note: Callable[[str], None]) -> LinkTrace | None:
        """What links sent over time, if that is kept, at the end of the run; `note` receives what a user
        should know of it."""
        model, trace, wanted_s = self.model, self._trace, self._wanted_s
        if model is None or trace is None or wanted_s == "none":
            return None
        if trace.interval_s != wanted_s:
            every, wanted = time_text(trace.interval_s), time_text(wanted_s)
            note(f"trace.npz has the loads of every {every}: intervals of {wanted} would be too many")
        return trace.ended(model.now_s, model.data_bytes())


class ComputedEngine(RunEngine, Protocol):
    """One run of a plan on a model."""

    @property
    def clock(self) -> ModelClock: ...  # type: ignore[type-arg]


def computed(
    plan: Plan,
    engine: ComputedEngine,
    observers: Callers,
    emit: Callable[[RunEvent], None],
    directory: str | None,
) -> Findings:
    """The run of a plan in this process (hookspecs: Engine.run)."""
    recorder = Recorder(plan.fabric, observers, emit, engine.clock.now_s)
    if recorder.observers.heard("on_run_start"):
        recorder.observers.fire("on_run_start", experiment=plan.document(), directory=directory)
    with Session(plan, engine, recorder) as session:
        session.iterate()
        trace = engine.clock.traced(recorder.note)
        recorder.phase("tear-down")
        return replace(session.findings(), trace=trace)


def phase_seconds(schedule: Schedule, end_s: Float) -> tuple[float, ...]:
    """How long each phase of an iteration took after those before it; `end_s` (n_entries,) from its start."""
    ends = np.zeros(len(schedule.phase_names))
    named = (schedule.phase >= 0) & (schedule.phase < len(ends))
    np.maximum.at(ends, schedule.phase[named], end_s[named])
    return tuple(np.diff(np.maximum.accumulate(np.append(0.0, ends))).tolist())
