"""Snapshots in which slow links are down, for routers that know links as up or down alone, and for all others
whether a link had better be left as if it were cut."""

from collections.abc import Iterator, Sequence

import numpy as np

from railweave.framework.health.options import Aggregate
from railweave.framework.health.publishing import rescored, slow_links, steps_of
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool, Float
from railweave.framework.model.health import EQUAL_WITHIN


def answered(fabric: Fabric, health: HealthSnapshot, how: Aggregate) -> HealthSnapshot:
    """The snapshot with cables down in both directions that are in one: no acknowledgement comes back over
    the path of a packet, so its sender stands still once its window is full, and fails."""
    silent = health.down[np.arange(fabric.n_links) ^ 1] & ~health.down
    return rescored(fabric, health, np.where(silent, 0.0, health.link_score), how) if silent.any() else health


def views(
    fabric: Fabric, health: HealthSnapshot, step: float, how: Aggregate, busy_s: Sequence[Float]
) -> list[HealthSnapshot]:
    """The snapshot with slow links down: what holds a demand up longest, twice as much, four times and so on,
    and all; each as links and as cables, in both directions; as many of these as differ. `busy_s`: for how
    long each link (n_links,) would be busy with the demand at its full rate, in every arrangement that
    matters; none where no demand crosses such a link.
    """
    slow, reverse = slow_links(health, step), np.arange(fabric.n_links) ^ 1
    busy_s = [of_one for of_one in busy_s if of_one[slow].any()]
    if not busy_s:
        return []
    sets = [links for of_one in busy_s for links in _tightest(fabric, health.link_score, slow, step, of_one)]
    chosen: list[Bool] = []
    for links in (*sets, slow):
        for down in (links & ~health.down, (links | links[reverse]) & ~health.down):
            if down.any() and not any(np.array_equal(down, other) for other in chosen):
                chosen.append(down)
    return [rescored(fabric, health, np.where(links, 0.0, health.link_score), how) for links in chosen]


def _tightest(fabric: Fabric, score: Float, slow: Bool, step: float, busy_s: Float) -> Iterator[Bool]:
    """(n_links,) each: the 1, 2, 4 ... groups of `slow` links that a demand takes longest for, but not all of
    them. A group is what of a switch, or else of a cable, may be equally slow, as scores are off by a step;
    groups that are equal count as one."""
    links = np.flatnonzero(slow & (busy_s > 0))
    element = fabric.link_element[links].astype(np.int64)
    owner = np.where(element >= 0, element, fabric.n_nodes + links // 2)
    links = links[order := np.lexsort((-busy_s[links] / score[links], owner))]
    owner, score, busy_s = owner[order], score[links], busy_s[links]
    off_by = steps_of(score, step)
    latest_s, soonest_s = busy_s / np.maximum(score - off_by, EQUAL_WITHIN), busy_s / (score + off_by)
    first = np.append(True, (owner[1:] != owner[:-1]) | (latest_s[1:] < soonest_s[:-1]))[: len(links)]
    takes_s = (busy_s / score)[first]
    ranks, rank = np.unique(-np.round(takes_s / takes_s.max(initial=0.0), 9), return_inverse=True)
    of_link, most = rank[np.cumsum(first) - 1], 1
    while most < len(ranks):
        among = np.zeros(len(slow), bool)
        among[links[of_link < most]] = True
        yield among
        most *= 2
