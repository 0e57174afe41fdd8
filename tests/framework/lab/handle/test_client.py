"""What a client of an open lab does with requests and answers; the lab is the test itself."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import railweave as rw
from railweave.framework.errors import FaultError, InputError, LabError
from railweave.framework.lab.handle.client import LabClient
from railweave.framework.lab.handle.opening import check_openable
from railweave.framework.model.events import Answered, Note, RunEvent, TaskEnded, TaskFailed
from railweave.framework.processes.channel import Channel
from railweave.framework.registry import load_plugins


class Scene:
    """A client, and the lab's end of its channel. `events`: what `on_event` received."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.lab, self.events = Channel(ours), list[RunEvent]()
        plan = rw.load(domains=2, rails=2, size="64K", faults=["at=3s degrade rail:1 to=20%"])
        door, self.door = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.client = LabClient(
            plan, load_plugins(), Channel(theirs), door, self.events.append, lambda: LabError("it is gone.")
        )

    def answer(self, outcome: TaskEnded | TaskFailed) -> dict[str, Any]:
        """Answer the next request; returns it."""
        request: dict[str, Any] = self.lab.receive()
        self.lab.send(Answered(request["number"], outcome))
        return request


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.client.close()
    scene.lab.close()
    scene.door.close()


def test_answers_reach_whoever_asked_and_errors_are_raised(scene: Scene) -> None:
    asked = threading.Thread(target=scene.client.fault, args=["down rail:1"])
    asked.start()
    request = scene.answer(TaskEnded(None))
    asked.join()
    assert (request["do"], request["arguments"]) == ("fault", ["down rail:1"])
    lab = threading.Thread(target=scene.answer, args=[TaskFailed("FaultError", "no such rail.")])
    lab.start()
    with pytest.raises(FaultError, match="no such rail"):
        scene.client.fault("down rail:9")
    lab.join()


def test_whoever_waits_learns_why_the_lab_ended(scene: Scene) -> None:
    scene.lab.send(Note("the last words"))
    scene.lab.shutdown()
    for _ in range(2):
        with pytest.raises(LabError, match="it is gone"):
            scene.client.health()
    assert scene.events == [Note("the last words")]


def test_a_run_takes_its_own_keys_and_has_those_of_the_lab(scene: Scene) -> None:
    plan = scene.client.run_plan({"collective": "broadcast", "root": 1, "size": "128K", "faults": []})
    assert (plan.experiment.traffic.name, plan.experiment.size) == ("broadcast", 128 << 10)
    assert scene.client.run_plan({"iterations": 3}).experiment.size == 64 << 10
    assert scene.client.run_plan({}).faults == (), "those of the lab are not the run's"
    for keys, why in (
        ({"rails": 4}, "topology: belongs to the lab"),
        ({"dwell": "1s"}, "there is no such key"),
        ({"health": {"dwell": "1s"}}, "health: belongs to the lab"),
        ({"program": "true"}, "Start programs by exec"),
    ):
        with pytest.raises(InputError, match=why):
            scene.client.run_plan(keys)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"program": "true"}, "run it by exec"),
        ({"pcap": ["g0.0->r0"]}, "captures the packets of one run"),
        ({"faults": ["at=iter:1 down rail:1"]}, "counts the iterations of a run"),
    ],
)
def test_what_needs_iterations_is_refused_before_a_lab_starts(keys: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        check_openable(rw.load(domains=2, rails=2, **keys))


def test_a_mistake_in_on_event_is_raised_where_the_user_waits(scene: Scene) -> None:
    scene.client._on_event = lambda event: 1 / 0  # type: ignore[assignment,func-returns-value]
    scene.lab.send(Note("anything"))
    with pytest.raises(ZeroDivisionError):
        scene.client.health()
