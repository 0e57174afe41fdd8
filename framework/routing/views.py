"""Snapshots in which slow links are down, for routers that know links as up or down alone, and for all others
whether a link had better be left as if it were cut."""

from dataclasses import replace

import numpy as np

from railweave.framework.health.options import Aggregate
from railweave.framework.health.publishing import aggregate
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool
from railweave.framework.model.health import EQUAL_WITHIN, rails_by_score

HALF = 0.5


def slow_links(health: HealthSnapshot, step: float) -> Bool:
    """(n_links,): links that are up and score two steps of publishing or more below 1; one may be noise."""
    most = 1 - min(2 * step, 0.2)
    slow: Bool = ~health.down & (health.link_score <= most + EQUAL_WITHIN)
    return slow


def views(fabric: Fabric, health: HealthSnapshot, step: float, how: Aggregate) -> list[HealthSnapshot]:
    """The snapshot with its slowest links down, with those below half their rate, and with all slow ones,
    each as links and as cables, in both directions; as many of these as differ, none where no link is
    slow."""
    slow = slow_links(health, step)
    if not slow.any():
        return []
    worst = health.link_score <= health.link_score[slow].min() + 2 * step
    chosen: list[Bool] = []
    both = np.arange(fabric.n_links) ^ 1
    for links in (slow & worst, slow & (health.link_score <= HALF), slow):
        for down in (links, (links | links[both]) & ~health.down):
            if down.any() and not any(np.array_equal(down, other) for other in chosen):
                chosen.append(down)
    return [cut(fabric, health, links, how) for links in chosen]


def cut(fabric: Fabric, health: HealthSnapshot, links: Bool, how: Aggregate) -> HealthSnapshot:
    """The snapshot as it would be if these links (n_links,) were down."""
    score = np.where(links, 0.0, health.link_score)
    touched = np.unique(fabric.link_element[links & (fabric.link_element >= 0)])
    element = health.element_score.copy()
    element[touched] = aggregate(fabric, score, how)[touched]
    return replace(
        health,
        link_score=score,
        element_score=element,
        down=health.down | links,
        rail_order=rails_by_score(fabric, element),
    )
