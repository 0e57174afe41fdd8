"""Which GPU of a rail fabric holds which part of a training job."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Int64, readonly
from railweave.framework.papers.training.strategies import divisors

REQUIRES = ("domains", "lattice")
"""Capabilities of a fabric on which a job can be placed (model/capabilities.py)."""


@dataclass(frozen=True)
class Placement:
    """Degrees on the fabric, and `gpu` (d, p, t): the GPU of each (data, pipeline, tensor) rank.

    The t ranks of a tensor group are adjacent in an HB domain. Neighbours in a pipeline, and ranks of a
    data-parallel group that exchange data, share a domain or a rail. `dh` of d and `ph` of p are inside a
    domain.
    """

    t: int
    p: int
    d: int
    ph: int
    dh: int
    gpu: Int64


def place(fabric: Fabric, t: int, p: int, d: int, v: int = 1, gpus: Sequence[int] | None = None) -> Placement:
    """Put t p d ranks on the fabric's GPUs, one each; or on `gpus`, all of some domains on some rails, which
    then count by their places in `gpus`.

    A domain of more than t GPUs takes several data-parallel ranks before several stages. Stages run back and
    forth through the domains, so a stage's neighbour is on its rail; with v > 1 the last stage also sends to
    the first.

    Raises UnsupportedFabricError without domains and rails, ExperimentError when the degrees do not fit.
    """
    grid = grid_of(fabric, gpus)
    rails = grid.shape[1]
    if rails % t:
        raise ExperimentError(
            f"tensor parallelism {t} stays inside an HB domain, but {t} does not divide its {rails} GPUs. "
            f"Choose a divisor of {rails}, or other `--rails`."
        )
    groups = rails // t
    for ph in divisors(groups):
        dh = groups // ph
        if p % ph or d % dh:
            continue
        if v == 1 or ph == 1 or p == ph or (p // ph) % 2 == 0:
            break
    else:
        raise ExperimentError(
            f"pipeline {p} and data {d} do not fill the {groups} tensor groups of an HB domain so that "
            f"neighbours share a domain or a rail. Choose tensor parallelism {rails}, or degrees that "
            f"{groups} divides."
        )
    stage, data, tensor = np.arange(p)[None, :, None], np.arange(d)[:, None, None], np.arange(t)
    inner, outer = stage % ph, stage // ph
    inner = np.where(outer % 2, ph - 1 - inner, inner)
    rail = tensor + t * (inner + ph * (data % dh))
    domain = outer + (p // ph) * (data // dh)
    return Placement(t, p, d, ph, dh, readonly(grid[domain, rail], np.int64))


def scaled_degrees(
    fabric: Fabric, t: int, p: int, d: int, gpus: Sequence[int] | None = None
) -> tuple[int, int, int]:
    """Degrees for fewer GPUs than the job has, N of the fabric or `gpus`: none larger than before, t' p' d' =
    N.

    t' is the largest divisor of a domain that does not exceed t; p' and d' stay above 1 if possible, and as
    close to the ratio of p and d as possible. Degrees that fit are kept. Raises ExperimentError where nothing
    fits.
    """
    grid = grid_of(fabric, gpus)
    rails, n_gpus = grid.shape[1], grid.size
    if t * p * d == n_gpus:
        return t, p, d
    if t * p * d < n_gpus:
        raise ExperimentError(
            f"tensor {t} x pipeline {p} x data {d} is {t * p * d} ranks, but there are {n_gpus} GPUs. Raise "
            "dp, or take fewer GPUs."
        )
    small = max(x for x in divisors(rails) if x <= t)
    rest = n_gpus // small
    pairs = [(x, rest // x) for x in divisors(rest) if x <= p and rest // x <= d]
    if not pairs:
        raise ExperimentError(
            f"pipeline {p} x data {d} cannot be reduced to {rest} groups of {small} GPUs. Raise pp or dp, or "
            "change the fabric."
        )

    def distance(pair: tuple[int, int]) -> tuple[int, float, int]:
        alone = (pair[0] == 1 < p) + (pair[1] == 1 < d)
        return alone, abs(log(pair[0] / p) - log(pair[1] / d)), -pair[0]

    pipeline, data = min(pairs, key=distance)
    return small, pipeline, data


def grid_of(fabric: Fabric, gpus: Sequence[int] | None) -> Int64:
    """(domains, rails): the GPU at each place, by its number, or by its place in `gpus`, which must be all of
    some domains on some rails. Raises ExperimentError, and UnsupportedFabricError for a fabric without
    domains and rails."""
    if not fabric.capabilities.issuperset(REQUIRES) or len(fabric.groups[0].shape) != 2:
        raise UnsupportedFabricError(
            f"a training job needs a fabric with {', '.join(REQUIRES)}; {fabric.kind} lacks some of them."
        )
    chosen = np.arange(fabric.n_gpus) if gpus is None else np.asarray(gpus)
    where = fabric.gpu_coordinates[chosen]
    (domains, row), (rails, column) = (np.unique(where[:, axis], return_inverse=True) for axis in (0, 1))
    grid = np.full((len(domains), len(rails)), -1, np.int64)
    grid[row, column] = np.arange(len(chosen))
    if np.any(grid < 0):
        d, k = np.argwhere(grid < 0)[0]
        raise ExperimentError(
            f"a training job fills all rails that it uses in every one of its domains; domain {domains[d]} "
            f"lacks rail {rails[k]}. Add that GPU, or leave the others of its rail or domain out."
        )
    return grid
