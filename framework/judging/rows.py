"""The figures of a result from what was measured: rows, groups of iterations, links, scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from statistics import fmean, median
from typing import Any

import numpy as np

from railweave.framework.judging.key_figures import (
    busbw_figures,
    message_figures,
    slowdown_figures,
    time_figures,
)
from railweave.framework.model import IterationResult, Schedule
from railweave.framework.model.findings import IterationRecord
from railweave.framework.model.traffic import MessageTimes, PausedLinks
from railweave.framework.results.figures import (
    FaultFigures,
    Group,
    Groups,
    PauseFigures,
    RerouteFigures,
    Row,
)

NCCL_TYPES = {"float16": "half", "float32": "float", "float64": "double"}
"""nccl-tests' names of types where they differ from numpy's."""
REPAIRS = ("restore", "up", "start", "replace", "reconnect")
SAME_S = 1e-9
"""Seconds up to which times are equal, relative above 1 s: sums of a model's clock differ by rounding."""


@dataclass(frozen=True, slots=True)
class TimedIteration:
    """One iteration and the inputs of its row, in emulated seconds and bytes.

    `bound_s`: its physical limit; `model_s`: its closed form; None where there is none. `packet_delay_s`:
    what packets would add to flows; None where there are packets.
    """

    record: IterationRecord
    schedule: Schedule
    bound_s: float | None
    model_s: float | None
    packet_delay_s: float | None = None


def iteration_rows(
    iterations: Sequence[TimedIteration],
    *,
    rate_scale: float,
    busbw_factor: float | None,
    root: int | None = None,
) -> tuple[Row, ...]:
    """A row per iteration and, last, a summary per size: mean times, summed counts. `root`: None where there
    is none.

    algbw = S / t and busbw = algbw x factor, in declared GB/s (nccl-tests, doc/PERFORMANCE.md).
    """
    if not iterations:
        return ()
    sizes = sorted({timed.schedule.size_bytes for timed in iterations})
    means = [_mean([timed for timed in iterations if timed.schedule.size_bytes == size]) for size in sizes]
    rows = [_row(timed, rate_scale, busbw_factor, root) for timed in (*iterations, *means)]
    per_iteration, summaries = rows[: -len(sizes)], rows[-len(sizes) :]
    return (
        *per_iteration,
        *(
            replace(summary, iteration=None, **_spread_of([r for r in per_iteration if r.size_bytes == size]))
            for size, summary in zip(sizes, summaries, strict=True)
        ),
    )


def _spread_of(rows: Sequence[Row]) -> dict[str, Any]:
    """How the iterations of one size differ."""
    busbw = [row.busbw_gbs for row in rows if row.busbw_gbs is not None]
    times = [row.declared_time_us for row in rows]
    return {"busbw_figures": busbw_figures(busbw), "time_figures": time_figures(times)}


def _row(timed: TimedIteration, rate_scale: float, busbw_factor: float | None, root: int | None) -> Row:
    record, schedule, result = timed.record, timed.schedule, timed.record.result
    declared_s = result.seconds * rate_scale
    per_s = 1 / declared_s / 1e9 if declared_s > 0 else 0.0
    algbw = schedule.size_bytes * per_s
    return Row(
        iteration=result.iteration,
        t_s=record.begin_s,
        size_bytes=schedule.size_bytes,
        count=schedule.size_bytes // np.dtype(schedule.dtype).itemsize,
        type=NCCL_TYPES.get(schedule.dtype, schedule.dtype),
        redop=schedule.redop if schedule.reduce.any() or not schedule.n_transfers else "none",
        time_us=result.seconds * 1e6,
        declared_time_us=declared_s * 1e6,
        algbw_gbs=algbw,
        busbw_gbs=_times(busbw_factor, algbw),
        netbw_gbs=record.link_bytes * per_s,
        wrong=result.wrong,
        bound_us=_times(timed.bound_s, 1e6),
        ratio_to_bound=_times(timed.bound_s, 1 / result.seconds) if result.seconds > 0 else None,
        model_us=_times(timed.model_s, 1e6),
        ratio_to_model=_times(timed.model_s, 1 / result.seconds) if result.seconds > 0 else None,
        packets=result.packets_sent,
        retransmitted=result.retransmitted,
        duplicates=result.duplicates,
        phase_us=tuple(p * 1e6 for p in result.phase_seconds),
        root=-1 if root is None else root,
        job=record.job,
        compared=result.compared,
        wrong_icrc=result.wrong_icrc,
        marked=result.marked,
        cnps=result.cnps,
        compute_us=_compute_us(timed),
        rank_fairness=record.rank_fairness,
        out_of_order=result.out_of_order,
        pause_figures=_pauses(result.paused, rate_scale),
        message_figures=message_figures(record.landed_s * rate_scale * 1e6),
        reorder_depth=result.reorder_depth,
        trimmed=result.trimmed,
        slowdown=slowdown_figures(result.messages, rate_scale),
        packet_delay_us=_times(timed.packet_delay_s, 1e6),
    )


def _compute_us(timed: TimedIteration) -> float | None:
    """What is left of the time after the transfers that it consists of."""
    if not timed.schedule.seconds.any() or (critical := timed.record.critical) is None:
        return None
    sent_s = float((critical.end_s - critical.begin_s).sum())
    return max(0.0, timed.record.result.seconds - sent_s) * 1e6


def _pauses(paused: PausedLinks | None, rate_scale: float) -> PauseFigures | None:
    if paused is None:
        return None
    return PauseFigures(paused.pauses, paused.links, paused.seconds * rate_scale * 1e6, paused.depth)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _mean(iterations: Sequence[TimedIteration]) -> TimedIteration:
    """Mean times and summed counts, as one iteration."""
    results = [timed.record.result for timed in iterations]
    mean = replace(
        iterations[0].record,
        result=IterationResult(
            iteration=-1,
            seconds=fmean(i.seconds for i in results),
            wrong=_sum([i.wrong for i in results]),
            packets_sent=sum(i.packets_sent for i in results),
            retransmitted=_sum([i.retransmitted for i in results]),
            duplicates=_sum([i.duplicates for i in results]),
            bytes_sent=sum(i.bytes_sent for i in results),
            phase_seconds=tuple(fmean(p) for p in zip(*(i.phase_seconds for i in results), strict=False)),
            cpu_s=sum(i.cpu_s for i in results),
            send_lag_s=max(i.send_lag_s for i in results),
            compared=sum(i.compared for i in results),
            wrong_icrc=sum(i.wrong_icrc for i in results),
            marked=_sum([i.marked for i in results]),
            out_of_order=_sum([i.out_of_order for i in results]),
            cnps=_sum([i.cnps for i in results]),
            reorder_depth=max(
                (i.reorder_depth for i in results if i.reorder_depth is not None), default=None
            ),
            trimmed=_sum([i.trimmed for i in results]),
            messages=_together([i.messages for i in results if i.messages is not None]),
            paused=_all_pauses([i.paused for i in results]),
        ),
        link_bytes=fmean(timed.record.link_bytes for timed in iterations),
        rank_fairness=_fmean([timed.record.rank_fairness for timed in iterations]),
        landed_s=np.concatenate([timed.record.landed_s for timed in iterations]),
    )
    return replace(
        iterations[0],
        record=mean,
        bound_s=_fmean([timed.bound_s for timed in iterations]),
        packet_delay_s=_fmean([timed.packet_delay_s for timed in iterations]),
    )


def _fmean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if len(numbers) == len(values) else None


def _together(messages: Sequence[MessageTimes]) -> MessageTimes | None:
    """Those of all iterations."""
    if not messages:
        return None
    columns = zip(*((m.size_bytes, m.seconds, m.alone_s) for m in messages), strict=True)
    return MessageTimes(*map(np.concatenate, columns))


def _all_pauses(paused: Sequence[PausedLinks | None]) -> PausedLinks | None:
    recorded = [of_iteration for of_iteration in paused if of_iteration is not None]
    return reduce(PausedLinks.plus, recorded) if recorded and len(recorded) == len(paused) else None


def _sum(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count or 0 for count in counts)


def ended_by(row: Row, t_s: float) -> bool:
    """Whether an iteration was over then."""
    return _over(row.t_s, _end_s(row), t_s)


def _end_s(row: Row) -> float:
    return row.t_s + row.time_us * 1e-6


def _over(begin_s: float, end_s: float, t_s: float) -> bool:
    return end_s <= t_s + SAME_S * max(1.0, begin_s)


def part_of(
    fired: Sequence[tuple[float, bool]], reroutes_s: Sequence[float]
) -> Callable[[float, float], str]:
    """Says of an iteration, by its begin and end, whether it was `before`, `during` or `after` the faults, as
    `iteration_groups` has it. `fired`: when each fault did, and whether it repairs."""
    broken = min((t for t, repairs in fired if not repairs), default=inf)
    answers = [*reroutes_s, *(t for t, repairs in fired if repairs)]
    answered = min((t for t in answers if t >= broken), default=inf)

    def part(begin_s: float, end_s: float) -> str:
        if _over(begin_s, end_s, broken):
            return "before"
        return "after" if begin_s >= answered else "during"

    return part


def iteration_groups(
    rows: Sequence[Row], faults: Sequence[FaultFigures], reroutes: Sequence[RerouteFigures]
) -> Groups:
    """The iterations (summary rows are skipped) grouped by the state of the fabric while they ran.

    before: ended before the first fault fired. after: began once it was answered, by the first reroute after
    it or a repair. during: the others. Without a fault all are `before`.
    """
    fired = [(f.t_s, f.verb in REPAIRS) for f in faults if f.t_s is not None]
    part = part_of(fired, [reroute.t_s for reroute in reroutes])
    before, during, after = (
        _group([row for row in rows if row.iteration is not None and part(row.t_s, _end_s(row)) == name])
        for name in ("before", "during", "after")
    )
    slow, fast = during.median_us, after.median_us
    if healthy := before.median_us:
        during, after = (
            replace(group, ratio=None if group.median_us is None else group.median_us / healthy)
            for group in (during, after)
        )
    return Groups(before, during, after, slow / fast if slow and fast else None)


def _group(rows: Sequence[Row]) -> Group:
    times = [row.time_us for row in rows]
    numbers = tuple(row.iteration for row in rows if row.iteration is not None)
    if len({row.size_bytes for row in rows}) != 1:
        return Group(numbers, None, None, None)
    busbw = [row.busbw_gbs for row in rows if row.busbw_gbs is not None]
    return Group(
        numbers,
        median(times),
        min(times),
        max(times),
        declared_us=median(row.declared_time_us for row in rows),
        busbw_gbs=median(busbw) if len(busbw) == len(rows) else None,
    )
