"""One experiment on two engines, compared: how far apart their times, scores, reroutes and choices are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from statistics import median
from typing import Self

from railweave.framework.errors import InputError
from railweave.framework.judging.rows import REPAIRS, ended_by
from railweave.framework.results.figures import (
    Bottleneck,
    FaultFigures,
    Fidelity,
    PauseFigures,
    Row,
    Verdict,
)
from railweave.framework.results.result import RunResult

TIMES, OF_FAULT, OF_FAULT_S = 0.10, 0.25, 0.5
"""Share by which medians may differ; share or emulated seconds by which the iteration of the fault may."""
STANDS_OUT = 1.1
"""Ratio to the median of its like from which an element has carried more than they."""
PREDICTED = 0.15
"""Share of the prediction by which an iteration may differ before the verdict says so."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Iterations of one part of a run on both engines, the first and the second.

    `name`: before, fault, after (before the fault, the iteration that the fault met, and the ones that began
    after the last reroute); of several jobs NAME alone and NAME together. `declared_us`: medians, None where
    there is no such iteration; `difference`: the second over the first, less 1; `within`: whether that is as
    little as it has to be; both None where nothing is compared.
    """

    name: str
    iterations: tuple[int, int]
    declared_us: tuple[float | None, float | None]
    difference: float | None
    within: bool | None


@dataclass(frozen=True, slots=True)
class CongestionFigures:
    """How congested a run was; None where its engine does not know. `fairness`: Jain's index of the ranks'
    throughput; `queue_bytes`: the most that waited at a link in a sample; `marked`: share of packets that
    came marked, 0..1; `cnps`; `pauses`."""

    fairness: float | None
    queue_bytes: float | None
    marked: float | None
    cnps: int | None
    pauses: PauseFigures | None

    @classmethod
    def of(cls, result: RunResult) -> Self:
        """Of the first job, where figures are of a job."""
        figures, row = result.key_figures, result.summaries[0]
        return cls(
            row.rank_fairness, figures.queue_max_bytes, figures.marked_rate, row.cnps, row.pause_figures
        )


@dataclass(frozen=True, slots=True)
class Agreement:
    """How an experiment came out on two `engines`, at the `rate_scale` of the first.

    `score_difference`: the largest at the end, of a switch or, where there is none, of a link. `reroute_s`:
    emulated seconds from the last fault to the first changed routes. `chosen`: which element of the kind
    that the first fault hit carried most, None where none stands out or there was no reroute.
    """

    engines: tuple[str, str]
    rate_scale: float
    stages: tuple[Stage, ...]
    score_difference: float
    reroute_s: tuple[float | None, float | None]
    chosen: tuple[str | None, str | None]
    verdicts: tuple[Verdict, Verdict]
    congestion: tuple[CongestionFigures, CongestionFigures]

    @property
    def within(self) -> bool:
        """Whether nothing that was compared differs by more than it may."""
        return all(stage.within is not False for stage in self.stages)


def agreement(engines: tuple[str, str], results: tuple[RunResult, RunResult]) -> Agreement:
    """Compare the results of one experiment on two engines. Raises InputError for a sweep of sizes and for
    different rate scales, at which times of faults mean different things."""
    first, second = results
    scale = first.fabric.rate_scale
    if abs(second.fabric.rate_scale / scale - 1) > 1e-9:
        raise InputError(
            f"rate_scale: {scale:g} and {second.fabric.rate_scale:g}, so that faults and health met "
            "different moments of the traffic. Run both at one scale."
        )
    if any(len({row.size_bytes for row in result.summaries if row.job == 0}) > 1 for result in results):
        raise InputError("size: engines are compared at one size. Give one, such as --size 1M.")
    return Agreement(
        engines=engines,
        rate_scale=scale,
        stages=tuple(_of_jobs(first, second) if first.jobs else _of_one(first, second)),
        score_difference=_score_difference(first, second),
        reroute_s=(_reroute_s(first), _reroute_s(second)),
        chosen=(_chosen(first), _chosen(second)),
        verdicts=(first.fidelity.verdict, second.fidelity.verdict),
        congestion=(CongestionFigures.of(first), CongestionFigures.of(second)),
    )


def _of_one(first: RunResult, second: RunResult) -> Iterator[Stage]:
    parts_by_engine = parts_of(first), parts_of(second)
    slack = {"fault": (OF_FAULT, OF_FAULT_S * 1e6 * first.fabric.rate_scale)}
    for name in parts_by_engine[0]:
        rows = [parts[name] for parts in parts_by_engine]
        if name == "before" or any(rows):
            times = [[row.declared_time_us for row in some] for some in rows]
            yield _stage(name, times[0], times[1], *slack.get(name, (TIMES, 0.0)))


def _of_jobs(first: RunResult, second: RunResult) -> Iterator[Stage]:
    scale = first.fabric.rate_scale
    for first_job, second_job in zip(first.jobs, second.jobs, strict=True):
        for name, pair in (
            ("alone", (first_job.alone_us, second_job.alone_us)),
            ("together", (first_job.together_us, second_job.together_us)),
        ):
            times = [[] if us is None else [us * scale] for us in pair]
            yield _stage(f"{first_job.name} {name}", times[0], times[1], TIMES, 0.0)


def _stage(name: str, first: Sequence[float], second: Sequence[float], part: float, us: float) -> Stage:
    counts, middles = (
        (len(first), len(second)),
        [median(times) if times else None for times in (first, second)],
    )
    ours, theirs = middles
    if ours is None or theirs is None:
        return Stage(name, counts, (ours, theirs), None, None)
    apart = abs(theirs - ours)
    return Stage(name, counts, (ours, theirs), theirs / ours - 1, apart <= part * ours or apart <= us)


def _breaking(result: RunResult) -> list[FaultFigures]:
    """The faults that fired, without repairs, in order of time."""
    fired = [fault for fault in result.faults if fault.t_s is not None and fault.verb not in REPAIRS]
    return sorted(fired, key=lambda fault: fault.t_s or 0.0)


def parts_of(result: RunResult) -> dict[str, list[Row]]:
    """Before the first fault; the iteration that was under way then or began with it; those that began after
    the last reroute, or after the fault's own iteration where there was none."""
    rows = [row for row in result.rows if row.iteration is not None]
    faults = _breaking(result)
    since_s = (faults[0].t_s or 0.0) if faults else inf
    before = [row for row in rows if ended_by(row, since_s)]
    later = rows[len(before) :]
    last_s = max([since_s, *(reroute.t_s for reroute in result.reroutes)])
    return {"before": before, "fault": later[:1], "after": [row for row in later[1:] if row.t_s >= last_s]}


def _score_difference(first: RunResult, second: RunResult) -> float:
    scores = [
        {item.name: item.h_score for item in (result.elements or result.links)} for result in (first, second)
    ]
    return max((abs(score - scores[1].get(name, 1.0)) for name, score in scores[0].items()), default=0.0)


def _reroute_s(result: RunResult) -> float | None:
    faults = _breaking(result)
    if not faults:
        return None
    since_s = faults[-1].t_s or 0.0
    return min((change.t_s - since_s for change in result.reroutes if change.t_s >= since_s), default=None)


def _chosen(result: RunResult) -> str | None:
    faults = _breaking(result)
    kind = faults[0].target.partition(":")[0] if faults else ""
    carried = {
        element.name: element.bytes for element in result.elements if element.name.startswith(f"{kind}:")
    }
    if not kind or not carried or _reroute_s(result) is None:
        return None
    most = max(carried, key=lambda name: carried[name])
    return most if carried[most] > STANDS_OUT * median(carried.values()) else None


def with_prediction(result: RunResult, predicted: RunResult | None) -> RunResult:
    """The result with the predicted time of every iteration, and a verdict that says by how much the two
    part and where; as it is where there is no prediction.

    The element is the one that held most of the iteration that differs most: where it took longer than
    predicted, of the measured one, else of the predicted one.
    """
    if predicted is None:
        return result
    times = {_place(row): row.time_us for row in predicted.rows}
    rows = tuple(replace(row, predicted_us=times.get(_place(row))) for row in result.rows)
    ratios = [
        (row.time_us / row.predicted_us, row)
        for row in rows
        if row.iteration is not None
        and row.predicted_us
        and abs(row.time_us / row.predicted_us - 1) > PREDICTED
    ]
    if not ratios:
        return replace(result, rows=rows)
    ratio, row = max(ratios, key=lambda entry: abs(log(entry[0])))
    of_all = f", and {len(ratios) - 1} more by over {PREDICTED:.0%}" if len(ratios) > 1 else ""
    names = [f"job {job.name}: " for job in result.jobs if job.job == row.job]
    reason = (
        f"{''.join(names)}iteration {row.iteration} took {ratio:.2f} times what was predicted"
        f"{_held(result if ratio > 1 else predicted, row)}{of_all}"
    ).replace("%", " %")
    verdict: Verdict = "invalid" if result.fidelity.verdict == "invalid" else "degraded"
    return replace(result, rows=rows, fidelity=Fidelity(verdict, (*result.fidelity.reasons, reason)))


def _place(row: Row) -> tuple[int, int, int | None]:
    """Which iteration a row is of, or of which size the mean."""
    return row.job, row.size_bytes, row.iteration


def _held(result: RunResult, row: Row) -> str:
    bottleneck: Bottleneck | None = next(
        (b for b in result.bottlenecks if (b.job, b.iteration) == (row.job, row.iteration)), None
    )
    return "" if bottleneck is None else f": {bottleneck.name} held {bottleneck.share:.0%} of it"
