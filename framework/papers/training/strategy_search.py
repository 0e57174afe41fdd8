"""The fastest strategies to train a model on a cluster, of all that the constraints and the memory allow."""

from dataclasses import dataclass
from math import inf

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.papers.training.clusters import Cluster
from railweave.framework.papers.training.iteration import Calibration, IterationTime, at, times
from railweave.framework.papers.training.models import LanguageModel
from railweave.framework.papers.training.strategies import FixedDegrees, Strategy, StrategyTable, candidates

DIGITS = 12
"""Significant digits in which equal times agree; the order of summation may change the others."""
STATE_BYTES = 18.0
"""Per parameter: the weight in 16 bits (2) and 32 (4), its gradient in 32 (4), two moments of Adam (8)."""


def memory_bytes(model: LanguageModel, chosen: StrategyTable, state_bytes: float = STATE_BYTES) -> Float:
    """Memory(p, t, d) of constraint 19, for every candidate, an estimate: (n,) bytes per GPU of the first
    stage, which needs the most.

    Activations with sequence parallelism and selective recomputation: 34 s b h l / t, times 1 + (p-1)/(p v)
    when interleaved (Korthikanti et al., sections 4.2 and 4.2.3). States: `state_bytes` P / (p t).
    """
    if not 0 <= state_bytes < inf:
        raise ExperimentError(f"{state_bytes:g} bytes per parameter: it must be 0 or more.")
    states = state_bytes * model.parameters / (chosen.p * chosen.t)
    interleaved = (chosen.v > 1) * (chosen.p - 1) / (chosen.p * chosen.v)
    activations = 34.0 * model.sequence * model.hidden * model.layers * chosen.b / chosen.t
    return np.asarray(states + activations * (1 + interleaved))


@dataclass(frozen=True, slots=True)
class RankedStrategy:
    """One strategy with its time and its memory per GPU."""

    strategy: Strategy
    time: IterationTime
    memory_bytes: float


@dataclass(frozen=True)
class StrategySearch:
    """The `best` strategies, fastest first; `tried` of them divide the job, `fitting` also fit into
    memory."""

    best: tuple[RankedStrategy, ...]
    tried: int
    fitting: int


def search(
    model: LanguageModel,
    cluster: Cluster,
    batch: int,
    *,
    fixed: FixedDegrees | None = None,
    calibration: Calibration | None = None,
    state_bytes: float = STATE_BYTES,
    most: int = 1,
) -> StrategySearch:
    """Evaluate everything that constraints 11 to 19 allow and keep the `most` strategies of least T_iter.

    Equal times: smallest t, then p, then b, then v, then the largest share inside the domain (th, ph, dh).
    Raises ExperimentError when no strategy divides the job, or none fits into memory.
    """
    chosen = candidates(model, cluster, batch, fixed or FixedDegrees())
    memory = memory_bytes(model, chosen, state_bytes)
    candidate_times = times(model, cluster, batch, chosen, calibration or Calibration())
    limit = cluster.gpu.memory_bytes or inf
    fits = np.flatnonzero(memory <= limit)
    if not fits.size:
        least = int(memory.argmin())
        raise ExperimentError(
            f"{model.name} does not fit on {cluster.gpus} GPUs of {limit / 1e9:.4g} GB: "
            f"the leanest of {len(chosen)} strategies takes {memory[least] / 1e9:.4g} GB (constraint 19). "
            "Use more GPUs, or raise the limit (0 is none)."
        )
    best = _ranked(candidate_times.total_s[fits], fits, chosen)[: max(most, 0)]
    return StrategySearch(
        tuple(RankedStrategy(chosen.at(i), at(candidate_times, i), float(memory[i])) for i in best.tolist()),
        len(chosen),
        len(fits),
    )


def _ranked(total: Float, fits: Int64, chosen: StrategyTable) -> Int64:
    """Candidates by time, then by the tie-break."""
    magnitude = np.floor(np.log10(total))
    rounded = np.round(total / 10.0**magnitude, DIGITS - 1)
    ties = (-chosen.dh, -chosen.ph, -chosen.th, chosen.v, chosen.b, chosen.p, chosen.t)
    return fits[np.lexsort((*(key[fits] for key in ties), rounded, magnitude))]
