"""When each rank was done in each iteration, as arrays."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model.findings import IterationRecord


def rank_arrays(
    records: Sequence[IterationRecord], ranks: Sequence[Sequence[int]]
) -> Mapping[str, NDArray[np.generic]]:
    """(n,) each, an entry for each rank and iteration whose transfers were timed: `job`, `iteration`, `gpu`,
    and `begin_s`, `end_s` on the run's clock, from the iteration's start until the last of what the rank sent
    had landed. Ranks that sent nothing have none. `ranks`: the GPUs of each job; empty without any entry."""
    triples, times = [], []
    for record in records:
        (senders,) = np.nonzero(record.last_s)
        numbers = np.empty((len(senders), 3), np.int64)
        numbers[:, 0], numbers[:, 1] = record.job, record.result.iteration
        numbers[:, 2] = np.asarray(ranks[record.job])[senders]
        triples.append(numbers)
        times.append(record.begin_s + np.outer(record.last_s[senders], (0.0, 1.0)))
    if not sum(map(len, triples)):
        return {}
    job, iteration, gpu = np.concatenate(triples).T
    begin_s, end_s = np.concatenate(times).T
    return {"job": job, "iteration": iteration, "gpu": gpu, "begin_s": begin_s, "end_s": end_s}
