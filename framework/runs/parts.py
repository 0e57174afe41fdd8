"""What an engine supplies to a run; session, health loop, fault timetable and recorder know no more of it.

The emulation supplies the wall clock, queues read over netlink, rules sent through a controller, and packets;
the model a clock of its own, what it knows of the links, a route table, and flows that complete.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.hookspecs import LinkState
from railweave.framework.model import (
    Endpoint,
    Fabric,
    IterationResult,
    Measurement,
    PathBatch,
    RouteTable,
    Schedule,
)
from railweave.framework.model.arrays import Float
from railweave.framework.model.findings import EngineFacts, LinkTotals
from railweave.framework.model.senders import Senders
from railweave.framework.model.traffic import RankOutcome
from railweave.framework.routing.route_control import Reroute, RouteControl


class TrafficEnded(Exception):
    """No iteration follows."""


class Clock(Protocol):
    """The run's clock. It stands at 0 until `start`."""

    def start(self) -> None:
        """Let it run, if it does not yet."""

    def now_s(self) -> float: ...

    def wait(self, until_s: float) -> None:
        """Return once something has happened, at `until_s` at the latest. What happens is handled meanwhile,
        and may raise what ends the run (LabError, ControllerError, TransportError)."""


class MeasurementSource(Protocol):
    """Where the health of links is measured."""

    def measure(self) -> Measurement:
        """What was seen of every link since the last call."""

    def probe(self, now_s: float, links: LinkState) -> None:
        """Send measuring traffic over the links that `links` says too little about, if there are any."""

    def totals(self) -> LinkTotals:
        """What every link has carried so far. Not a measurement: `measure` does not notice."""


class RulePlace(Protocol):
    """Where changed routes go: switches behind a controller, or a table. One change is under way at a
    time."""

    @property
    def ready(self) -> bool:
        """Whether a change can be given now."""

    @property
    def at_rest(self) -> bool:
        """Whether no change is under way and nothing that a change replaced is left."""

    def reroute(self, reroute: Reroute) -> None:
        """Put a change in; `advance` returns it once it is in use."""

    def advance(self, now_s: float) -> list[Reroute]:
        """The changes that came into use since the last call. What they replaced goes once no packet needs
        it."""


class RoutesInPlace:
    """A RulePlace of an engine without switches: changed routes are in use at once, by `use`."""

    ready = at_rest = True

    def __init__(self, use: Callable[[RouteTable], None]) -> None:
        self._use = use
        self._changed: list[Reroute] = []

    def reroute(self, reroute: Reroute) -> None:
        self._use(reroute.table)
        self._changed.append(reroute)

    def advance(self, now_s: float) -> list[Reroute]:
        changed, self._changed = self._changed, []
        return changed


class FaultPlace(Protocol):
    """What faults are done to."""

    @property
    def rates_bps(self) -> Float:
        """(n_links,): the rate of every link as it is now."""

    def inject(self, fault: ResolvedFault) -> None:
        """Do it. Raises MachineError or LabError where this engine cannot."""


class Traffic(Protocol):
    """Iterations of one job, one at a time. What fails is raised where it is asked for, by `finished`."""

    def begin(self, iteration: int, schedule: Schedule) -> None: ...

    def finished(self) -> IterationResult | None:
        """The result of the iteration that was begun, once it has ended. Raises TrafficEnded where it never
        will, because every rank of a program has ended; TransportError, ProgramError or PluginError where the
        job has failed."""

    def give_up(self) -> None:
        """End the rest of a job that has failed, without waiting for it."""

    def use_routes(self, reroute: Reroute) -> None:
        """Senders spread over paths as the changed routes say."""

    def retry(self) -> None:
        """Links that were down are up again: senders that wait for an answer ask at once."""


@dataclass(frozen=True, slots=True)
class EngineParts:
    """A fabric that is up. `fabric` has the rates in use, which are the declared ones times `rate_scale`.

    `summary`: what a user should read about it, in a line; `bring_up_s`: wall-clock seconds it took.
    `traffic`: of each job. `watched`: whether later samples of the links could show anything new; `repeated`:
    the measurement at this moment, if it is like an earlier one after which scores did not change, so that
    they need not be computed. A lab never knows. `concurrent`: whether time goes on while routes are decided.
    `senders`: how those of the pairs of some paths would wait there, by the run's clock; None where messages
    wait as `fluid` has it (health/loss.py).
    """

    fabric: Fabric
    rate_scale: float
    summary: str
    bring_up_s: float
    endpoints: tuple[Endpoint, ...]
    source: MeasurementSource
    rules: RulePlace
    faults: FaultPlace
    traffic: tuple[Traffic, ...]
    watched: Callable[[], bool] = lambda: True
    repeated: Callable[[], Measurement | None] = lambda: None
    concurrent: bool = False
    senders: Callable[[PathBatch], Senders] | None = None


class RunEngine(Protocol):
    """What brings a fabric up for one run, and takes it down."""

    @property
    def clock(self) -> Clock: ...

    def bring_up(self, control: RouteControl) -> EngineParts:
        """Bring the fabric up with the first routes of `control` installed; no traffic yet."""

    def checkpoint(self) -> None:
        """Called before the clock starts and after every iteration: the time to read memory and
        processors."""

    @property
    def ranks(self) -> tuple[RankOutcome, ...]:
        """How the ranks of a program ended, in that order."""

    def facts(self) -> EngineFacts:
        """What only this engine knows of the run so far."""

    def down(self) -> None:
        """Take down whatever is up, also after `bring_up` failed halfway."""
