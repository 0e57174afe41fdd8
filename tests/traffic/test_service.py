"""The transport refuses arithmetic that could not show a wrong result, by name and number, before it sends a
packet."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from railweave.framework.errors import ChannelClosedError, PluginError
from railweave.framework.experiment.plugin_calls import CheckedData
from railweave.framework.hookspecs import hookimpl
from railweave.framework.model import Schedule
from railweave.framework.model.events import IterationFailed, IterationFinished, IterationStarted
from railweave.framework.processes.channel import Channel
from railweave.framework.registry import Registers
from railweave.topologies.rail_only import RailOnly
from railweave.traffic.collectives.entries import Entries, listed
from railweave.traffic.collectives.hierarchical import HierarchicalReduceScatter
from railweave.traffic.collectives.rings import RingAllReduce
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.service import Service
from tests.traffic.memory_fabric import MemoryFabric

FABRIC = RailOnly().build({"domains": 2, "rails": 2})
SIZE = 64 << 10
COUNT = SIZE // 4

Vector = NDArray[Any]


class Mine(RingAllReduce):
    """An all-reduce whose arithmetic is changed by a test."""

    def __init__(
        self,
        inputs: Callable[[list[Vector]], object] = lambda vectors: vectors,
        expected: Callable[[Vector, int], object] = lambda vector, rank: vector,
        kind: str = "all-reduce",
    ) -> None:
        self._change_inputs, self._change_expected, self.kind = inputs, expected, kind

    def configured(self, options: object) -> Mine:
        return self

    def inputs(self, schedule: Schedule, seed: int) -> list[Vector]:
        return self._change_inputs(super().inputs(schedule, seed))  # type: ignore[return-value]

    def expected(self, schedule: Schedule, inputs: Sequence[Vector], rank: int) -> Vector:
        expected = super().expected(schedule, inputs, rank)
        return self._change_expected(expected, rank)  # type: ignore[return-value]


def schedule_of(collective: RingAllReduce) -> Schedule:
    return collective.schedule(FABRIC, range(4), SIZE, "float32", "sum").expand()


REFUSED: dict[str, tuple[Mine, str]] = {
    "no result": (
        Mine(expected=lambda vector, rank: vector[:0]),
        "returns 0 elements (0 bytes) for rank 0, which receives 65536 bytes of its buffer of 65536",
    ),
    "a result one short": (
        Mine(expected=lambda vector, rank: vector[:-1]),
        "returns 16383 elements (65532 bytes) for rank 0, which receives 65536",
    ),
    "a result one too long": (
        Mine(expected=lambda vector, rank: np.append(vector, vector[:1])),
        "returns 16385 elements (65540 bytes) for rank 0",
    ),
    "a result of doubles": (
        Mine(expected=lambda vector, rank: vector.astype(np.float64)),
        "returns an array of float64 for rank 0, not an array of float32",
    ),
    "a table as result": (
        Mine(expected=lambda vector, rank: vector.reshape(2, -1)),
        "returns an array (2, 8192) for rank 0, not one of one dimension",
    ),
    "a list as result": (
        Mine(expected=lambda vector, rank: vector.tolist()),
        "returns a list for rank 0",
    ),
    "a result that fails": (
        Mine(expected=lambda vector, rank: [][rank]),
        "expected of rank 0 fails with IndexError",
    ),
    "inputs of three elements": (
        Mine(inputs=lambda vectors: [vector[:3] for vector in vectors]),
        "returns 3 elements (12 bytes) for rank 0, which sends or combines 65536 bytes",
    ),
    "one short input": (
        Mine(inputs=lambda vectors: [*vectors[:3], vectors[3][:-1]]),
        "returns 16383 elements (65532 bytes) for rank 3",
    ),
    "an input too few": (
        Mine(inputs=lambda vectors: vectors[:3]),
        "returns 3 arrays, not a list of 4 arrays",
    ),
    "inputs of integers": (
        Mine(inputs=lambda vectors: [vector.astype(np.int32) for vector in vectors]),
        "returns an array of int32 for rank 0, not an array of float32",
    ),
    "an operation of its own without a result": (
        Mine(expected=lambda vector, rank: vector[:0], kind="gossip"),
        "returns 0 elements (0 bytes) for rank 0, which receives 65536 bytes",
    ),
    "an operation of its own without inputs": (
        Mine(inputs=lambda vectors: [vector[:0] for vector in vectors], kind="gossip"),
        "returns 0 elements (0 bytes) for rank 0, which sends or combines 65536 bytes",
    ),
}
"""64 KiB are 16,384 of float32. Rank 0 of a ring sends its last quarter first, so that all of its input is
used."""


def test_a_result_that_shrinks_after_the_first_iteration_is_refused_then() -> None:
    calls: list[int] = []
    collective = Mine(expected=lambda vector, rank: vector if not calls else vector[:8])
    schedule = schedule_of(collective)
    data, buffers = CheckedData("mine", collective, schedule), RankBuffers(schedule)
    inputs = data.inputs(seed=1)
    buffers.fill(inputs)
    calls.append(1)
    with pytest.raises(PluginError, match="returns 8 elements"):
        buffers.compare(data.results(inputs))


def test_compared_elements_are_counted_over_all_ranks() -> None:
    """A reduce-scatter leaves a quarter of 16,384 elements in each of 4 ranks; an all-reduce all of them."""
    for collective, compared in ((HierarchicalReduceScatter(), COUNT), (RingAllReduce(), 4 * COUNT)):
        schedule = collective.schedule(FABRIC, range(4), SIZE, "float32", "sum").expand()
        data, buffers = CheckedData("mine", collective, schedule), RankBuffers(schedule)
        inputs = data.inputs(seed=1)
        buffers.fill(inputs)
        assert buffers.compare(data.results(inputs))[1] > 0
        MemoryFabric(4).run(schedule, buffers)
        assert buffers.compare(data.results(inputs)) == (compared, 0)


def test_a_rank_that_only_passes_data_on_needs_no_result() -> None:
    """A reduce along the chain 3 -> 2 -> 1 -> 0: rank 0 alone is left with a result."""
    entries = Entries(4, 4)
    entries.phase("reduce")
    ranks = np.array([3, 2, 1])
    entries.add(ranks, ranks - 1, length=COUNT, reduce=True, after=listed([[], [0], [1]]), slot=range(3))
    schedule = entries.build("reduce", COUNT, "float32", "sum")
    collective = Mine(expected=lambda vector, rank: vector if rank == 0 else vector[:0], kind="reduce")
    collective.same_result_everywhere = False
    data, buffers = CheckedData("mine", collective, schedule), RankBuffers(schedule)
    inputs = data.inputs(seed=1)
    buffers.fill(inputs)
    MemoryFabric(4).run(schedule, buffers)
    assert buffers.compare(data.results(inputs)) == (COUNT, 0)


class Offering:
    """A plugin with the collective `mine`."""

    def __init__(self, collective: Mine) -> None:
        self._collective = collective

    @hookimpl
    def register_collectives(self, register: Callable[[str, Mine], None]) -> None:
        register("mine", self._collective)


@pytest.mark.parametrize("mistake", [None, *REFUSED])
def test_the_transport_refuses_it_before_a_packet_is_sent(mistake: str | None) -> None:
    """The service's own answer to the order to begin, over the executor of a fabric in memory."""
    collective, says = (Mine(), "") if mistake is None else REFUSED[mistake]
    fabric = MemoryFabric(4, mtu=4096)
    ours, channel = map(Channel, socket.socketpair())
    service = Service(channel, fabric.executor, {})
    service._registers = Registers([("stranger", Offering(collective))])
    ours.send(
        {
            "do": "begin",
            "collective": "mine",
            "options": {},
            "schedule": schedule_of(collective),
            "iteration": 3,
            "seed": 1,
        }
    )
    service._read_channel()
    if mistake is None:
        assert ours.poll() == [IterationStarted(3)]
        assert fabric.seen and service._running is not None
        progress = fabric.executor.progress
        fabric.advance(lambda: progress.complete and fabric.executor.drained)
        service._advance(service._running)
        (finished,) = ours.poll()
        assert isinstance(finished, IterationFinished)
        assert (finished.result.compared, finished.result.wrong) == (4 * COUNT, 0)
    else:
        (failed,) = ours.poll()
        assert isinstance(failed, IterationFailed)
        assert says in failed.why and failed.error == "PluginError"
        assert fabric.seen == []
    for end in (ours, channel):
        end.close()
    service._poll.close()


class Slow:
    """An executor whose passes take a second. The first one leaves packets to be sent in a second one."""

    drained = False
    next_due: float | None = None

    def __init__(self) -> None:
        self.now, self.pending = 100.0, False
        self.calls: list[tuple[str, float, int]] = []

    def step(self, ready: Sequence[object], now: float) -> None:
        self.calls.append(("step", now, len(ready)))
        self.pending = len(self.calls) == 1
        self.now += 1.0

    def tick(self, now: float) -> None:
        self.calls.append(("tick", now, 0))
        if len(self.calls) == 4:
            raise ChannelClosedError("enough")


def test_nobody_is_silent_while_what_has_arrived_is_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that takes long is followed by what arrived during it: silence ends with the last poll. What is
    left to be sent waits for that, too, but for nothing else."""
    executor = Slow()
    monkeypatch.setattr("railweave.traffic.service.time.monotonic", lambda: executor.now)
    ours, channel = map(Channel, socket.socketpair())
    near, far = socket.socketpair()
    port = SimpleNamespace(waiting_since=None)
    service = Service(channel, executor, {far.fileno(): (far, port)})  # type: ignore[arg-type, dict-item]
    near.send(b"a packet")
    with pytest.raises(ChannelClosedError):
        service.serve()
    assert executor.calls == [("step", 100.0, 1), ("tick", 100.0, 0), ("step", 101.0, 1), ("tick", 101.0, 0)]
    for end in (ours, channel, near, far):
        end.close()
    service._poll.close()


def test_what_is_left_to_be_sent_needs_no_packet_to_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Slow()
    executor.pending = True
    monkeypatch.setattr("railweave.traffic.service.time.monotonic", lambda: executor.now)
    ours, channel = map(Channel, socket.socketpair())
    service = Service(channel, executor, {})  # type: ignore[arg-type]
    with pytest.raises(ChannelClosedError):
        service.serve()
    assert executor.calls[0] == ("step", 100.0, 0)
    for end in (ours, channel):
        end.close()
    service._poll.close()


def test_a_pair_that_its_rate_holds_back_is_sent_for_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Slow()
    executor.next_due = 100.0
    monkeypatch.setattr("railweave.traffic.service.time.monotonic", lambda: executor.now)
    ours, channel = map(Channel, socket.socketpair())
    service = Service(channel, executor, {})  # type: ignore[arg-type]
    with pytest.raises(ChannelClosedError):
        service.serve()
    assert executor.calls[0] == ("step", 100.0, 0)
    for end in (ours, channel):
        end.close()
    service._poll.close()
