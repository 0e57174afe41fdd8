"""Several ways of doing the same run, compared: medians, spread, ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from railweave.framework.results import RunResult

MODES = {
    "feedback": {"feedback": True, "oracle": False},
    "no-feedback": {"feedback": False, "oracle": False},
    "oracle": {"feedback": True, "oracle": True},
}
"""What a router may be told, as keys of the experiment: what was measured, nothing, the truth."""


@dataclass(frozen=True, slots=True)
class Way:
    """A router, and what it is told of health."""

    router: str
    mode: str

    @property
    def name(self) -> str:
        return self.router if self.mode == "feedback" else f"{self.router} ({self.mode.replace('-', ' ')})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One way over its repeats, in emulated seconds. `healthy_s`: median iteration before the first fault;
    `faulted_s`: of the last half of the iterations that began after it, when the way has had time to answer;
    `spread_s`: least and most of the repeats' own medians; `ratio`: the first way's `faulted_s` over this one's."""

    way: Way
    repeats: int
    healthy_s: float | None
    faulted_s: float | None
    spread_s: tuple[float, float] | None
    ratio: float | None
    wrong: int
    verdicts: tuple[str, ...]


def compare(results: Sequence[tuple[Way, Sequence[RunResult]]]) -> list[Comparison]:
    """A row per way, in the order given; ratios are to the first."""
    rows: list[Comparison] = []
    for way, runs in results:
        healthy = [t for run in runs if (t := _median(_times(run, faulted=False))) is not None]
        faulted = [t for run in runs if (t := _median(_times(run, faulted=True))) is not None]
        middle = median(faulted) if faulted else None
        first = rows[0].faulted_s if rows else middle
        rows.append(
            Comparison(
                way, len(runs), median(healthy) if healthy else None, middle,
                (min(faulted), max(faulted)) if faulted else None,
                first / middle if first and middle else None,
                sum(run.wrong for run in runs),
                tuple(run.fidelity.verdict for run in runs),
            )
        )  # fmt: skip
    return rows


def _times(run: RunResult, *, faulted: bool) -> list[float]:
    """Iteration times before the first fault, or of the later half of those that began after it."""
    breaks = min((fault.t_s for fault in run.faults if fault.t_s is not None), default=float("inf"))
    rows = [row for row in run.rows if row.iteration is not None]
    if not faulted:
        return [row.time_us * 1e-6 for row in rows if row.t_s + row.time_us * 1e-6 <= breaks]
    after = [row.time_us * 1e-6 for row in rows if row.t_s >= breaks]
    return after[len(after) // 2 :]


def _median(times: Sequence[float]) -> float | None:
    return median(times) if times else None
