"""Experiments with several jobs: what each takes from the whole, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.framework import api
from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import from_document, load_plan, plan_from_keys
from railweave.framework.registry import Registers
from tests.framework.experiment.experiments import refused, written


@pytest.fixture(scope="module")
def registers() -> Registers:
    return api.installed()


TWO = ["ranks=domain:0 name=left", "ranks=domain:1 collective=all-to-all size=64K iterations=3 pause=2s"]


def test_a_job_has_its_own_keys_and_takes_the_rest_from_the_experiment(registers: Registers) -> None:
    plan = plan_from_keys(
        {"jobs": TWO, "size": "256K", "domains": 2, "rails": 2, "dtype": "int32", "alone": 0}, registers
    )
    left, right = plan.jobs
    assert (left.job.name, right.job.name, right.job.pause, right.job.several) == ("left", "1", 2.0, True)
    assert (left.ranks, right.ranks) == ((0, 1), (2, 3))
    assert (left.iterations, right.iterations) == (12, 3)
    assert (left.schedule.size_bytes, right.schedule.size_bytes) == (256 << 10, 64 << 10)
    assert {job.schedule.dtype for job in plan.jobs} == {"int32"}
    assert left.fabric is right.fabric is plan.fabric
    assert right.transport is not left.transport
    assert right.on_gpus(right.schedule).src.min() == 2


def test_the_document_and_the_yaml_read_back(registers: Registers, tmp_path: Path) -> None:
    plan = plan_from_keys(
        {
            "jobs": ["ranks=all share=yes", {"ranks": "gpu:1.0-1", "share": True, "program": "true"}],
            "domains": 2,
        },
        registers,
    )
    document = plan.document()
    assert not document.keys() & {"collective", "workload", "size", "program", "ranks", "timeout"}
    again = from_document(document, registers)
    assert again.document() == document and [job.ranks for job in again.jobs] == [
        job.ranks for job in plan.jobs
    ]
    assert again.jobs[1].experiment.program == ("true",) and not again.experiment.program
    assert load_plan(written(tmp_path, plan.yaml()), {}, registers).document() == document


def test_one_job_in_a_list_is_an_experiment_with_one(registers: Registers) -> None:
    (job,) = plan_from_keys({"job": "ranks=rail:0"}, registers).jobs
    assert job.ranks == (0, 4, 8, 12) and not job.job.several


def test_a_fabric_that_cannot_be_is_reported_once(registers: Registers) -> None:
    with pytest.raises(ExperimentError, match="domains: 0 is too small") as error:
        load_plan(None, {"jobs": TWO, "topology.domains": 0}, registers)
    assert len(str(error.value).splitlines()) == 1


def test_a_default_fault_is_not_for_several_jobs(registers: Registers) -> None:
    plan = load_plan(None, {"jobs": TWO}, registers)
    assert not plan.faults and "it has several jobs" in "".join(plan.notes)
    faulty = load_plan(None, {"jobs": TWO, "faults": ["at=iter:1 degrade rail:1 to=20%"]}, registers)
    assert faulty.faults == faulty.jobs[1].faults and len(faulty.faults) == 1
    with pytest.raises(ExperimentError, match="iteration 12 never comes"):
        load_plan(None, {"jobs": TWO, "faults": ["at=iter:12 down rail:1"]}, registers)


def test_ranks_serve_an_experiment_with_one_job(registers: Registers) -> None:
    plan = plan_from_keys({"ranks": "domain:0-1", "size": "64K"}, registers)
    assert plan.schedule.n_ranks == 8 and plan.document()["ranks"] == "domain:0-1"
    assert "ranks" not in plan_from_keys({"size": "64K"}, registers).document()


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (3, "jobs: expects a list of jobs"),
        ([], "jobs: expects a list of jobs"),
        (["ranks=all"] * 65, "holds 65 jobs; 64 can run together"),
        (["ranks"], "jobs.0: 'ranks' is not KEY=VALUE"),
        (["ranks=all ranks=all"], "jobs.0: ranks is given twice"),
        (["ranks='"], "jobs.0: .*cannot be split"),
        ([7], "jobs.0: expects keys and values"),
        (["size=64K"], "jobs.0: has no ranks. Say which"),
        (["ranks=rail:9"], "jobs.0.ranks: there is no rail:9; this fabric has rail:0-3"),
        (["ranks=rail:0 colective=x"], "jobs.0.colective: is no key of a job. Did you mean collective"),
        (["ranks=rail:0 faults=none"], "jobs.0.faults: is no key of a job"),
        (["ranks=rail:0", "ranks=domain:1"], "jobs.1.ranks: g1.0 is in job 0 as well.*share: true"),
        (["ranks=rail:0 share=true", "ranks=rail:0"], "jobs.1.ranks: g0.0 and 3 more are in job 0"),
        (["ranks=rail:0 name=a", "ranks=rail:1 name=a"], "jobs.1.name: job 0 has it, too"),
        (["ranks=rail:0 start=-1s"], "jobs.0.start: '-1s' is too small"),
        (["ranks=rail:0 share=perhaps"], "jobs.0.share: 'perhaps' is not true or false"),
        (["ranks=rail:0 on_failure=explode"], "jobs.0.on_failure: .*one of continue, stop"),
        (["ranks=rail:0 size=1M:2M:x2"], "jobs.0.size: is a sweep"),
        (["ranks=rail:0 size=1X"], "jobs.0.size: '1X' is not a size"),
        (
            ["ranks=rail:0 collective=all-reduce program=true"],
            "jobs.0.collective: means nothing with a program",
        ),
        (
            ["ranks=rail:0 program=no-such-program"],
            "jobs.0.program: no-such-program is not a program on PATH",
        ),
        (["ranks=gpu:0.0,1.1,2.0"], "jobs.0.collective: .*not the GPU where they meet"),
        (["ranks=gpu:0.0-1,1.0 workload=ptdp"], "jobs.0.workload: .*domain 1 lacks rail 1"),
        (["ranks=gpu:0.0 collective=send-recv"], "jobs.0.collective: send-recv of 1 rank"),
    ],
)
def test_every_mistake_is_refused_with_its_job(jobs: object, message: str, registers: Registers) -> None:
    with pytest.raises(ExperimentError, match=message):
        plan_from_keys({"jobs": jobs}, registers)


@pytest.mark.parametrize("name", ["a/b", "../up", ".", "..", ".hidden", "-x", " x", "a\nb", "a\0b", "x" * 65])
def test_names_of_jobs_are_names_of_files(name: str, registers: Registers) -> None:
    with pytest.raises(ExperimentError, match=r"jobs\.0\.name: .*a name holds letters, digits, _"):
        plan_from_keys({"jobs": [{"ranks": "rail:0", "name": name}, "ranks=rail:1"]}, registers)


def test_names_of_jobs_may_hold_spaces_dots_and_letters_of_any_script(registers: Registers) -> None:
    names = ["Größe 1.5-b", "x" * 64]
    jobs = [{"ranks": f"rail:{i}", "name": name} for i, name in enumerate(names)]
    assert [one.job.name for one in plan_from_keys({"jobs": jobs}, registers).jobs] == names


def test_all_mistakes_of_a_file_come_at_once_with_their_places(registers: Registers, tmp_path: Path) -> None:
    text = (
        "size: 1X\nranks: rail:0\njobs:\n- ranks: domain:0\n  iterations: 0\n- size: 64K\n- {ranks: rail:7}\n"
    )
    message = refused(registers, {}, written(tmp_path, text))
    file = tmp_path / "exp.yaml"
    for line in (
        f"{file}:1:1: size: '1X'",
        f"{file}:2:1: ranks: each of several jobs has its own",
        f"{file}:5:3: jobs.0.iterations: 0 is too small",
        f"{file}:6:3: jobs.1: has no ranks",
        f"{file}:7:4: jobs.2.ranks: there is no rail:7",
    ):
        assert line in message
    assert len(message.splitlines()) == 6


def test_options_say_where_a_mistake_came_from(registers: Registers) -> None:
    with pytest.raises(ExperimentError, match=r"--job.0.ranks: .*no rail:9"):
        load_plan(None, {"jobs": ["ranks=rail:9"]}, registers, {"jobs": "--job"})
