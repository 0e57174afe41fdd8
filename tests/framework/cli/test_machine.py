"""doctor, shell and bench around the lab's functions, whose place plain functions take here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main
from railweave.framework.errors import MachineError
from railweave.framework.experiment.plan import Plan
from railweave.framework.registry import Registers

Call = Callable[..., Result]


@dataclass(frozen=True)
class Finding:
    name: str
    ok: bool | None
    detail: str
    fix: str


@pytest.fixture
def call(registers: Registers) -> Call:
    return lambda *words: CliRunner().invoke(main, list(words), obj=registers, prog_name="railweave")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put functions in the place of a module of the framework."""

    def put(name: str, **functions: object) -> None:
        module = ModuleType(f"railweave.framework.{name}")
        for key, function in functions.items():
            setattr(module, key, function)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        package, _, last = module.__name__.rpartition(".")
        if package in sys.modules:
            monkeypatch.setattr(sys.modules[package], last, module, raising=False)

    return put


GOOD = Finding("Open vSwitch", True, "3.1.0", "")
LIMITED = Finding("netem", None, "not in this kernel", "modprobe sch_netem")
MISSING = Finding("/dev/net/tun", False, "absent", "modprobe tun")


def test_a_machine_that_can_is_told_so(call: Call, lab: Callable[..., None]) -> None:
    lab("lab.tasks.doctor", findings=lambda: [GOOD, LIMITED])
    shown = call("doctor")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == [
        "ok       Open vSwitch  3.1.0",
        "limited  netem         not in this kernel",
        "                       fix: modprobe sch_netem",
    ]


def test_a_machine_that_cannot_exits_with_2_and_names_the_fix(call: Call, lab: Callable[..., None]) -> None:
    lab("lab.tasks.doctor", findings=lambda: [GOOD, MISSING])
    shown = call("doctor", "--json")
    assert shown.exit_code == 2
    document = json.loads(shown.stdout)
    assert document["able"] is False
    assert document["findings"][1] == {
        "name": "/dev/net/tun", "ok": False, "detail": "absent", "fix": "modprobe tun",
    }  # fmt: skip
    assert "MISSING  /dev/net/tun" in call("doctor").stdout


def test_the_shell_opens_the_lab_of_the_options(call: Call, lab: Callable[..., None]) -> None:
    plans: list[Plan] = []

    def opened(plan: Plan, task: str) -> int:
        plans.append(plan)
        assert task == "railweave.framework.cli.shell"
        return 1

    lab("lab.tasks.shell", shell=opened)
    assert call("shell", "--domains", "2", "--rails", "2").exit_code == 1
    assert (plans[0].fabric.n_gpus, plans[0].faults) == (4, ())


def test_a_machine_that_lacks_something_is_an_error_in_words(call: Call, lab: Callable[..., None]) -> None:
    def lacking(plan: Plan, task: str) -> int:
        raise MachineError("no Open vSwitch. apt-get install openvswitch-switch.")

    lab("lab.tasks.shell", shell=lacking)
    shown = call("shell")
    assert (shown.exit_code, shown.stderr) == (
        2,
        "railweave: no Open vSwitch. apt-get install openvswitch-switch.\n",
    )
