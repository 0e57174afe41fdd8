"""The transport process: `python -m railweave.traffic.service FD`, driven over the inherited socket FD.

Messages in: open {endpoints, packet, options}, entropies {table}, begin {collective, options, schedule,
iteration, seed}. Messages out: TransportEvent (framework/model/events.py). The process ends when the channel
closes.
"""

import gc
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from railweave.framework.errors import RailweaveError
from railweave.framework.experiment.plugin_calls import CheckedData, configured
from railweave.framework.model import Endpoint, IterationResult, PacketFormat, Schedule
from railweave.framework.model.events import (
    IterationFailed,
    IterationFinished,
    IterationStarted,
    ProcessReady,
    Progress,
)
from railweave.framework.model.traffic import ETHERNET_HEADER
from railweave.framework.parameters import Value
from railweave.framework.processes.channel import Channel
from railweave.framework.registry import load_plugins
from railweave.traffic.child import run_child
from railweave.traffic.packets import templates
from railweave.traffic.rocev2.batch import Batch, kernel_send
from railweave.traffic.rocev2.buffers import Buffers
from railweave.traffic.rocev2.counters import Counters
from railweave.traffic.rocev2.executor import Executor, Pair
from railweave.traffic.rocev2.interfaces import await_interface
from railweave.traffic.rocev2.port import Port
from railweave.traffic.rocev2.receive_ring import RingShape
from railweave.traffic.rocev2.sockets import ROCE_ONLY, PacketSocket, open_packet_socket
from railweave.traffic.rocev2.tuning import Tuning

TICK_S = 0.005
PROGRESS_S = 0.1
RING_SLOTS = 256
INTERFACES_WITHIN_S = 60.0


@dataclass(frozen=True)
class Job:
    """What iterations of one collective over one schedule share."""

    collective: str
    options: Mapping[str, Value]
    schedule: Schedule
    buffers: Buffers
    data: CheckedData


@dataclass
class Running:
    """The iteration in progress, and the measurements before and during it."""

    iteration: int
    job: Job
    inputs: list[NDArray[Any]]
    before: Counters
    cpu_at_start: float
    wall_at_start: float
    cpu_s: float = 0.0
    send_lag_s: float = 0.0
    landed: bool = False
    reported_at: float = 0.0


class Service:
    """The event loop over channel, sockets and timers; one iteration at a time."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._poll = select.epoll()
        self._poll.register(channel.fileno(), select.EPOLLIN)
        self._sockets: dict[int, PacketSocket] = {}
        self._ports: dict[int, Port] = {}
        self._executor: Executor | None = None
        self._running: Running | None = None
        self._job: Job | None = None
        templates()

    def serve(self) -> None:
        """Never returns: raises ChannelClosedError at the end, another RailweaveError when it cannot
        continue."""
        channel_fd = self._channel.fileno()
        next_tick = 0.0
        while True:
            busy = self._executor is not None and (self._running is not None or not self._executor.drained)
            wait = max(next_tick - time.monotonic(), 0.0) if busy else -1
            ready: list[Port] = []
            for fd, event in self._poll.poll(wait):
                if fd == channel_fd:
                    self._read_channel()
                elif event & ~select.EPOLLIN:
                    self._sockets[fd].clear_error()
                else:
                    ready.append(self._ports[fd])
            if self._executor is None:
                continue
            if ready:
                self._step(self._executor, ready)
            now = time.monotonic()
            if now >= next_tick:
                self._tick(self._executor, now, late=now - next_tick if busy and next_tick else 0.0)
                next_tick = now + TICK_S
            if self._running is not None:
                self._advance(self._executor, self._running)

    # -- orders ----------------------------------------------------------------------------------------
    def _read_channel(self) -> None:
        for message in self._channel.poll():
            match message["do"]:
                case "open":
                    self._open(message)
                case "entropies":
                    assert self._executor is not None
                    self._executor.use_entropies(message["table"], time.monotonic())
                case "begin":
                    try:
                        self._begin(message)
                    except RailweaveError as error:
                        self._fail(error)

    def _open(self, message: Mapping[str, Any]) -> None:
        endpoints: list[Endpoint] = message["endpoints"]
        packet: PacketFormat = message["packet"]
        tuning = Tuning.of(message["options"])
        shape = RingShape.of(packet.full_packet_bytes + packet.RETH, RING_SLOTS)
        largest_ip_bytes = packet.full_packet_bytes + packet.RETH - ETHERNET_HEADER
        dirty: list[Batch] = []
        for endpoint in endpoints:
            interface = endpoint.namespace, endpoint.interface
            await_interface(*interface, largest_ip_bytes, INTERFACES_WITHIN_S, self._channel)
            packet_socket = open_packet_socket(*interface, shape, ROCE_ONLY)
            fd = packet_socket.fileno()
            self._sockets[fd] = packet_socket
            self._ports[fd] = Port(packet_socket.ring, Batch(kernel_send(fd), dirty))
            self._poll.register(fd, select.EPOLLIN)
        self._packet = packet
        self._executor = Executor(endpoints, list(self._ports.values()), dirty, tuning, packet)
        self._registers = load_plugins()
        gc.collect()
        gc.freeze()
        self._channel.send(ProcessReady())

    def _begin(self, message: Mapping[str, Any]) -> None:
        assert self._executor is not None
        if self._running is not None:
            raise RailweaveError(f"iteration {self._running.iteration} is still running.")
        job = self._job_of(message["collective"], message["options"], message["schedule"])
        inputs = job.data.inputs(message["seed"])
        job.buffers.fill(inputs)
        self._executor.prepare(job.schedule, job.buffers)
        gc.collect()
        counters = Counters.of(self._executor)
        self._running = Running(message["iteration"], job, inputs, counters, time.process_time(), time.time())
        self._channel.send(IterationStarted(message["iteration"]))
        self._executor.begin(time.monotonic())

    def _job_of(self, name: str, options: Mapping[str, Value], schedule: Schedule) -> Job:
        """The job of the last iteration if nothing has changed, else a new one."""
        job = self._job
        if job is None or (job.collective, job.options) != (name, options) or job.schedule != schedule:
            kind = "workload" if name in self._registers["workload"] else "collective"
            collective = configured(kind, name, self._registers[kind][name], options)
            data = CheckedData(name, collective, schedule)
            job = self._job = Job(name, options, schedule, Buffers(schedule), data)
        return job

    def _fail(self, error: RailweaveError) -> None:
        self._channel.send(IterationFailed(str(error), error=type(error).__name__))

    # -- the loop's parts ------------------------------------------------------------------------------
    def _step(self, executor: Executor, ready: Sequence[Port]) -> None:
        since = ready[0].waiting_since  # epoll reports first what has been ready longest
        executor.step(ready, time.monotonic())
        running = self._running
        if running is not None and since is not None and since > running.wall_at_start:
            running.send_lag_s = max(running.send_lag_s, time.time() - since)

    def _tick(self, executor: Executor, now: float, late: float) -> None:
        executor.tick(now)
        running = self._running
        if running is None or executor.progress is None:
            return
        running.send_lag_s = max(running.send_lag_s, late)
        if now < running.reported_at + PROGRESS_S:
            return
        running.reported_at = now
        stuck = executor.stuck(now)
        if stuck:
            why, ranks = describe_stuck(executor, stuck)
            self._running = None
            executor.abandon()
            self._channel.send(IterationFailed(why, tuple(ranks)))
        else:
            done, total = executor.progress.done, executor.progress.total
            self._channel.send(Progress(running.iteration, done, total))

    def _advance(self, executor: Executor, running: Running) -> None:
        """Note the end of the last transfer; once all acknowledgements have arrived, verify and report."""
        progress = executor.progress
        if progress is None or not progress.complete:
            return
        if not running.landed:
            running.landed = True
            progress.ended(time.monotonic())
            running.cpu_s = time.process_time() - running.cpu_at_start
        if not executor.drained:
            return
        self._running = None
        counted = Counters.of(executor).since(running.before)
        try:
            comparison = running.job.buffers.compare(running.job.data.results(running.inputs))
        except RailweaveError as error:
            self._fail(error)
            return
        result = IterationResult(
            iteration=running.iteration,
            seconds=progress.last_at - progress.started_at,
            wrong=comparison.wrong,
            packets_sent=counted.packets_sent,
            retransmitted=counted.retransmitted,
            duplicates=counted.duplicates,
            bytes_sent=counted.bytes_sent,
            phase_seconds=progress.phase_seconds,
            cpu_s=running.cpu_s,
            send_lag_s=running.send_lag_s,
            compared=comparison.compared,
        )
        self._channel.send(IterationFinished(result))


def describe_stuck(executor: Executor, stuck: Sequence[Pair]) -> tuple[str, list[int]]:
    """A message about pairs without progress, and the ranks to blame: those that are part of every stuck
    pair, if there are several pairs and such ranks, else all of them."""
    names = [endpoint.name for endpoint in executor.endpoints]
    everywhere = set.intersection(*({pair.src, pair.dst} for pair in stuck))
    ranks = sorted(
        everywhere if len(stuck) > 1 and everywhere else {r for p in stuck for r in (p.src, p.dst)}
    )
    pairs = ", ".join(f"{names[pair.src]}->{names[pair.dst]}" for pair in stuck[:8])
    more = f" and {len(stuck) - 8} more" if len(stuck) > 8 else ""
    who = ", ".join(names[rank] for rank in ranks[:8])
    down = [
        names[rank]
        for rank in ranks
        if executor.ports[rank].batch.last_error and executor.ports[rank].batch.lost
    ]
    cause = f" The interface of {', '.join(down)} refused packets (is it up?)." if down else ""
    why = (
        f"no packet got through from {pairs}{more} for {executor.dead_after:g} s; unreachable ranks: "
        f"{who}.{cause} "
        "Check their links and the rules of the pairs, or raise the transport's dead_after."
    )
    return why, ranks


def main() -> None:
    gc.disable()  # nothing here makes cycles at a rate that matters; the service collects between iterations
    run_child(lambda channel: Service(channel).serve())


if __name__ == "__main__":
    main()
