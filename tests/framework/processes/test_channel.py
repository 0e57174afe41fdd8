"""What one process sends arrives as it was, nouns and arrays included."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import msgpack
import numpy as np
import pytest

from railweave.framework.errors import ChannelClosedError
from railweave.framework.model import Endpoint, EntropyTable, IterationResult, PacketFormat, events
from railweave.framework.model.events import (
    EVENTS,
    Event,
    HealthPublished,
    IterationFinished,
    PhaseStarted,
    PortCounts,
    PortsDown,
    RulesInstalled,
    TaskEnded,
)
from railweave.framework.processes.channel import Channel

RESULT = IterationResult(3, 1.5, 0, 100, 2, 1, 4096, (0.5, 1.0), 0.25, 0.001)


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    ours, other = map(Channel, socket.socketpair())
    yield ours, other
    ours.close()
    other.close()


@pytest.mark.parametrize(
    "message",
    [
        {"a": [1, 2.5, None, "x", b"y"], 3: True},
        PhaseStarted("up", seconds=1.0),
        HealthPublished(1.0, 2, {"rail:1": (1.0, 0.2)}, job=4),
        RulesInstalled(10, 0.5, (3, 7)),
        PortsDown(1, ()),
        IterationFinished(RESULT),
        PortCounts(7, np.arange(12).reshape(2, 6)),
        TaskEnded({"rows": (1, 2), "result": RESULT}),
        [Endpoint(0, "g0.0", "/run/n", "eth0", "02:00:00:00:00:01", "10.0.0.1", 4096), PacketFormat(1024)],
    ],
)
def test_messages_arrive_as_they_were(ends: tuple[Channel, Channel], message: Any) -> None:
    ours, other = ends
    ours.send(message)
    assert other.receive() == message


def test_arrays_keep_type_and_shape_within_nouns(ends: tuple[Channel, Channel]) -> None:
    ours, other = ends
    table = EntropyTable(
        1,
        np.array([0]),
        np.array([1]),
        np.array([0, 2]),
        np.array([5, 6]),
        np.full(2, 0.5),
        np.ones(2),
        np.ones(2),
        np.zeros(2),
    )
    ours.send({"table": table, "plain": np.zeros((2, 3), np.float32)})
    received = other.receive()
    assert isinstance(received["table"], EntropyTable)
    for field in fields(table):
        assert np.array_equal(getattr(received["table"], field.name), getattr(table, field.name))
    assert (received["plain"].dtype, received["plain"].shape) == (np.float32, (2, 3))


def test_numpy_numbers_in_events_arrive_as_pythons(ends: tuple[Channel, Channel]) -> None:
    ours, other = ends
    ours.send(HealthPublished(np.float64(1.5), 2, {"rail:0": (np.float64(1.0), np.float64(0.5))}))
    received = other.receive()
    assert (type(received.t_s), type(received.changes["rail:0"][1])) == (float, float)


def test_what_the_codec_does_not_know_is_refused_by_name(ends: tuple[Channel, Channel]) -> None:
    @dataclass
    class Stranger:
        x: int = 1

    with pytest.raises(TypeError, match="Stranger cannot travel"):
        ends[0].send(Stranger())


def test_every_event_is_known_to_the_codec_and_has_a_kind_of_its_own() -> None:
    written = [noun for noun in vars(events).values() if isinstance(noun, type) and issubclass(noun, Event)]
    assert {noun for noun in written if noun.kind} == set(EVENTS)
    kinds = [event.kind for event in EVENTS]
    assert len(set(kinds)) == len(kinds)


def test_a_document_has_its_kind_first_and_nothing_that_is_unknown() -> None:
    assert PhaseStarted("tear-down").to_document() == {"kind": "phase", "name": "tear-down", "job": 0}
    assert list(RulesInstalled(1, 0.5).to_document()) == ["kind", "rules", "seconds", "missing"]


def test_what_came_before_the_end_is_handed_out_first(ends: tuple[Channel, Channel]) -> None:
    ours, other = ends
    ours.send(1)
    ours.send(2)
    ours.close()
    assert other.poll() == [1, 2]
    with pytest.raises(ChannelClosedError):
        other.poll()
    with pytest.raises(ChannelClosedError):
        other.receive()
    with pytest.raises(ChannelClosedError):
        other.send(3)


def test_poll_never_waits_and_hands_out_whole_messages_only(ends: tuple[Channel, Channel]) -> None:
    ours, other = ends
    assert other.poll() == []
    whole = msgpack.packb({"rules": list(range(10))})
    ours._sock.sendall(whole + whole[:7])
    assert other.poll() == [{"rules": list(range(10))}]
    assert other.poll() == []
    ours._sock.sendall(whole[7:])
    assert other.poll() == [{"rules": list(range(10))}]


def test_a_message_larger_than_any_buffer_arrives_whole(ends: tuple[Channel, Channel]) -> None:
    ours, other = ends
    rows = np.arange(16_000_000)  # 128 MB: msgpack's own limit is 100 MB unless it is lifted
    sender = threading.Thread(target=ours.send, args=(PortCounts(1, rows),))
    sender.start()
    assert np.array_equal(other.receive().rows, rows)
    sender.join()
