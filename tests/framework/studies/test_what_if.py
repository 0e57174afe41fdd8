"""`railweave what-if` of a run that the model itself has made, so that its own size comes out the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import railweave as rw
from railweave.framework.cli import main
from railweave.framework.errors import InputError
from railweave.framework.registry import Registers
from tests.fakes.stand_in_engines import with_stand_ins


@pytest.fixture(scope="module")
def registers() -> Registers:
    return with_stand_ins()


@pytest.fixture(scope="module")
def directory(registers: Registers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 8 iterations in 4 x 4 on what stands for a lab: rail 1 at 20 % from the fourth on."""
    path = tmp_path_factory.mktemp("what-if") / "run"
    fault = "at=iter:3 degrade rail:1 to=20%"
    rw.run(engine="lab", iterations=8, faults=fault, registers=registers, out=path)
    return path


def called(registers: Registers, *words: str) -> Result:
    return CliRunner().invoke(main, ["what-if", *words], obj=registers, prog_name="railweave")


def test_times_gain_and_bottleneck_at_each_size(registers: Registers, directory: Path) -> None:
    """The ring of rail 1 takes 5 times as long without feedback; the closed forms say the healthy times."""
    lab, same, larger = rw.what_if(directory, factors=[1, 10], registers=registers)
    assert (lab.engine, lab.gpus, lab.alone_us, lab.gain) == ("lab", 16, None, None)
    assert (same.engine, same.gpus, larger.gpus) == ("fluid", 16, 160)
    assert lab.healthy_us is not None and lab.healthy_us == pytest.approx(1.25 * (same.healthy_us or 0))
    for row, domains in ((same, 4), (larger, 40)):
        plan = rw.load(domains=domains, registers=registers)
        model_s = plan.collective.closed_form_s(plan.fabric, plan.schedule, plan.packet)
        assert row.healthy_us == pytest.approx(1e6 * model_s, rel=1e-3)
        assert row.gain is not None and row.gain == pytest.approx(row.alone_us / row.faulted_us)  # type: ignore[operator]
        assert row.gain > 2 and row.bottleneck.startswith("rail:") and row.took_s is not None


def test_the_command_prints_a_table_and_json(registers: Registers, directory: Path) -> None:
    shown = called(registers, str(directory), "--times", "1,4", "--router", "spray")
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines[0].split()[:4] == ["engine", "GPUs", "healthy", "faulted"]
    assert [line.split()[:2] for line in lines[1:4]] == [["lab", "16"], ["fluid", "16"], ["fluid", "64"]]
    document = json.loads(called(registers, str(directory), "--times", "1", "--json").stdout)
    assert document["schema"]["name"] == "railweave.what-if" and len(document["rows"]) == 2


def test_a_size_that_cannot_be_computed_is_refused_by_itself(registers: Registers, directory: Path) -> None:
    """2^20 GPUs are the most of a fabric."""
    _, same, huge = rw.what_if(directory, factors=[1, 100_000], registers=registers)
    assert same.refused == "" and huge.healthy_us is None
    assert "400000 x 4 GPUs: 1048576 is the most" in huge.refused
    shown = called(registers, str(directory), "--times", "100000")
    assert shown.exit_code == 0 and "refused: " in shown.stdout


def test_without_feedback_a_link_that_stays_down_fails_the_run_alone(
    registers: Registers, directory: Path
) -> None:
    fault = "at=iter:3 down link:g0.1->r1"
    _, row = rw.what_if(directory, factors=[4], faults=fault, registers=registers)
    assert row.refused == "" and row.faulted_us is not None and row.gain is None
    assert "stood still for 4.5 s" in row.alone_failed
    shown = called(registers, str(directory), "--times", "4", "--fault", fault)
    assert shown.exit_code == 0 and shown.stdout.splitlines()[2].split()[4] == "fails"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--times", "0"], "is no list such as 10,100,1000"),
        (["--times", "ten"], "is no list such as 10,100,1000"),
        (["--ranks", "domain:0-1"], "selects the same GPUs on a fabric of any size"),
        (["--fault", "at=iter:3 degrade rail:9 to=20%"], "rail:9"),
        (["--size", "64K:256K:x2"], "size: fabrics are compared at one size"),
    ],
)
def test_what_has_one_size_or_cannot_be_is_refused(
    registers: Registers, directory: Path, words: list[str], message: str
) -> None:
    shown = called(registers, str(directory), *words)
    assert shown.exit_code == 2 and message in shown.output


def test_runs_of_several_jobs_or_sizes_are_refused(registers: Registers) -> None:
    """Their times are those of different schedules."""
    two = [{"ranks": "all", "share": True}] * 2
    for keys, message in (({"jobs": two}, "jobs: the run has 2"), ({"size": "64K:128K:x2"}, "at one size")):
        run = rw.run(engine="fluid", domains=2, rails=2, iterations=1, registers=registers, **keys)
        for changed in ({}, {"size": "1M"}) if "size" in keys else ({},):
            with pytest.raises(InputError, match=message):
                list(rw.what_if(run, factors=[1], registers=registers, **changed))


def test_a_directory_without_a_run_is_refused(registers: Registers, tmp_path: Path) -> None:
    shown = called(registers, str(tmp_path))
    assert shown.exit_code == 2 and str(tmp_path) in shown.output


@pytest.mark.parametrize(
    ("name", "options", "factor", "larger"),
    [
        ("rail-optimised", {"domains": 3}, 10, {"domains": 30}),
        ("ring", {"nodes": 16}, 100, {"nodes": 1600}),
        ("torus", {"shape": "4x4"}, 10, {"shape": "20x8"}),
        ("torus", {"shape": "4x4x4"}, 1000, {"shape": "40x40x40"}),
        ("twisted-torus", {"shape": "4x4x8"}, 10, {"shape": "8x16x16"}),  # 2,048; 8x8x16 has 1,024
        ("fat-tree", {"k": 4}, 10, {"k": 10}),  # 250; k = 8 has 128
        ("fat-tree", {"k": 4}, 1, {"k": 4}),
    ],
)
def test_fabrics_grow_as_their_operators_extend_them(
    registers: Registers, name: str, options: dict[str, object], factor: int, larger: dict[str, object]
) -> None:
    assert registers["topology"][name].larger(options, factor) == larger
    assert rw.topology(name, registers=registers, **larger).n_gpus >= factor


def test_a_fabric_of_one_size_is_refused(registers: Registers) -> None:
    class Fixed(type(registers["topology"]["ring"])):  # type: ignore[misc]
        def larger(self, params: object, factor: int) -> None:
            return None

    registers["topology"].add("tests", "fixed", Fixed())
    run = rw.run(engine="fluid", topology="fixed", iterations=1, registers=registers)
    with pytest.raises(InputError, match="topology fixed: it has one size"):
        list(rw.what_if(run, registers=registers))
