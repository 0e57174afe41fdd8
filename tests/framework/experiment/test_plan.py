"""Plans: as plain data, as files, of sweeps and workloads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import build_fabric, from_document, load_plan
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.result import RunResult
from tests.framework.experiment.experiments import refused, written


def test_a_plan_travels_as_plain_data(registers: Registers) -> None:
    plan = load_plan(
        None, {"topology.rails": 2, "size": "64K", "health.dwell": "1s", "pcap": "g0.1->r1"}, registers
    )
    document = json.loads(json.dumps(plan.document()))
    again = from_document(document, registers)
    assert again.document() == plan.document()
    assert again.fabric == plan.fabric
    assert again.faults == plan.faults
    assert again.schedule == plan.schedule
    assert again.experiment == plan.experiment


def test_a_document_that_was_tampered_with_is_refused(registers: Registers) -> None:
    document = load_plan(None, None, registers).document()
    with pytest.raises(ExperimentError, match="size: 'big' is not a size"):
        from_document({**document, "size": "big"}, registers)


@pytest.mark.parametrize(
    "keys",
    [
        {"timeout": "5s", "rate_scale": 2e-5, "path_mtu": 1024, "seed": 7, "alone": 1},
        {"timeout": "0.3s", "jobs": ["ranks=domain:0 start=150ms pause=1.5s timeout=7s", "ranks=domain:1-2"]},
    ],
)
def test_a_file_with_every_kind_of_number_runs_again(
    keys: dict[str, object], registers: Registers, tmp_path: Path
) -> None:
    plan = load_plan(None, {"faults": [], **keys}, registers)
    again = load_plan(written(tmp_path, plan.yaml()), None, registers)
    assert again.document() == plan.document()


def test_the_written_file_runs_again(registers: Registers, tmp_path: Path) -> None:
    plan = load_plan(None, {"topology.rail_rate": "123.456Gb/s", "rate_scale": "1.5e-5"}, registers)
    path = tmp_path / "experiment.yaml"
    path.write_text(plan.yaml())
    again = load_plan(path, None, registers)
    assert again.document() == plan.document()
    assert yaml.safe_load(plan.yaml())["size"] == "1M"


def test_a_sweep_is_a_schedule_for_each_size(registers: Registers, tmp_path: Path) -> None:
    plan = load_plan(None, {"size": "64K:256K:x2", "iterations": 3}, registers)
    assert [schedule.size_bytes for schedule in plan.schedules] == [65536, 131072, 262144]
    assert plan.iterations == 9
    assert [plan.schedule_of(i).size_bytes for i in (0, 2, 3, 8)] == [65536, 65536, 131072, 262144]
    assert not plan.faults and any("sweeps over sizes" in note for note in plan.notes)
    again = load_plan(written(tmp_path, plan.yaml()), None, registers)
    assert again.document() == plan.document() and "size: 64K:256K:x2" in plan.yaml()
    faulty = {"size": "64K:256K:x2", "iterations": 3, "faults": ["at=iter:8 degrade rail:1 to=20%"]}
    assert load_plan(None, faulty, registers).faults
    assert "there are 9" in refused(registers, {**faulty, "faults": ["at=iter:9 down rail:1"]})


def test_a_workload_takes_the_collective_s_place(registers: Registers, tmp_path: Path) -> None:
    asked = {"workload": "ptdp", "workload.tp": 4, "size": "64K"}
    plan = load_plan(None, asked, registers)
    assert plan.collective is registers["workload"]["ptdp"]
    assert plan.experiment.traffic.name == "ptdp" and plan.experiment.traffic.options["tp"] == 4
    assert "collective" not in plan.document()
    again = load_plan(written(tmp_path, plan.yaml()), None, registers)
    assert again.document() == plan.document() == from_document(plan.document(), registers).document()


def test_a_fabric_alone(registers: Registers) -> None:
    assert build_fabric("loop", {"gpus": "6"}, {}, registers).n_gpus == 6
    with pytest.raises(ExperimentError, match="--gpus: 'x' is not a whole number"):
        build_fabric("loop", {"gpus": "x"}, {"topology.gpus": "--gpus"}, registers)


def test_the_scale_that_a_run_chose_is_written_with_the_word(
    registers: Registers, result: RunResult, tmp_path: Path
) -> None:
    plan = load_plan(None, {"fault": "none"}, registers)
    directory = RunDirectory.create(tmp_path / "run", "x")
    directory.write_text("experiment.yaml", plan.yaml())
    directory.write_result(result)
    path = directory.path / "experiment.yaml"
    assert "\nrate_scale: 1.0e-05  # auto: " in path.read_text()
    again = load_plan(path, None, registers)
    assert again.experiment.rate_scale == 1e-5 and again.document() == plan.at_scale(1e-5).document()


def test_what_is_foreseen_is_the_schedule_before_it_is_listed() -> None:
    """Same bytes between the same ranks; an engine with packets gets every repetition by itself."""
    registers = load_plugins()
    lab, model = (load_plan(None, {"engine": name}, registers) for name in ("emulation", "fluid"))
    assert lab.compact == model.compact == model.schedules
    assert lab.schedule.n_entries == lab.schedule.n_transfers > lab.compact[-1].n_entries
    for listed, compact in zip(lab.schedule.pairs(), lab.compact[-1].pairs(), strict=True):
        assert np.array_equal(listed, compact)
