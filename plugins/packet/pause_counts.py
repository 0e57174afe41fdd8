"""How often and how long links were paused."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from railweave.framework.model.arrays import Int64
from railweave.framework.model.traffic import PausedLinks
from railweave.plugins.packet.layout import BUFFERS, DEPTHS, NOW, PAUSED, PICOSECONDS, State


@dataclass(frozen=True, eq=False, slots=True)
class PauseCounts:
    """Up to now: `pauses` and declared picoseconds of links (L,), pauses by depth."""

    pauses: Int64
    paused_ps: Int64
    depths: Int64

    @classmethod
    def of(cls, s: State) -> Self | None:
        """None where nothing is paused. A pause that goes on counts as long as it has lasted."""
        if not s.globals[BUFFERS] & PAUSED:
            return None
        now, port = s.globals[NOW], s.port
        paused_ps = port["paused"] + np.maximum(now - port["since"], 0)
        return cls(port["pauses"].copy(), paused_ps, s.globals[DEPTHS:].copy())

    def since(self, before: Self, rate_scale: float) -> PausedLinks:
        """What was added to `before`, by the run's clock."""
        new, took_ps = self.pauses - before.pauses, self.paused_ps - before.paused_ps
        deep = np.flatnonzero(self.depths > before.depths)
        return PausedLinks(
            int(new.sum()),
            int((took_ps > 0).sum()),
            float(took_ps.sum()) / (PICOSECONDS * rate_scale),
            int(deep[-1]) + 1 if len(deep) else 0,
        )
