"""Figures by which fabrics are compared: percentiles over iterations, queues and faults; Jain's index.

Names as in IETF draft-calabria-bmwg-ai-fabric-training-bench; definitions in docs/results.md.
"""

from collections.abc import Sequence
from statistics import median

import numpy as np
from numpy.typing import ArrayLike

from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.model.findings import HealthSamples
from railweave.framework.model.traffic import MessageTimes
from railweave.framework.results.percentiles import (
    BusbwFigures,
    MessageFigures,
    QueueFigures,
    ResponseFigures,
    SlowdownFigures,
    TimeFigures,
)

ROUNDING = 1e-12
ONE_IN = 100
"""Values that it takes to see what happens once in a hundred: fewer have no P99."""
MOST_MESSAGES = 4096
"""Of an iteration, whose landing times a run keeps: what a request or an incast sends, not a large ring."""
LONGEST = 4
"""Health intervals that a sample stands for at most: what is longer was not sampled, as between faults on
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


def independent(values: ArrayLike) -> int:
    """How many of the values differ: a model repeats what it has computed, and a repetition adds no evidence.
    Rounding of sums apart."""
    return len({float(f"{value:.9g}") for value in np.asarray(values, float).tolist()})


def p99(values: ArrayLike) -> float | None:
    """That which 99 % of the values do not exceed; None of less than ONE_IN independent ones."""
    return percentile(values, 99) if independent(values) >= ONE_IN else None


def p999(values: ArrayLike) -> float | None:
    """That which 99.9 % of the values do not exceed; None of less than ten times ONE_IN independent ones."""
    return percentile(values, 99.9) if independent(values) >= 10 * ONE_IN else None


def variation(values: ArrayLike) -> float:
    """CV: standard deviation (of these values, not of those they are drawn from) over mean, no unit; 0 of
    values that are all 0."""
    array = np.asarray(values, float)
    mean = float(array.mean())
    return float(array.std() / mean) if mean else 0.0


def busbw_figures(busbw_gbs: Sequence[float]) -> BusbwFigures | None:
    """None of less than two iterations, and where nothing was sent."""
    if len(busbw_gbs) < 2 or not any(busbw_gbs):
        return None
    p5, p50, p95 = (percentile(busbw_gbs, percent) for percent in (5, 50, 95))
    return BusbwFigures(len(busbw_gbs), p5, p50, p95, p99(busbw_gbs), variation(busbw_gbs))


def time_figures(declared_us: Sequence[float]) -> TimeFigures | None:
    """Percentiles and CV of the declared times of iterations, in us; None of less than two."""
    if len(declared_us) < 2:
        return None
    p50, p95 = (percentile(declared_us, percent) for percent in (50, 95))
    return TimeFigures(
        len(declared_us), independent(declared_us), p50, p95, p99(declared_us), variation(declared_us)
    )


def jct_ratio(time_us: float, bound_us: float | None) -> float | None:
    """Completion time over the least that is physically possible, no unit, 1 or more. Source:
    draft-calabria-bmwg-ai-fabric-training-bench, "JCT ratio": 1.05 and less is excellent there, and more than
    1.15 overhead. None where no limit is known."""
    return time_us / bound_us if bound_us else None


def max_mean_ratio(fabric: Fabric, sent_bytes: Float) -> dict[str, float]:
    """MMR: bytes of the most loaded link over the mean, no unit, for every kind of links (tier) that carried
    anything; 1 where all carried the same. `sent_bytes` (n_links,)."""
    of_kinds = ((kind, sent_bytes[fabric.link_kind == i]) for i, kind in enumerate(fabric.kinds))
    return {kind: float(sent.max() / sent.mean()) for kind, sent in of_kinds if sent.any()}


def share_of_packets(counts: Sequence[int | None], packets: int) -> float | None:
    """Packets of some sort, counted by iteration, over all that were sent, 0..1; None where nothing was sent,
    or an iteration did not count them."""
    counted = [count for count in counts if count is not None]
    return sum(counted) / packets if packets and counted and len(counted) == len(counts) else None


def response_figures(seconds: Sequence[float], rate_scale: float) -> ResponseFigures | None:
    """Of the `seconds` on the run's clock from each fault until it was seen, or answered; None of none.
    Declared time is emulated time x rate_scale."""
    if not seconds:
        return None
    middle, longest, rare, declared = median(seconds), max(seconds), None, rate_scale * 1e6
    if len(seconds) >= ONE_IN:  # faults are drawn or written one by one, so equal ones are evidence, too
        rare = percentile(seconds, 99)
    return ResponseFigures(
        len(seconds), middle, longest, rare,
        middle * declared, longest * declared, None if rare is None else rare * declared,
    )  # fmt: skip


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


def queues_by_kind(
    fabric: Fabric, samples: HealthSamples, interval_s: float, *, whole: bool
) -> dict[str, QueueFigures]:
    """Of the fullest queue of the links of each kind; none unless the samples are the `whole` run's."""
    took_s = np.minimum(np.diff(samples.t_s, prepend=0.0), LONGEST * interval_s)
    if not whole or not samples.queue_bytes.size or not took_s.sum() > 0:
        return {}
    of_kinds = dict[str, QueueFigures]()
    for i, kind in enumerate(fabric.kinds):
        if (of_kind := fabric.link_kind == i).any():
            fullest = np.nan_to_num(samples.queue_bytes[:, of_kind].max(axis=1))
            p50, p95, p99_bytes = (percentile(fullest, percent, took_s) for percent in (50, 95, 99))
            rare = p99_bytes if len(fullest) >= ONE_IN else None
            of_kinds[kind] = QueueFigures(p50, p95, rare, float(fullest.max()))
    return of_kinds


def link_fairness(fabric: Fabric, sent_bytes: Float) -> dict[str, float]:
    """Of every kind of links that carried anything."""
    of_kinds = ((kind, sent_bytes[fabric.link_kind == i].tolist()) for i, kind in enumerate(fabric.kinds))
    return {kind: jain(sent) for kind, sent in of_kinds if any(sent)}


def rank_fairness(schedule: Schedule, last_s: Float) -> float | None:
    """Jain's index of the throughput of ranks in one iteration: of what each sent, over the time until the
    last of it had landed, `last_s` as `last_landed_s` has it. Ranks that send nothing do not count."""
    if not len(last_s):
        return None
    sent = np.flatnonzero(schedule.is_transfer)
    amount = np.bincount(schedule.src[sent], schedule.in_all(lambda size: size)[sent], schedule.n_ranks)
    senders = (amount > 0) & (last_s > 0)
    return jain((amount[senders] / last_s[senders]).tolist()) if senders.any() else None


def last_landed_s(schedule: Schedule, end_s: Float) -> Float:
    """(n_ranks,): when the last of what each rank sent in one iteration had landed, 0 of ranks that send
    nothing; empty where the transfers were not timed, or there are none. `end_s` as in IterationResult."""
    sent = np.flatnonzero(schedule.is_transfer)
    if not len(end_s) or not len(sent):
        return np.empty(0)
    last_s = np.zeros(schedule.n_ranks)
    np.maximum.at(last_s, schedule.src[sent], end_s[sent])
    return last_s


def landed_s(schedule: Schedule, end_s: Float) -> Float:
    """(messages,): when each message of an iteration had landed, of the transfers that send anything; empty
    where they were not timed, or there are more than MOST_MESSAGES. `end_s` as in IterationResult."""
    sent = schedule.is_transfer & (schedule.size > 0)
    many = int(sent.sum()) > MOST_MESSAGES or bool((schedule.repeat[sent] > 1).any())
    return np.empty(0) if not len(end_s) or many else np.asarray(end_s[sent], float)


def message_figures(declared_us: Float) -> MessageFigures | None:
    """Percentiles of when messages had landed, in declared microseconds from the start of their iteration;
    None of less than two."""
    if len(declared_us) < 2:
        return None
    p50, p95 = (percentile(declared_us, percent) for percent in (50, 95))
    return MessageFigures(
        len(declared_us), p50, p95, p99(declared_us), float(declared_us.max()), p999(declared_us)
    )


def slowdown_figures(messages: MessageTimes | None, rate_scale: float) -> tuple[SlowdownFigures, ...] | None:
    """Of messages of all sizes, and then of those of more than 2^(k - 1) up to 2^k bytes for every k; None
    where nothing was timed."""
    if messages is None or not len(messages.seconds):
        return None
    size, took_us = messages.size_bytes, messages.seconds * rate_scale * 1e6
    slowdown = messages.seconds / messages.alone_s
    up_to = 2 ** np.ceil(np.log2(np.maximum(size, 1))).astype(np.int64)
    classes = [(None, np.ones(len(size), bool)), *((k, up_to == k) for k in np.unique(up_to).tolist())]
    return tuple(
        SlowdownFigures(at_most, int(of_class.sum()), *_tail(took_us[of_class]), *_tail(slowdown[of_class]))
        for at_most, of_class in classes
    )


def _tail(values: Float) -> tuple[float, float, float | None, float | None, float]:
    return (
        percentile(values, 50), percentile(values, 95), p99(values), p999(values), float(values.max())
    )  # fmt: skip
