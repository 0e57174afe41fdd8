"""Studies carried out: every point once, whatever happens to the client and to those who compute."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from railweave.framework.errors import InputError
from railweave.framework.experiment.plan import Plan
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.result import RunResult
from railweave.framework.runs import runner
from railweave.framework.studies import carrying_out
from railweave.framework.studies.carrying_out import ROWS, carry_out, status
from railweave.framework.studies.computing import Row, Task, failed
from railweave.framework.studies.ledger import rows
from railweave.framework.studies.points import Listed, Study
from tests.fakes.stand_in_engines import Lab, with_stand_ins


class PacketLab(Lab):
    """A model that counts as a lab."""

    packets = True


REGISTERS = with_stand_ins()
REGISTERS["engine"].add("tests", "packets", PacketLab())
STUDY = Study("study", {"engine": "fluid"}, (Listed.of(*({"iterations": n} for n in range(1, 31))),), seeds=2)


class Fake:
    """Workers that compute nothing: `ending` makes the row of each task, in an order drawn by `seed`. Every
    row of `twice` arrives twice."""

    runs_labs = False
    waits_for = ""

    def __init__(self, seed: int = 0, places: int = 4, *, twice: bool = False) -> None:
        self._draw, self._places, self._twice = random.Random(seed), places, twice
        self._tasks: list[Task] = []
        self.given: Counter[str] = Counter()
        self.most = 0

    @property
    def free(self) -> bool:
        return len(self._tasks) < self._places

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def submit(self, task: Task, *, lab: bool = False) -> None:
        assert self.free
        self._tasks.append(task)
        self.given[task.id] += 1
        self.most = max(self.most, len(self._tasks))

    def ending(self, task: Task) -> Row:
        return {"iteration_us": float(str(task.over["iterations"])), "verdict": "pass"}

    def finished(self) -> Iterator[tuple[str, Row]]:
        task = self._tasks.pop(self._draw.randrange(len(self._tasks)))
        for _ in range(1 + self._twice):
            yield task.id, self.ending(task)

    def close(self) -> None:
        self._tasks.clear()


def no_lab(plan: Plan, directory: RunDirectory) -> RunResult:
    raise AssertionError("no point of this study needs a lab")


def carried(directory: Path, workers: Fake, study: Study = STUDY, **how: object) -> carrying_out.Tally:
    return carry_out(study, directory, REGISTERS, workers, no_lab, **how)  # type: ignore[arg-type]


def test_every_point_is_computed_once_and_few_wait_at_a_time(tmp_path: Path) -> None:
    workers = Fake(seed=1)
    tally = carried(tmp_path, workers)
    assert (tally.points, tally.before, tally.done, tally.foreign) == (60, 0, 60, 0)
    assert {*workers.given.values()} == {1} and workers.most == 4
    kept = rows(tmp_path / ROWS, "study", None)
    assert {identity: row["iteration_us"] for identity, row in kept.items()} == {
        point.id: point.settings["iterations"] for point in STUDY.points()
    }
    again = carried(tmp_path, second := Fake())
    assert (again.before, again.done, second.given) == (60, 60, Counter())


class Killed(Exception):
    """The client ends here."""


class Fragile(Fake):
    """Ends the client after a number of rows."""

    def __init__(self, seed: int, after: int) -> None:
        super().__init__(seed)
        self._left = after

    def ending(self, task: Task) -> Row:
        self._left -= 1
        if self._left < 0:
            raise Killed
        return super().ending(task)


@pytest.mark.parametrize("seed", range(20))
def test_a_client_that_ends_anywhere_goes_on_there(tmp_path: Path, seed: int) -> None:
    """A law: what has a row is never computed again, and what has none is."""
    draw, computed = random.Random(seed), Counter[str]()
    for _ in range(100):
        workers = Fragile(draw.randrange(100), draw.randrange(12))
        had = {*rows(tmp_path / ROWS, "study", None)}
        try:
            tally = carried(tmp_path, workers)
        except Killed:
            computed.update({*rows(tmp_path / ROWS, "study", None)} - had)
            assert not had & {*workers.given}
            continue
        computed.update({*rows(tmp_path / ROWS, "study", None)} - had)
        break
    assert tally.done == 60 and computed == Counter(point.id for point in STUDY.points())


def test_a_row_that_arrives_twice_is_kept_once(tmp_path: Path) -> None:
    assert carried(tmp_path, Fake(twice=True)).done == 60
    assert len((tmp_path / ROWS).read_text().splitlines()) == 61


class Unlucky(Fake):
    def ending(self, task: Task) -> Row:
        bad = int(str(task.over["iterations"])) % 10 == 0
        return failed("LabError", "the lab fell over.") if bad else super().ending(task)


def test_points_that_fail_are_kept_and_tried_again_when_asked(tmp_path: Path) -> None:
    """Of 30 numbers three end in 0, with two seeds each."""
    assert carried(tmp_path, Unlucky()).failed == {"LabError": 6}
    same = carried(tmp_path, workers := Fake())
    assert (same.failed, workers.given) == ({"earlier": 6}, Counter())
    repaired = carried(tmp_path, workers := Fake(), retry_failed=True)
    assert (repaired.before, repaired.done, sum(repaired.failed.values())) == (54, 60, 0)
    assert len(workers.given) == 6 and not status(STUDY, tmp_path).failed


def test_rows_of_a_changed_study_are_counted_and_kept(tmp_path: Path) -> None:
    carried(tmp_path, Fake())
    shorter = Study("study", {"engine": "fluid"}, (Listed.of(*({"iterations": n} for n in (3, 4, 99))),))
    tally = carried(tmp_path, workers := Fake(), shorter)
    assert (tally.points, tally.before, tally.foreign) == (3, 2, 58) and len(workers.given) == 1
    assert status(STUDY, tmp_path).done == 60


def test_rows_of_another_version_are_left_out_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying_out, "code_version", lambda: "0" * 12)
    carried(tmp_path, Fake())
    monkeypatch.setattr(carrying_out, "code_version", lambda: "1" * 12)
    mixed = status(STUDY, tmp_path, mix_versions=True)
    ours = status(STUDY, tmp_path)
    assert (mixed.done, ours.done, ours.versions) == (60, 0, {"0" * 12: 60})
    tally = carried(tmp_path, workers := Fake())
    assert tally.before == 0 and len(workers.given) == 60


def test_the_same_point_again_counts_once(tmp_path: Path) -> None:
    study = Study(
        "study", {"engine": "fluid"}, (Listed.of(*({"iterations": n} for n in (1, 2, 3))),), sample=50
    )
    tally = carried(tmp_path, workers := Fake(), study)
    assert tally.points + tally.twice == 50 and tally.points == len(workers.given) == 3


def test_the_first_points_alone(tmp_path: Path) -> None:
    tally = carried(tmp_path, Fake(), limit=7)
    assert (tally.points, tally.done, tally.foreign) == (7, 7, None)
    assert carried(tmp_path, Fake(), limit=10).before == 7


def test_a_ledger_of_another_study_is_refused(tmp_path: Path) -> None:
    carried(tmp_path, Fake())
    with pytest.raises(InputError, match="it has rows of study 'study', this is 'other'"):
        carried(tmp_path, Fake(), Study("other", {}))


# -- labs ----------------------------------------------------------------------------------------------------
LABS = Study(
    "labs",
    {"engine": "packets", "iterations": 2, "topology": {"domains": 2}, "faults": []},
    (Listed.of({"router": "hscore"}, {"router": "spray"}), Listed.of({"size": "64K"}, {"size": "1M"})),
    repeats=2,
)


def test_labs_run_in_turn_and_what_is_compared_has_one_rate_scale(tmp_path: Path) -> None:
    scales: list[tuple[object, object]] = []

    def run_here(plan: Plan, directory: RunDirectory) -> RunResult:
        scales.append((plan.experiment.size, plan.experiment.rate_scale))
        return runner.run(plan, REGISTERS, directory)

    tally = carry_out(LABS, tmp_path, REGISTERS, Fake(), run_here)
    assert tally.done == 8 and not tally.failed
    kept = [*rows(tmp_path / ROWS, "labs", None).values()]
    for size in ("64K", "1M"):
        of_size = {row["rate_scale"] for row in kept if row["settings"]["size"] == size}
        assert len(of_size) == 1  # routers and repeats are compared, sizes are not
    assert [scale for _, scale in scales[:2]] == ["auto", "auto"] and "auto" not in {s for _, s in scales[2:]}
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names[0] == "router=hscore,size=1M,repeat=1" and len(names) == 8
    assert {row["directory"] for row in kept} == {f"runs/{name}" for name in names}


def test_a_lab_that_goes_on_keeps_the_scale_of_its_rows(tmp_path: Path) -> None:
    def run_here(plan: Plan, directory: RunDirectory) -> RunResult:
        return runner.run(plan, REGISTERS, directory)

    carry_out(LABS, tmp_path, REGISTERS, Fake(), run_here, limit=1)
    (first,) = rows(tmp_path / ROWS, "labs", None).values()
    scales = []

    def run_again(plan: Plan, directory: RunDirectory) -> RunResult:
        scales.append(plan.experiment.rate_scale)
        return runner.run(plan, REGISTERS, directory)

    carry_out(LABS, tmp_path, REGISTERS, Fake(), run_again, limit=3)
    assert scales == ["auto", first["rate_scale"]]  # 1 MiB begins, and spray with 64 KiB is compared
