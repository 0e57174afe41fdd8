"""Raw scores to published ones: steps, hysteresis, aggregation to switches, and a version per change."""

from dataclasses import replace

import numpy as np

from railweave.framework.health.loss import speed_at_loss
from railweave.framework.health.options import Aggregate, HealthOptions
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool, Float
from railweave.framework.model.health import EQUAL_WITHIN, rails_by_score

FINE_BELOW, FINER = 0.8, 5
"""Scores below this move in steps finer by this factor."""


def publish(
    fabric: Fabric,
    previous: HealthSnapshot,
    raw: Float,
    up: Bool,
    unknown: Bool | None = None,
    *,
    loss: Float | None = None,
    t_s: float,
    options: HealthOptions,
) -> HealthSnapshot | None:
    """The next snapshot, or None if no published score changes. Pure.

    raw: (n_links,) scores of an estimator; values outside 0..1 are clipped to it. up: (n_links,). A link that
    is not up, and one that scores 0 since nothing passes it, is down at once; all other scores follow the
    rule of `settle`. unknown: (n_links,), the links that do not count for the score of their switch. loss:
    (n_links,); the scores contain what it costs.
    """
    raw = np.where(up, np.clip(raw, 0.0, 1.0), 0.0)
    down = raw == 0
    links = settle(previous.link_score, raw, options.step)
    counted = None if unknown is None else ~(unknown & up)
    # From the raw scores: rounding links first would let many small steps add up in their switch.
    elements = settle(
        previous.element_score, aggregate(fabric, raw, options.aggregate, counted), options.step
    )
    if (
        np.array_equal(links, previous.link_score)
        and np.array_equal(elements, previous.element_score)
        and np.array_equal(down, previous.down)
        and options.margin == previous.margin
    ):
        return None
    order = rails_by_score(fabric, elements)
    lost = np.empty(0) if loss is None or not loss.any() else loss
    return HealthSnapshot(previous.version + 1, t_s, links, elements, down, order, options.margin, lost)


def settle(published: Float, raw: Float, step: float) -> Float:
    """What to publish for each score: the old value until the raw one is a step or more away from it.

    New values are the nearest multiple of `step`, below FINE_BELOW of a fifth of it: what is slow falls
    packet by packet, and its element must not stand at 0.5 while the links' mean is 0.46. "A step or more",
    not "more than a step": from 0.95 a link could not come back to 1 otherwise. 0 means down and is exact: a
    positive score is never rounded down to it, and a change from or to 0 is published at once.
    """
    steps = steps_of(raw, step)
    nearest = np.round(np.round(raw / steps) * steps, 12)
    nearest = np.where(raw > 0, np.clip(nearest, steps, 1.0), 0.0)
    moved = (np.abs(raw - published) >= steps - EQUAL_WITHIN) | ((raw > 0) != (published > 0))
    return np.where(moved, nearest, published)


def steps_of(scores: Float, step: float) -> Float:
    """In which steps such scores are published."""
    return np.where(scores < FINE_BELOW, step / FINER, step)


def slow_links(health: HealthSnapshot, step: float) -> Bool:
    """(n_links,): links that are up and score two steps of publishing or more below 1, since one may be
    noise, or one by what they lose: that is counted."""
    most = 1 - min(2 * step, 1 - FINE_BELOW)
    slow: Bool = health.link_score <= most + EQUAL_WITHIN
    if len(health.loss):
        slow |= speed_at_loss(health.loss) <= 1 - step + EQUAL_WITHIN
    return slow & ~health.down


def rescored(fabric: Fabric, health: HealthSnapshot, link_score: Float, how: Aggregate) -> HealthSnapshot:
    """The snapshot with other scores of links (n_links,), and those of their switches; a link of score 0 is
    down, and one of another score than before loses nothing."""
    changed = (link_score != health.link_score) & (fabric.link_element >= 0)
    touched, element = np.unique(fabric.link_element[changed]), health.element_score.copy()
    element[touched] = aggregate(fabric, link_score, how)[touched]
    return replace(
        health,
        link_score=link_score,
        element_score=element,
        down=health.down | (link_score == 0),
        rail_order=rails_by_score(fabric, element),
        loss=np.where(link_score == health.link_score, health.loss, 0.0) if len(health.loss) else health.loss,
    )


def aggregate(fabric: Fabric, link_score: Float, how: Aggregate, counted: Bool | None = None) -> Float:
    """(n_nodes,): the score of every switch from its links' scores, of those `counted` (n_links,; all by
    default); 1 for nodes that have none.

    `mean` weighs by capacity, `min` takes the worst link. A link that is down counts with its 0.
    """
    has_element = fabric.link_element >= 0
    links = np.flatnonzero(has_element if counted is None else has_element & counted)
    element, scores = fabric.link_element[links], link_score[links]
    result = np.ones(fabric.n_nodes)
    if how == "min":
        np.minimum.at(result, element, scores)
        return result
    capacity = fabric.capacity_bps[links]
    weight = np.bincount(element, capacity, fabric.n_nodes)
    total = np.bincount(element, capacity * scores, fabric.n_nodes)
    np.divide(total, weight, out=result, where=weight > 0)
    return np.minimum(result, 1.0)  # a sum of equal shares can end a bit above 1
