"""Drives the transport process for a run: entropies in, iterations out."""

from collections.abc import Callable
from typing import Any

from railweave.framework.errors import PluginError, TransportError
from railweave.framework.experiment.plan import Plan
from railweave.framework.model import Endpoint, EntropyTable, IterationResult, Schedule
from railweave.framework.model.events import (
    IterationFailed,
    IterationFinished,
    ProcessDied,
    ProcessReady,
    Progress,
    RunEvent,
)
from railweave.framework.processes.event_loop import Watch
from railweave.framework.routing.reroute import Reroute

LOG = "/run/railweave/transport.log"


class TransportLink:
    """Traffic of one job (runs/parts.py). `up`: whether the transport takes iterations."""

    def __init__(self, plan: Plan, watch: Watch, emit: Callable[[RunEvent], None]) -> None:
        self._plan, self._transport, self._watch, self._emit = plan, plan.transport, watch, emit
        self._result: IterationResult | None = None
        self._started = False
        self.up = False
        self._rate_scale = 1.0

    def start(self, endpoints: list[Endpoint]) -> None:
        self._transport.start(endpoints, self._plan.packet, LOG)
        self._started = True
        self._watch.readable(self._transport, self._hear)

    def stop(self) -> None:
        if self._started:
            self._transport.stop()

    def take(self, plan: Plan) -> None:
        """Iterations are those of another plan for the same fabric from now on."""
        self._plan = plan

    def restart(self, endpoints: list[Endpoint], entropies: EntropyTable) -> None:
        """End the process, whatever it is doing, and start another."""
        self._watch.forget(self._transport)
        self._transport.stop()
        self.up = False
        self.start(endpoints)
        self.use_entropies(entropies, self._rate_scale)

    @property
    def pid(self) -> int:
        return self._transport.pid()

    def use_entropies(self, entropies: EntropyTable, rate_scale: float = 1.0) -> None:
        """Pace senders at the declared rates of `entropies` times `rate_scale`, now and after every
        reroute."""
        self._rate_scale = rate_scale
        self._transport.use_entropies(entropies.scaled(rate_scale))

    def use_routes(self, reroute: Reroute) -> None:
        self.use_entropies(reroute.entropies, self._rate_scale)

    def begin(self, iteration: int, schedule: Schedule, collective: str | None = None) -> None:
        """Carry out a schedule of the plan's collective, or of another one without options."""
        traffic, seed = self._plan.experiment.traffic, self._plan.experiment.seed
        options: dict[str, Any] = dict(traffic.options) if collective is None else {}
        self._result = None
        self._transport.begin(collective or traffic.name, options, schedule, iteration, seed)

    def finished(self) -> IterationResult | None:
        return self._result

    def _hear(self) -> None:
        for event in self._transport.events():
            match event:
                case ProcessReady():
                    self.up = True
                case Progress():
                    self._emit(event)
                case IterationFinished():
                    self._result = event.result
                case IterationFailed():
                    names = [self._plan.fabric.node_name(rank) for rank in event.ranks]
                    at = f" at {', '.join(names)}" if names else ""
                    if event.error == PluginError.__name__:
                        raise PluginError(event.why)
                    raise TransportError(f"the collective failed{at}: {event.why}")
                case ProcessDied():
                    self.up = False
                    raise TransportError(f"the collective failed: {event.why}")
