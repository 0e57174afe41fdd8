"""The rows of `bench health`: what each case is judged by."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace

import numpy as np

from railweave.framework.health.options import HealthOptions

HEALTHY = 0.9
"""The lowest score that a healthy link or element may be published with."""
NEAR = 0.1
"""How far a score may be from the truth at the end of a run."""
HAS_TO_SHOW = 0.9
"""Elements of this true score or less have to be published as degraded."""
IN_TIME = 0.5
"""Elements of this true score or less have to be published within the allowance: 24 packets, three on each
of eight links, do not tell one at 80 % from a healthy one."""
TO_ALONE, TO_ORACLE = 1.03, 1.10
"""Iterations with feedback take at most this many times those without it, and those that know the truth."""
RULES_S, RULES_WITHIN_S = 0.25, {"8x4": 0.5, "8x8": 0.5, "16x16": 0.5}
"""From the published score until new rules are in use: of 16 GPUs, and on larger fabrics. A decision
forecasts several arrangements, and one that is under way about earlier scores is finished first."""
BACK_WITHIN_S = 1.5 + HealthOptions().dwell_s
"""From a repair until rules use what was restored."""
FULL = 0.75
"""Of its rate every link carries at least this share under TCP at full rate, connecting included."""
RESAMPLES = 2000
TOO_LONG = ("16M",)
"""Sizes of three iterations, which are too few to compare."""


@dataclass(frozen=True, slots=True)
class Case:
    """`fault` as behind its `at=`; none in a healthy run. `hold`: in place of a run, the load under which the
    fabric is held for `hold_s` (health_holds.py). `restored`: the iteration before which the fault is undone;
    never where 0."""

    fabric: str
    size: str = ""
    fault: str = ""
    router: str = ""
    iterations: int = 0
    hold: str = ""
    hold_s: float = 0.0
    restored: int = 0

    @property
    def name(self) -> str:
        held = f"{self.hold} for {self.hold_s:g} s" if self.hold else "" if self.fault else "healthy"
        after = "and restored" if self.restored else ""
        parts = (self.fabric, self.size, self.router, self.fault, held, after)
        return " ".join(part for part in parts if part)

    @property
    def compared(self) -> bool:
        """Whether its iterations are compared with those without feedback and with the truth."""
        return bool(self.fault) and not (self.restored or self.hold or self.size in TOO_LONG)


@dataclass(frozen=True, slots=True)
class Row(Case):
    """A case and its figures, None where there is none. Times after the fault in s, times of iterations in us
    declared: medians before the fault, and of those begun after the answer with feedback, after the fault
    without it (`alone_us`), and with the truth in place of measured scores (`oracle_us`). `allowance_s`: by
    when it had to be published (detection.py); `rules_s`: from its publication until new rules were in use;
    `back_s`: from its repair until rules used again what it had hit.

    `score` and `truth` at the end, of what the fault hit most; `healthy_min`: the lowest score published of
    anything healthy; `to_alone`, `to_oracle`: the ratio of medians and the low end of its 95 % interval.
    `fullness`: what TCP made of the rate of the least busy link. `fidelity`, `reasons`: the run's verdict.
    `verdict`: ok, or all that is not as it should be.
    """

    detected_s: float | None = None
    published_s: float | None = None
    allowance_s: float | None = None
    answered_s: float | None = None
    rules_s: float | None = None
    back_s: float | None = None
    score: float | None = None
    truth: float | None = None
    healthy_min: float | None = None
    reroutes: int = 0
    healthy_us: float | None = None
    faulted_us: float | None = None
    alone_us: float | None = None
    oracle_us: float | None = None
    to_alone: tuple[float, float] | None = None
    to_oracle: tuple[float, float] | None = None
    fullness: float | None = None
    fidelity: str = ""
    reasons: str = ""
    verdict: str = ""

    @property
    def case(self) -> Case:
        values = asdict(self)
        return Case(**{field.name: values[field.name] for field in fields(Case)})


def judged(row: Row) -> Row:
    """The row with its verdict."""
    wrong = []
    if row.healthy_min is not None and row.healthy_min < HEALTHY:
        wrong.append(f"something healthy was published with {row.healthy_min:.2f}")
    if row.truth is not None and row.score is not None:
        if row.truth <= HAS_TO_SHOW and row.published_s is None:
            wrong.append("the fault was never published")
        if abs(row.score - row.truth) > NEAR:
            wrong.append(f"published {row.score:.2f} at the end, where {row.truth:.2f} is true")
    soon = row.truth is None or row.truth <= IN_TIME
    for seconds, most_s, what in (
        (row.published_s, row.allowance_s if soon else None, "the fault was published"),
        (row.rules_s, RULES_WITHIN_S.get(row.fabric, RULES_S), "new rules were in use"),
        (row.back_s, BACK_WITHIN_S, "what was restored was used again"),
    ):
        if seconds is not None and most_s is not None and seconds > most_s:
            wrong.append(f"{what} after {seconds:.2f} s, {most_s:.2f} s are allowed")
    if row.restored and row.answered_s is not None and row.back_s is None:
        wrong.append("what was restored was never used again")
    for figure, most, other in (
        (row.to_alone, TO_ALONE, "without feedback"),
        (row.to_oracle, TO_ORACLE, "of the oracle"),
    ):
        if figure is None and row.compared:
            wrong.append(f"no iterations to compare with those {other}")
        if figure is not None and figure[1] > most:
            wrong.append(f"iterations took {figure[0]:.2f} times those {other}")
    if row.fullness is not None and row.fullness < FULL:
        wrong.append(f"TCP filled a link to {row.fullness:.0%} only".replace("%", " %"))
    if not row.fault and row.reroutes:
        wrong.append(f"{row.reroutes} reroutes of a healthy fabric")
    if row.fidelity == "invalid" or (not row.fault and row.fidelity == "degraded"):
        wrong.append(f"fidelity {row.fidelity}" + f" ({row.reasons})" * bool(row.reasons))
    return replace(row, verdict="; ".join(wrong) or "ok")


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float] | None:
    """The ratio of the medians, and the low end of its 95 % interval: the percentile bootstrap of Efron and
    Tibshirani (1993, section 13.3), drawn anew with the same seed each time. None where either is empty."""
    if not ours or not theirs:
        return None
    rng = np.random.default_rng(0)
    drawn = [
        np.median(rng.choice(np.array(times), (RESAMPLES, len(times))), axis=1) for times in (ours, theirs)
    ]
    low = np.percentile(drawn[0] / drawn[1], 2.5)
    return float(np.median(ours) / np.median(theirs)), float(low)
