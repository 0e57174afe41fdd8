"""What is wrong with an experiment is named, in its place, with what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import from_document, load_plan
from railweave.framework.registry import Registers
from tests.framework.experiment.experiments import refused, written


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
    assert lines[0] == "7 errors:"
    assert lines[1] == f"{path}:5:3: topology.rails: 'eight' is not a whole number, 1 or more."
    assert lines[2].startswith(f"{path}:6:1: router: there is no router 'hscor'; known are: hscore, nowhere.")
    assert lines[2].endswith("Did you mean hscore?")
    assert lines[3].startswith(f"{path}:7:32: collective.x: collective all-reduce has no option 'x'")
    assert lines[4].startswith(f"{path}:8:1: sizee: there is no such key. Did you mean size?")
    assert lines[5].startswith(f"{path}:9:1: iterations: '10:30' is not a whole number")
    assert lines[6].startswith(f"{path}:10:7: seed: 012 would be read as octal. Write 12")
    assert lines[7].startswith(f"{path}:12:3: health.step: 7 is not a share")
    assert len(lines) == 8


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("size", "-1", "'-1' is too small; it takes a size such as 64K or 1M, 0 or more."),
        ("size", "1KB", "a size such as 64K"),
        ("size", "3", "not whole elements of float32 (4 bytes each)"),
        ("size", [1], "[1] is not a size"),
        ("iterations", "0", "1 or more"),
        ("iterations", "100001", "100000 or less"),
        ("iterations", True, "a whole number"),
        ("iterations", 2.5, "a whole number"),
        ("dtype", "float23", "Did you mean float32?"),
        ("redop", "add", "one of sum, prod, max, min"),
        ("rate_scale", "0", "'0' is too small; it takes a number, 1e-12 or more, 1000 or less, or auto."),
        ("rate_scale", "-1e-5", "or auto"),
        ("rate_scale", "nan", "or auto"),
        ("rate_scale", "1e9", "too large"),
        ("name", "x", "nothing reads it any more. Remove the line."),
        ("path_mtu", "1500", "one of 256, 512, 1024, 2048, 4096"),
        ("feedback", "maybe", "true or false"),
        ("seed", "-1", "0 or more"),
        ("timeout", "0", "or auto"),
        ("pcap", "g0.0->r3", "its links are"),
        ("pcap", {"a": 1}, "pcap"),
        ("faults", "at=1s down rail:9", "rail:0..3"),
        ("faults", ["none", "at=1s down rail:0"], "holds none next to others"),
        ("faults", 5, "expects a text or a list of texts"),
        ("faults", [5], "expects a word (got 5)"),
        ("faults", "at=iter:12 down rail:0", "iteration 12 never comes; there are 12, 0 to 11"),
        ("health.margin", "0.5", "1 or more"),
        ("health.dwel", "1s", "Did you mean dwell?"),
        ("health", "fast", "expects a mapping of step"),
        ("topology", 5, "expects a word (got 5)"),
        ("topology", "rail-onyl", "Did you mean rail-only?"),
        ("topology.domains", "0", "'0' is too small; it takes a whole number, 1 or more"),
        ("topology.rail_rate", "400", "'400' has no unit. Write 400Gb/s, 400GB/s or 400b/s"),
        ("topology.rail_rate", 400, "400 has no unit"),
        ("topology.rail_latency", "2", "'2' has no unit. Write 2us, 2ms or 2s"),
        ("health.dwell", "1e-3", "'1e-3' has no unit. Write 0.001us, 0.001ms or 0.001s"),
        ("timeout", "5", "'5' has no unit. Write 5us, 5ms or 5s"),
        ("router", "nowhere", "does not serve this rail-only: it serves torus"),
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
    overrides: dict[str, object] = {"size": 4, key: value} if key == "size.x" else {key: value}
    message = refused(registers, overrides)
    assert words in message
    assert "\n" not in message
    assert message.startswith(f"--set {key}")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
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
        plan = load_plan(None, overrides, registers)
    except ExperimentError as error:
        assert str(error)
    else:
        assert from_document(plan.document(), registers).document() == plan.document()


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"workload": "ptdp", "collective": "all-to-all"}, "takes the place of a collective"),
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


@pytest.mark.parametrize("number", ["400", "400.0", "4e11"])
def test_a_file_gives_every_rate_its_unit(registers: Registers, tmp_path: Path, number: str) -> None:
    """400 would be 400 bit/s, and 4e11 may be meant in bytes."""
    file = tmp_path / "x.yaml"
    file.write_text(f"topology: {{rail_rate: {number}}}\n")
    with pytest.raises(ExperimentError, match=r"x.yaml:1:12: topology.rail_rate: .* has no unit"):
        load_plan(file, {}, registers)


@pytest.mark.parametrize("value", [4e11, "400Gb/s", "400 Gb/s", "50GB/s", "400000000000b/s"])
def test_a_rate_is_read_in_its_unit_and_a_float_of_a_script_in_base_units(
    registers: Registers, value: object
) -> None:
    assert (
        load_plan(None, {"topology.rail_rate": value, "size": 4}, registers).fabric.capacity_bps.min() == 4e11
    )


def test_zero_needs_no_unit(registers: Registers) -> None:
    plan = load_plan(None, {"topology.rail_latency": "0", "health.dwell": 0, "size": 4}, registers)
    assert not plan.fabric.latency_s.any() and plan.experiment.health.dwell_s == 0


def test_numbers_that_have_no_short_text_are_stored_with_their_units(
    registers: Registers, tmp_path: Path
) -> None:
    """experiment.yaml is a file like any other: it runs again."""
    plan = load_plan(None, {"topology.rail_rate": 1e11 / 3, "topology.rail_latency": 1e-6 / 3}, registers)
    file = tmp_path / "x.yaml"
    file.write_text(plan.yaml())
    assert load_plan(file, {}, registers).document() == plan.document()
