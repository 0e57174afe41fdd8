"""Two results of one experiment, compared. The fixture's run: 1 s, 1 s, the fault at 2 s, 2.5 s, the reroute
at 4.5 s, 1.25 s; rate scale 1e-5."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railweave.framework.errors import InputError
from railweave.framework.judging.agreement import Agreement, agreement, observed, with_prediction
from railweave.framework.results.figures import ElementFigures
from railweave.framework.results.result import RunResult

NAMES = ("emulation", "fluid")


def taking(result: RunResult, *factors: float) -> RunResult:
    """The result with these times of what its iterations took, begun when they began."""
    rows = [
        replace(row, time_us=row.time_us * factor, declared_time_us=row.declared_time_us * factor)
        for row, factor in zip(result.rows, (*factors, 1.0), strict=True)
    ]
    return replace(result, rows=tuple(rows))


def of(first: RunResult, second: RunResult) -> Agreement:
    return agreement(NAMES, ([observed(first)], [observed(second)]))


def test_medians_before_and_after_and_the_iteration_of_the_fault(result: RunResult) -> None:
    compared = of(result, taking(result, 1.0, 0.9, 1.1, 0.88))
    before, fault, after = compared.stages
    assert [stage.name for stage in compared.stages] == ["before", "fault", "after"]
    assert [stage.iterations for stage in compared.stages] == [(2, 2), (1, 1), (1, 1)]
    assert before.declared_us == pytest.approx((10.0, 9.5)) and before.difference == pytest.approx(-0.05)
    assert fault.difference == pytest.approx(0.1) and fault.within
    assert after.difference == pytest.approx(-0.12) and after.within is False
    assert not compared.within and before.within


def test_the_iteration_of_the_fault_may_differ_by_a_quarter_or_half_a_second(result: RunResult) -> None:
    """Of 2.5 s a quarter is more than half a second, of 1 s less."""
    assert of(result, taking(result, 1, 1, 1.24, 1)).within
    assert not of(result, taking(result, 1, 1, 1.26, 1)).within
    short = taking(result, 1, 1, 0.4, 1)
    assert of(short, taking(result, 1, 1, 0.4 * 1.49, 1)).within
    assert not of(short, taking(result, 1, 1, 0.4 * 1.51, 1)).within


def test_scores_reroutes_and_the_choice(result: RunResult) -> None:
    def on(rail: int, score: float, reroute_s: float) -> RunResult:
        carried = [200 if i == rail else 20 if i == 1 else 100 for i in range(4)]
        rails = [ElementFigures(f"rail:{i}", 8, b, 0.5, 1.0) for i, b in enumerate(carried)]
        rails[1] = replace(rails[1], h_score=score)
        reroutes = (replace(result.reroutes[0], t_s=reroute_s),)
        return replace(result, elements=tuple(rails), reroutes=reroutes)

    compared = of(on(2, 0.2, 2.5), on(3, 0.25, 2.25))
    assert compared.chosen == ("rail:2", "rail:3")
    assert compared.reroute_s == pytest.approx((0.5, 0.25))
    assert compared.score_difference == pytest.approx(0.05)
    again = replace(result.faults[0], text="at=iter:2+250ms degrade rail:0 to=20%", target="rail:0", t_s=2.25)
    twice = replace(on(2, 0.2, 2.5), faults=(*result.faults, again))
    assert of(twice, twice).reroute_s == pytest.approx((0.25, 0.25))  # from the last fault on
    even = replace(
        on(2, 0.2, 2.5), elements=tuple(ElementFigures(f"rail:{i}", 8, 100, 0.5, 1.0) for i in "01")
    )
    assert of(even, even).chosen == (None, None)
    unmoved = replace(on(2, 0.2, 2.5), reroutes=())
    assert of(on(2, 0.2, 2.5), unmoved).chosen == ("rail:2", None)


@pytest.mark.parametrize(
    ("factor", "agrees"), [(1.0, True), (1.019, True), (0.931, True), (0.929, False), (1.021, False)]
)
def test_a_model_agrees_that_is_close_to_the_median_of_the_runs_or_among_them(
    result: RunResult, factor: float, agrees: bool
) -> None:
    """Iterations before the fault took 0.93, 0.99 and 1 times the 10 us: 3 % of the median are 0.297 us."""
    runs = [observed(taking(result, part, part, 1, 1)) for part in (0.99, 0.93, 1.0)]
    model = [observed(taking(result, factor, factor, 1, 1))]
    before, fault, after = agreement(NAMES, (runs, model)).stages
    assert before.declared_us == pytest.approx((9.9, 10.0 * factor))
    assert before.runs_us[0] == pytest.approx((9.9, 9.3, 10.0)) and before.iterations[0] == 6
    assert before.as_measured is agrees
    assert fault.as_measured is None and after.as_measured


def test_the_worst_verdict_of_the_runs_counts(result: RunResult) -> None:
    doubtful = observed(replace(result, fidelity=replace(result.fidelity, verdict="degraded")))
    good = observed(replace(result, fidelity=replace(result.fidelity, verdict="pass")))
    assert agreement(NAMES, ([good, doubtful], [good])).verdicts == ("degraded", "pass")


def test_what_cannot_be_compared_is_refused(result: RunResult) -> None:
    with pytest.raises(InputError, match="rate_scale: 1e-05 and 1,"):
        of(result, replace(result, fabric=replace(result.fabric, rate_scale=1.0)))


def test_a_prediction_stands_next_to_every_iteration_and_the_verdict_names_what_parts(
    result: RunResult,
) -> None:
    """The third iteration took 2.5 s and 2 s are predicted. The fixture says that rail 1 held 61 % of it."""
    near = with_prediction(result, taking(result, 1.1, 0.9, 1.0, 0.9))
    assert [row.predicted_us for row in near.rows[:4]] == pytest.approx([1.1e6, 0.9e6, 2.5e6, 1.125e6])
    assert near.fidelity == result.fidelity
    held = tuple(replace(one, element="rail:2") for one in result.bottlenecks)
    slower = with_prediction(result, replace(taking(result, 1, 1, 1.25, 1), bottlenecks=held)).fidelity
    assert slower.reasons == ("iteration 2 took 0.80 times what was predicted: rail:2 held 61 % of it",)
    far = with_prediction(result, taking(result, 1, 1, 0.8, 1)).fidelity
    assert far.verdict == "degraded"
    assert far.reasons == ("iteration 2 took 1.25 times what was predicted: rail:1 held 61 % of it",)
