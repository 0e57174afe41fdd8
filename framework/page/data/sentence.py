"""What happened in a run, in one sentence: which element, since when, what it cost, what answered it."""

import re

from railweave.framework.parameters import units
from railweave.framework.results.figures import (
    FaultFigures,
    Groups,
    RerouteFigures,
)
from railweave.framework.results.result import RunResult

SAME = 0.03
"""Relative difference below which times are called equal."""
_WORDS = {
    "degrade": "fell to {value} of its rate",
    "loss": "began to lose {value} of its packets",
    "corrupt": "began to damage {value} of its packets",
    "reorder": "began to reorder {value} of its packets",
    "duplicate": "began to send {value} of its packets twice",
    "down": "went down",
    "up": "came up",
    "restore": "was repaired",
    "kill": "was killed",
    "start": "was started again",
    "replace": "was replaced by a spare",
    "reconnect": "moved to another port of its optical circuit switch",
}


def sentence(result: RunResult, unanswered: float | None = None) -> str:
    """Of the first fault that fired and the iterations around it; of a run without one, how fast it was.

    `unanswered`: what a model says of the time of iterations on the old routes, over that before the fault.
    """
    fired = [fault for fault in result.faults if fault.t_s is not None]
    if result.jobs:
        return _of_jobs(result)
    n = sum(row.iteration is not None for row in result.rows)
    if not fired:
        return f"{_how_fast(result, n)}; no fault was injected{_moved(result.reroutes)}."
    first = fired[0]
    assert first.t_s is not None
    of_several = f", the first of {len(fired)} faults" if len(fired) > 1 else ""
    words = f"{_happened(first)} {spaced_time(first.t_s)} into the run{of_several}"
    return f"{words}; {_cost(result.iterations)}{_answer(first, result, unanswered)}."


def so_far(ended: int, planned: int | None, *, running: bool) -> str:
    """Of a run without a result: how many iterations have `ended`."""
    of_planned = "" if planned is None else f" of {planned}"
    if running:
        return f"The run is under way: {ended}{of_planned} iterations have ended."
    return (
        "This run has no result: it failed, was killed or still runs. "
        f"{ended}{of_planned} iterations had ended."
    )


def gain_unknown(result: RunResult) -> bool:
    """Whether the only fault slowed links down and was answered so soon that no iteration shows what it would
    have cost."""
    fired, groups = [fault for fault in result.faults if fault.t_s is not None], result.iterations
    before, during, after = groups.before.median_us, groups.during.median_us, groups.after.median_us
    if len(fired) != 1 or fired[0].verb != "degrade" or fired[0].recovered_s is None or result.jobs:
        return False
    if before is None or after is None:
        return False
    return during is None or _won(before, during, after) <= SAME


def _happened(fault: FaultFigures) -> str:
    kind, _, name = fault.target.partition(":")
    who = {"gpu": "GPU", "link": "Link"}.get(kind, kind.capitalize())
    option = next((w.partition("=")[2] for w in fault.text.split() if w.startswith(("to=", "rate="))), "")
    event = _WORDS.get(fault.verb, fault.verb + " was done to it").format(value=_percent(option))
    return f"{who} {name} {event}".replace("  ", " ")


def _percent(text: str) -> str:
    try:
        return f"{100 * units.parse_ratio(text):g} %"
    except ValueError:
        return "a share"


def _cost(groups: Groups) -> str:
    """How much longer iterations took, compared with those before."""
    before, during, after = groups.before.median_us, groups.during.median_us, groups.after.median_us
    if before is None or (during is None and after is None):
        return "there is no iteration on both sides of it to compare"
    worst = during if during is not None else after
    assert worst is not None
    if worst / before < 1 + SAME:
        return "iterations took no longer than before"
    rise = f"iterations took {worst / before:.2f} times as long ({_time(before)}, then {_time(worst)})"
    return rise


def _won(before: float, during: float, after: float) -> float:
    """The part of what was lost that came back."""
    return (during - after) / (during - before) if during > before else 0.0


def _answer(fault: FaultFigures, result: RunResult, unanswered: float | None) -> str:
    groups = result.iterations
    before, during, after = groups.before.median_us, groups.during.median_us, groups.after.median_us
    scale, oracle = result.fabric.rate_scale, result.experiment.get("oracle") is True
    if fault.visible is False:
        return "; too small a change to act on"
    if fault.detected_s is None:
        return (
            "; the router was told of it (oracle) and changed no route"
            if oracle
            else ("; the scores never showed it")
        )
    seen = f"; the scores showed it after {both_clocks(fault.detected_s, scale)}"
    if oracle:
        seen = "; the router was told of it (oracle)"
    if fault.recovered_s is None:
        without = " without feedback" if result.experiment.get("feedback") is False else ""
        return f"{seen}, and{without} no route was changed"
    assert fault.t_s is not None
    at = fault.t_s + fault.recovered_s
    pairs = next((r.pairs_changed for r in result.reroutes if r.t_s >= at - 1e-6), None)
    moved = f"{seen}, and {'routes of ' + str(pairs) + ' pairs' if pairs else 'routes'} changed after "
    moved += both_clocks(fault.recovered_s, scale)
    if before is None or after is None:
        return moved
    if during is not None and (won := _won(before, during, after)) > SAME:
        return f"{moved}, which won {_back(won)}"
    lost = unanswered or 1.0
    if lost > 1 + SAME and (won := _won(1.0, lost, after / before)) > SAME:
        model = f"on the old routes {lost:.2f} times as long as before, the model says"
        return f"{moved}, which won {_back(won)} ({model})"
    if during is None or during / before < 1 + SAME:
        return moved
    return f"{moved}, after which iterations took {after / before:.2f} times as long as before the fault"


def _back(won: float) -> str:
    return "all of it back" if won > 1 - SAME else f"back {100 * won:.0f} % of the loss"


def _how_fast(result: RunResult, n: int) -> str:
    row = result.summary
    share = "" if row.ratio_to_bound is None else f", {100 * row.ratio_to_bound:.0f} % of the physical limit"
    took = (
        f"{n} iterations took {_time(row.time_us)} each"
        if n > 1
        else f"One iteration took {_time(row.time_us)}"
    )
    return f"{took} ({row.declared_time_us:.4g} us at declared rates{share})"


def _moved(reroutes: tuple[RerouteFigures, ...]) -> str:
    if not reroutes:
        return " and no route changed"
    n = len(reroutes)
    return (
        f", and routes changed {'once' if n == 1 else f'{n} times'}, first at {spaced_time(reroutes[0].t_s)}"
    )


def _of_jobs(result: RunResult) -> str:
    slowed = [job for job in result.jobs if job.interference is not None]
    names = f"{len(result.jobs)} jobs ran on one fabric"
    if not slowed:
        return f"{names}."
    worst = max(slowed, key=lambda job: job.interference or 0)
    cost = f"in company its iterations took {worst.interference:.2f} times as long"
    if (worst.interference or 0) < 1 + SAME:
        return f"{names}; in company their iterations took no longer than alone."
    return f"{names}; job {worst.name} lost most: {cost}."


def _time(us: float) -> str:
    return spaced_time(us * 1e-6)


def both_clocks(seconds: float, rate_scale: float) -> str:
    """`474 ms (3.13 us declared)`: a time of the run's clock, and on that of the machine whose rates are
    declared."""
    return f"{spaced_time(seconds)} ({spaced_time(seconds * rate_scale)} declared)"


def spaced_time(seconds: float) -> str:
    """`1.66 s`, `200 ms`: three digits."""
    return re.sub(r"(?<=\d)(?=[a-z])", " ", units.time(float(f"{seconds:.3g}")))
