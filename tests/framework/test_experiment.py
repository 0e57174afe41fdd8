"""The experiment file. Defaults are those that issue 2 states for the main job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment import build_fabric, from_document, load
from railweave.framework.health.options import HealthOptions
from railweave.framework.registry import Registers


def refused(registers: Registers, overrides: dict[str, object], path: Path | None = None) -> str:
    with pytest.raises(ExperimentError) as caught:
        load(path, overrides, registers)
    return str(caught.value)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "exp.yaml"
    path.write_text(text)
    return path


def test_nothing_said_is_the_main_job(registers: Registers) -> None:
    plan = load(None, None, registers)
    asked = plan.experiment
    assert (plan.fabric.kind, plan.fabric.n_gpus) == ("rail-only", 16)
    assert (asked.router.name, asked.collective.name, asked.controller.name) == (
        "hscore",
        "all-reduce",
        "ryu",
    )
    assert (asked.size, asked.dtype, asked.redop, asked.iterations) == (1 << 20, "float32", "sum", 12)
    assert (asked.path_mtu, asked.seed, asked.feedback, asked.rate_scale) == (4096, 1, True, "auto")
    assert asked.faults == ("at=iter:4 degrade rail:1 to=20%",)
    assert plan.schedule.n_ranks == 16
    assert plan.packet.path_mtu == 4096
    assert asked.health.options() == HealthOptions()
    assert asked.health.interval == 0.025
    rates = {
        plan.fabric.kinds[k]: r for k, r in zip(plan.fabric.link_kind, plan.fabric.capacity_bps, strict=True)
    }
    assert rates == {"d": 450e9 * 8, "r": 400e9}


def test_a_file_with_units_and_sections(registers: Registers, tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        name: 2026
        topology: {domains: 2, rail_rate: 200Gb/s}
        router: hscore
        size: 64K
        faults:
          - at=1s down rail:0
          - at=2s up rail:0
        health: {dwell: 500ms, aggregate: min}
        feedback: no
        rate_scale: 1e-5
        timeout: 30s
        pcap: g0.0->r0
        """,
    )
    plan = load(path, None, registers)
    assert plan.fabric.n_gpus == 8
    assert plan.topology_params["rail_rate"] == 200e9
    assert plan.experiment.name == "2026"
    assert plan.experiment.size == 65536
    assert [f.verb for f in plan.faults] == ["down", "up"]
    assert (plan.experiment.health.dwell, plan.experiment.health.aggregate) == (0.5, "min")
    assert plan.experiment.feedback is False
    assert (plan.experiment.rate_scale, plan.experiment.timeout) == (1e-5, 30.0)
    assert [plan.fabric.link_name(i) for i in plan.pcap_links] == ["g0.0->r0"]


def test_everything_wrong_is_said_at_once_in_the_order_of_the_file(
    registers: Registers, tmp_path: Path
) -> None:
    path = written(
        tmp_path,
        "# a comment\n"
        "topology:\n"
        "  name: rail-only\n"
        "  domains: 4\n"
        "  rails: eight\n"
        "router: hscor\n"
        "collective: {name: all-reduce, x: 1}\n"
        "sizee: 1M\n"
        "iterations: 10:30\n"
        "seed: 012\n"
        "health:\n"
        "  step: 7\n",
    )
    lines = refused(registers, {}, path).split("\n")
    assert lines[0] == "7 things to mend:"
    assert lines[1] == f"{path}:5:3: topology.rails: expects a whole number, 1 or more (got 'eight')."
    assert lines[2].startswith(f"{path}:6:1: router: there is no router 'hscor'; known are: hscore, nowhere.")
    assert lines[2].endswith("Did you mean hscore?")
    assert lines[3].startswith(f"{path}:7:32: collective.x: collective all-reduce has no option 'x'")
    assert lines[4].startswith(f"{path}:8:1: sizee: there is no such key. Did you mean size?")
    assert lines[5].startswith(f"{path}:9:1: iterations: expects a whole number")
    assert lines[6].startswith(f"{path}:10:7: seed: 012 would be read as octal. Write 12")
    assert lines[7].startswith(f"{path}:12:3: health.step: expects a share")
    assert len(lines) == 8


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("size", "-1", "0 or more (got '-1')"),
        ("size", "1KB", "a size such as 64K"),
        ("size", "3", "not whole elements of float32 (4 bytes each)"),
        ("size", [1], "(got a list)"),
        ("iterations", "0", "1 or more"),
        ("iterations", "100001", "100000 or less"),
        ("iterations", True, "a whole number"),
        ("iterations", 2.5, "a whole number"),
        ("dtype", "float23", "Did you mean float32?"),
        ("redop", "add", "one of sum, prod, max, min"),
        ("rate_scale", "0", "or auto (got '0')"),
        ("rate_scale", "-1e-5", "or auto"),
        ("rate_scale", "nan", "or auto"),
        ("path_mtu", "1500", "one of 256, 512, 1024, 2048, 4096"),
        ("feedback", "maybe", "true or false"),
        ("seed", "-1", "0 or more"),
        ("timeout", "0", "or auto"),
        ("pcap", "g0.0->r3", "its links are"),
        ("pcap", {"a": 1}, "pcap"),
        ("faults", "at=1s down rail:9", "rail:0..3"),
        ("faults", ["none", "at=1s down rail:0"], "holds none beside others"),
        ("faults", 5, "expects a list of faults"),
        ("faults", [5], "expects a word (got 5)"),
        ("faults", "at=iter:12 down rail:0", "iteration 12 never comes; there are 12, 0 to 11"),
        ("health.margin", "0.5", "1 or more"),
        ("health.dwel", "1s", "Did you mean dwell?"),
        ("health", "fast", "expects a mapping of step"),
        ("topology", 5, "expects a word (got 5)"),
        ("topology", "rail-onyl", "Did you mean rail-only?"),
        ("topology.domains", "0", "1 or more (got '0')"),
        ("topology.rail_rate", "400", ""),
        ("router", "nowhere", "does not serve rail-only fabrics, only torus"),
        ("router.depth", "1", "has no option 'depth'"),
        ("transport.window", "0", "1 or more"),
        ("engine", "fluid", "there is no engine 'fluid'; known are: emulation"),
        ("controller", "rye", "Did you mean ryu?"),
        ("out", "x", "Give it as --out"),
        ("size.x", "1", "has no parts to set"),
    ],
)
def test_one_wrong_value_is_named_with_what_is_allowed(
    registers: Registers, key: str, value: object, words: str
) -> None:
    if not words:
        assert load(None, {key: value, "size": 4}, registers).topology_params["rail_rate"] == 400.0
        return
    overrides: dict[str, object] = {"size": 4, key: value} if key == "size.x" else {key: value}
    message = refused(registers, overrides)
    assert words in message
    assert "\n" not in message
    assert message.startswith(f"--set {key}")


def test_no_rails_and_one_gpu_are_refused(registers: Registers) -> None:
    assert "1 or more (got 0)" in refused(registers, {"topology.rails": 0})
    assert "a fabric needs 2 or more" in refused(registers, {"topology.domains": 1, "topology.rails": 1})


def test_options_win_over_the_file_and_name_themselves(registers: Registers, tmp_path: Path) -> None:
    path = written(tmp_path, "topology: {rails: 8}\nsize: 1K\niterations: x\n")
    plan = load(path, {"topology.rails": "2", "iterations": "5"}, registers)
    assert plan.topology_params["rails"] == 2
    assert (plan.experiment.size, plan.experiment.iterations) == (1024, 5)
    with pytest.raises(ExperimentError) as caught:
        load(path, {"topology.rails": "two", "iterations": 5}, registers, {"topology.rails": "--rails"})
    assert str(caught.value) == "--rails: expects a whole number, 1 or more (got 'two')."


def test_another_plugin_leaves_the_file_s_options_aside_and_says_so(
    registers: Registers, tmp_path: Path
) -> None:
    path = written(tmp_path, "topology: {name: rail-only, rails: 8}\nrouter: {name: nowhere, depth: 1}\n")
    plan = load(path, {"router": "hscore"}, registers, {"router": "--router"})
    assert plan.experiment.router.options == {"same_rail_detour": True}
    assert plan.notes == (f"--router hscore: options of router nowhere in {path} are left aside.",)
    assert plan.topology_params["rails"] == 8
    same = load(path, {"topology": "rail-only", "router": "hscore"}, registers)
    assert same.topology_params["rails"] == 8


def test_the_default_fault_is_left_out_where_it_does_not_fit(registers: Registers) -> None:
    for overrides in ({"topology.rails": 1}, {"iterations": 3}):
        plan = load(None, overrides, registers)
        assert plan.faults == ()
        assert plan.experiment.faults == ()
        assert "no fault in this run" in plan.notes[0]


@pytest.mark.parametrize("nothing", ["none", [], ["none"]])
def test_no_fault_can_be_asked_for(registers: Registers, nothing: object) -> None:
    plan = load(None, {"faults": nothing}, registers)
    assert (plan.faults, plan.notes) == ((), ())


def test_fault_in_the_singular_is_the_same_key(registers: Registers, tmp_path: Path) -> None:
    path = written(tmp_path, "fault: at=1s down rail:9\n")
    assert refused(registers, {}, path).startswith(f"{path}:1:1: faults.0: 'at=1s down rail:9'")
    assert load(path, {"fault": "none"}, registers).faults == ()


def test_the_default_router_is_refused_on_another_fabric(registers: Registers) -> None:
    message = refused(registers, {"topology": "loop"})
    assert message == (
        "router: router hscore does not serve loop fabrics, only rail-only. For loop there is: none."
    )


def test_a_plan_travels_as_plain_data(registers: Registers) -> None:
    plan = load(
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
    document = load(None, None, registers).document()
    with pytest.raises(ExperimentError, match="size: expects a size"):
        from_document({**document, "size": "big"}, registers)


def test_the_written_file_runs_again(registers: Registers, tmp_path: Path) -> None:
    plan = load(None, {"topology.rail_rate": "123.456Gb/s", "rate_scale": "1.5e-5"}, registers)
    path = tmp_path / "experiment.yaml"
    path.write_text(plan.yaml())
    again = load(path, None, registers)
    assert again.document() == plan.document()
    assert yaml.safe_load(plan.yaml())["size"] == "1M"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["size", "iterations", "seed", "rate_scale", "router", "health.step", "faults", "topology"]
        ),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just([1]),
        max_size=3,
    )
)
def test_no_value_raises_anything_but_a_message(registers: Registers, overrides: dict[str, object]) -> None:
    try:
        plan = load(None, overrides, registers)
    except ExperimentError as error:
        assert str(error)
    else:
        assert from_document(plan.document(), registers).document() == plan.document()


def test_a_sweep_is_a_schedule_for_each_size(registers: Registers, tmp_path: Path) -> None:
    plan = load(None, {"size": "64K:256K:x2", "iterations": 3}, registers)
    assert [schedule.size_bytes for schedule in plan.schedules] == [65536, 131072, 262144]
    assert plan.iterations == 9
    assert [plan.schedule_of(i).size_bytes for i in (0, 2, 3, 8)] == [65536, 65536, 131072, 262144]
    assert not plan.faults and any("sweeps over sizes" in note for note in plan.notes)
    again = load(written(tmp_path, plan.yaml()), None, registers)
    assert again.document() == plan.document() and "size: 64K:256K:x2" in plan.yaml()
    faulty = {"size": "64K:256K:x2", "iterations": 3, "faults": ["at=iter:8 degrade rail:1 to=20%"]}
    assert load(None, faulty, registers).faults
    assert "there are 9" in refused(registers, {**faulty, "faults": ["at=iter:9 down rail:1"]})


def test_a_workload_takes_the_collective_s_place(registers: Registers, tmp_path: Path) -> None:
    asked = {"workload": "ptdp", "workload.tp": 4, "size": "64K"}
    plan = load(None, asked, registers)
    assert plan.collective is registers["workload"]["ptdp"]
    assert plan.experiment.traffic.name == "ptdp" and plan.experiment.traffic.options["tp"] == 4
    assert "collective" not in plan.document()
    again = load(written(tmp_path, plan.yaml()), None, registers)
    assert again.document() == plan.document() == from_document(plan.document(), registers).document()


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"workload": "ptdp", "collective": "all-to-all"}, "stands in place of a collective"),
        ({"workload.tp": 4}, "has options but no name"),
        ({"workload": "pdtp"}, "there is no workload 'pdtp'; known are"),
        ({"workload": "ptdp", "workload.tq": 4}, "it takes: model, tp"),
        ({"workload": "ptdp", "workload.model": "gpt-9"}, "gpt-1t"),
    ],
)
def test_what_is_wrong_with_a_workload_is_named(
    registers: Registers, overrides: dict[str, object], says: str
) -> None:
    assert says in refused(registers, overrides)


def test_a_fabric_alone(registers: Registers) -> None:
    assert build_fabric("loop", {"gpus": "6"}, {}, registers).n_gpus == 6
    with pytest.raises(ExperimentError, match="--gpus: expects a whole number"):
        build_fabric("loop", {"gpus": "x"}, {"topology.gpus": "--gpus"}, registers)
