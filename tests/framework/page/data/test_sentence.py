"""What the first sentence of a page says. The fixture's run: iterations of 1 s, 1 s, 2.5 s (rail 1 at 20 %
from 2 s on) and, rerouted at 4.5 s, 1.25 s; rate scale 1e-5."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railweave.framework.page.data.sentence import gain_unknown, sentence
from railweave.framework.results.figures import (
    FaultFigures,
    Fidelity,
    JobFigures,
)
from railweave.framework.results.result import RunResult

COST = (
    "Rail 1 fell to 20 % of its rate 2 s into the run; iterations took 2.50 times as long (1 s, then 2.5 s)"
)


def answered(
    result: RunResult, after_us: float | None = 1.25e6, unanswered: float | None = None, **figures: object
) -> str:
    """The sentence with other figures of the fault, another median after the reroute, and what a model
    says."""
    groups = replace(result.iterations, after=replace(result.iterations.after, median_us=after_us))
    fault = replace(result.faults[0], **{"detected_s": 0.5, "recovered_s": 2.5, **figures})
    return sentence(replace(result, iterations=groups, faults=(fault,)), unanswered)


def test_what_a_fault_cost_and_what_the_reroute_won_back(result: RunResult) -> None:
    """Of the 1.5 s that an iteration lost the reroute won 1.25 s back."""
    seen = f"{COST}; the scores showed it after 500 ms (5 us declared)"
    moved = f"{seen}, and routes of 24 pairs changed after 2.5 s (25 us declared)"
    assert answered(result) == f"{moved}, which won back 83 % of the loss."
    assert answered(result, 1.02e6) == f"{moved}, which won all of it back."
    worse = f"{moved}, after which iterations took 2.60 times as long as before the fault."
    assert answered(result, 2.6e6) == worse
    assert answered(result, 2.6e6, 2.5) == worse
    by_model = "(on the old routes 5.00 times as long as before, the model says)"
    said = f"{moved}, which won back 60 % of the loss {by_model}."  # 2.4 of 4
    assert answered(result, 2.6e6, 5.0) == said
    assert answered(result, None) == f"{moved}."


def test_a_model_is_asked_where_no_iteration_shows_what_was_won_back(result: RunResult) -> None:
    fault = replace(result.faults[0], recovered_s=0.5)
    slow = replace(result.iterations, after=replace(result.iterations.after, median_us=2.6e6))
    unknown = replace(result, iterations=slow, faults=(fault,))
    assert gain_unknown(unknown)
    assert not gain_unknown(replace(unknown, iterations=result.iterations))  # 2.5 s, then 1.25 s
    assert not gain_unknown(replace(unknown, faults=(replace(fault, recovered_s=None),)))
    assert not gain_unknown(replace(unknown, faults=(fault, fault)))
    assert not gain_unknown(replace(unknown, faults=(replace(fault, verb="down"),)))


def test_what_was_not_answered_is_said(result: RunResult) -> None:
    assert answered(result, detected_s=None) == f"{COST}; the scores never showed it."
    assert answered(result, visible=False) == f"{COST}; too small a change to act on."
    unmoved = f"{COST}; the scores showed it after 500 ms (5 us declared), and no route was changed."
    assert answered(result, recovered_s=None) == unmoved
    without = replace(result, experiment={**result.experiment, "feedback": False})
    assert answered(without, recovered_s=None).endswith(
        "declared), and without feedback no route was changed."
    )


def test_an_oracle_has_no_scores_that_show_a_fault(result: RunResult) -> None:
    told = replace(result, experiment={**result.experiment, "oracle": True})
    words = f"{COST}; the router was told of it (oracle)"
    assert answered(told, detected_s=None) == f"{words} and changed no route."
    assert answered(told, None) == f"{words}, and routes of 24 pairs changed after 2.5 s (25 us declared)."


def test_the_first_of_several_faults_and_iterations_that_took_no_longer(result: RunResult) -> None:
    killed = FaultFigures("at=2s kill controller", "kill", "controller", 2.0, 0)
    short = replace(result.iterations, during=replace(result.iterations.during, median_us=1.01e6))
    words = sentence(replace(result, iterations=short, faults=(killed, *result.faults)))
    assert words.startswith(
        "Controller was killed 2 s into the run, the first of 2 faults; iterations took no longer than before"
    )


def test_a_run_without_a_fault_says_how_fast_it_was(result: RunResult) -> None:
    """Means of four iterations: 5.75 s and four limits of 0.6 s."""
    never = replace(result.faults[0], t_s=None)
    for faults in ((), (never,)):
        assert sentence(replace(result, faults=faults, reroutes=())) == (
            "4 iterations took 1.44 s each (14.38 us at declared rates, 42 % of the physical limit); "
            "no fault was injected and no route changed."
        )
    assert sentence(replace(result, faults=())).endswith("injected, and routes changed once, first at 4.5 s.")


@pytest.mark.parametrize(
    ("interference", "words"),
    [
        ((1.5, 1.25), "; job a lost most: in company its iterations took 1.50 times as long."),
        ((1.01, 1.02), "; in company their iterations took no longer than alone."),
        ((None, None), "."),
    ],
)
def test_of_several_jobs_the_one_that_lost_most(
    result: RunResult, interference: tuple[float | None, float | None], words: str
) -> None:
    jobs = tuple(
        JobFigures(i, name, ("g0.0",), result.iterations, Fidelity("pass"), None, None, interference[i])
        for i, name in enumerate("ab")
    )
    assert sentence(replace(result, jobs=jobs)) == f"2 jobs ran on one fabric{words}"
