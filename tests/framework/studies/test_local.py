"""Workers on this machine: real processes that compute small fabrics."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import railweave as rw
from railweave.framework.errors import MachineError
from railweave.framework.studies.computing import Row, Task
from railweave.framework.studies.local import LocalWorkers

SMALL = {"engine": "fluid", "domains": 2, "rails": 2, "size": "64K", "iterations": 2}


@pytest.fixture
def workers() -> Iterator[LocalWorkers]:
    with_two = LocalWorkers(2)
    yield with_two
    with_two.close()


def all_rows(workers: LocalWorkers, tasks: list[Task]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    left = tasks[::-1]
    while left or workers.busy:
        while left and workers.free:
            workers.submit(left.pop())
        rows |= workers.finished()
    return rows


def task(number: int, **keys: object) -> Task:
    return Task(f"{number:032x}", SMALL, {"seed": 1, **keys}, written=False)


def test_workers_compute_what_a_run_in_this_process_does(workers: LocalWorkers) -> None:
    rows = all_rows(workers, [task(n, iterations=n) for n in range(2, 8)])
    direct = rw.run(**{**SMALL, "iterations": 3})
    assert len(rows) == 6 and not any("cause" in row for row in rows.values())
    row = rows[f"{3:032x}"]
    assert row["iteration_us"] == pytest.approx(direct.summary.declared_time_us, rel=1e-12)
    assert row["verdict"] == direct.fidelity.verdict and row["gpus"] == 4


def test_what_is_wrong_with_one_point_is_its_own_row(workers: LocalWorkers) -> None:
    rows = all_rows(workers, [task(1), task(2, rails=-1), task(3, sise="1M"), task(4)])
    causes = [rows[f"{n:032x}"].get("cause") for n in (1, 2, 3, 4)]
    assert causes == [None, "ExperimentError", "ExperimentError", None]
    assert "Did you mean size?" in rows[f"{3:032x}"]["error"]


def children() -> dict[int, str]:
    """Processes that this one started, and their words."""
    found = {}
    for entry in Path(f"/proc/{os.getpid()}/task").iterdir():
        for pid in (entry / "children").read_text().split():
            found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def test_a_worker_that_is_killed_fails_the_point_it_was_at_alone(workers: LocalWorkers) -> None:
    """8,192 GPUs with a fault take a while; those behind it in the same worker run in its successor."""
    long = task(
        0, domains=128, rails=64, size="4M", iterations=40, faults=["at=iter:2 degrade rail:1 to=20%"]
    )
    all_rows(workers, [task(8), task(9)])  # both are there
    workers.submit(long)
    victim = workers._workers[0].process.pid
    for n in range(1, 4):
        workers.submit(task(n))
    rows: dict[str, Row] = {}
    while len(rows) < 2:
        rows |= workers.finished()
    os.kill(victim, signal.SIGKILL)
    while workers.busy:
        rows |= workers.finished()
    assert rows[long.id]["cause"] == "ProcessDied" and "SIGKILL" in rows[long.id]["error"]
    assert sorted(rows) == sorted(f"{n:032x}" for n in range(4))
    assert all("cause" not in rows[f"{n:032x}"] for n in range(1, 4))


def test_a_worker_that_is_killed_before_it_is_ready_is_replaced(workers: LocalWorkers) -> None:
    workers.submit(task(1))
    os.kill(workers._workers[0].process.pid, signal.SIGKILL)
    rows: dict[str, Row] = {}
    while workers.busy:
        rows |= workers.finished()
    assert [*rows] == [task(1).id] and "cause" not in rows[task(1).id]


def test_where_no_worker_can_start_it_ends(workers: LocalWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railweave.framework.studies.local.MODULE", "railweave.there.is.none")
    with pytest.raises(MachineError, match=r"(?s)no worker can start: .*No module named"):
        all_rows(workers, [task(1), task(2)])


def test_closing_ends_them(workers: LocalWorkers) -> None:
    all_rows(workers, [task(1), task(2)])
    assert sum("studies.worker" in words for words in children().values()) == 2
    workers.close()
    assert not any("studies.worker" in words for words in children().values())
