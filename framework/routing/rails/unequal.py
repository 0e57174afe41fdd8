"""Rail fabrics with domains of unequal size: GPUs by their places in the grid of domains and rails, and paths
for pairs that none of the kinds joins."""

from dataclasses import replace

import numpy as np

from railweave.framework.model import Fabric, HealthSnapshot, PathBatch
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.model.routes import Resolve
from railweave.framework.routing.batches import replaced
from railweave.framework.routing.damping import path_scores
from railweave.framework.routing.rails.links import RailLinks
from railweave.framework.routing.rails.scores import Scores, is_full
from railweave.framework.routing.search import Search

LONGER = "no d-, r-, rd-, dr-, drd- or rdr-path lives: the shortest path that is left"
"""Why a pair takes the path that `for_gpus` adds."""


def places_of(fabric: Fabric, gpus: Int64) -> Int64:
    """(P,): the places of these GPUs: domain x rails + rail."""
    if is_full(fabric):
        return gpus
    rails = fabric.group("rail")
    assert rails is not None, "required of fabrics that are routed by rails"
    places: Int64 = fabric.gpu_coordinates.astype(np.int64) @ (rails.size, 1)
    return places[gpus]


def for_gpus(fabric: Fabric, scores: Scores, resolve: Resolve) -> Resolve:
    """What `resolve` decides for pairs of places, by GPU; the shortest path for pairs that it gives none.

    Domains that share no rail, and damage where few GPUs are on one, leave pairs without a path over three
    switches; a full grid has one around any single failure.
    """
    if is_full(fabric):
        return resolve
    search = Search(fabric, scores.dead[:-1])

    def completed(src: Int64, dst: Int64) -> PathBatch:
        batch = replace(resolve(places_of(fabric, src), places_of(fabric, dst)), src=src, dst=dst)
        none = np.flatnonzero(np.diff(batch.pair_start) == 0)
        return replaced(batch, none, search.paths(src[none], dst[none]))

    return completed


def longer_score(fabric: Fabric, health: HealthSnapshot, scores: Scores, src: int, dst: int) -> float:
    """The score of the path that `for_gpus` gives a pair without another one; 0 where it gives none."""
    if is_full(fabric) or src == dst:
        return 0.0
    path = Search(fabric, scores.dead[:-1]).paths(np.array([src]), np.array([dst]))
    return float(path_scores(fabric, path, health).sum())


def rails_of_both(fabric: Fabric, links: RailLinks, src: int, dst: int) -> Bool:
    """(K,): on which rails both domains of a pair of places have a GPU."""
    has_gpu = links.r_up.reshape(-1, links.rails) < fabric.n_links
    shared: Bool = has_gpu[src // links.rails] & has_gpu[dst // links.rails]
    return shared
