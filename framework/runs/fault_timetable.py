"""The faults of a run: when they are due, and what they have done so far."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from railweave.framework.analysis.assumed_health import assumed_health
from railweave.framework.experiment.circuit_board import Reconnection
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.health.options import HealthOptions
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.runs.parts import Clock, FaultPlace
from railweave.framework.runs.recorder import Recorder


class GroundTruth:
    """What measured scores are compared with, and what an oracle knows.

    `snapshot`: the scores as they should be; a new object after every fault that is done to links.
    """

    def __init__(self, fabric: Fabric, options: HealthOptions) -> None:
        self.fabric, self._options = fabric, options
        self._faults: list[ResolvedFault] = []
        self.snapshot = HealthSnapshot.healthy(fabric, margin=options.margin)

    def inject(self, fault: ResolvedFault, now_s: float) -> bool:
        """Take a fault that was just injected into account; whether it was done to links."""
        if fault.process:
            return False
        self._faults.append(fault)
        self.snapshot = replace(
            assumed_health(self.fabric, faults=self._faults, how=self._options.aggregate),
            version=len(self._faults),
            t_s=now_s,
            margin=self._options.margin,
        )
        return True


@dataclass
class _Connecting:
    """Circuits without light until `until_s`; `links`: those of them that no later fault took down."""

    fault: ResolvedFault
    links: Int64
    since_s: float
    until_s: float


class FaultTimetable:
    """Injects the faults of a plan when they are due, by their times; those of one instant in the order in
    which they are written, whether they wait for that time or for an iteration that begins then.

    `best_rates_bps`: (n_links,) for each job, the highest rate of each link since its iteration began, which
    is what its physical limit is computed from. `in_force`: the faults done to links since all were last
    healthy, each with the ground truth after it.
    """

    def __init__(
        self,
        faults: Sequence[ResolvedFault],
        clock: Clock,
        place: FaultPlace,
        truth: GroundTruth,
        recorder: Recorder,
        *,
        rate_scale: float = 1.0,
    ) -> None:
        self._rate_scale, self._connecting = rate_scale, list[_Connecting]()
        self._fabric = truth.fabric
        self._waiting, self._clock, self._place = list(faults), clock, place
        self._truth, self._recorder = truth, recorder
        self.in_force: list[tuple[ResolvedFault, HealthSnapshot]] = []
        self.best_rates_bps: dict[int, Float] = {}
        self._held = False

    @property
    def next_s(self) -> float:
        """When the next fault is due by the clock, or light passes; infinity if nothing is due."""
        waiting = () if self._held else self._waiting
        times = [f.at_s for f in waiting if f.at_s is not None]
        return min([*times, *(connecting.until_s for connecting in self._connecting)], default=np.inf)

    def dark_until_s(self, gpus: Sequence[int]) -> float:
        """When light passes over all circuits of these GPUs; -inf if it does."""
        src = self._fabric.link_src  # of both directions, so each end is one
        times = [c.until_s for c in self._connecting if np.isin(src[c.links], gpus).any()]
        return max(times, default=-np.inf)

    @contextmanager
    def held(self) -> Iterator[None]:
        """No fault fires during the block, and their times count from its end."""
        self._held, began_s = True, self._clock.now_s()
        yield
        self._held, waited_s = False, self._clock.now_s() - began_s
        self._waiting = [f if f.at_s is None else replace(f, at_s=f.at_s + waited_s) for f in self._waiting]

    def begin_iteration(self, iteration: int, job: int = 0) -> None:
        """Inject what is due before this iteration, of the first job alone."""
        if job == 0:
            self.advance(iteration)
        self.best_rates_bps[job] = self._place.rates_bps.copy()

    def add(self, faults: Sequence[ResolvedFault]) -> None:
        """Let these happen as well; their times count from now."""
        now = self._clock.now_s()
        self._waiting += [f if f.at_s is None else replace(f, at_s=f.at_s + now) for f in faults]

    def drop(self, faults: Sequence[ResolvedFault]) -> None:
        """Do not inject those of these that are not due yet."""
        texts = {fault.text for fault in faults}
        self._waiting = [fault for fault in self._waiting if fault.text not in texts]

    def recall(self) -> None:
        """Record the faults in force as injected just now."""
        for fault, scores in self.in_force:
            self._recorder.truth.append(replace(scores, t_s=self._clock.now_s()))
            self._recorder.fault(fault.text)

    def advance(self, iteration: int | None = None) -> None:
        """Inject what is due by the clock, or before an `iteration` that begins now; let light pass that is
        due."""
        self._light()
        if self._held:
            return
        now, waiting, due = self._clock.now_s(), list[ResolvedFault](), list[ResolvedFault]()
        for fault in self._waiting:
            if iteration is not None and fault.at_iteration == iteration:
                fault = replace(fault, at_s=now + fault.after_s, at_iteration=None, after_s=0.0)
            is_due = fault.at_s is not None and fault.at_s <= now
            (due if is_due else waiting).append(fault)
        self._waiting = waiting
        for fault in sorted(due, key=lambda fault: fault.at_s or 0.0):
            self.inject(fault)

    def inject(self, fault: ResolvedFault) -> None:
        """Inject a fault now, whatever its time."""
        if fault.circuits is None:
            self._place.inject(fault)
            self._stay_dark(fault)
        else:
            self._connect(fault, fault.circuits)
        for job, best in self.best_rates_bps.items():
            self.best_rates_bps[job] = np.maximum(best, self._place.rates_bps)
        if self._truth.inject(fault, self._clock.now_s()):
            self._recorder.truth.append(self._truth.snapshot)
            self.in_force.append((fault, self._truth.snapshot))
            if (self._truth.snapshot.link_score == 1).all():
                self.in_force.clear()
        self._recorder.fault(fault.text)

    # -- circuits ----------------------------------------------------------------------------------------
    def _connect(self, fault: ResolvedFault, circuits: Reconnection) -> None:
        """What is in place now is healthy; its circuits pass no light yet."""
        now = self._clock.now_s()
        self._place.inject(_on(fault, "restore", circuits.links))
        self._place.inject(_on(fault, "down", circuits.dark))
        until_s = now + circuits.connect_s / self._rate_scale
        for earlier in self._connecting:
            earlier.links = np.setdiff1d(earlier.links, circuits.dark)
        self._connecting.append(_Connecting(fault, circuits.dark, now, until_s))

    def _stay_dark(self, fault: ResolvedFault) -> None:
        """Circuits under way pass no light before their time, and none then if a fault took them down."""
        for connecting in self._connecting:
            cables = np.concatenate((fault.links, fault.links ^ 1))
            if fault.verb == "down":
                connecting.links = np.setdiff1d(connecting.links, cables)
            elif fault.verb in ("up", "restore") and (dark := np.intersect1d(connecting.links, cables)).size:
                self._place.inject(_on(fault, "down", dark))

    def _light(self) -> None:
        """Let light pass over the circuits whose time has come."""
        now = self._clock.now_s()
        due = [connecting for connecting in self._connecting if connecting.until_s <= now]
        self._connecting = [connecting for connecting in self._connecting if connecting.until_s > now]
        for connecting in due:
            self._place.inject(_on(connecting.fault, "up", connecting.links))
            self._recorder.connected(connecting.fault, connecting.since_s)


def _on(fault: ResolvedFault, verb: str, links: Int64) -> ResolvedFault:
    """A step of a fault: another verb on these links."""
    return replace(fault, verb=verb, links=links, options={}, circuits=None)
