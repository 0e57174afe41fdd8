"""The process behind the proxy, as far as it runs without a lab."""

from __future__ import annotations

import select
from pathlib import Path

import pytest

from railweave.framework.errors import TransportError
from railweave.framework.hookspecs import Event
from railweave.framework.model import Endpoint, PacketFormat
from railweave.framework.parameters import resolve
from railweave.traffic.child import Child
from railweave.traffic.proxy import RoceV2


def wait_for_end(child: Child | RoceV2) -> list[Event]:
    events: list[Event] = []
    while not any(event.kind == "died" for event in events):
        source = child.channel if isinstance(child, Child) else child
        assert select.select([source], [], [], 20)[0]
        events += child.events()
    assert child.events() == []
    return events


def test_a_child_that_ends_by_itself_is_reported_once_with_its_last_words(tmp_path: Path) -> None:
    child = Child("railweave.traffic.no_such_module", str(tmp_path / "log"))
    (died,) = wait_for_end(child)
    assert "no_such_module" in died.data["why"]
    assert "status 1" in died.data["why"]
    child.order({"do": "nothing"})
    child.stop()


def test_a_namespace_that_is_not_there_ends_the_transport_with_the_reason(tmp_path: Path) -> None:
    transport = RoceV2().configured(resolve("rocev2", RoceV2.parameters, {}))
    nowhere = Endpoint(0, "g0.0", str(tmp_path / "nowhere"), "eth0", "02:00:00:00:00:01", "10.0.0.1", 4096)
    transport.start([nowhere], PacketFormat(4096), str(tmp_path / "log"))
    events = wait_for_end(transport)
    assert "nowhere" in events[-1].data["why"]
    transport.stop()
    transport.stop()


def test_stop_ends_the_process(tmp_path: Path) -> None:
    child = Child("railweave.traffic.process", str(tmp_path / "log"))
    pid = child.process.pid
    child.stop()
    assert not Path(f"/proc/{pid}").exists()


def test_it_must_be_started_first() -> None:
    with pytest.raises(TransportError, match="start"):
        RoceV2().events()
