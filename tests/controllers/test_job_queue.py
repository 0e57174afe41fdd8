"""Jobs in turn."""

from __future__ import annotations

from railweave.controllers.job_queue import Job, JobQueue


def job(name: str, log: list[str], *waits: set[tuple[int, int]]) -> Job:
    for number, wait in enumerate(waits):
        log.append(f"{name}{number}")
        yield wait
    log.append(f"{name} done")


def test_a_job_waits_for_all_its_answers_and_the_next_job_for_it() -> None:
    queue, log = JobQueue(), list[str]()
    queue.put(job("a", log, {(1, 1), (2, 1)}, {(1, 2)}))
    queue.put(job("b", log, {(1, 3)}))
    assert log == ["a0"]
    queue.answered((1, 1))
    queue.answered((1, 2))  # not awaited yet, so it counts for nothing
    assert log == ["a0"]
    queue.answered((2, 1))
    assert log == ["a0", "a1"]
    queue.answered((1, 2))
    assert log == ["a0", "a1", "a done", "b0"]
    queue.answered((1, 3))
    assert log[-1] == "b done"


def test_what_waits_for_nothing_goes_straight_on() -> None:
    queue, log = JobQueue(), list[str]()
    queue.put(job("a", log, set(), set()))
    assert log == ["a0", "a1", "a done"]


def test_a_switch_that_is_gone_owes_nothing() -> None:
    queue, log = JobQueue(), list[str]()
    queue.put(job("a", log, {(1, 1), (2, 1)}))
    queue.gone(1)
    assert log == ["a0"]
    queue.gone(2)
    assert log == ["a0", "a done"]
