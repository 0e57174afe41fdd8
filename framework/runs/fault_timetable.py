"""When the faults of a run are due, and what is noted when they are injected."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.experiment.faults import ResolvedFault, released
from railweave.framework.runs.ground_truth import GroundTruth
from railweave.framework.runs.parts import Clock, FaultPlace
from railweave.framework.runs.recorder import Recorder


class FaultTimetable:
    """Injects the faults of a plan when they are due.

    `last_s`: when the last one was injected. `best_rates_bps`: (n_links,), the highest rate of each link
    since the iteration began, which is what its physical limit is computed from.
    """

    def __init__(
        self,
        faults: Sequence[ResolvedFault],
        clock: Clock,
        place: FaultPlace,
        truth: GroundTruth,
        recorder: Recorder,
    ) -> None:
        self._waiting, self._clock, self._place = list(faults), clock, place
        self._truth, self._recorder = truth, recorder
        self.last_s = 0.0
        self.best_rates_bps = place.rates_bps.copy()

    @property
    def next_s(self) -> float:
        """When the next fault is due by the clock; infinity if none is."""
        times = (fault.fault.at_s for fault in self._waiting if fault.fault.at_s is not None)
        return min(times, default=np.inf)

    def begin_iteration(self, iteration: int) -> None:
        """Inject what is due before this iteration."""
        self._release([fault for fault in self._waiting if fault.fault.at_iteration == iteration])
        self.best_rates_bps = self._place.rates_bps.copy()

    def advance(self) -> None:
        """Inject what is due by the clock."""
        now = self._clock.now_s()
        self._release([f for f in self._waiting if f.fault.at_s is not None and f.fault.at_s <= now])

    def inject(self, fault: ResolvedFault) -> None:
        """Inject a fault now, whatever its time."""
        self.last_s = self._clock.now_s()
        self._place.inject(fault)
        self.best_rates_bps = np.maximum(self.best_rates_bps, self._place.rates_bps)
        if self._truth.inject(fault, self._clock.now_s()):
            self._recorder.truth(self._truth.snapshot)
        self._recorder.fault(fault.text)

    def _release(self, due: list[ResolvedFault]) -> None:
        self._waiting, due = released(self._waiting, due, self._clock.now_s())
        for fault in due:
            self.inject(fault)
