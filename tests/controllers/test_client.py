"""The lab's side of the controller process."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from railweave.controllers.client import ControllerProcess, PatientSocket
from railweave.framework.errors import ControllerError
from railweave.framework.model.events import ProcessDied

LIBRARIES = ["ryu", "os-ken", "c65of"]
InLab = Callable[[str, str], dict[str, Any]]


@pytest.mark.lab
@pytest.mark.untimed
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_killed_controller_is_reported_and_its_successor_mends_only_what_differs(
    in_lab: InLab, library: str
) -> None:
    seen = in_lab("killed", library)
    [[kind, why]] = seen["died"]
    assert kind == "died"
    assert "SIGKILL" in why
    assert "RuleApp" in why  # the log's last lines
    assert seen["same_descriptor"]
    assert seen["untouched"] == seen["tampered"]  # until the intent is known
    assert len(seen["tampered"]) == 20
    assert sorted(found.split(",")[0] for found in seen["flows"]) == sorted(
        f"cookie={cookie}" for cookie in seen["expected"]
    )
    assert seen["before"]["10.0.0.5"] == 5
    assert seen["after"] == seen["before"]  # an entry made anew would count from 0
    assert seen["told"]["rules"] == 20


@pytest.mark.lab
@pytest.mark.untimed
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_process_ends_with_its_starter_and_when_told(in_lab: InLab, library: str) -> None:
    seen = in_lab("orphan", library)
    assert seen == {"ended": True, "stopped": True, "after_stop": 0, "kinds": ["ready", "ready"]}


def test_a_process_that_cannot_start_is_a_death_with_its_reason(tmp_path: Any) -> None:
    controller = ControllerProcess("no-such-library", "")
    controller.start([], str(tmp_path / "log"))
    while not (events := controller.events()):
        pass
    controller.set_rules([])  # dropped: nobody is there
    assert [type(event) for event in events] == [ProcessDied]
    assert "status 2" in events[0].why
    assert "no-such-library" in events[0].why
    assert controller.events() == []
    controller.stop()


def test_nothing_can_be_asked_before_the_start() -> None:
    controller = ControllerProcess("ryu", "")
    assert controller.events() == []
    with pytest.raises(ControllerError, match="not started"):
        controller.fileno()
    with pytest.raises(ControllerError, match="not running"):
        controller.pid()


def test_each_run_configures_a_controller_of_its_own() -> None:
    offered = ControllerProcess("ryu", "a summary")
    used = offered.configured({})
    assert used is not offered
    assert used.summary == "a summary"


def test_a_patient_socket_keeps_what_the_kernel_does_not_take() -> None:
    ours, theirs = socket.socketpair()
    data = bytes(range(256)) * 40_000  # far more than any default buffer
    with PatientSocket(ours) as patient, theirs:
        patient.sendall(data)
        assert patient.flush()
        received = bytearray()
        while len(received) < len(data):
            received += theirs.recv(1 << 20)
            patient.flush()
        assert bytes(received) == data
        assert not patient.flush()
        theirs.close()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            patient.sendall(b"x")
