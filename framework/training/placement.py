"""Which GPU of a rail fabric holds which part of a training job."""

from dataclasses import dataclass
from math import log

import numpy as np

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Int64, readonly
from railweave.framework.training.strategies import divisors

REQUIRES = ("domains", "rails", "lattice")
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


def place(fabric: Fabric, t: int, p: int, d: int, v: int = 1) -> Placement:
    """Put t p d ranks on the fabric's GPUs, one each.

    A domain of more than t GPUs takes several data-parallel ranks before several stages. Stages run back and
    forth through the domains, so a stage's neighbour is on its rail; with v > 1 the last stage also sends to
    the first.

    Raises UnsupportedFabricError without domains and rails, ExperimentError when the degrees do not fit.
    """
    domains, rails = shape_of(fabric)
    if t * p * d != fabric.n_gpus:
        raise ExperimentError(
            f"tensor {t} x pipeline {p} x data {d} is {t * p * d} ranks for {fabric.n_gpus} GPUs; they must "
            "agree."
        )
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
    gpu = np.empty((domains, rails), np.int64)
    where = fabric.gpu_coordinates
    gpu[where[:, 0], where[:, 1]] = np.arange(fabric.n_gpus)
    return Placement(t, p, d, ph, dh, readonly(gpu[domain, rail], np.int64))


def scaled_degrees(fabric: Fabric, t: int, p: int, d: int) -> tuple[int, int, int]:
    """Degrees for a fabric that has fewer GPUs than the job: none larger than before, t' p' d' = N.

    t' is the largest divisor of a domain that does not exceed t; p' and d' stay above 1 if possible, and as
    close to the ratio of p and d as possible. Degrees that fit are kept. Raises ExperimentError where nothing
    fits.
    """
    _, rails = shape_of(fabric)
    for name, degree in (("tp", t), ("pp", p), ("dp", d)):
        if degree < 1:
            raise ExperimentError(f"{name} {degree}: a degree of parallelism is 1 or more.")
    if t * p * d == fabric.n_gpus:
        return t, p, d
    if t * p * d < fabric.n_gpus:
        raise ExperimentError(
            f"tensor {t} x pipeline {p} x data {d} is {t * p * d} ranks, but the fabric has {fabric.n_gpus} "
            "GPUs. Raise dp, or make the fabric smaller."
        )
    small = max(x for x in divisors(rails) if x <= t)
    rest = fabric.n_gpus // small
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


def shape_of(fabric: Fabric) -> tuple[int, int]:
    """(domains, rails); UnsupportedFabricError for a fabric without them."""
    if not fabric.capabilities.issuperset(REQUIRES) or len(fabric.groups[0].shape) != 2:
        raise UnsupportedFabricError(
            f"a training job needs a fabric with {', '.join(REQUIRES)}; {fabric.kind} lacks some of them."
        )
    domains, rails = fabric.groups[0].shape
    return domains, rails
