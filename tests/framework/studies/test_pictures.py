"""Which figures a study has, and what their numbers are."""

from __future__ import annotations

from typing import Any

from railweave.framework.studies.answers import answers
from railweave.framework.studies.pictures import pictures
from railweave.framework.studies.sweep_file import Judge


def rows(routers: list[str], depths: list[str], sizes: list[str], seeds: int = 2) -> list[dict[str, Any]]:
    """Of points that take depth in percent times the number of the router."""
    return [
        {
            "settings": {"router": router, "depth": depth, "size": size},
            "seed": seed, "repeat": 0, "ok": True, "verdict": "pass",
            "after_us": float(depth[:-1]) * number + seed,
            "iterations_us": [1.0 * seed, 2.0, 3.0], "faults_at": [0.5],
        }
        for number, router in enumerate(routers, 1)
        for depth in depths for size in sizes for seed in range(seeds)
    ]  # fmt: skip


def test_curves_go_over_the_numbers_and_a_map_over_two_axes() -> None:
    some = rows(["hscore", "spray"], ["20%", "40%", "60%"], ["1M"])
    curve, heat, over_time = pictures(answers(some, None), some)
    assert curve.title == "after_us over depth" and len(curve.rows) == 6
    assert curve.rows[0] == ("router=hscore", "20%", 20.5, 20.0, 21.0, 2)
    assert heat.title == "after_us over depth and router"
    assert ("spray", "60%", 120.5) in heat.rows and len(heat.rows) == 6
    assert over_time.title == "time of iterations"
    assert over_time.rows[0] == ("router=hscore, depth=20%, size=1M", 0, 0.5, 0.0, 1.0)
    assert all(picture.svg.startswith("<svg") for picture in (curve, heat, over_time))


def test_sizes_are_numbers_and_words_are_not() -> None:
    some = rows(["a", "b", "c"], ["50%"], ["64K", "1M"])
    first, *_ = pictures(answers(some, None), some)
    assert first.title == "after_us over size"
    words = rows(["a", "b", "c"], ["50%"], ["1M"])
    (first, *_) = pictures(answers(words, None), words)
    assert first.title == "after_us over router"


def test_what_is_judged_is_drawn() -> None:
    some = rows(["hscore", "spray"], ["20%", "40%"], ["1M"], seeds=1)
    judge = Judge("after_us", {"router": "hscore"})
    first, *_ = pictures(answers(some, judge), some)
    assert first.title == "after_us, relative over depth"
    assert ("router=spray", "40%", 2.0, None, None, 1) in first.rows


def test_more_settings_than_one_can_tell_apart_are_said() -> None:
    some = rows([f"r{i}" for i in range(12)], ["20%", "40%", "60%"], ["1M"])
    first, *_ = pictures(answers(some, None), some)
    assert first.title.endswith(", 8 of 12 settings") and len(first.rows) == 36


def test_one_setting_has_its_iterations_alone() -> None:
    some = rows(["a"], ["20%"], ["1M"])
    (only,) = pictures(answers(some, None), some)
    assert only.title == "time of iterations"
    assert pictures([], []) == []
