"""Figures by which fabrics are compared: percentiles over iterations, queues and faults; Jain's index.

Names as in IETF draft-calabria-bmwg-ai-fabric-training-bench; definitions in docs/results.md.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.model.findings import HealthSamples
from railweave.framework.results.figures import BusbwFigures

ROUNDING = 1e-12
LONGEST = 4
"""Intervals of health that a sample stands for at most: what is longer was not sampled, as between faults on
`fluid`, and before the second run in a lab that stays up."""


def percentile(values: ArrayLike, percent: float, weights: ArrayLike = 1.0) -> float:
    """The least of the values that `percent` of them, by weight, do not exceed (nearest rank)."""
    values = np.asarray(values, float)
    order = np.argsort(values)
    up_to = np.cumsum(np.broadcast_to(np.asarray(weights, float), values.shape)[order])
    return float(values[order][np.searchsorted(up_to, up_to[-1] * (percent / 100 - ROUNDING))])


def jain(shares: Sequence[float]) -> float:
    """(sum x)^2 / (n sum x^2): 1 where all have equal shares, 1 / n where one has everything.

    Source: Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems", DEC-TR-301, 1984.
    """
    return sum(shares) ** 2 / (len(shares) * sum(x * x for x in shares))


def busbw_figures(busbw_gbs: Sequence[float]) -> BusbwFigures | None:
    """None of less than two iterations, and where nothing was sent."""
    if len(busbw_gbs) < 2 or not any(busbw_gbs):
        return None
    p5, p50, p95, p99 = (percentile(busbw_gbs, percent) for percent in (5, 50, 95, 99))
    return BusbwFigures(len(busbw_gbs), p5, p50, p95, p99, float(np.std(busbw_gbs) / np.mean(busbw_gbs)))


def queue_figures(
    samples: HealthSamples, interval_s: float, *, whole: bool
) -> tuple[float | None, float | None]:
    """(P95, most) of the fullest queue, by the time that was sampled, every `interval_s`; None, None unless
    the samples are the `whole` run's."""
    took_s = np.minimum(np.diff(samples.t_s, prepend=0.0), LONGEST * interval_s)
    if not whole or not samples.queue_bytes.size or not took_s.sum() > 0:
        return None, None
    fullest = np.nan_to_num(samples.queue_bytes.max(axis=1))
    return percentile(fullest, 95, took_s), float(fullest.max())


def link_fairness(fabric: Fabric, sent_bytes: Float) -> dict[str, float]:
    """Of every kind of links that carried anything."""
    of_kinds = ((kind, sent_bytes[fabric.link_kind == i].tolist()) for i, kind in enumerate(fabric.kinds))
    return {kind: jain(sent) for kind, sent in of_kinds if any(sent)}


def rank_fairness(schedule: Schedule, end_s: Float) -> float | None:
    """Jain's index of the throughput of ranks in one iteration: of what each sent, over the time until the
    last of it had landed. Ranks that send nothing do not count. None where the transfers were not timed.

    `end_s` as in IterationResult.
    """
    sent = np.flatnonzero(schedule.is_transfer)
    if not len(end_s) or not len(sent):
        return None
    src, last_s = schedule.src[sent], np.zeros(schedule.n_ranks)
    amount = np.bincount(src, schedule.in_all(lambda size: size)[sent], schedule.n_ranks)
    np.maximum.at(last_s, src, end_s[sent])
    senders = (amount > 0) & (last_s > 0)
    return jain((amount[senders] / last_s[senders]).tolist()) if senders.any() else None
