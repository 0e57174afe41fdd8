"""What the faults of a run have really done so far: what measured scores are held against, and an oracle tells."""

from __future__ import annotations

from dataclasses import replace

from railweave.framework.faults import VERBS, ResolvedFault
from railweave.framework.health.options import HealthOptions
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.supposed_health import supposed


class Truth:
    """`snapshot`: the scores as they should be; another object after every fault that is done to links."""

    def __init__(self, fabric: Fabric, options: HealthOptions) -> None:
        self._fabric, self._options = fabric, options
        self._struck: list[ResolvedFault] = []
        self.snapshot = HealthSnapshot.healthy(fabric, margin=options.margin)

    def strike(self, fault: ResolvedFault, now_s: float) -> bool:
        """Take in a fault that was just done; whether it was done to links."""
        if VERBS[fault.verb].processes:
            return False
        self._struck.append(fault)
        found = supposed(self._fabric, faults=self._struck, how=self._options.aggregate)
        self.snapshot = replace(found, version=len(self._struck), t_s=now_s, margin=self._options.margin)
        return True
