"""Links that come and go: what their recent past says of them, for the decision to leave or to return."""

import numpy as np

from railweave.framework.health.options import HealthOptions
from railweave.framework.health.outlook import OUTLIVED, Outlook
from railweave.framework.health.publishing import rescored, slow_links
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool, Float


class Relapses:
    """The episodes in which each link was slow: how long they last, how long the link is well in between, and
    how slow it is meanwhile.

    From the second onset on, a link is expected to go on as it did (`outlook`), until it has been slow, or
    well, for OUTLIVED times as long as before. So one that is slow a tenth of the time is kept, one that is
    slow most of the time is left and needs longer proof, and a fault that lasts is one. The latest episode
    counts half, the one before a quarter, and so on. Links that are down are no matter of this (outages.py).

    `doubted` (n_links,): links that come and go.
    """

    def __init__(self, fabric: Fabric, options: HealthOptions) -> None:
        n = fabric.n_links
        self._fabric, self._options = fabric, options
        self._slow = np.zeros(n, bool)
        self._first_s, self._last_s = np.zeros((2, n))
        """When the present state of each link began, as far as is known, and when it was last seen."""
        self._slow_s, self._well_s, self._lowest, self._mean_lowest = np.full((4, n), np.nan)
        own_unit = fabric.n_nodes + np.arange(n)
        self._unit = np.where(fabric.link_element >= 0, fabric.link_element, own_unit)
        self._recovered_s = np.full(fabric.n_nodes + n, -np.inf)
        """When a link of each switch last recovered; links of no switch stand for themselves, behind the
        nodes."""
        healthy = HealthSnapshot.healthy(fabric, margin=options.margin)
        self._shown, self._outlook = (healthy, b""), Outlook.steady(healthy)
        self.doubted = np.zeros(n, bool)
        self._calm: HealthSnapshot | None = None
        """The snapshot that said nothing new when it came again, while nothing has relapsed."""
        self._measured_s = np.full(n, -np.inf)
        """As it was last told with that snapshot."""

    def outlook(self, health: HealthSnapshot, measured_s: Float, now_s: float) -> Outlook:
        """What to expect after this snapshot; the same object while nothing changes. `measured_s` (n_links,):
        when the rate of each link was last measured."""
        if health is self._calm:
            self._measured_s = measured_s
            return self._outlook
        self._last_s = np.maximum(self._last_s, self._measured_s)
        level = np.fmin(self._lowest, self._mean_lowest)  # a score is of the state that it is nearer to
        slow = slow_links(health, self._options.step) & ~(health.link_score > (1 + level) / 2)
        changed = slow != self._slow
        if (changed & ~slow).any():
            at = np.unique(self._unit[changed & ~slow])
            self._recovered_s[at] = now_s
        if changed.any():
            self._note(changed, slow, now_s)
        self._last_s = np.maximum(self._last_s, measured_s)
        self._lowest = np.where(slow, np.fmin(self._lowest, health.link_score), np.nan)
        self.doubted = returning = self._returning(now_s) & ~health.down
        nothing_new = not changed.any() and np.isnan(self._well_s).all() and health is self._shown[0]
        self._calm = health if nothing_new else None
        shown = (health, returning.tobytes())
        if self._shown[0] is not health or self._shown[1] != shown[1]:
            self._shown, self._outlook = shown, self._expected(health, returning)
        return self._outlook

    def seen(self, links: Bool | slice, now_s: float) -> None:
        """These links are as they were."""
        self._last_s[links] = now_s

    def _note(self, changed: Bool, slow: Bool, now_s: float) -> None:
        """States of links that have ended. A link was slow until that was last seen at least, and until now
        at most: where traffic had left it, it was not measured for a while. What is usual stays so if it
        fits; of the first such time, whose scale is unknown, the geometric mean is in the middle."""
        most_s = self._until_s(now_s) - self._first_s
        least_s = np.minimum(np.maximum(self._last_s - self._first_s, self._options.interval_s), most_s)
        usual_s = np.where(np.isnan(self._slow_s), np.sqrt(least_s * most_s), self._slow_s)
        lasted_s = np.clip(usual_s, least_s, most_s)
        began_s = (np.maximum(self._last_s, self._first_s) + now_s) / 2
        recovered, relapsed = changed & ~slow, changed & slow & ~np.isnan(self._slow_s)
        for rows, mean, value in (
            (recovered, self._slow_s, lasted_s),
            (recovered, self._mean_lowest, self._lowest),
            (relapsed, self._well_s, began_s - self._first_s),
        ):
            mean[rows] = np.where(np.isnan(mean[rows]), value[rows], (mean[rows] + value[rows]) / 2)
        began_s = np.where(slow, began_s, self._first_s + lasted_s)
        self._first_s = np.where(changed, began_s, self._first_s)
        self._last_s = np.where(changed, now_s, self._last_s)
        self._slow = slow

    def _until_s(self, now_s: float) -> Float:
        """(n_links,): until when each may have been in its state, and one that is well was so. What is known
        of a slow link is in doubt since another one of its switch has recovered."""
        recovered_s = self._recovered_s[self._unit]
        slow_until_s = np.where(recovered_s > self._last_s, recovered_s, now_s)
        return np.where(self._slow, slow_until_s, self._last_s)

    def _returning(self, now_s: float) -> Bool:
        """(n_links,): links that go on as they did. One that is well proves in a whole period that it stays
        so."""
        if np.isnan(self._well_s).all():  # nothing has relapsed
            return np.zeros(len(self._slow), bool)
        slow_s, well_s, _lowest = self._past()
        usual_s = slow_s + np.where(self._slow, 0.0, well_s)
        goes_on: Bool = self._until_s(now_s) - self._first_s <= OUTLIVED * usual_s  # not where unknown
        return goes_on

    def _past(self) -> tuple[Float, Float, Float]:
        """(n_links,): for how long each is slow, for how long it is well, and how slow it is; NaN where that
        is unknown. Times are those of the link of its switch that is slow for the largest share: what feeds
        others is seen at once, what is fed as slowly as it serves is seen late and seldom. A slow link that
        was never seen slow before has the past of that link."""
        known_links = np.flatnonzero(~np.isnan(self._slow_s) & ~np.isnan(self._well_s))
        share = self._slow_s[known_links] / (self._slow_s[known_links] + self._well_s[known_links])
        shown = np.full(len(self._recovered_s), -1)  # of each switch, the link that shows most
        by_share = known_links[np.argsort(share, kind="stable")]
        shown[self._unit[by_share]] = by_share
        most_shown = shown[self._unit]
        has_past = self._slow & (most_shown >= 0)
        has_past[known_links] = True
        slow_s, well_s, lowest = (
            np.where(has_past, x[most_shown], np.nan) for x in (self._slow_s, self._well_s, self._mean_lowest)
        )
        lowest[known_links] = self._mean_lowest[known_links]
        return slow_s, well_s, lowest

    def _expected(self, health: HealthSnapshot, returning: Bool) -> Outlook:
        if not returning.any():
            return Outlook.steady(health)
        slow_s, well_s, lowest = self._past()
        share = slow_s / (slow_s + well_s)
        mean = share * lowest + (1 - share)
        slow = float(share[returning].max())
        expected, worse, better = (
            rescored(
                self._fabric, health, np.where(returning, score, health.link_score), self._options.aggregate
            )
            for score in (mean, lowest, 1.0)
        )
        return Outlook(expected, ((slow, worse), (1 - slow, better)))
