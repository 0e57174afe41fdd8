"""The child process: its channel, its end, and the end of its log."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path
from typing import Any

import pytest

from railweave.framework.errors import ChannelClosedError
from railweave.framework.model.events import ProcessDied
from railweave.framework.processes.child import ChildProcess

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def from_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # where `tests` is a package


def child(what: str, **options: Any) -> ChildProcess:
    return ChildProcess("the worker", "tests.framework.processes.worker", [what], **options)


def test_messages_go_both_ways_and_a_closed_channel_ends_it() -> None:
    echo = child("echo", environment={"COLOUR": "red"})
    assert echo.channel.receive() == "red"
    echo.send({"rule": 7})
    assert echo.channel.receive() == {"rule": 7}
    assert echo.stop(20) == 0
    assert not Path(f"/proc/{echo.pid}").exists()
    echo.stop(0)  # again: nothing to do


def test_an_obituary_quotes_the_log_of_this_process_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("of the process before\n")
    failed = child("fail", log_path=str(log))
    with pytest.raises(ChannelClosedError):
        failed.channel.receive()
    lines = failed.obituary(20).splitlines()
    assert lines == [
        "the worker ended with status 1; the last lines of its log:",
        "asked to fail",
        "no such switch",
    ]
    failed.send("dropped")
    assert failed.events() == [ProcessDied("\n".join(lines))]
    assert failed.events() == []
    failed.stop(0)
    assert log.read_text().startswith("of the process before\nasked to fail")


def test_an_obituary_names_the_signal() -> None:
    echo = child("echo")
    echo.channel.receive()
    os.kill(echo.pid, signal.SIGKILL)
    with pytest.raises(ChannelClosedError):
        echo.channel.receive()
    assert echo.obituary(20).startswith("the worker was ended by SIGKILL; the last lines")
    echo.stop(0)


def test_what_does_not_end_is_killed() -> None:
    hanging = child("hang")
    assert hanging.channel.receive() == "ready"
    assert hanging.stop(0.05, signal.SIGTERM) == -signal.SIGKILL


def test_a_killed_process_takes_its_own_children_along() -> None:
    parent = child("start-another")
    grandchild = os.pidfd_open(parent.channel.receive())
    os.kill(parent.pid, signal.SIGKILL)
    try:
        assert select.select([grandchild], [], [], 20)[0]
    finally:
        os.close(grandchild)
        parent.stop(1)
