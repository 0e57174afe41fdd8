"""Snapshots in which slow links are down, for routers that know links as up or down alone, and for all others
whether a link had better be left as if it were cut."""

import numpy as np

from railweave.framework.health.options import Aggregate
from railweave.framework.health.publishing import rescored, slow_links
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool

HALF = 0.5
"""Links of this score or less are cut together, besides the slowest and all slow ones."""


def views(fabric: Fabric, health: HealthSnapshot, step: float, how: Aggregate) -> list[HealthSnapshot]:
    """The snapshot with its slowest links down, with those below half their rate, and with all slow ones,
    each as links and as cables, in both directions, and with cables down of which one direction is; as many
    of these as differ."""
    slow, reverse = slow_links(health, step), np.arange(fabric.n_links) ^ 1
    worst = health.link_score <= health.link_score[slow].min(initial=1.0) + 2 * step
    chosen: list[Bool] = []
    for links in (slow & worst, slow & (health.link_score <= HALF), slow, health.down):
        for down in (links & ~health.down, (links | links[reverse]) & ~health.down):
            if down.any() and not any(np.array_equal(down, other) for other in chosen):
                chosen.append(down)
    return [rescored(fabric, health, np.where(links, 0.0, health.link_score), how) for links in chosen]
