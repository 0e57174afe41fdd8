"""Drives the transport process for a run: entropies in, iterations out."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from railweave.framework.errors import PluginError, RailweaveError, TransportError
from railweave.framework.experiment.plan import Plan
from railweave.framework.hookspecs import ChoosesPaths, ControlsCongestion, CountsPaths, Transport
from railweave.framework.model import (
    Endpoint,
    EntropyTable,
    IterationResult,
    PathCounts,
    RouteTable,
    Schedule,
)
from railweave.framework.model.events import (
    IterationFailed,
    IterationFinished,
    PathsCounted,
    ProcessDied,
    ProcessReady,
    Progress,
    RunEvent,
)
from railweave.framework.processes.event_loop import Watch
from railweave.framework.routing.batches import answer, distinct, spread
from railweave.framework.routing.route_control import Reroute

LOG = "/run/railweave/transport.log"


class PathTally:
    """What the senders of a job have learnt of their packets by path, of the routes in use. `fresh`: whether
    there is more since `take`."""

    def __init__(self, plan: Plan, table: RouteTable) -> None:
        self._n, self._pairs = plan.fabric.n_gpus, distinct(plan.used_pairs)
        self._counts, self.fresh = PathCounts.none(), False
        self.follow(table)

    def follow(self, table: RouteTable) -> None:
        """Routes from now on: reports of earlier ones come too late."""
        self._version, paths = table.version, answer(table, *np.divmod(self._pairs, self._n))
        self._counts = PathCounts(paths, np.zeros((3, len(paths.weight)))).after(self._counts)

    def add(self, event: PathsCounted) -> None:
        """A report of the transport."""
        if event.version != self._version:
            return
        paths, packets = self._counts.paths, self._counts.packets.copy()
        keys = event.src * self._n + event.dst
        place = np.searchsorted(self._pairs, keys) % max(len(self._pairs), 1)
        counts = np.diff(event.start)
        # a pair that has lost its paths goes on trying the old ones
        current = np.flatnonzero((self._pairs[place] == keys) & (np.diff(paths.pair_start)[place] == counts))
        into = spread(paths.pair_start[place[current]], counts[current])
        packets[:, into] += event.packets[:, spread(event.start[current], counts[current])]
        self._counts, self.fresh = PathCounts(paths, packets), True

    def take(self) -> PathCounts:
        """What has been learnt since the last call."""
        counts, self.fresh = self._counts, False
        self._counts = replace(counts, packets=np.zeros_like(counts.packets))
        return counts


class TransportLink:
    """Traffic of one job (runs/parts.py), the `number`th of `jobs`, by a transport of its own. `tally`: of
    its packets by path, where those are counted."""

    def __init__(
        self,
        plan: Plan,
        transport: Transport,
        watch: Watch,
        emit: Callable[[RunEvent], None],
        number: int = 0,
        jobs: int = 1,
    ) -> None:
        self._plan, self._transport, self._watch, self._emit = plan, transport, watch, emit
        self._number, self._jobs = number, jobs
        self._result: IterationResult | None = None
        self._error: RailweaveError | None = None
        self._started = self._ready = self._trying = False
        self._rate_scale = 1.0
        self.tally: PathTally | None = None

    def start(self, endpoints: Sequence[Endpoint], log: str = LOG) -> None:
        """Start the transport for these ranks."""
        experiment = self._plan.experiment
        if isinstance(self._transport, ChoosesPaths):
            options: Any = experiment.chooser.options  # those of a plan are parsed
            self._transport.use_chooser(experiment.chooser.name, options, experiment.seed)
        if isinstance(self._transport, ControlsCongestion):
            parsed: Any = experiment.control.options
            self._transport.use_control(experiment.control.name, parsed)
        if self.tally is not None and isinstance(self._transport, CountsPaths):
            self._transport.count_paths()
        self._transport.start(endpoints, self._plan.packet, log, self._number, self._jobs)
        self._started = True
        self._watch.readable(self._transport, self._hear)

    def count_paths(self, table: RouteTable) -> None:
        """Have senders count by path, of these routes first; before `start`."""
        self.tally = PathTally(self._plan, table)

    def stop(self) -> None:
        if self._started:
            self._started = False
            self._watch.forget(self._transport)
            self._transport.stop()

    give_up = stop

    def take(self, plan: Plan) -> None:
        """Iterations are those of another plan for the same fabric from now on."""
        self._plan = plan

    def restart(self, endpoints: Sequence[Endpoint], entropies: EntropyTable) -> None:
        """End the process, whatever it is doing, and start another."""
        self.stop()
        self._ready, self._error, self._result = False, None, None
        self.start(endpoints)
        self.use_entropies(entropies, self._rate_scale)

    @property
    def up(self) -> bool:
        """Whether the transport takes iterations. Raises TransportError where it has ended."""
        if self._error is not None:
            raise self._error
        return self._ready

    @property
    def pid(self) -> int | None:
        """Of the transport while it lives and is up."""
        return self._transport.pid() if self._started and self._ready else None

    def use_entropies(self, entropies: EntropyTable, rate_scale: float = 1.0) -> None:
        """Pace senders at the declared rates of `entropies` times `rate_scale`, now and after every
        reroute."""
        self._rate_scale = rate_scale
        if self._started:
            self._transport.use_entropies(entropies.scaled(rate_scale))

    def use_routes(self, reroute: Reroute) -> None:
        if self.tally is not None:
            self.tally.follow(reroute.table)
        self.use_entropies(reroute.entropies, self._rate_scale)

    def retry(self) -> None:
        if self._started:
            self._transport.retry()

    def begin(self, iteration: int, schedule: Schedule) -> None:
        self._trying = False
        self._carry_out(iteration, schedule)

    def try_out(self, schedule: Schedule, collective: str | None = None) -> None:
        """As `begin`, before the run, without a word of its progress: a schedule of the plan's collective, or
        of another one without options."""
        self._trying = True
        self._carry_out(0, schedule, collective)

    def _carry_out(self, iteration: int, schedule: Schedule, collective: str | None = None) -> None:
        traffic, seed = self._plan.experiment.traffic, self._plan.experiment.seed
        options: dict[str, Any] = dict(traffic.options) if collective is None else {}
        self._result = None
        self._transport.begin(collective or traffic.name, options, schedule, iteration, seed)

    def finished(self) -> IterationResult | None:
        if self._error is not None:
            raise self._error
        return self._result

    def _hear(self) -> None:
        for event in self._transport.events():
            match event:
                case ProcessReady():
                    self._ready = True
                case Progress() if not self._trying:
                    self._emit(replace(event, job=self._number))
                case PathsCounted() if self.tally is not None and not self._trying:
                    self.tally.add(event)
                case IterationFinished():
                    self._result = event.result
                case IterationFailed(error=PluginError.__name__):
                    self._error = PluginError(event.why)
                case IterationFailed():
                    names = [self._plan.fabric.node_name(self._plan.ranks[rank]) for rank in event.ranks]
                    at = f" at {', '.join(names)}" if names else ""
                    self._error = TransportError(f"the collective failed{at}: {event.why}")
                case ProcessDied():
                    self._ready = False
                    self._error = TransportError(f"the collective failed: {event.why}")
