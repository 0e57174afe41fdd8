"""The traffic of all jobs as flows on a fabric whose state changes: when each iteration ends, and what every
link has carried. Times are declared seconds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import ArrayNoun, Bool, Float, Int64
from railweave.framework.solver.network import Network
from railweave.framework.solver.quotient import NetworkState, Quotient, network_of
from railweave.framework.solver.simulation import FlowSimulation
from railweave.plugins.fluid.queues import Behind

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


class _JobEvent(NamedTuple):
    """An iteration of a job begins, or it is dropped; `job` -1: the state changes."""

    at_s: float
    job: int = -1
    begins: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class _KnownIteration:
    """An iteration that was computed to its end with no other under way; `carried_bits` (L,)."""

    schedule: Schedule
    state: NetworkState
    outcome: IterationOutcome
    carried_bits: Float


class _Episode:
    """The simulation of all jobs from a moment at which nothing was under way, by its own clock. `begun`: the
    iteration that each job began last, its number in the simulation and when it began."""

    def __init__(
        self, quotients: tuple[Quotient, ...], simulated: Callable[[Network], FlowSimulation]
    ) -> None:
        self.quotients, self.network = quotients, quotients[0].networks[0]
        self.simulation = simulated(self.network)
        self.begun: dict[int, tuple[int, float]] = {}
        self._full: tuple[tuple[int, bytes], Full] | None = None
        """The links that were full when that was last asked, at that moment of the simulation."""

    @property
    def pairs(self) -> Int64:
        """Those of each job, one behind the other."""
        return np.concatenate([np.flatnonzero(quotient.pair_class >= 0) for quotient in self.quotients])

    def go_to(self, at_s: float) -> None:
        while self.simulation.now_s < at_s:
            self.simulation.advance(at_s)

    def change(self, network: Network) -> None:
        self.network = network
        self.simulation.change(network)

    def take(self, event: _JobEvent) -> None:
        """Let an iteration begin or be dropped."""
        if event.job in self.begun:
            self.simulation.drop(self.begun[event.job][0])
        if event.begins:
            number = self.simulation.add(self.quotients[event.job].tasks)
            self.begun[event.job] = number, self.simulation.now_s

    def outcome(self, job: int) -> IterationOutcome | None:
        """Of the iteration that a job began last, once it has ended."""
        number, began_s = self.begun[job]
        if not self.simulation.ended(number):
            return None
        end_s = self.simulation.end_s(number) - began_s
        return IterationOutcome(float(end_s.max(initial=0.0)), end_s[self.quotients[job].entry_class])

    def carried_bits(self) -> Float:
        """(L,)"""
        link_class = self.quotients[0].link_class
        return np.where(link_class >= 0, self.simulation.carried_bits()[link_class], 0.0)

    def full(self) -> Full:
        network, moment = self.network, self.simulation.moment
        if self._full is not None and self._full[0] == moment:
            return self._full[1]
        rate = np.repeat(self.simulation.rates_bps(), network.hops)
        load = np.bincount(network.link, network.use * rate, network.n_links)
        full = (network.capacity_bps > 0) & (load >= FULL * network.capacity_bps)
        self._full = moment, Full(full, self.quotients[0].link_class)
        return self._full[1]


class Flows:
    """Iterations under way; each job has queue pairs, and so flows, of its own.

    What happens from a moment at which nothing was under way to the next one is a simulation of its own, an
    episode, so that symmetries can be used: `reduced(schedules, states, symmetry)` gives the quotients of all
    jobs over the states that the episode has seen, `simulated` a simulation over a network. If a state comes
    in its middle, less may be alike, and the episode is computed anew from its beginning: of several
    iterations without symmetries, and so once. An iteration alone that repeats while nothing changes is
    computed once. `schedules`: of every job, between GPUs, until it begins another.
    """

    def __init__(
        self,
        fabric: Fabric,
        state: NetworkState,
        schedules: Sequence[Schedule],
        reduced: Callable[[Sequence[Schedule], Sequence[NetworkState], bool], tuple[Quotient, ...]],
        simulated: Callable[[Network], FlowSimulation],
    ) -> None:
        self.now_s = 0.0
        self._fabric, self._reduced, self._simulated = fabric, reduced, simulated
        self._schedules, self._states, self._changed_s = list(schedules), [state], 0.0
        self._events: list[_JobEvent] = []
        self._under_way: set[int] = set()
        self._outcomes: dict[int, IterationOutcome] = {}
        self._before_bits = np.zeros(fabric.n_links)
        self._carried = -1.0, self._before_bits, self._before_bits
        self._known: dict[tuple[int, bytes], _KnownIteration] = {}
        self._recalled: _KnownIteration | None = None
        self._episode: _Episode | None = None
        self._computed_s = np.nan
        """When the episode was last computed for."""
        self._quotients_of: tuple[object, ...] = ()
        self._quotients: tuple[Quotient, ...] = ()

    def begin(self, job: int, schedule: Schedule) -> None:
        """Begin an iteration."""
        if not self._under_way:
            self._changed_s = self.now_s
        if schedule is not self._schedules[job]:
            self._schedules[job], self._episode = schedule, None
        self._under_way.add(job)
        self._happens(_JobEvent(self.now_s, job, begins=True))

    def trial(self, job: int, schedule: Schedule) -> IterationOutcome:
        """The outcome of an iteration, as if it had not taken place."""
        before = self.now_s, self._before_bits
        self.begin(job, schedule)
        self.advance(np.inf)
        self.now_s, self._before_bits = before
        return self._outcomes[job]

    def advance(self, until_s: float) -> None:
        """Go on until then, or to the first end of an iteration if that is earlier."""
        if not self._under_way:
            self.now_s = until_s
            return
        began_s, jobs = self._events[0].at_s, sorted(self._under_way)
        if self._recalled is None:
            episode = self._computed()
            episode.simulation.advance(until_s - began_s)
            reached_s = episode.simulation.now_s
            ended = {job: outcome for job in jobs if (outcome := episode.outcome(job)) is not None}
            if len(ended) == len(jobs):  # the clock may be late
                reached_s = max(episode.begun[job][1] + outcome.seconds for job, outcome in ended.items())
            if ended and len(self._events) == 1:
                only, state = jobs[0], self._states[-1]
                iteration = _KnownIteration(self._schedules[only], state, ended[only], episode.carried_bits())
                self._recalled = self._known[self._key()] = iteration
        else:
            reached_s = self._recalled.outcome.seconds
            ended = {jobs[0]: self._recalled.outcome} if reached_s <= until_s - began_s else {}
        self.now_s = until_s if reached_s >= until_s - began_s else max(self.now_s, began_s + reached_s)
        self._outcomes |= ended
        self._leave(*ended)

    def change(self, state: NetworkState) -> None:
        """Capacities or routes differ from now on; the pairs are the same."""
        if self._under_way and self.now_s > self._changed_s:
            self._states, self._changed_s = [*self._states, state], self.now_s
            self._events.append(_JobEvent(self.now_s))
        else:
            self._states[-1] = state
        self._recalled, episode = self._recall(), self._episode
        if episode is not None and episode.network.n_pairs == len(pairs := episode.pairs):
            self._computed().change(network_of(self._fabric, state).of_pairs(pairs))
        else:
            self._episode = None

    def drop(self, job: int) -> None:
        """End the iteration of a job that has failed."""
        if job in self._under_way:
            self._computed()
            self._happens(_JobEvent(self.now_s, job))
            self._leave(job)

    def outcome(self, job: int) -> IterationOutcome | None:
        """Of the iteration that a job began last, once it has ended."""
        return None if job in self._under_way else self._outcomes.get(job)

    def carried_bits(self) -> Float:
        """(L,): what every link has carried so far."""
        if not self._under_way:
            return self._before_bits
        now_s, before_bits, carried = self._carried  # what is measured at one moment asks for it twice
        if now_s != self.now_s or before_bits is not self._before_bits:
            carried = self._before_bits + self._computed().carried_bits()
            self._carried = self.now_s, self._before_bits, carried
        return carried

    def waiting_bits(self, behind: Behind) -> Float:
        """(L,): what waits at each link now; `behind`: the links of the paths in use that are full."""
        if not self._under_way:
            return np.zeros(len(self._before_bits))
        episode = self._computed()
        left = np.zeros(episode.network.n_pairs + 1)  # the last: pairs that a job does not use
        left[:-1] = episode.simulation.left_bits()
        of_jobs = [left[quotient.pair_class] for quotient in episode.quotients]
        return behind.waiting_bits(of_jobs[0] if len(of_jobs) == 1 else np.concatenate(of_jobs))

    def full(self) -> Full:
        """The links that carry all they can now."""
        if not self._under_way:
            return Full(np.zeros(1, bool), np.zeros(len(self._before_bits), np.int64))
        return self._computed().full()

    def standing(self) -> Int64:
        """Pairs, by their places in the state's paths, that send and get nothing through now."""
        if not self._under_way:
            return np.empty(0, np.int64)
        episode = self._computed()
        stands = episode.simulation.standing()
        of_jobs = [np.isin(quotient.pair_class, stands) for quotient in episode.quotients]
        return np.flatnonzero(np.logical_or.reduce(of_jobs))

    def _key(self) -> tuple[int, bytes]:
        """What an iteration alone in one state depends on; `_known` keeps what has these ids alive."""
        state = self._states[-1]
        rates = np.concatenate((state.capacity_bps, [state.switch_s], state.wait_s)).tobytes()
        return id(self._schedules[self._events[0].job]), rates + id(state.paths).to_bytes(8, "little")

    def _recall(self) -> _KnownIteration | None:
        return self._known.get(self._key()) if len(self._events) == 1 else None

    def _happens(self, event: _JobEvent) -> None:
        if self._episode is not None:
            self._computed().take(event)
        self._events.append(event)
        self._recalled = self._recall()

    def _leave(self, *jobs: int) -> None:
        """Their iterations are over, and the episode with the last one."""
        self._under_way -= {*jobs}
        if not self._under_way:
            over = self._recalled
            bits = self._computed().carried_bits() if over is None else over.carried_bits
            self._before_bits = self._before_bits + bits
            self._events = []
            self._states = self._states[-1:]
            self._episode = self._recalled = None

    def _computed(self) -> _Episode:
        """The episode, now."""
        if self._episode is None:
            symmetry = len(self._states) == 1 or sum(event.begins for event in self._events) == 1
            inputs = (*self._schedules, *self._states, symmetry)
            if [*map(id, inputs)] != [*map(id, self._quotients_of)]:
                self._quotients_of = inputs
                self._quotients = self._reduced(self._schedules, self._states, symmetry)
            self._episode, self._computed_s = _Episode(self._quotients, self._simulated), np.nan
            networks = iter(self._quotients[0].networks[1:])
            for event in self._events:
                self._episode.go_to(event.at_s - self._events[0].at_s)
                if event.job < 0:
                    self._episode.change(next(networks))
                else:
                    self._episode.take(event)
        if self._computed_s != self.now_s:
            self._episode.go_to(self.now_s - self._events[0].at_s)
            self._computed_s = self.now_s
        return self._episode
