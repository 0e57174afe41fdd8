"""The event loop of the transport process: channel, sockets, timers; one iteration at a time."""

from __future__ import annotations

import gc
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import NDArray

from railweave.framework.channel import Channel
from railweave.framework.errors import RailweaveError
from railweave.framework.hookspecs import Collective
from railweave.framework.model import Endpoint, EntropyTable, IterationResult, PacketFormat, Schedule
from railweave.framework.model.traffic import ETHERNET_HEADER
from railweave.framework.registry import load
from railweave.traffic.packets import templates
from railweave.traffic.rocev2.batch import Batch, kernel_send
from railweave.traffic.rocev2.buffers import Buffers
from railweave.traffic.rocev2.counters import Counters
from railweave.traffic.rocev2.engine import Engine, Pair
from railweave.traffic.rocev2.interfaces import await_interface
from railweave.traffic.rocev2.port import Port
from railweave.traffic.rocev2.ring import RingShape
from railweave.traffic.rocev2.sockets import ROCE_ONLY, PacketSocket, open_packet_socket
from railweave.traffic.rocev2.tuning import Tuning

TICK_S = 0.005
PROGRESS_S = 0.1
RING_SLOTS = 256
INTERFACES_WITHIN_S = 60.0


@dataclass
class Running:
    """The iteration in progress, and what was measured before and during it."""

    iteration: int
    collective: Collective
    buffers: Buffers
    inputs: list[NDArray[Any]]
    before: Counters
    cpu_at_start: float
    wall_at_start: float
    cpu_s: float = 0.0
    send_lag_s: float = 0.0
    landed: bool = False
    reported_at: float = 0.0


class Service:
    """Serves one channel until it closes."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._poll = select.epoll()
        self._poll.register(channel.fileno(), select.EPOLLIN)
        self._sockets: dict[int, PacketSocket] = {}
        self._ports: dict[int, Port] = {}
        self._engine: Engine | None = None
        self._running: Running | None = None
        self._buffers: Buffers | None = None
        self._early: EntropyTable | None = None
        templates()

    def serve(self) -> None:
        """Never returns; ChannelClosedError ends it, RailweaveError when it cannot go on."""
        channel = self._channel.fileno()
        next_tick = 0.0
        while True:
            busy = self._engine is not None and (self._running is not None or not self._engine.drained)
            wait = max(next_tick - time.monotonic(), 0.0) if busy else -1
            ready: list[Port] = []
            for fd, event in self._poll.poll(wait):
                if fd == channel:
                    self._read_channel()
                elif event & ~select.EPOLLIN:
                    self._sockets[fd].clear_error()
                else:
                    ready.append(self._ports[fd])
            if self._engine is None:
                continue
            if ready:
                self._step(self._engine, ready)
            now = time.monotonic()
            if now >= next_tick:
                self._tick(self._engine, now, late=now - next_tick if busy and next_tick else 0.0)
                next_tick = now + TICK_S
            if self._running is not None:
                self._advance(self._engine, self._running)

    # -- orders ----------------------------------------------------------------------------------------
    def _read_channel(self) -> None:
        for message in self._channel.poll():
            match message["do"]:
                case "open":
                    self._open(message)
                case "entropies":
                    table = EntropyTable(**message["table"])
                    if self._engine is None:
                        self._early = table
                    else:
                        self._engine.use_entropies(table, time.monotonic())
                case "begin":
                    try:
                        self._begin(message)
                    except RailweaveError as error:
                        self._say("failed", why=str(error), ranks=[])

    def _open(self, message: Mapping[str, Any]) -> None:
        endpoints = [Endpoint(**endpoint) for endpoint in message["endpoints"]]
        packet = PacketFormat(message["path_mtu"])
        tuning = Tuning.of(message["options"])
        shape = RingShape.of(packet.full_packet_bytes + packet.RETH, RING_SLOTS)
        largest = packet.full_packet_bytes + packet.RETH - ETHERNET_HEADER
        dirty: list[Batch] = []
        for endpoint in endpoints:
            where = endpoint.namespace, endpoint.interface
            await_interface(*where, largest, INTERFACES_WITHIN_S, self._channel)
            opened = open_packet_socket(*where, shape, ROCE_ONLY)
            fd = opened.fileno()
            self._sockets[fd] = opened
            self._ports[fd] = Port(opened.ring, Batch(kernel_send(fd), dirty))
            self._poll.register(fd, select.EPOLLIN)
        self._packet = packet
        self._engine = Engine(endpoints, list(self._ports.values()), dirty, tuning, packet)
        if self._early is not None:
            self._engine.use_entropies(self._early, time.monotonic())
        self._registers = load()
        gc.collect()
        gc.freeze()
        self._say("ready")

    def _begin(self, message: Mapping[str, Any]) -> None:
        assert self._engine is not None
        if self._running is not None:
            raise RailweaveError(f"iteration {self._running.iteration} is still running.")
        schedule = Schedule(
            **{**message["schedule"], "phase_names": tuple(message["schedule"]["phase_names"])}
        )
        name = message["collective"]
        kind = "workload" if name in self._registers["workload"] else "collective"
        collective: Collective = self._registers[kind][name].configured(message["options"])
        inputs = collective.inputs(schedule, message["seed"])
        if self._buffers is None or self._buffers.schedule != schedule:
            self._buffers = Buffers(schedule)
        self._buffers.fill(inputs)
        self._engine.prepare(schedule, self._buffers)
        gc.collect()
        self._running = Running(
            message["iteration"], collective, self._buffers, inputs, Counters.of(self._engine),
            time.process_time(), time.time(),
        )  # fmt: skip
        self._say("started", iteration=message["iteration"])
        self._engine.begin(time.monotonic())

    # -- the loop's parts ------------------------------------------------------------------------------
    def _step(self, engine: Engine, ready: Sequence[Port]) -> None:
        since = ready[0].waiting_since  # epoll hands out first what has been ready longest
        engine.step(ready, time.monotonic())
        running = self._running
        if running is not None and since is not None and since > running.wall_at_start:
            running.send_lag_s = max(running.send_lag_s, time.time() - since)

    def _tick(self, engine: Engine, now: float, late: float) -> None:
        engine.tick(now)
        running = self._running
        if running is None or engine.progress is None:
            return
        running.send_lag_s = max(running.send_lag_s, late)
        if now < running.reported_at + PROGRESS_S:
            return
        running.reported_at = now
        stuck = engine.stuck(now)
        if stuck:
            why, ranks = describe_stuck(engine, stuck)
            self._running = None
            engine.abandon()
            self._say("failed", why=why, ranks=ranks)
        else:
            done, total = engine.progress.done, engine.progress.total
            self._say("progress", iteration=running.iteration, done=done, total=total)

    def _advance(self, engine: Engine, running: Running) -> None:
        """Note the end of the last transfer; once its acknowledgements are in, verify and report."""
        progress = engine.progress
        if progress is None or not progress.complete:
            return
        if not running.landed:
            running.landed = True
            progress.ended(time.monotonic())
            running.cpu_s = time.process_time() - running.cpu_at_start
        if not engine.drained:
            return
        counted = Counters.of(engine).since(running.before)
        result = IterationResult(
            iteration=running.iteration,
            seconds=progress.last_at - progress.started_at,
            wrong=running.buffers.count_wrong(running.collective, running.inputs),
            packets_sent=counted.packets_sent,
            retransmitted=counted.retransmitted,
            duplicates=counted.duplicates,
            bytes_sent=counted.bytes_sent,
            phase_seconds=progress.phase_seconds,
            cpu_s=running.cpu_s,
            send_lag_s=running.send_lag_s,
        )
        self._running = None
        self._say("finished", result=asdict(result))

    def _say(self, kind: str, **data: Any) -> None:
        self._channel.send({"kind": kind, "data": data})


def describe_stuck(engine: Engine, stuck: Sequence[Pair]) -> tuple[str, list[int]]:
    """What to say of pairs without progress, and the ranks to blame: those that are part of every stuck pair if
    there are several pairs and such ranks, else all of them."""
    names = [endpoint.name for endpoint in engine.endpoints]
    everywhere = set.intersection(*({pair.src, pair.dst} for pair in stuck))
    ranks = sorted(
        everywhere if len(stuck) > 1 and everywhere else {r for p in stuck for r in (p.src, p.dst)}
    )
    pairs = ", ".join(f"{names[pair.src]}->{names[pair.dst]}" for pair in stuck[:8])
    more = f" and {len(stuck) - 8} more" if len(stuck) > 8 else ""
    who = ", ".join(names[rank] for rank in ranks[:8])
    down = [
        names[rank] for rank in ranks if engine.ports[rank].batch.last_error and engine.ports[rank].batch.lost
    ]
    cause = f" The interface of {', '.join(down)} refused packets (is it up?)." if down else ""
    why = (
        f"no packet got through from {pairs}{more} for {engine.dead_after:g} s; the cut ranks: {who}.{cause} Look at "
        "their links and at the rules of the pairs, or raise the transport's dead_after."
    )
    return why, ranks
