"""What rows say: a line for each setting, ratios to others, and whether a judge's limit holds."""

from __future__ import annotations

from typing import Any

from railweave.framework.studies.answers import answers, sentence
from railweave.framework.studies.sweep_file import Judge


def rows(us: dict[tuple[str, str], list[float | None]]) -> list[dict[str, Any]]:
    """One for each seed of each router and depth; None stands for a point that failed."""
    return [
        {"settings": {"router": router, "depth": depth}, "seed": seed, "repeat": 0, "ok": value is not None}
        | ({} if value is None else {"after_us": value, "verdict": "pass"})
        for (router, depth), values in us.items()
        for seed, value in enumerate(values, 1)
    ]


MEASURED = rows(
    {
        ("ecmp", "20%"): [10.0, 20.0, 30.0],
        ("ecmp", "60%"): [4.0, 8.0, 12.0],
        ("spray", "20%"): [5.0, 10.0, 15.0],
        ("spray", "60%"): [8.0, None, 24.0],
    }
)
TO_ECMP = Judge("after_us", {"router": "ecmp"}, at_most=1.0)


def test_a_setting_is_compared_with_the_same_seeds_of_the_other() -> None:
    """By hand: half of 10, 20, 30; twice 4 and 12, as the second seed failed."""
    lines = answers(MEASURED, TO_ECMP)
    assert [line.settings["router"] for line in lines] == ["ecmp", "ecmp", "spray", "spray"]
    assert [line.relative for line in lines[:2]] == [None, None]
    half, double = (line.relative for line in lines[2:])
    assert half is not None and (half.median, half.low, half.high, half.n) == (0.5, 0.5, 0.5, 3)
    assert double is not None and (double.median, double.n) == (2.0, 2)
    assert [line.holds for line in lines] == [None, None, True, False]
    assert [line.failed for line in lines] == [0, 0, 0, 1]
    assert lines[3].value is not None and lines[3].value.median == 16.0


def test_the_sentence_names_both_ends_with_their_intervals() -> None:
    assert sentence(answers(MEASURED, TO_ECMP), TO_ECMP) == (
        "after_us is, relative to router=ecmp, 2 (95 % interval 2 to 2, n = 2) with router=spray, depth=60%, "
        "and 0.5 (95 % interval 0.5 to 0.5, n = 3) with router=spray, depth=20%; at most 1 holds for 1 of 2 "
        "settings."
    )


def test_an_interval_with_the_limit_inside_is_no_verdict() -> None:
    judge = Judge("after_us", at_most=20.0)
    lines = answers(MEASURED, judge)
    assert [line.holds for line in lines] == [None, True, True, None]


def test_without_a_judge_the_first_figure_that_any_row_has_is_shown() -> None:
    assert {line.figure for line in answers(MEASURED, None)} == {"after_us"}
    plain = [{**row, "after_us": None, "iteration_us": 3.0} for row in MEASURED if row["ok"]]
    assert {line.figure for line in answers(plain, None)} == {"iteration_us"}
    assert "iteration_us is 3 (95 % interval 3 to 3" in sentence(answers(plain, None), None)


def test_where_everything_failed_nothing_is_said() -> None:
    failed = rows({("ecmp", "20%"): [None, None]})
    (line,) = answers(failed, TO_ECMP)
    assert (line.value, line.failed, line.verdicts) == (None, 2, ()) and sentence([line], TO_ECMP) == ""
