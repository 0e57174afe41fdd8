"""Which GPU of a rail fabric holds which part of a training job."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.llm.strategies import divisors
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Int64, readonly

SERVES = ("rail-only", "rail-optimised")


@dataclass(frozen=True)
class Placement:
    """Degrees on the fabric, and `gpu` (d, p, t): the GPU of each (data, pipeline, tensor) rank.

    The t ranks of a tensor group are one behind the other in an HB domain. Neighbours in a pipeline, and ranks of
    a data-parallel group that exchange anything, are in one domain or on one rail. `dh` of d and `ph` of p are
    inside a domain.
    """

    t: int
    p: int
    d: int
    ph: int
    dh: int
    gpu: Int64


def place(fabric: Fabric, t: int, p: int, d: int, v: int = 1) -> Placement:
    """Put t p d ranks on the fabric's GPUs, one each.

    A domain of more than t GPUs takes several data-parallel ranks before several stages. Stages go to and fro
    through the domains, so that a stage's neighbour is on its rail; with v > 1 the last also sends to the first.

    Raises UnsupportedFabricError without domains and rails, ExperimentError when the degrees do not fit.
    """
    domains, rails = shape_of(fabric)
    if t * p * d != fabric.n_gpus:
        raise ExperimentError(
            f"tensor {t} x pipeline {p} x data {d} is {t * p * d} ranks for {fabric.n_gpus} GPUs; they must agree."
        )
    if rails % t:
        raise ExperimentError(
            f"tensor parallelism {t} stays inside an HB domain, but {t} does not divide its {rails} GPUs. Choose a "
            f"divisor of {rails}, or other `--rails`."
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
            f"pipeline {p} and data {d} do not fill the {groups} tensor groups of an HB domain so that neighbours "
            f"share a domain or a rail. Choose tensor parallelism {rails}, or degrees that {groups} divides."
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

    t' is the largest divisor of a domain that is not above t; p' and d' stay above 1 if they can, and keep the
    proportion of p and d best. Degrees that fit stay as they are. Raises ExperimentError where nothing fits.
    """
    _, rails = shape_of(fabric)
    for name, degree in (("tp", t), ("pp", p), ("dp", d)):
        if degree < 1:
            raise ExperimentError(f"{name} {degree}: a degree of parallelism is 1 or more.")
    if t * p * d == fabric.n_gpus:
        return t, p, d
    if t * p * d < fabric.n_gpus:
        raise ExperimentError(
            f"tensor {t} x pipeline {p} x data {d} is {t * p * d} ranks, but the fabric has {fabric.n_gpus} GPUs. Raise "
            "dp, or make the fabric smaller."
        )
    small = max(x for x in divisors(rails) if x <= t)
    rest = fabric.n_gpus // small
    pairs = [(x, rest // x) for x in divisors(rest) if x <= p and rest // x <= d]
    if not pairs:
        raise ExperimentError(
            f"pipeline {p} x data {d} cannot be made smaller to {rest} groups of {small} GPUs. Raise pp or dp, or change "
            "the fabric."
        )

    def unlike(pair: tuple[int, int]) -> tuple[int, float, int]:
        alone = (pair[0] == 1 < p) + (pair[1] == 1 < d)
        return alone, abs(log(pair[0] / p) - log(pair[1] / d)), -pair[0]

    pipeline, data = min(pairs, key=unlike)
    return small, pipeline, data


def shape_of(fabric: Fabric) -> tuple[int, int]:
    """(domains, rails); UnsupportedFabricError for a fabric without them."""
    if fabric.kind not in SERVES:
        raise UnsupportedFabricError(
            f"a training job is placed on domains and rails ({', '.join(SERVES)}), not on {fabric.kind}."
        )
    domains, rails = fabric.groups[0].shape
    return domains, rails
