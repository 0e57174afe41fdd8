"""A route is left only for one better by a margin and after a dwell time; a broken one at once."""

from math import sqrt

import numpy as np

from railweave.framework.model import Fabric, HealthSnapshot, PathBatch
from railweave.framework.model.arrays import Bool, Float
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.routing.batches import take


def path_scores(fabric: Fabric, batch: PathBatch, health: HealthSnapshot) -> Float:
    """(Q,): the h-score of every path, 0..1; 0 if one of its links is down.

    The product over the distinct elements crossed of what the path gets of each, which is the lower of the
    element's score and those of the path's own links there (the source's H(rd), H(dr), H(drd), by interface),
    and of the scores of the links that belong to no element.
    """
    element = fabric.link_element[batch.links].astype(np.int64)
    of_element, score = element >= 0, health.link_score[batch.links]
    factor = np.where(of_element, np.minimum(health.element_score[element], score), score)
    factor[health.down[batch.links]] = 0.0
    hops, path = np.arange(len(element)), batch.hop_path
    # links of one element on one path are one factor; one of no element stands for itself
    key = path * (fabric.n_nodes + len(element) + 1) + np.where(of_element, element, fabric.n_nodes + hops)
    order = np.argsort(key, kind="stable")  # they are nearly in order
    first = np.flatnonzero(key[order[1:]] != key[order[:-1]]) + 1
    result = np.ones(len(batch.weight))
    if hops.size:
        first = np.append(0, first)
        np.multiply.at(result, path[order[first]], np.minimum.reduceat(factor[order], first))
    return result


def pair_scores(fabric: Fabric, batch: PathBatch, health: HealthSnapshot) -> Float:
    """(P,): the weighted mean over each pair's paths; 0 for a pair without one."""
    return np.bincount(
        batch.path_pair, path_scores(fabric, batch, health) * batch.weight, len(batch.src)
    ).astype(np.float64)


def broken_pairs(batch: PathBatch, health: HealthSnapshot) -> Bool:
    """(P,): whether a pair has a path over a link that is down, or no path."""
    broken = lacks(batch)
    if (hops := np.flatnonzero(health.down[batch.links])).size:
        paths = np.searchsorted(batch.hop_start, hops, side="right") - 1
        broken[np.searchsorted(batch.pair_start, paths, side="right") - 1] = True
    return broken


def lacks(batch: PathBatch) -> Bool:
    """(P,): whether a pair has no path."""
    none: Bool = np.diff(batch.pair_start) == 0
    return none


def uneven(batch: PathBatch) -> bool:
    """Whether any pair gives its paths different shares."""
    shares = batch.weight * np.diff(batch.pair_start)[batch.path_pair]
    return bool((np.abs(shares - 1) > EQUAL_WITHIN).any())


def leaving(
    fabric: Fabric,
    old: PathBatch,
    new: PathBatch,
    differs: Bool,
    health: HealthSnapshot,
    rested: Bool,
    margin: float,
) -> Bool:
    """(P,): which pairs leave their old paths for the new ones. `old`, `new`: of the same pairs; `differs`
    (P,): pairs whose paths are not the same; `rested` (P,): pairs that may leave whole paths.

    A pair takes its new paths if an old one is broken; else only if the new ones score at least `margin`
    times the old, or nearly as much (to the square root of `margin`) over fewer links, since a detour whose
    reason has gone only loads the rail it borrows; and it has `rested`.
    """
    moved = np.zeros(len(new.src), bool)
    different = np.flatnonzero(differs)
    if not different.size:
        return moved
    before, after = take(old, different), take(new, different)
    had, would = pair_scores(fabric, before, health), pair_scores(fabric, after, health)
    shorter = (mean_hops(after) < mean_hops(before) - EQUAL_WITHIN) & (np.diff(after.pair_start) > 0)
    better = (would >= margin * had - EQUAL_WITHIN) | (shorter & (would * sqrt(margin) >= had - EQUAL_WITHIN))
    leaves = broken_pairs(before, health) | (better & rested[different])
    moved[different[leaves]] = True
    return moved


def mean_hops(batch: PathBatch) -> Float:
    """(P,): links per path, the weighted mean over each pair's paths; 0 for a pair without one."""
    hops = np.diff(batch.hop_start) * batch.weight
    return np.bincount(batch.path_pair, hops, len(batch.src)).astype(np.float64)
