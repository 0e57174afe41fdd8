"""`railweave paper`: the list, one item, one paper, the page, and what it refuses."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main
from railweave.framework.registry import Registers, load_plugins

Call = Callable[..., Result]


@pytest.fixture(scope="module")
def registers() -> Registers:
    return load_plugins()


@pytest.fixture
def call(registers: Registers) -> Call:
    return lambda *words: CliRunner().invoke(
        main, ["paper", *map(str, words)], obj=registers, prog_name="railweave"
    )


def test_the_list_has_every_item(call: Call) -> None:
    shown = call()
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert len(lines) == 1 + 54
    assert lines[1].split()[:2] == ["h01", "hscore"]
    assert len(json.loads(call("--json").output)["items"]) == 54


def test_one_item_as_a_table(call: Call) -> None:
    shown = call("optree", "o06")
    assert shown.exit_code == 0
    assert shown.output.splitlines()[0].split() == [
        "item", "figure", "source", "ours", "difference", "method", "why",
    ]  # fmt: skip
    assert "One-stage" in shown.output and "+1500.00 %" in shown.output


def test_one_item_as_json(call: Call) -> None:
    document = json.loads(call("rail-only", "r13", "--json").output)
    assert document["schema"] == {"name": "railweave.paper", "version": 1}
    (item,) = document["items"]
    assert {"id", "source", "ours", "difference", "why", "method", "command"} <= item.keys()
    assert item["ours"]["32768 GPUs, radix 64: switches"] == 2560
    assert item["difference"]["32768 GPUs, radix 64: saved"] == pytest.approx(37.5 / 37 - 1)


def test_a_run_names_its_engine(call: Call) -> None:
    (item,) = json.loads(call("hscore", "h12", "--json").output)["items"]
    assert item["method"] == "fluid" and "--engine fluid" in item["command"]


def test_a_picture(call: Call, tmp_path: Path) -> None:
    shown = call("hscore", "h04", "--svg", tmp_path / "a.svg")
    assert shown.exit_code == 0
    assert (tmp_path / "a.svg").read_text().startswith("<svg")


def test_a_model_of_ones_own(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nheads: 32\nhidden: 4096\nlayers: 32\n")
    (item,) = json.loads(call("rail-only", "r16", "--model", file, "--json").output)["items"]
    assert item["ours"]["mine: parameters"] == 32 * (12 * 4096**2 + 13 * 4096) + (51200 + 2048) * 4096


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name: mine\nheads: 32\n", "the model lacks hidden, layers"),
        ("name: mine\nheads: 32\nhiden: 4096\nlayers: 3\n", "Did you mean hidden?"),
        ("name: mine\nheads: many\nhidden: 4096\nlayers: 3\n", "is a whole number"),
        ("name: mine\nheads: 3\nhidden: 4096\nlayers: 3\n", "3 heads do not divide 4096"),
    ],
)
def test_a_bad_model_is_refused(call: Call, tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(content)
    shown = call("rail-only", "r16", "--model", file)
    assert shown.exit_code == 2 and message in shown.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("hscor",), "Did you mean hscore?"),
        (("optree", "o99"), "it has o01 to o12. Did you mean o09?"),
        (("optree", "r05"), "It is one of rail-only."),
        (("all", "o01"), "all takes no item"),
        (("optree", "o06", "--svg", "x.svg"), "o06 has no picture"),
        (("optree", "--svg", "x.svg"), "--svg goes with one item"),
        (("optree", "--out", "x"), "--out goes with all"),
        (("optree", "o06", "--lab"), "o06 runs nothing"),
        (("--lab",), "the list runs nothing"),
        (("optree", "o06", "--model", "x.yaml"), "Use it with rail-only r16"),
        (("rail-only", "r04", "--model", "x.yaml"), "Use it with rail-only r16"),
        (("rail-only", "r16", "--model", "nowhere.yaml"), "there is no such file"),
        (("tpuv4", "t13", "--svg", "x.svg"), "t13 has no picture"),
    ],
)
def test_what_has_no_effect_is_refused(call: Call, words: tuple[str, ...], message: str) -> None:
    shown = call(*words)
    assert shown.exit_code == 2
    assert message in shown.output


def test_without_a_solver_the_fix_is_named(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # no solution is kept there
    monkeypatch.setitem(sys.modules, "highspy", None)
    shown = call("tpuv4", "t03")
    assert shown.exit_code == 2
    assert "HiGHS is not installed" in shown.output and "pip install 'railweave[ilp]'" in shown.output


def test_an_unwritable_picture(call: Call, tmp_path: Path) -> None:
    shown = call("hscore", "h04", "--svg", tmp_path / "none" / "a.svg")
    assert shown.exit_code == 2 and "cannot be written" in shown.output
