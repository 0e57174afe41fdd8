"""Links that go down and come back."""

from dataclasses import replace

import numpy as np

from railweave.framework.health.options import HealthOptions
from railweave.framework.health.outlook import OUTLIVED, Outage, Outlook
from railweave.framework.health.publishing import rescored
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool


class Outages:
    """For how long each link was down in the past; the latest outage counts half, the one before a quarter,
    and so on.

    From the second outage on a link is expected back, until it has been down for OUTLIVED times as long as
    before. Whether pairs wait for it is decided by what they send (routing/forecast.py). `rate_scale`:
    declared seconds in one of the run's clock.
    """

    def __init__(self, fabric: Fabric, options: HealthOptions, rate_scale: float) -> None:
        self._fabric, self._options, self._scale = fabric, options, rate_scale
        self._down = np.zeros(fabric.n_links, bool)
        self._since_s, self._lasted_s = np.zeros(fabric.n_links), np.full(fabric.n_links, np.nan)
        self._shown = self._outlook = Outlook.steady(HealthSnapshot.healthy(fabric, margin=options.margin))
        self._back = self._down

    @property
    def waiting(self) -> bool:
        """Whether a link is expected back."""
        return self._outlook.outage is not None

    def outlook(self, outlook: Outlook, now_s: float) -> Outlook:
        """The outlook of what is up, with what to expect of links that are down; the same object while
        nothing changes."""
        if outlook is self._shown and not self.waiting:
            return self._outlook
        self._note(outlook.health.down, now_s)
        back = self._down & (now_s - self._since_s <= OUTLIVED * self._lasted_s)  # not where unknown
        if outlook is not self._shown or not np.array_equal(back, self._back):
            self._shown, self._back, self._outlook = outlook, back, self._expected(outlook, back)
        return self._outlook

    def _note(self, down: Bool, now_s: float) -> None:
        ended, began = self._down & ~down, down & ~self._down
        lasted_s = now_s - self._since_s[ended]
        usual_s = self._lasted_s[ended]
        self._lasted_s[ended] = np.where(np.isnan(usual_s), lasted_s, (usual_s + lasted_s) / 2)
        self._since_s[began] = now_s
        self._down = down

    def _expected(self, outlook: Outlook, back: Bool) -> Outlook:
        if not back.any():
            return outlook
        lasts_s = self._scale * float(self._lasted_s[back].max())
        prospects = tuple((share, self._up(health, back)) for share, health in outlook.prospects)
        return Outlook(self._up(outlook.health, back), prospects, Outage(outlook, lasts_s))

    def _up(self, health: HealthSnapshot, back: Bool) -> HealthSnapshot:
        up = replace(health, down=health.down & ~back)
        return rescored(self._fabric, up, np.where(back, 1.0, health.link_score), self._options.aggregate)
