"""What the faults of a run have done so far: measured scores are compared with it, and an oracle knows it."""

from dataclasses import replace

from railweave.framework.analysis.assumed_health import assumed_health
from railweave.framework.experiment.faults import VERBS, ResolvedFault
from railweave.framework.health.options import HealthOptions
from railweave.framework.model import Fabric, HealthSnapshot


class GroundTruth:
    """`snapshot`: the scores as they should be; a new object after every fault that is done to links."""

    def __init__(self, fabric: Fabric, options: HealthOptions) -> None:
        self._fabric, self._options = fabric, options
        self._faults: list[ResolvedFault] = []
        self.snapshot = HealthSnapshot.healthy(fabric, margin=options.margin)

    def inject(self, fault: ResolvedFault, now_s: float) -> bool:
        """Take a fault that was just injected into account; whether it was done to links."""
        if VERBS[fault.verb].processes:
            return False
        self._faults.append(fault)
        scores = assumed_health(self._fabric, faults=self._faults, how=self._options.aggregate)
        self.snapshot = replace(scores, version=len(self._faults), t_s=now_s, margin=self._options.margin)
        return True
