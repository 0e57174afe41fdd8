"""Keys as a script gives them; what each belongs to is read off the plugins of
tests/framework/conftest.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import load_plan, plan_from_keys, routed_from_keys
from railweave.framework.experiment.settings import LayeredSettings
from railweave.framework.experiment.sources import lay_over_keys
from railweave.framework.registry import Registers
from tests.framework.experiment.experiments import refused, written


def laid_over(
    keys: dict[str, object], registers: Registers, file: dict[str, object] | None = None
) -> dict[str, object]:
    settings = LayeredSettings("a file", file or {})
    assert lay_over_keys(settings, keys, registers) == {}
    return settings.value


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        ({"domains": 8, "size": "64K"}, {"topology": {"domains": 8}, "size": "64K"}),
        ({"topology": "loop", "gpus": 6}, {"topology": {"name": "loop", "gpus": 6}}),
        ({"gpus": 6}, {"topology": {"gpus": 6}}),
        ({"topology": {"name": "loop", "gpus": 6}}, {"topology": {"name": "loop", "gpus": 6}}),
        ({"health": {"dwell": "1s"}, "health.step": 0.1}, {"health": {"dwell": "1s", "step": 0.1}}),
        ({"workload": "ptdp", "tp": 4}, {"workload": {"name": "ptdp", "tp": 4}}),
        ({"same_rail_detour": False}, {"router": {"same_rail_detour": False}}),
        ({"fault": "none", "router": None}, {"faults": "none"}),
        ({"window": "64K"}, {"controller": {"window": "64K"}}),
    ],
)
def test_parameters_stand_by_their_own_names(
    registers: Registers, keys: dict[str, object], value: dict[str, object]
) -> None:
    assert laid_over(keys, registers) == value


def test_the_file_chooses_whose_parameter_it_is(registers: Registers) -> None:
    file: dict[str, object] = {"transport": {"name": "rocev2"}, "controller": {"name": "none such"}}
    assert laid_over({"window": 1}, registers, file)["transport"] == {"name": "rocev2", "window": 1}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"domain": 8}, "domain: there is no such key or parameter. Did you mean domains?"),
        ({"domain": 8, "sizee": 1, "size": "y"}, "3 errors:"),
        (
            {"domains": 8, "topology": {"domains": 4}},
            "topology.domains: is set twice, by domains and topology.",
        ),
        ({"fault": ["at=1s down rail:1"], "faults": []}, "faults: is set twice, by fault and faults."),
        ({"domains": "x", "size": "y"}, "domains: 'x' is not a whole number, 1 or more."),
        ({"health": {"dwell": "x"}}, "health.dwell: 'x' is not a time"),
        ({"gpus": 6}, "gpus: topology rail-only has no option 'gpus'"),
    ],
)
def test_what_is_wrong_carries_the_name_it_was_given_by(
    registers: Registers, keys: dict[str, object], words: str
) -> None:
    with pytest.raises(ExperimentError) as caught:
        plan_from_keys(keys, registers)
    assert words in str(caught.value)


def test_no_fault_unless_asked_for(registers: Registers, tmp_path: Path) -> None:
    assert plan_from_keys({"domains": 2}, registers).faults == ()
    assert load_plan(None, {}, registers).faults
    assert plan_from_keys({"fault": "at=1s down rail:1"}, registers).faults[0].verb == "down"
    path = tmp_path / "experiment.yaml"
    path.write_text("faults: at=1s down rail:0\ntopology: {rails: 2}\n")
    plan = plan_from_keys({"domains": 2}, registers, base=path)
    assert (plan.fabric.n_gpus, [fault.text for fault in plan.faults]) == (4, ["at=1s down rail:0"])


def test_fabric_and_router_objects_are_taken_where_there_is_no_lab(registers: Registers) -> None:
    routed = routed_from_keys({"domains": 2, "faults": ["at=0s down rail:1"]}, registers)
    assert (routed.fabric.n_gpus, routed.name, len(routed.faults)) == (8, "hscore", 1)
    again = routed_from_keys({"topology": routed.fabric, "router": routed.router}, registers)
    assert again.fabric is routed.fabric and again.router is routed.router
    assert again.name == type(routed.router).__name__
    with pytest.raises(ExperimentError, match=r"a Fabric object cannot be run[^\n]*"):
        plan_from_keys({"topology": routed.fabric}, registers)
    with pytest.raises(ExperimentError, match="does not serve this loop"):
        routed_from_keys({"topology": "loop", "router": routed.router}, registers)
    with pytest.raises(ExperimentError, match="topology: is a Fabric already, and takes no options"):
        routed_from_keys({"topology": routed.fabric, "domains": 4}, registers)
    with pytest.raises(ExperimentError, match="size: changes no route"):
        routed_from_keys({"size": "4M"}, registers)


def test_options_win_over_the_file_and_name_themselves(registers: Registers, tmp_path: Path) -> None:
    path = written(tmp_path, "topology: {rails: 8}\nsize: 1K\niterations: x\n")
    plan = load_plan(path, {"topology.rails": "2", "iterations": "5"}, registers)
    assert plan.experiment.topology.options["rails"] == 2
    assert (plan.experiment.size, plan.experiment.iterations) == (1024, 5)
    with pytest.raises(ExperimentError) as caught:
        load_plan(path, {"topology.rails": "two", "iterations": 5}, registers, {"topology.rails": "--rails"})
    assert str(caught.value) == "--rails: 'two' is not a whole number, 1 or more."


def test_another_plugin_ignores_the_file_s_options_and_says_so(registers: Registers, tmp_path: Path) -> None:
    path = written(tmp_path, "topology: {name: rail-only, rails: 8}\nrouter: {name: nowhere, depth: 1}\n")
    plan = load_plan(path, {"router": "hscore"}, registers, {"router": "--router"})
    assert plan.experiment.router.options == {"same_rail_detour": True}
    assert plan.notes == (f"--router hscore: options of router nowhere in {path} are ignored.",)
    assert plan.experiment.topology.options["rails"] == 8
    same = load_plan(path, {"topology": "rail-only", "router": "hscore"}, registers)
    assert same.experiment.topology.options["rails"] == 8


def test_fault_in_the_singular_is_the_same_key(registers: Registers, tmp_path: Path) -> None:
    path = written(tmp_path, "fault: at=1s down rail:9\n")
    assert refused(registers, {}, path).startswith(f"{path}:1:1: faults.0: 'at=1s down rail:9'")
    assert load_plan(path, {"fault": "none"}, registers).faults == ()
