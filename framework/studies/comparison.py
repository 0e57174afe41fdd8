"""The same experiment under several routers and modes, compared: medians, spread, ratio."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from railweave.framework.errors import InputError, did_you_mean
from railweave.framework.experiment.modes import MODES
from railweave.framework.judging.rows import ended_by
from railweave.framework.results.result import RunResult


@dataclass(frozen=True, slots=True)
class Variant:
    """A router, and what it is told about health: a key of MODES."""

    router: str
    mode: str = "feedback"

    @property
    def name(self) -> str:
        return self.router if self.mode == "feedback" else f"{self.router} ({self.mode.replace('-', ' ')})"

    @property
    def keys(self) -> dict[str, object]:
        """The keys of the experiment that make it this variant."""
        return {"router": self.router, **MODES[self.mode]}


def variants_of(routers: Sequence[str], modes: Sequence[str]) -> list[Variant]:
    """Every router in every mode. Raises InputError for a mode that does not exist."""
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise InputError(
            f"modes: {unknown[0]!r} is none of {', '.join(MODES)}.{did_you_mean(unknown[0], MODES)}"
        )
    return [Variant(router, mode) for router in routers for mode in modes]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One variant over its repeats. Times are declared, in microseconds, so that runs at different rate
    scales compare.

    `healthy_us`: median iteration before the first fault; `faulted_us`: of the later half of the iterations
    that began after it, when routes have had time to change; `spread_us`: lowest and highest median of a
    single run; `ratio`: the first variant's `faulted_us` over this one's; `rate_scales`: of all runs,
    ascending.
    """

    variant: Variant
    repeats: int
    healthy_us: float | None
    faulted_us: float | None
    spread_us: tuple[float, float] | None
    ratio: float | None
    wrong: int
    verdicts: tuple[str, ...]
    rate_scales: tuple[float, ...]


def compare(results: Sequence[tuple[Variant, Sequence[RunResult]]]) -> list[Comparison]:
    """A row per variant, in the order given; ratios are to the first."""
    rows: list[Comparison] = []
    for variant, runs in results:
        healthy = [median(times) for run in runs if (times := _times_us(run, faulted=False))]
        faulted = [median(times) for run in runs if (times := _times_us(run, faulted=True))]
        middle = median(faulted) if faulted else None
        first = rows[0].faulted_us if rows else middle
        rows.append(
            Comparison(
                variant,
                repeats=len(runs),
                healthy_us=median(healthy) if healthy else None,
                faulted_us=middle,
                spread_us=(min(faulted), max(faulted)) if faulted else None,
                ratio=first / middle if first and middle else None,
                wrong=sum(run.wrong for run in runs),
                verdicts=tuple(run.fidelity.verdict for run in runs),
                rate_scales=tuple(sorted({run.fabric.rate_scale for run in runs})),
            )
        )
    return rows


def _times_us(run: RunResult, *, faulted: bool) -> list[float]:
    """Declared times of the iterations before the first fault, or of the later half of those that began after
    it."""
    first_s = min((fault.t_s for fault in run.faults if fault.t_s is not None), default=float("inf"))
    rows = [row for row in run.rows if row.iteration is not None]
    if not faulted:
        return [row.declared_time_us for row in rows if ended_by(row, first_s)]
    after = [row.declared_time_us for row in rows if row.t_s >= first_s]
    return after[len(after) // 2 :]
