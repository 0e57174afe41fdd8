"""The traffic of all jobs as flows on a fabric whose state changes: when each iteration ends, and what every
link has carried. Times are declared seconds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import ArrayNoun, Bool, Float, Int64
from railweave.framework.solver.network import Network
from railweave.framework.solver.quotient import NetworkState, Quotient, network_of
from railweave.framework.solver.simulation import Simulation
from railweave.plugins.fluid.queues import WaitingPlaces

FULL = 1 - 1e-6
"""Share of its capacity from which on a link carries all it can."""


@dataclass(frozen=True, eq=False, slots=True)
class IterationOutcome(ArrayNoun):
    """One iteration, from its beginning: `end_s` (n,), of each entry of its schedule."""

    seconds: float
    end_s: Float


class Full(NamedTuple):
    """Whether links are full: `classes` (C,), and the class of each, `link_class` (L,), -1 for one that
    nothing crosses."""

    classes: Bool
    link_class: Int64

    def of_links(self) -> Bool:
        """(L,)"""
        full: Bool = np.where(self.link_class >= 0, self.classes[self.link_class], False)
        return full


class Flows(Protocol):
    """Iterations under way."""

    @property
    def now_s(self) -> float:
        """How far `advance` has come."""

    def begin(self, job: int, schedule: Schedule) -> None:
        """Begin an iteration; `schedule`: between GPUs."""

    def advance(self, until_s: float) -> None:
        """Go on until then, or to the first end of an iteration if that is earlier."""

    def change(self, state: NetworkState) -> None:
        """Capacities or routes differ from now on; the pairs are the same."""

    def outcome(self, job: int) -> IterationOutcome | None:
        """Of the iteration that a job began last, once it has ended."""

    def carried_bits(self) -> Float:
        """(L,): what every link has carried so far."""

    def waiting_bits(self, places: WaitingPlaces, full: Bool) -> Float:
        """(L,): what waits at each link now; `places`: of the paths in use, `full` (L,): as said below."""

    def full(self) -> Full:
        """The links that carry all they can now."""

    def drop(self, job: int) -> None:
        """End the iteration of a job that has failed."""

    def standing(self) -> Int64:
        """Pairs, by their places in the state's paths, that send and get nothing through now."""


class OneJob:
    """Iterations one after the other, each a simulation of its own, so that symmetries of its schedule can be
    used: `reduced` gives the quotient of a schedule over the states that the iteration has seen, `simulated`
    a simulation over a network. If a state comes in its middle, the iteration is computed anew from its
    beginning. One that repeats while nothing changes is computed once."""

    def __init__(
        self,
        fabric: Fabric,
        state: NetworkState,
        reduced: Callable[[Schedule, tuple[NetworkState, ...]], Quotient],
        simulated: Callable[[Network], Simulation],
    ) -> None:
        self.now_s, self._reduced, self._simulation = 0.0, reduced, simulated
        self._states, self._changed_s = [state], [0.0]
        self._before_bits = np.zeros(fabric.n_links)
        self._known: dict[tuple[int, bytes], _Known] = {}
        self._schedule: Schedule | None = None
        self._outcome: _Known | None = None
        self._under_way = False
        self._solving: tuple[Simulation, Quotient] | None = None
        self._quotient_of: tuple[ArrayNoun, ...] = ()
        self._quotient: Quotient | None = None

    def begin(self, job: int, schedule: Schedule) -> None:
        self._states, self._changed_s = self._states[-1:], [self.now_s]
        self._schedule, self._under_way, self._solving = schedule, True, None
        self._outcome = self._recall()

    def trial(self, schedule: Schedule) -> IterationOutcome:
        """The outcome of an iteration, as if it had not taken place."""
        before = self.now_s, self._before_bits
        self.begin(0, schedule)
        self.advance(np.inf)
        self.now_s, self._before_bits = before
        self._changed_s = [self.now_s]
        assert self._outcome is not None
        return self._outcome.outcome

    def advance(self, until_s: float) -> None:
        if not self._under_way:
            self.now_s = until_s
            return
        if self._outcome is None:
            simulation, reduced = self._simulated()
            lasting_s = until_s - self._changed_s[0]
            simulation.advance(lasting_s)
            self._look(simulation, reduced)
            if self._outcome is None:
                reached_s = self._changed_s[0] + simulation.now_s
                self.now_s = until_s if simulation.now_s >= lasting_s else max(self.now_s, reached_s)
                return
        end_s = self._changed_s[0] + self._outcome.outcome.seconds
        self.now_s = min(until_s, end_s)
        if end_s <= until_s:
            self._under_way = False
            self._before_bits = self._before_bits + self._outcome.carried_bits

    def change(self, state: NetworkState) -> None:
        begun_now = self.now_s == self._changed_s[0]
        if not self._under_way or begun_now:
            self._states[-1] = state
            self._outcome = self._recall() if self._under_way else self._outcome
        else:
            if self.now_s == self._changed_s[-1]:
                self._states[-1] = state
            else:
                self._states, self._changed_s = [*self._states, state], [*self._changed_s, self.now_s]
            self._outcome = None
        self._solving = None

    def outcome(self, job: int) -> IterationOutcome | None:
        return None if self._under_way or self._outcome is None else self._outcome.outcome

    def carried_bits(self) -> Float:
        if not self._under_way:
            return self._before_bits
        simulation, reduced = self._simulated()
        return self._before_bits + _of_links(simulation.carried_bits(), reduced)

    def waiting_bits(self, places: WaitingPlaces, full: Bool) -> Float:
        if not self._under_way:
            return np.zeros(len(self._before_bits))
        simulation, reduced = self._simulated()
        return places.waiting_bits(simulation.left_bits()[reduced.pair_class], full)

    def full(self) -> Full:
        if not self._under_way:
            return Full(np.zeros(1, bool), np.zeros(len(self._before_bits), np.int64))
        simulation, reduced = self._simulated()
        return Full(_saturated(simulation, reduced.networks[-1]), reduced.link_class)

    def standing(self) -> Int64:
        if not self._under_way:
            return np.empty(0, np.int64)
        simulation, reduced = self._simulated()
        return np.flatnonzero(np.isin(reduced.pair_class, simulation.standing()))

    def drop(self, job: int) -> None:
        self._under_way = False

    def _key(self) -> tuple[int, bytes]:
        """What an iteration in one state depends on; `_known` keeps what has these ids alive."""
        state = self._states[-1]
        rates = np.concatenate((state.capacity_bps, [state.switch_s], state.wait_s)).tobytes()
        return id(self._schedule), rates + id(state.paths).to_bytes(8, "little")

    def _recall(self) -> "_Known | None":
        return self._known.get(self._key())

    def _simulated(self) -> tuple[Simulation, Quotient]:
        """The simulation of the iteration under way, now."""
        assert self._schedule is not None
        if self._solving is None:
            reduced = self._quotient_now(self._schedule)
            simulation = self._simulation(reduced.networks[0])
            simulation.add(reduced.tasks, 0.0)
            for network, changed_s in zip(reduced.networks[1:], self._changed_s[1:], strict=True):
                simulation.advance(changed_s - self._changed_s[0])
                simulation.change(network)
            self._solving = simulation, reduced
        simulation, reduced = self._solving
        if simulation.now_s < self.now_s - self._changed_s[0]:
            simulation.advance(self.now_s - self._changed_s[0])
        return simulation, reduced

    def _quotient_now(self, schedule: Schedule) -> Quotient:
        """Iterations of one schedule in one state have the same."""
        of: tuple[ArrayNoun, ...] = (schedule, *self._states)
        if self._quotient is None or list(map(id, of)) != list(map(id, self._quotient_of)):
            self._quotient_of, self._quotient = of, self._reduced(schedule, tuple(self._states))
        return self._quotient

    def _look(self, simulation: Simulation, reduced: Quotient) -> None:
        """Keep the outcome, if the iteration has ended."""
        assert self._schedule is not None
        end_s = simulation.end_s(0)
        seconds = float(end_s.max(initial=0.0))
        if np.isfinite(seconds):
            outcome = IterationOutcome(seconds, end_s[reduced.entry_class])
            carried = _of_links(simulation.carried_bits(), reduced)
            self._outcome = _Known(self._schedule, self._states[-1], outcome, carried)
            if len(self._states) == 1:
                self._known[self._key()] = self._outcome


@dataclass(frozen=True, eq=False, slots=True)
class _Known:
    """An iteration that was computed to its end; `carried_bits` (L,)."""

    schedule: Schedule
    state: NetworkState
    outcome: IterationOutcome
    carried_bits: Float


class _Begun(NamedTuple):
    """An iteration in the simulation of several jobs: its `number` there, and since when it is there."""

    number: int
    at_s: float


class SeveralJobs:
    """Iterations of several jobs at once, all in one simulation; each job has queue pairs, and so flows, of
    its own. `reduced(state, symmetry)` gives the quotients of all jobs over one network.

    Symmetries are used until the state changes, as other things may be alike from then on: all that was so
    far is then computed anew without them, once.
    """

    def __init__(
        self,
        fabric: Fabric,
        state: NetworkState,
        reduced: Callable[[NetworkState, bool], tuple[Quotient, ...]],
        simulated: Callable[[Network], Simulation],
    ) -> None:
        self._fabric, self._reduced, self._simulated = fabric, reduced, simulated
        self._began: list[tuple[float, int, bool]] = []
        self._start(state, symmetry=True)

    def _start(self, state: NetworkState, *, symmetry: bool) -> None:
        self._state, self._of = state, self._reduced(state, symmetry)
        self._network = self._of[0].networks[0]
        self._alike = self._network.n_pairs < len(self._pairs())
        self._simulation = self._simulated(self._network)
        self._begun: dict[int, _Begun] = {}

    @property
    def now_s(self) -> float:
        return self._simulation.now_s

    def begin(self, job: int, schedule: Schedule) -> None:
        self._begin(job)

    def _begin(self, job: int) -> None:
        if job in self._begun:
            self._simulation.drop(self._begun[job].number)
        self._begun[job] = _Begun(self._simulation.add(self._of[job].tasks), self.now_s)
        self._began.append((self.now_s, job, True))

    def advance(self, until_s: float) -> None:
        self._simulation.advance(until_s)

    def change(self, state: NetworkState) -> None:
        if not self._began:
            self._start(state, symmetry=True)
            return
        if self._alike:
            self._compute_anew()
        self._state, self._network = state, network_of(self._fabric, state).of_pairs(self._pairs())
        self._simulation.change(self._network)

    def _pairs(self) -> Int64:
        """Those of each job, one behind the other."""
        return np.concatenate([np.flatnonzero(of.pair_class >= 0) for of in self._of])

    def _compute_anew(self) -> None:
        """The same without symmetries, up to now."""
        began, now_s, self._began = self._began, self.now_s, []
        self._start(self._state, symmetry=False)
        for at_s, job, begins in began:
            self._go_to(at_s)
            if begins:
                self._begin(job)
            else:
                self.drop(job)
        self._go_to(now_s)

    def _go_to(self, at_s: float) -> None:
        while self.now_s < at_s:
            self._simulation.advance(at_s)

    def outcome(self, job: int) -> IterationOutcome | None:
        begun = self._begun[job]
        end_s = self._simulation.end_s(begun.number) - begun.at_s
        seconds = float(end_s.max(initial=0.0))
        return IterationOutcome(seconds, end_s[self._of[job].entry_class]) if np.isfinite(seconds) else None

    def carried_bits(self) -> Float:
        return _of_links(self._simulation.carried_bits(), self._of[0])

    def waiting_bits(self, places: WaitingPlaces, full: Bool) -> Float:
        left = np.append(self._simulation.left_bits(), 0.0)  # of pairs that a job does not use
        return places.waiting_bits(np.concatenate([left[of.pair_class] for of in self._of]), full)

    def full(self) -> Full:
        return Full(_saturated(self._simulation, self._network), self._of[0].link_class)

    def drop(self, job: int) -> None:
        self._simulation.drop(self._begun[job].number)
        self._began.append((self.now_s, job, False))

    def standing(self) -> Int64:
        stands = self._simulation.standing()
        return np.flatnonzero(np.logical_or.reduce([np.isin(of.pair_class, stands) for of in self._of]))


def _of_links(of_class: Float, reduced: Quotient) -> Float:
    """(L,): a figure of every link, of that of its class."""
    return np.where(reduced.link_class >= 0, of_class[reduced.link_class], 0.0)


def _saturated(simulation: Simulation, network: Network) -> Bool:
    """The links of a network that carry all they can now."""
    rate = np.repeat(simulation.rates_bps(), np.diff(network.start))
    load = np.bincount(network.link, network.use * rate, network.n_links)
    return (network.capacity_bps > 0) & (load >= FULL * network.capacity_bps)
