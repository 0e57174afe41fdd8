"""The fastest ways to train a model on a cluster, of all that the constraints allow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.llm.clusters import Cluster
from railweave.framework.llm.iteration import Calibration, IterationTime, at, times
from railweave.framework.llm.memory import STATE_BYTES, memory_bytes
from railweave.framework.llm.models import LanguageModel
from railweave.framework.llm.strategies import Candidates, Given, Strategy, candidates
from railweave.framework.model.arrays import Float, Int64

DIGITS = 12
"""Times that agree in so many digits are equal, whatever the order of their sums."""


@dataclass(frozen=True, slots=True)
class Found:
    """One strategy with its time and its memory per GPU."""

    strategy: Strategy
    time: IterationTime
    memory_bytes: float


@dataclass(frozen=True)
class Search:
    """The best strategies, fastest first, of `tried` that divide the job, of which `fitting` fit into memory."""

    best: tuple[Found, ...]
    tried: int
    fitting: int


def search(
    model: LanguageModel,
    cluster: Cluster,
    batch: int,
    *,
    given: Given | None = None,
    calibration: Calibration | None = None,
    state_bytes: float = STATE_BYTES,
    most: int = 1,
) -> Search:
    """Try everything that constraints 11 to 19 allow and keep the `most` strategies of least T_iter.

    Equal times: smallest t, then p, then b, then v, then the largest share inside the domain (th, ph, dh).
    Raises ExperimentError when nothing divides the job, or nothing fits.
    """
    chosen = candidates(model, cluster, batch, given or Given())
    taken = memory_bytes(model, chosen, state_bytes).total
    found = times(model, cluster, batch, chosen, calibration or Calibration())
    fits = np.flatnonzero(taken <= cluster.memory_limit_bytes)
    if not fits.size:
        least = int(taken.argmin())
        raise ExperimentError(
            f"{model.name} does not fit on {cluster.gpus} GPUs of {cluster.memory_limit_bytes / 1e9:.4g} GB: the "
            f"leanest of {len(chosen)} strategies takes {taken[least] / 1e9:.4g} GB (constraint 19). Use more GPUs, or "
            "raise the limit (0 is none)."
        )
    best = _ranked(found.total[fits], fits, chosen)[: max(most, 0)]
    return Search(
        tuple(Found(chosen.at(i), at(found, i), float(taken[i])) for i in best), len(chosen), len(fits)
    )


def _ranked(total: Float, fits: Int64, chosen: Candidates) -> list[int]:
    """Candidates by time, then by the tie-break."""
    magnitude = np.floor(np.log10(total))
    rounded = np.round(total / 10.0**magnitude, DIGITS - 1)
    keys = (
        -chosen.dh[fits], -chosen.ph[fits], -chosen.th[fits],
        chosen.v[fits], chosen.b[fits], chosen.p[fits], chosen.t[fits], rounded, magnitude,
    )  # fmt: skip
    return [int(fits[i]) for i in np.lexsort(keys)]
