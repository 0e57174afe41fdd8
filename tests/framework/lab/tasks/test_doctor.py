"""`railweave doctor`: controllers written to docs/plugins.md alone are started, and whatever they do is a
finding."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from railweave.framework.hookspecs import Controller, hookimpl
from railweave.framework.lab.tasks.doctor import MachineCheck, _controllers
from railweave.framework.model import Rule, RuleUpdate
from railweave.framework.model.events import ControllerEvent, ProcessDied, ProcessReady
from railweave.framework.parameters import Parameter, Value
from railweave.framework.registry import Registers


class Piped(Controller):
    """What docs/plugins.md asks of a controller; its only event comes through a pipe."""

    summary = "a controller"
    parameters: tuple[Parameter, ...] = (Parameter("workers", 2, "count", "threads"),)

    def __init__(self, event: ControllerEvent) -> None:
        self.event, self.stopped, self.workers = event, False, 0
        self.read_end, self.write_end = os.pipe()

    def configured(self, options: Mapping[str, Value]) -> Piped:
        self.workers = int(options["workers"])
        return self

    def start(self, listeners: Sequence[int], log_path: str) -> None:
        with open(log_path, "w") as log:  # noqa: PTH123 - a path below /proc
            log.write("started\n")
        os.write(self.write_end, b"x")

    def fileno(self) -> int:
        return self.read_end

    def events(self) -> list[ControllerEvent]:
        return [self.event] if os.read(self.read_end, 1) else []

    def stop(self) -> None:
        self.stopped = True
        os.close(self.read_end)
        os.close(self.write_end)

    def pid(self) -> int:
        return os.getpid()

    def set_rules(self, rules: Sequence[Rule]) -> None: ...

    def apply(self, update: RuleUpdate) -> None: ...

    def retire(self, version: int) -> None: ...

    def send_train(self, switch: int, port: int, packets: int, size_bytes: int, timed: int = 0) -> None: ...

    def poll_ports(self, number: int) -> None: ...


class Broken(Piped):
    def start(self, listeners: Sequence[int], log_path: str) -> None:
        raise KeyError("listeners")


def finding_of(name: str, controller: Controller) -> MachineCheck:
    class Plugin:
        @hookimpl
        def register_controllers(self, register: Callable[[str, Any], None]) -> None:
            register(name, controller)

    (finding,) = _controllers(Registers([("stranger", Plugin())]))
    return finding


def test_a_controller_written_to_the_docs_is_started_with_its_defaults_and_stopped() -> None:
    controller = Piped(ProcessReady())
    finding = finding_of("piped", controller)
    assert (finding.name, finding.ok, finding.fix) == ("controller piped", True, "")
    assert finding.detail.startswith("starts in 0.")
    assert controller.stopped and controller.workers == 2


@pytest.mark.parametrize(("name", "ok"), [("piped", None), ("ryu", False)])
def test_one_that_dies_is_a_finding_with_its_last_line(name: str, ok: bool | None) -> None:
    controller = Piped(ProcessDied("it ended; the last lines of its log:\nno module named openflow"))
    finding = finding_of(name, controller)
    assert (finding.ok, finding.detail) == (ok, "no module named openflow")
    assert "make setup" in finding.fix and controller.stopped


def test_one_that_raises_is_a_finding_that_names_the_line() -> None:
    controller = Broken(ProcessReady())
    finding = finding_of("broken", controller)
    controller.stop()
    assert finding.ok is None
    assert finding.detail.startswith("controller broken fails with KeyError: 'listeners'")
