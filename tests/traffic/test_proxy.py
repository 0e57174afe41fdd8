"""The process behind the proxy, as far as it runs without a lab."""

from __future__ import annotations

import select
from pathlib import Path
from typing import Any

import pytest

from railweave.framework.errors import TransportError
from railweave.framework.model import Endpoint, PacketFormat
from railweave.framework.model.events import ProcessDied
from railweave.framework.parameters import resolve
from railweave.framework.processes.child import ChildProcess
from railweave.traffic.proxy import RoceV2


def wait_for_end(transport: RoceV2) -> list[Any]:
    events: list[Any] = []
    while not any(isinstance(event, ProcessDied) for event in events):
        assert select.select([transport], [], [], 20)[0]
        events += transport.events()
    assert transport.events() == []
    return events


def test_a_namespace_that_is_not_there_ends_the_transport_with_the_reason(tmp_path: Path) -> None:
    transport = RoceV2().configured(resolve("rocev2", RoceV2.parameters, {}))
    nowhere = Endpoint(0, "g0.0", str(tmp_path / "nowhere"), "eth0", "02:00:00:00:00:01", "10.0.0.1", 4096)
    transport.start([nowhere], PacketFormat(4096), str(tmp_path / "log"))
    events = wait_for_end(transport)
    assert "nowhere" in events[-1].why
    transport.stop()
    transport.stop()


def test_stop_ends_the_process(tmp_path: Path) -> None:
    process = ChildProcess("the transport", "railweave.traffic.service", log_path=str(tmp_path / "log"))
    pid = process.pid
    process.stop()
    assert not Path(f"/proc/{pid}").exists()


def test_it_must_be_started_first() -> None:
    with pytest.raises(TransportError, match="start"):
        RoceV2().events()
