"""One experiment on two engines, compared: how far apart their times, scores, reroutes and choices are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, log
from statistics import mean, median
from typing import Any, Self

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
CLOSE, FAR, MOST_AGREE = 0.03, 0.10, 0.9
"""Share by which a model of packets may differ from the median of a lab's runs unless it lies among them; by
which none should; and share of the cases that should agree like that."""
BEFORE, FAULT, AFTER = "before", "fault", "after"
VERDICTS: tuple[Verdict, ...] = ("pass", "degraded", "invalid")
STANDS_OUT = 1.1
"""Ratio to the median of its like from which an element has carried more than they."""
PREDICTED = 0.15
"""Share of the prediction by which an iteration may differ before the verdict says so."""


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
class Observation:
    """What of a run is compared with runs of the same experiment on other engines.

    `times_us`: declared times of the iterations of every stage: before, fault, after (before the fault, the
    iteration that the fault met, and the ones that began after the last reroute); of several jobs the
    medians NAME alone and NAME together. `scores`: those below 1 at the end, of switches or, where there are
    none, of links. `reroute_s`: emulated seconds from the last fault to the first changed routes. `chosen`:
    which element of the kind that the first fault hit carried most, None where none stands out or there was
    no reroute. `latency_s`: of packets, as an engine with packets measured it; `starts_s`: when each of
    several jobs first sent in company, after the first of them; `pauses_s`: for how long it did not send
    between two iterations, on average. All by the run's clock.
    """

    rate_scale: float
    verdict: Verdict
    times_us: Mapping[str, Sequence[float]]
    scores: Mapping[str, float]
    reroute_s: float | None
    chosen: str | None
    latency_s: float | None
    starts_s: Sequence[float]
    pauses_s: Sequence[float]
    congestion: CongestionFigures

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """From what `asdict` makes of one."""
        congestion = document["congestion"]
        pauses = congestion["pauses"] and PauseFigures(**congestion["pauses"])
        return cls(**{**document, "congestion": CongestionFigures(**{**congestion, "pauses": pauses})})


def observed(result: RunResult) -> Observation:
    """Of a result with one size."""
    latency_us = result.fabric.packet_latency_us
    starts_s, pauses_s = _rhythm(result)
    return Observation(
        rate_scale=result.fabric.rate_scale,
        verdict=result.fidelity.verdict,
        times_us=_times_of_jobs(result) if result.jobs else _times_of_parts(result),
        scores={item.name: item.h_score for item in (result.elements or result.links) if item.h_score != 1},
        reroute_s=_reroute_s(result),
        chosen=_chosen(result),
        latency_s=None if latency_us is None else latency_us * 1e-6,
        starts_s=starts_s,
        pauses_s=pauses_s,
        congestion=CongestionFigures.of(result),
    )


@dataclass(frozen=True, slots=True)
class Stage:
    """Iterations of one stage (`Observation`) on both engines, the first and the second.

    `iterations`: how many of them there are in all runs; `runs_us`: declared medians of every run;
    `declared_us`: the medians of these, None where there is none; `difference`: the second over the first,
    less 1; `within`: whether that is as little as it has to be; both None where nothing is compared.
    """

    name: str
    iterations: tuple[int, int]
    declared_us: tuple[float | None, float | None]
    difference: float | None
    within: bool | None
    runs_us: tuple[tuple[float, ...], tuple[float, ...]]

    @property
    def as_measured(self) -> bool | None:
        """Whether the second engine is within CLOSE of the first one's median, or inside its runs; None where
        nothing is compared, and of the fault's own iteration, which depends on the moment it met."""
        ours, theirs = self.runs_us[0], self.declared_us[1]
        if self.difference is None or theirs is None or self.name == FAULT:
            return None
        return abs(self.difference) <= CLOSE or min(ours) <= theirs <= max(ours)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How an experiment came out on two `engines`, at the `rate_scale` of the first: medians of all runs on
    each. `score_difference`: the largest at the end of the first runs, whose `reroute_s` and `chosen`
    (`Observation`) these are; `verdicts`: the worst of each engine's."""

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


Observations = Sequence[Observation]


def agreement(engines: tuple[str, str], runs: tuple[Observations, Observations]) -> Agreement:
    """Compare runs of one experiment on two engines. Raises InputError for different rate scales, at which
    times of faults mean different things."""
    first, second = runs[0][0], runs[1][0]
    scale = first.rate_scale
    for other in (*runs[0], *runs[1]):
        if abs(other.rate_scale / scale - 1) > 1e-9:
            raise InputError(
                f"rate_scale: {scale:g} and {other.rate_scale:g}, so that faults and health met different "
                "moments of the traffic. Run both at one scale."
            )
    names = [
        name for name in first.times_us
        if name not in (FAULT, AFTER) or any(run.times_us.get(name) for run in (*runs[0], *runs[1]))
    ]  # fmt: skip
    either = {**first.scores, **second.scores}
    scores = [abs(first.scores.get(name, 1.0) - second.scores.get(name, 1.0)) for name in either]
    ours, theirs = (max((run.verdict for run in of_one), key=VERDICTS.index) for of_one in runs)
    return Agreement(
        engines=engines,
        rate_scale=scale,
        stages=tuple(_stage(name, runs, scale) for name in names),
        score_difference=max(scores, default=0.0),
        reroute_s=(first.reroute_s, second.reroute_s),
        chosen=(first.chosen, second.chosen),
        verdicts=(ours, theirs),
        congestion=(first.congestion, second.congestion),
    )


def _stage(name: str, runs: tuple[Observations, Observations], scale: float) -> Stage:
    times = [[run.times_us.get(name, ()) for run in of_one] for of_one in runs]
    ours, theirs = (tuple(median(run) for run in of_one if run) for of_one in times)
    counts = (sum(map(len, times[0])), sum(map(len, times[1])))
    if not ours or not theirs:
        middles = median(ours) if ours else None, median(theirs) if theirs else None
        return Stage(name, counts, middles, None, None, (ours, theirs))
    first, second = median(ours), median(theirs)
    part, us = (OF_FAULT, OF_FAULT_S * 1e6 * scale) if name == FAULT else (TIMES, 0.0)
    within = abs(second - first) <= max(part * first, us)
    return Stage(name, counts, (first, second), second / first - 1, within, (ours, theirs))


def _times_of_parts(result: RunResult) -> dict[str, list[float]]:
    return {name: [row.declared_time_us for row in rows] for name, rows in parts_of(result).items()}


def _times_of_jobs(result: RunResult) -> dict[str, list[float]]:
    scale = result.fabric.rate_scale
    return {
        f"{job.name} {name}": [] if us is None else [us * scale]
        for job in result.jobs
        for name, us in (("alone", job.alone_us), ("together", job.together_us))
    }


def _rhythm(result: RunResult) -> tuple[list[float], list[float]]:
    """`starts_s` and `pauses_s` of an observation; none where a job has no iteration in company. An iteration
    takes less than the time to the next one: after the job's own pause it is prepared, and then sends."""
    starts_s, pauses_s = list[float](), list[float]()
    documents: Any = result.experiment.get("jobs", ())
    for job, document in zip(result.jobs, documents, strict=False):
        rows = [row for row in result.rows if row.job == job.job and row.iteration is not None]
        if not rows:
            return [], []
        idle_s = [after.t_s - row.t_s - row.time_us * 1e-6 for row, after in pairwise(rows)] or [0.0]
        pauses_s.append(max(0.0, mean(idle_s)))
        starts_s.append(rows[0].t_s + max(0.0, idle_s[0] - document["pause"]))
    first = min(starts_s, default=0.0)
    return [start_s - first for start_s in starts_s], pauses_s


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
    return {BEFORE: before, FAULT: later[:1], AFTER: [row for row in later[1:] if row.t_s >= last_s]}


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
