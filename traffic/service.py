"""The transport process: `python -m railweave.traffic.service FD`, driven over the inherited socket FD.

Messages in: open {endpoints, packet, options, job, jobs, chooser, control, by_path}, entropies {table}, begin
{collective, options, schedule, iteration, seed}. Messages out: TransportEvent (framework/model/events.py).
The process ends when the channel closes.
"""

import gc
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from railweave.framework.errors import PluginError, RailweaveError
from railweave.framework.experiment.plugin_calls import CheckedData, configured
from railweave.framework.model import IterationResult, PacketFormat, Schedule
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
from railweave.traffic.choosers import IN_TURN
from railweave.traffic.controls.window import WINDOW
from railweave.traffic.packets import templates
from railweave.traffic.rocev2.batch import Batch, kernel_send
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.rocev2.choice import Choosing
from railweave.traffic.rocev2.control import Controlling
from railweave.traffic.rocev2.executor import Executor, Pair
from railweave.traffic.rocev2.port import Port
from railweave.traffic.rocev2.sockets import (
    RING_SLOTS,
    ROCE_ONLY,
    PacketSocket,
    RingShape,
    await_interface,
    open_packet_socket,
)
from railweave.traffic.rocev2.tuning import Tuning

TICK_S = 0.005
"""Seconds between two looks at what is overdue."""
PROGRESS_S = 0.1
"""Seconds between two reports of progress."""
INTERFACES_WITHIN_S = 60.0
"""Seconds for the interfaces of all ranks to appear."""


@dataclass(frozen=True)
class ServedJob:
    """What iterations of one collective over one schedule share."""

    collective: str
    options: Mapping[str, Value]
    schedule: Schedule
    buffers: RankBuffers
    data: CheckedData


@dataclass
class Running:
    """The iteration in progress, and the measurements before and during it. `cpu_s`: once all has landed."""

    iteration: int
    job: ServedJob
    inputs: list[NDArray[Any]]
    counts_before: dict[str, int]
    cpu_at_start: float
    wall_at_start: float
    cpu_s: float | None = None
    send_lag_s: float = 0.0
    reported_at: float = 0.0


class Service:
    """The event loop over channel, sockets and timers; one iteration at a time. `ports`: those of the
    executor and their sockets, by descriptor. `by_path`: whether what becomes of packets is reported by
    path."""

    def __init__(
        self,
        channel: Channel,
        executor: Executor,
        ports: Mapping[int, tuple[PacketSocket, Port]],
        by_path: bool = False,
    ) -> None:
        self._channel = channel
        self._executor = executor
        self._ports = ports
        self._by_path = by_path
        self._poll = select.epoll()
        for fd in (channel.fileno(), *ports):
            self._poll.register(fd, select.EPOLLIN)
        self._registers = load_plugins()
        self._running: Running | None = None
        self._job: ServedJob | None = None

    def serve(self) -> None:
        """Never returns: raises ChannelClosedError at the end, another RailweaveError when it cannot
        continue."""
        self._channel.send(ProcessReady())
        self._read_channel()  # orders that arrived together with the first one
        next_tick = 0.0
        while True:
            busy = self._running is not None or not self._executor.drained
            ready: list[Port] = []
            due_s = self._executor.next_due
            wakes_at = next_tick if due_s is None else min(next_tick, due_s)
            wait_s = max(wakes_at - time.monotonic(), 0.0) if busy else -1
            events = self._poll.poll(0 if self._executor.pending else wait_s)
            polled_at = time.monotonic()
            due = due_s is not None and due_s <= polled_at
            for fd, event in events:
                if fd not in self._ports:
                    self._read_channel()
                    continue
                sock, port = self._ports[fd]
                if event & ~select.EPOLLIN:
                    sock.clear_error()
                else:
                    ready.append(port)
            try:
                if ready or due or self._executor.pending:
                    self._step(ready, polled_at)
                now = time.monotonic()
                if now >= next_tick:
                    # what has arrived since the poll waits to be read, so no pair was silent after it
                    self._tick(polled_at, late=now - next_tick if busy and next_tick else 0.0)
                    next_tick = now + TICK_S
            except PluginError as error:
                self._running = None
                self._executor.abandon()
                self._fail(error)
            if self._running is not None:
                self._advance(self._running)

    # -- orders ----------------------------------------------------------------------------------------
    def _read_channel(self) -> None:
        for message in self._channel.poll():
            match message["do"]:
                case "entropies":
                    self._report_paths()
                    self._executor.use_entropies(message["table"], time.monotonic())
                case "retry":
                    self._executor.retry(time.monotonic())
                case "begin":
                    try:
                        self._begin(message)
                    except RailweaveError as error:
                        self._fail(error)

    def _begin(self, message: Mapping[str, Any]) -> None:
        if self._running is not None:
            raise RailweaveError(f"iteration {self._running.iteration} is still running.")
        job = self._job_of(message["collective"], message["options"], message["schedule"])
        inputs = job.data.inputs(message["seed"])
        job.buffers.fill(inputs)
        self._executor.prepare(job.schedule, job.buffers)
        gc.collect()
        counts = self._executor.counts()
        self._running = Running(message["iteration"], job, inputs, counts, time.process_time(), time.time())
        self._channel.send(IterationStarted(message["iteration"]))
        self._executor.begin(time.monotonic())

    def _job_of(self, name: str, options: Mapping[str, Value], schedule: Schedule) -> ServedJob:
        """The job of the last iteration if nothing has changed, else a new one."""
        job = self._job
        if job is None or (job.collective, job.options) != (name, options) or job.schedule != schedule:
            kind = "workload" if name in self._registers["workload"] else "collective"
            collective = configured(kind, name, self._registers[kind][name], options)
            data = CheckedData(name, collective, schedule)
            job = self._job = ServedJob(name, options, schedule, RankBuffers(schedule), data)
        return job

    def _fail(self, error: RailweaveError) -> None:
        self._channel.send(IterationFailed(str(error), error=type(error).__name__))

    def _report_paths(self) -> None:
        if self._by_path:
            self._channel.send(self._executor.path_counts())

    # -- the loop's parts ------------------------------------------------------------------------------
    def _step(self, ready: Sequence[Port], now: float) -> None:
        since = ready[0].waiting_since if ready else None  # epoll reports first what has been ready longest
        self._executor.step(ready, now)
        running = self._running
        if running is not None and since is not None and since > running.wall_at_start:
            running.send_lag_s = max(running.send_lag_s, time.time() - since)

    def _tick(self, now: float, late: float) -> None:
        self._executor.tick(now)
        running = self._running
        if running is None:
            return
        running.send_lag_s = max(running.send_lag_s, late)
        if now < running.reported_at + PROGRESS_S:
            return
        running.reported_at = now
        self._report_paths()
        if stuck := self._executor.stuck(now):
            why, ranks = describe_stuck(self._executor, stuck)
            self._running = None
            self._executor.abandon()
            self._channel.send(IterationFailed(why, tuple(ranks)))
        else:
            progress = self._executor.progress
            self._channel.send(Progress(running.iteration, progress.done, progress.total))

    def _advance(self, running: Running) -> None:
        """Note the end of the last transfer; once all acknowledgements have arrived, verify and report."""
        progress = self._executor.progress
        if not progress.complete:
            return
        if running.cpu_s is None:
            progress.ended(time.monotonic())
            running.cpu_s = time.process_time() - running.cpu_at_start
        if not self._executor.drained:
            return
        self._running = None
        self._report_paths()
        counted: dict[str, Any] = {
            name: count - running.counts_before[name] for name, count in self._executor.counts().items()
        }
        try:
            compared, wrong = running.job.buffers.compare(running.job.data.results(running.inputs))
        except RailweaveError as error:
            self._fail(error)
            return
        result = IterationResult(
            iteration=running.iteration,
            seconds=progress.last_at - progress.started_at,
            wrong=wrong,
            phase_seconds=progress.phase_seconds,
            cpu_s=running.cpu_s,
            send_lag_s=running.send_lag_s,
            compared=compared,
            end_s=progress.end_s,
            **counted,
        )
        self._channel.send(IterationFinished(result))


def describe_stuck(executor: Executor, stuck: Sequence[Pair]) -> tuple[str, list[int]]:
    """A message about pairs without progress, and the ranks to blame: the ranks in every stuck pair,
    if there are several pairs and such ranks, else all of them."""
    names = [endpoint.name for endpoint in executor.endpoints]
    ends = [{pair.src, pair.dst} for pair in stuck]
    in_all = set.intersection(*ends) if len(stuck) > 1 else set[int]()
    ranks = sorted(in_all or set.union(*ends))
    pairs = ", ".join(f"{names[pair.src]}->{names[pair.dst]}" for pair in stuck[:8])
    rest = f" and {len(stuck) - 8} more" if len(stuck) > 8 else ""
    who = ", ".join(names[rank] for rank in ranks[:8])
    batches = {names[rank]: executor.ports[rank].batch for rank in ranks}
    down = ", ".join(name for name, batch in batches.items() if batch.last_error and batch.lost)
    cause = f" The interface of {down} refused packets (is it up?)." if down else ""
    why = (
        f"no packet got through from {pairs}{rest} for {executor.tuning.dead_after:g} s; unreachable ranks: "
        f"{who}.{cause} "
        "Check their links and the rules of the pairs, or raise the transport's dead_after."
    )
    return why, ranks


def open_service(channel: Channel) -> Service:
    """Carry out the order to open, which comes first: the sockets of all ranks, whose interfaces may appear
    later."""
    templates()
    order = channel.receive()
    packet: PacketFormat = order["packet"]
    shape = RingShape(packet.full_packet_bytes + packet.RETH, RING_SLOTS)
    choosing, (chooser, chosen, seed) = None, order["chooser"]
    if chooser != IN_TURN:
        registered = load_plugins()["chooser"][chooser]
        choosing = Choosing(configured("chooser", chooser, registered, chosen), chooser, seed)
    controlling, (control, controlled) = None, order["control"]
    if control != WINDOW:
        registered = load_plugins()["control"][control]
        controlling = Controlling(configured("control", control, registered, controlled), control)
    largest_ip_bytes = packet.full_packet_bytes + packet.RETH - ETHERNET_HEADER
    dirty: list[Batch] = []
    ports: dict[int, tuple[PacketSocket, Port]] = {}
    for endpoint in order["endpoints"]:
        interface = endpoint.namespace, endpoint.interface
        await_interface(*interface, largest_ip_bytes, INTERFACES_WITHIN_S, channel.fileno())
        sock = open_packet_socket(*interface, shape, ROCE_ONLY)
        ports[sock.fileno()] = sock, Port(sock.ring, Batch(kernel_send(sock.fileno()), dirty))
    of_ranks = [port for _, port in ports.values()]
    numbers = order["job"], order["jobs"]
    tuning = Tuning(**order["options"])
    executor = Executor(order["endpoints"], of_ranks, dirty, tuning, packet, numbers, choosing, controlling)
    service = Service(channel, executor, ports, order["by_path"])
    gc.collect()
    gc.freeze()
    return service


def main() -> None:
    gc.disable()  # nothing here makes cycles at a rate that matters; the service collects between iterations
    run_child(lambda channel: open_service(channel).serve())


if __name__ == "__main__":
    main()
