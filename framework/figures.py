"""From what a run measured to the figures of its result: rows, groups of iterations, links, scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import RunFailedError
from railweave.framework.model import Fabric, HealthSnapshot, IterationResult, Schedule
from railweave.framework.results import (
    FaultFigures,
    Group,
    Groups,
    HealthPoint,
    LinkFigures,
    RerouteFigures,
    Row,
)

NCCL_TYPES = {"float16": "half", "float32": "float", "float64": "double"}
"""nccl-tests' names of types; the others are called alike."""
REPAIRS = ("restore", "up", "start")


def iteration_of(found: Mapping[str, Any]) -> IterationResult:
    """The noun of an iteration as a transport reports it; more keys may stand beside."""
    values = {name: found[name] for name in IterationResult.__dataclass_fields__}
    return IterationResult(**{**values, "phase_seconds": tuple(found["phase_seconds"])})


@dataclass(frozen=True, slots=True)
class Lap:
    """One iteration and what its row is made of, in emulated seconds and bytes.

    `start_s`: when it began on the run's clock; `bound_s`: its physical limit; `model_s`: its closed form; None
    where there is none; `link_bytes`: what all links carried meanwhile.
    """

    found: IterationResult
    schedule: Schedule
    start_s: float
    bound_s: float | None
    model_s: float | None
    link_bytes: float


def iteration_rows(laps: Sequence[Lap], *, rate_scale: float, busbw_factor: float) -> tuple[Row, ...]:
    """A row per iteration and, last, a summary per size: mean times, summed counts.

    algbw = S / t and busbw = algbw x factor, in declared GB/s (nccl-tests, doc/PERFORMANCE.md).
    """
    if not laps:
        raise RunFailedError("no iteration ended, so there is no result. See the lab's log.")
    sizes = sorted({lap.schedule.size_bytes for lap in laps})
    means = [_mean([lap for lap in laps if lap.schedule.size_bytes == size]) for size in sizes]
    rows = [_row(lap, rate_scale, busbw_factor) for lap in laps]
    summaries = [replace(_row(lap, rate_scale, busbw_factor), iteration=None) for lap in means]
    return (*rows, *summaries)


def _row(lap: Lap, rate_scale: float, busbw_factor: float) -> Row:
    found, schedule, seconds = lap.found, lap.schedule, lap.found.seconds
    declared_s = seconds * rate_scale
    per_s = 1 / declared_s / 1e9 if declared_s > 0 else 0.0
    algbw = schedule.size_bytes * per_s
    return Row(
        iteration=found.iteration,
        t_s=lap.start_s,
        size_bytes=schedule.size_bytes,
        count=schedule.size_bytes // np.dtype(schedule.dtype).itemsize,
        type=NCCL_TYPES.get(schedule.dtype, schedule.dtype),
        redop=schedule.redop,
        time_us=seconds * 1e6,
        declared_time_us=declared_s * 1e6,
        algbw_gbs=algbw,
        busbw_gbs=algbw * busbw_factor,
        netbw_gbs=lap.link_bytes * per_s,
        wrong=found.wrong,
        bound_us=_times(lap.bound_s, 1e6),
        ratio_to_bound=_times(lap.bound_s, 1 / seconds) if seconds > 0 else None,
        model_us=_times(lap.model_s, 1e6),
        ratio_to_model=_times(lap.model_s, 1 / seconds) if seconds > 0 else None,
        packets=found.packets_sent,
        retransmitted=found.retransmitted,
        duplicates=found.duplicates,
        phase_us=tuple(p * 1e6 for p in found.phase_seconds),
    )


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _mean(laps: Sequence[Lap]) -> Lap:
    """Mean times and summed counts, as one lap."""
    iterations = [lap.found for lap in laps]
    found = IterationResult(
        iteration=-1,
        seconds=fmean(i.seconds for i in iterations),
        wrong=sum(i.wrong for i in iterations),
        packets_sent=sum(i.packets_sent for i in iterations),
        retransmitted=sum(i.retransmitted for i in iterations),
        duplicates=sum(i.duplicates for i in iterations),
        bytes_sent=sum(i.bytes_sent for i in iterations),
        phase_seconds=tuple(fmean(p) for p in zip(*(i.phase_seconds for i in iterations), strict=False)),
        cpu_s=sum(i.cpu_s for i in iterations),
        send_lag_s=max(i.send_lag_s for i in iterations),
    )
    bounds = [lap.bound_s for lap in laps if lap.bound_s is not None]
    return Lap(
        found,
        laps[0].schedule,
        laps[0].start_s,
        fmean(bounds) if len(bounds) == len(laps) else None,
        laps[0].model_s,
        fmean(lap.link_bytes for lap in laps),
    )


def iteration_groups(
    rows: Sequence[Row], faults: Sequence[FaultFigures], reroutes: Sequence[RerouteFigures]
) -> Groups:
    """The iterations (summary rows are passed over) sorted by what the fabric was like when they ran.

    before: ended before the first fault fired. after: began once it was answered, by the first reroute behind
    it or a repair (restore, up, start). during: the others. Without a fault all are `before`.
    """
    breaks = [f.t_s for f in faults if f.t_s is not None and f.verb not in REPAIRS]
    broken = min(breaks, default=float("inf"))
    answers = [r.t_s for r in reroutes] + [f.t_s for f in faults if f.t_s is not None and f.verb in REPAIRS]
    answered = min((t for t in answers if t >= broken), default=float("inf"))
    parts: dict[str, list[Row]] = {"before": [], "during": [], "after": []}
    for row in rows:
        if row.iteration is None:
            continue
        if row.t_s + row.time_us * 1e-6 <= broken:
            parts["before"].append(row)
        else:
            parts["after" if row.t_s >= answered else "during"].append(row)
    groups = {name: _group(members) for name, members in parts.items()}
    during, after = groups["during"].median_us, groups["after"].median_us
    return Groups(**groups, speedup=during / after if during and after else None)


def _group(rows: Sequence[Row]) -> Group:
    times = [row.time_us for row in rows]
    numbers = tuple(row.iteration for row in rows if row.iteration is not None)
    if len({row.size_bytes for row in rows}) != 1:
        return Group(numbers, None, None, None)
    return Group(numbers, median(times), min(times), max(times))


def link_figures(
    fabric: Fabric, sent_bytes: NDArray[Any], drops: NDArray[Any], seconds: float, link_score: NDArray[Any]
) -> tuple[LinkFigures, ...]:
    """Every link's figures over a run of `seconds`. `fabric` has emulated rates; arrays are (n_links,)."""
    used = (
        np.asarray(sent_bytes, float) * 8 / (fabric.capacity_bps * seconds)
        if seconds > 0
        else sent_bytes * 0.0
    )
    return tuple(
        LinkFigures(
            fabric.link_name(i),
            fabric.kinds[fabric.link_kind[i]],
            int(sent_bytes[i]),
            int(drops[i]),
            float(used[i]),
            float(link_score[i]),
        )
        for i in range(fabric.n_links)
    )


def element_scores(fabric: Fabric, health: HealthSnapshot) -> dict[str, float]:
    """The score of every switch that has one, by its name in faults: `rail:1`, `domain:0`."""
    return {
        f"{group.kind}:{'.'.join(map(str, group.coordinates(node)))}": float(health.element_score[node])
        for group in fabric.groups[1:]
        for node in range(group.first, group.first + group.size)
    }


def health_point(fabric: Fabric, health: HealthSnapshot, before: HealthSnapshot) -> HealthPoint:
    """What `health` published, with the links whose score differs from `before`."""
    changed = np.flatnonzero(health.link_score != before.link_score)
    links = {fabric.link_name(int(i)): float(health.link_score[i]) for i in changed}
    return HealthPoint(health.t_s, health.version, element_scores(fabric, health), links)
