"""Jobs in turn."""

from __future__ import annotations

from railweave.controllers.turns import Job, Turns


def job(name: str, log: list[str], *waits: set[tuple[int, int]]) -> Job:
    for number, wait in enumerate(waits):
        log.append(f"{name}{number}")
        yield wait
    log.append(f"{name} done")


def test_a_job_waits_for_all_its_answers_and_the_next_job_for_it() -> None:
    turns, log = Turns(), list[str]()
    turns.put(job("a", log, {(1, 1), (2, 1)}, {(1, 2)}))
    turns.put(job("b", log, {(1, 3)}))
    assert log == ["a0"]
    turns.answered((1, 1))
    turns.answered((1, 2))  # not awaited yet, so it counts for nothing
    assert log == ["a0"]
    turns.answered((2, 1))
    assert log == ["a0", "a1"]
    turns.answered((1, 2))
    assert log == ["a0", "a1", "a done", "b0"]
    turns.answered((1, 3))
    assert log[-1] == "b done"


def test_what_waits_for_nothing_goes_straight_on() -> None:
    turns, log = Turns(), list[str]()
    turns.put(job("a", log, set(), set()))
    assert log == ["a0", "a1", "a done"]


def test_a_switch_that_is_gone_owes_nothing() -> None:
    turns, log = Turns(), list[str]()
    turns.put(job("a", log, {(1, 1), (2, 1)}))
    turns.gone(1)
    assert log == ["a0"]
    turns.gone(2)
    assert log == ["a0", "a done"]
