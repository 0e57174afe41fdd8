"""A route is left only for one better by a margin and after a dwell time; a broken one at once."""

from __future__ import annotations

from math import sqrt

import numpy as np

from railweave.framework.errors import RouteError
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.routing.batches import all_paths, join, pair_position, same_paths, take


def path_scores(fabric: Fabric, batch: PathBatch, health: HealthSnapshot) -> Float:
    """(Q,): the h-score of every path, 0..1; 0 if one of its links is down.

    The product of the scores of the distinct elements crossed (hscore.md's H(rd), H(dr), H(drd)) and of the
    scores of the links that belong to no element.
    """
    element = fabric.link_element[batch.links].astype(np.int64)
    of_element = element >= 0
    factor = np.where(of_element, health.element_score[element], health.link_score[batch.links])
    factor[health.down[batch.links]] = 0.0
    path = batch.hop_path
    order = np.argsort(path * (fabric.n_nodes + 1) + element, kind="stable")
    again = np.zeros(len(path), bool)
    again[order[1:]] = (np.diff(path[order]) == 0) & (np.diff(element[order]) == 0) & of_element[order[1:]]
    # An element's second link adds no factor of its own, except 0 where that very link is down.
    factor[again & (factor > 0)] = 1.0
    score = np.ones(len(batch.weight))
    np.multiply.at(score, path, factor)
    return score


def pair_scores(fabric: Fabric, batch: PathBatch, health: HealthSnapshot) -> Float:
    """(P,): the weighted mean over each pair's paths; 0 for a pair without one."""
    return np.bincount(
        batch.path_pair, path_scores(fabric, batch, health) * batch.weight, len(batch.src)
    ).astype(np.float64)


def broken_pairs(batch: PathBatch, health: HealthSnapshot) -> Bool:
    """(P,): whether a pair has a path over a link that is down, or no path."""
    broken: Bool = np.diff(batch.pair_start) == 0
    broken[batch.path_pair[batch.hop_path[health.down[batch.links]]]] = True
    return broken


def damped(
    fabric: Fabric,
    old: RouteTable,
    new: RouteTable,
    health: HealthSnapshot,
    changed_at: Float,
    now_s: float,
    margin: float,
    dwell_s: float,
) -> tuple[RouteTable, Bool]:
    """The table to use, and (n, n) [src, dst] which pairs leave their old paths in it.

    A pair takes its new paths if an old one is broken; else only if the new ones score at least `margin` times
    the old, or nearly as much (to the square root of `margin`) over fewer links, since a detour whose reason has
    gone only loads the rail it borrows; and it last changed `dwell_s` or longer ago. `changed_at`: (n, n) seconds [src, dst], -inf for
    never. The result carries the router and version of `new` and keeps all its paths in arrays.
    """
    n = new.n_gpus
    if not margin >= 1:
        raise RouteError(f"margin {margin}: it must be 1 or more, or routes would be left for worse ones.")
    if changed_at.shape != (n, n):
        raise RouteError(f"changed_at of shape {changed_at.shape}: it must be ({n}, {n}), [src, dst].")
    before, after = all_paths(old), all_paths(new)
    differ = ~same_paths(before, after)
    had, would = pair_scores(fabric, before, health), pair_scores(fabric, after, health)
    shorter = (mean_hops(after) < mean_hops(before) - EQUAL_WITHIN) & (np.diff(after.pair_start) > 0)
    better = (would >= margin * had - EQUAL_WITHIN) | (shorter & (would * sqrt(margin) >= had - EQUAL_WITHIN))
    rested = now_s - changed_at[before.src, before.dst] >= dwell_s
    change = differ & (broken_pairs(before, health) | (better & rested))
    # Where the links agree the new answer is taken all the same: its weights may differ.
    pick = np.arange(len(differ)) + np.where(change | ~differ, len(differ), 0)
    mask = np.zeros((n, n), bool)
    mask[before.src[change], before.dst[change]] = True
    return table_from_batch(new.router, new.version, n, take(join(before, after), pick)), mask


def mean_hops(batch: PathBatch) -> Float:
    """(P,): links per path, the weighted mean over each pair's paths; 0 for a pair without one."""
    hops = np.diff(batch.hop_start) * batch.weight
    return np.bincount(batch.path_pair, hops, len(batch.src)).astype(np.float64)


def diff(old: RouteTable, new: RouteTable) -> Bool:
    """(n, n) [src, dst]: the pairs whose paths differ, link by link; weights alone do not count."""
    before, after = all_paths(old), all_paths(new)
    mask = np.zeros((new.n_gpus, new.n_gpus), bool)
    differ = ~same_paths(before, after)
    mask[before.src[differ], before.dst[differ]] = True
    return mask


def table_from_batch(router: str, version: int, n_gpus: int, batch: PathBatch) -> RouteTable:
    """A table that looks its answers up in `batch`, one step per pair; RouteError for pairs not in it."""
    position = np.full(n_gpus * (n_gpus - 1), -1, np.int64)
    position[pair_position(n_gpus, batch.src, batch.dst)] = np.arange(len(batch.src))

    def resolve(src: Int64, dst: Int64) -> PathBatch:
        where = position[pair_position(n_gpus, src, dst)]
        unknown = np.flatnonzero(where < 0)
        if unknown.size:
            i = int(unknown[0])
            raise RouteError(f"router {router}: its table does not hold the pair {src[i]} -> {dst[i]}.")
        return take(batch, where)

    return RouteTable(router, version, n_gpus, resolve)
