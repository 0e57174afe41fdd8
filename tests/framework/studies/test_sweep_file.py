"""Sweep files: what they say, and what is wrong with them, by line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment import yaml_reader
from railweave.framework.studies.points import Drawn, Listed
from railweave.framework.studies.sweep_file import Sweep, sweep_of

WHOLE = """
question: Which NIC?
experiment:
  engine: fluid
  domains: 2
  faults: ["at=iter:2 degrade nic:{nic} to={depth}"]
axes:
  router: [hscore, spray]
  nic: ["0.0", "1.3"]
  depth: {from: 10%, to: 90%, steps: 5}
  topology: [{name: rail-only, rails: 4}, {name: rail-optimised, spines: 2}]
  told: [{feedback: true}, {feedback: true, oracle: true}, {feedback: false}]
seeds: 3
judge: {figure: after_us, to: {router: hscore}, at_most: 1.1}
"""


def sweep(text: str, limited: bool = False) -> Sweep:
    return sweep_of(yaml_reader.parse(text, "s.yaml", kind="a sweep"), "s", limited)


def test_a_whole_one() -> None:
    """Counted: 2 routers x 2 NICs x 5 depths x 2 fabrics x 3 modes x 3 seeds."""
    read = sweep(WHOLE)
    assert read.study.count == 2 * 2 * 5 * 2 * 3 * 3 and read.question == "Which NIC?"
    assert read.study.words == {"nic", "depth"}
    depths = read.study.axes[2]
    assert isinstance(depths, Listed)
    assert [value.sets["depth"] for value in depths.values] == ["10%", "30%", "50%", "70%", "90%"]
    fabrics = read.study.axes[3]
    assert isinstance(fabrics, Listed)
    assert fabrics.values[1].sets == {"topology": "rail-optimised", "topology.spines": 2}
    assert read.judge is not None and read.judge.at_most == 1.1 and read.study.written
    again = sweep(yaml_reader.written(read.document))
    assert [p.id for p in again.study.points()] == [p.id for p in read.study.points()]


def test_ranges_are_even_in_numbers_or_in_their_logarithm() -> None:
    axes = sweep(
        "axes: {a: {from: 1, to: 1000, steps: 4, spacing: log}, b: {from: 0.5, to: 1, steps: 3}}"
    ).study.axes
    assert isinstance(axes[0], Listed) and [v.sets["a"] for v in axes[0].values] == [1, 10, 100, 1000]
    assert isinstance(axes[1], Listed) and [v.sets["b"] for v in axes[1].values] == [0.5, 0.75, 1]
    drawn = sweep("sample: 5\naxes: {a: {from: 1us, to: 9us, draw: log}}").study.axes[0]
    assert drawn == Drawn("a", 1.0, 9.0, "log", "us")


def test_an_experiment_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "base.yaml"
    file.write_text("engine: fluid\ndomains: 2\n")
    read = sweep(f"experiment: {file}\naxes: {{size: [64K]}}")
    assert read.study.base == {"engine": "fluid", "domains": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("axis: {size: [1M]}", "s.yaml:1:1: axis: there is no such key. Did you mean axes?"),
        ("axes: {size: 1M}", "s.yaml:1:8: axes.size: expects a list of values, or a range (got '1M')"),
        ("axes: {size: []}", "expects a list of values"),
        ("axes: {size: [1M, 2M, 1M]}", "lists 1M twice"),
        ("axes: {size: [{}]}", "a value sets nothing"),
        ("axes: {a: [{size: 1M}], size: [2M]}", "axes.size: sets size, as axis a does"),
        ("axes: {d: {from: 5%, to: 9us, steps: 3}}", "of the same unit"),
        ("axes: {d: {from: 9%, to: 5%, steps: 3}}", "a larger one of the same unit"),
        ("axes: {d: {from: 5, steps: 3}}", "goes `from` a number `to` a larger one"),
        ("axes: {d: {from: 5, to: 9, step: 3}}", "there is no 'step' in a range. Did you mean steps?"),
        ("axes: {d: {from: 5, to: 9, steps: 1}}", "2 or more (got 1)"),
        ("axes: {d: {from: 0, to: 9, steps: 3, spacing: log}}", "above 0"),
        ("sample: 3\naxes: {d: {from: 0, to: 9, draw: log}}", "Begin above 0"),
        ("sample: 3\naxes: {d: {from: 0.5, to: 9, draw: whole}}", "Give whole ends"),
        ("sample: 3\naxes: {d: {from: 0, to: 9, draw: normal}}", "`draw` is uniform, log or whole"),
        ("axes: {d: {from: 0, to: 9, draw: uniform}}", "`sample` does not say how many"),
        ("seeds: 3\naxes: {seed: [1, 2]}", "the axes have seeds of their own"),
        ("seeds: 0", "seeds: 0 is too small"),
        ("seeds: few", "'few' is not a whole number"),
        ("experiment: 3", "expects the keys of an experiment, or a file (got 3)"),
        ("experiment: none.yaml", "there is no such file"),
        ("experiment: {seed: x}", "expects a whole number (got 'x')"),
        ("judge: after_us", "expects a figure"),
        ("judge: {figure: after}", "there is no figure 'after'. Did you mean after_us?"),
        ("judge: {figure: after_us, to: {router: x}}", "no axis sets it. They set: nothing"),
        ("axes: {router: [a, b]}\njudge: {figure: after_us, to: {router: c}}", "does not have 'c'"),
        ("judge: {figure: after_us, at_most: much}", "expects a number (got 'much')"),
        ("question: [1]", "expects a text"),
        ("axes: [1]", "expects names with their values (got [1])"),
    ],
)
def test_what_is_wrong_is_named_in_its_place(text: str, message: str) -> None:
    with pytest.raises(ExperimentError) as refused:
        sweep(text)
    assert message in str(refused.value)


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(ExperimentError) as refused:
        sweep("seeds: 0\naxes: {size: 1M}\nfoo: 1")
    assert str(refused.value).startswith("3 errors:")


def test_a_thousand_million_points_are_refused_with_their_number() -> None:
    axes = ", ".join(f"a{i}: {{from: 0, to: 1, steps: 1000}}" for i in range(3))
    text = "experiment: {faults: ['x {a0} {a1} {a2}']}\n" + f"axes: {{{axes}}}"
    with pytest.raises(ExperimentError, match="these are 1,000,000,000 points, and 1,000,000 are the most"):
        sweep(text)
    assert sweep(text, limited=True).study.count == 10**9
