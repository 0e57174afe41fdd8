"""A route is left only for one better by a margin and after a dwell time; a broken one at once."""

from math import sqrt

import numpy as np

from railweave.framework.model import Fabric, HealthSnapshot, PathBatch
from railweave.framework.model.arrays import Bool, Float
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.routing.batches import replaced, same_paths, take


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
    first, which = np.unique(key, return_inverse=True)
    lowest = np.ones(len(first))
    np.minimum.at(lowest, which, factor)
    result = np.ones(len(batch.weight))
    np.multiply.at(result, first // (fabric.n_nodes + len(element) + 1), lowest)
    return result


def pair_scores(fabric: Fabric, batch: PathBatch, health: HealthSnapshot) -> Float:
    """(P,): the weighted mean over each pair's paths; 0 for a pair without one."""
    return np.bincount(
        batch.path_pair, path_scores(fabric, batch, health) * batch.weight, len(batch.src)
    ).astype(np.float64)


def broken_pairs(batch: PathBatch, health: HealthSnapshot) -> Bool:
    """(P,): whether a pair has a path over a link that is down, or no path."""
    broken = lacks(batch)
    broken[batch.path_pair[batch.hop_path[health.down[batch.links]]]] = True
    return broken


def lacks(batch: PathBatch) -> Bool:
    """(P,): whether a pair has no path."""
    none: Bool = np.diff(batch.pair_start) == 0
    return none


def uneven(batch: PathBatch) -> bool:
    """Whether any pair gives its paths different shares."""
    shares = batch.weight * np.diff(batch.pair_start)[batch.path_pair]
    return bool((np.abs(shares - 1) > EQUAL_WITHIN).any())


def damped(
    fabric: Fabric,
    old: PathBatch,
    new: PathBatch,
    health: HealthSnapshot,
    changed_at: Float,
    now_s: float,
    margin: float,
    dwell_s: float,
) -> tuple[PathBatch, Bool]:
    """The paths to use, and (P,) which pairs leave their old paths for them. `old`, `new`: of the same pairs.

    A pair takes its new paths if an old one is broken; else only if the new ones score at least `margin`
    times the old, or nearly as much (to the square root of `margin`) over fewer links, since a detour whose
    reason has gone only loads the rail it borrows; and it last changed `dwell_s` or longer ago. `changed_at`:
    (P,) seconds, -inf for never, or because a path was broken. Pairs whose links agree take the new answer,
    whose weights may differ.
    """
    moved = np.zeros(len(new.src), bool)
    different = np.flatnonzero(~same_paths(old, new))
    if not different.size:
        return new, moved
    before, after = take(old, different), take(new, different)
    had, would = pair_scores(fabric, before, health), pair_scores(fabric, after, health)
    shorter = (mean_hops(after) < mean_hops(before) - EQUAL_WITHIN) & (np.diff(after.pair_start) > 0)
    better = (would >= margin * had - EQUAL_WITHIN) | (shorter & (would * sqrt(margin) >= had - EQUAL_WITHIN))
    rested = now_s - changed_at[different] >= dwell_s
    leaves = broken_pairs(before, health) | (better & rested)
    moved[different[leaves]] = True
    return replaced(new, different[~leaves], take(before, np.flatnonzero(~leaves))), moved


def mean_hops(batch: PathBatch) -> Float:
    """(P,): links per path, the weighted mean over each pair's paths; 0 for a pair without one."""
    hops = np.diff(batch.hop_start) * batch.weight
    return np.bincount(batch.path_pair, hops, len(batch.src)).astype(np.float64)
