"""Links that come and go: what their recent past says of them, for the decision to leave or to return."""

from dataclasses import dataclass

import numpy as np

from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import rescored, slow_links
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool, Float

OUTLIVED = 2.0
"""A link is in a state for good once that has lasted so many times as long as it did in the past."""


@dataclass(frozen=True, eq=False, slots=True)
class Outlook:
    """What routes are decided by. `health`: the scores that a router is asked with, of links that come and go
    their mean over recent episodes. `prospects`: snapshots to expect, each with its share of the time; by
    these it is said when a demand ends."""

    health: HealthSnapshot
    prospects: tuple[tuple[float, HealthSnapshot], ...]

    @classmethod
    def steady(cls, health: HealthSnapshot) -> "Outlook":
        """All links stay as they are."""
        return cls(health, ((1.0, health),))


class Relapses:
    """The episodes in which each link was slow: how long they last, how long the link is well in between, and
    how slow it is meanwhile.

    From the second onset on, a link is expected to go on as it did (`outlook`), until it has been slow, or
    well, for OUTLIVED times as long as before. So one that is slow a tenth of the time is kept, one that is
    slow most of the time is left and needs longer proof, and a fault that lasts is one. The latest episode
    counts half, the one before a quarter, and so on. Links that are down are no matter of this: pairs leave
    them at no cost and return as soon as they are up.
    """

    def __init__(self, fabric: Fabric, options: HealthOptions) -> None:
        n = fabric.n_links
        self._fabric, self._options = fabric, options
        self._slow = np.zeros(n, bool)
        self._first_s, self._last_s = np.zeros((2, n))
        """When the present state of each link was first and last seen."""
        self._slow_s, self._well_s, self._lowest, self._mean_lowest = np.full((4, n), np.nan)
        own = fabric.n_nodes + np.arange(n)
        self._unit = np.where(fabric.link_element >= 0, fabric.link_element, own)
        self._recovered_s = np.full(fabric.n_nodes + n, -np.inf)
        """When a link of each switch last recovered; links of no switch stand for themselves, behind the
        nodes."""
        healthy = HealthSnapshot.healthy(fabric, margin=options.margin)
        self._shown, self._outlook = (healthy, b""), Outlook.steady(healthy)

    def outlook(self, health: HealthSnapshot, measured_s: Float, now_s: float) -> Outlook:
        """What to expect after this snapshot; the same object while nothing changes. `measured_s` (n_links,):
        when the rate of each link was last measured."""
        slow = slow_links(health, self._options.step)
        changed = slow != self._slow
        if (changed & ~slow).any():
            at = np.unique(self._unit[changed & ~slow])
            self._recovered_s[at] = now_s
        if changed.any():
            self._note(changed, slow, now_s)
        self._last_s = np.maximum(self._last_s, measured_s)
        self._lowest = np.where(slow, np.fmin(self._lowest, health.link_score), np.nan)
        returning = self._returning(now_s) & ~health.down
        shown = (health, returning.tobytes())
        if self._shown[0] is not health or self._shown[1] != shown[1]:
            self._shown, self._outlook = shown, self._expected(health, returning)
        return self._outlook

    def _note(self, changed: Bool, slow: Bool, now_s: float) -> None:
        """States of links that have ended. A link that was slow was so from when that was first seen until it
        was last seen at least, and until now at most: where traffic had left it nobody looked for a while. Of
        times of which the scale is unknown the geometric mean is in the middle."""
        most_s = self._until_s(now_s) - self._first_s
        least_s = np.minimum(np.maximum(self._last_s - self._first_s, self._options.interval_s), most_s)
        recovered, relapsed = changed & ~slow, changed & slow & ~np.isnan(self._slow_s)
        for rows, mean, value in (
            (recovered, self._slow_s, np.sqrt(least_s * most_s)),
            (recovered, self._mean_lowest, self._lowest),
            (relapsed, self._well_s, most_s),
        ):
            mean[rows] = np.where(np.isnan(mean[rows]), value[rows], (mean[rows] + value[rows]) / 2)
        self._first_s = np.where(changed, now_s, self._first_s)
        self._last_s = np.where(changed, now_s, self._last_s)
        self._slow = slow

    def _until_s(self, now_s: float) -> Float:
        """(n_links,): until when each may have been in its state. What is known of a slow link is in doubt
        since another one of its switch has recovered."""
        recovered_s = self._recovered_s[self._unit]
        return np.where(self._slow & (recovered_s > self._last_s), recovered_s, now_s)

    def _returning(self, now_s: float) -> Bool:
        """(n_links,): links that go on as they did. One that is well proves in a whole period that it stays
        so."""
        usual_s = self._slow_s + np.where(self._slow, 0.0, self._well_s)
        known = ~np.isnan(self._slow_s) & ~np.isnan(self._well_s)
        goes_on: Bool = known & (self._until_s(now_s) - self._first_s <= OUTLIVED * usual_s)
        return goes_on

    def _expected(self, health: HealthSnapshot, returning: Bool) -> Outlook:
        if not returning.any():
            return Outlook.steady(health)
        share = self._slow_s / (self._slow_s + self._well_s)
        mean = share * self._mean_lowest + (1 - share)
        slow = float(share[returning].mean())
        expected, worse, better = (
            rescored(
                self._fabric, health, np.where(returning, score, health.link_score), self._options.aggregate
            )
            for score in (mean, self._mean_lowest, 1.0)
        )
        return Outlook(expected, ((slow, worse), (1 - slow, better)))
