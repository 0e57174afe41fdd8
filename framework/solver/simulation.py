"""Jobs of tasks over a network, on a simulated clock."""

from collections.abc import Callable
from importlib.util import find_spec
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np

from railweave.framework.errors import FabricError, MachineError
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.solver.code import PLAIN, loaded, machine_code
from railweave.framework.solver.jobs import RunningJob, idle, pause, state_of
from railweave.framework.solver.network import Network
from railweave.framework.solver.state import DONE, ENDED, EVENTS, JOINED, SOLVED
from railweave.framework.solver.stepping import EACH, PAUSED, STANDS
from railweave.framework.solver.tasks import Tasks

BATCH = 1e-4
"""Share of its own time by which the end of a flow may be noticed late, so that ends close to each other cost
one new sharing of the links. The end itself is exact; what follows it, and the flows it makes room for, may
start so much later."""
LARGE = 12_000_000
"""Work from which on machine code pays, with the half second that numba takes to load: what the tasks need at
least, or what was done so far. In hops looked at."""
WORK, COMPILED_WORK = 1_000_000, 10_000_000
"""Work between two calls of `progress`: at most 0.2 s."""

BLOCK = 1 << 16
"""Pairs whose hops are added up together: what is made of them takes little memory."""


class SolverProgress(NamedTuple):
    """How far a simulation is: repetitions of tasks that are done, of all so far; `now_s` on its clock."""

    done: int
    total: int
    now_s: float


COUNTED = {"events": EVENTS, "rates": SOLVED, "tasks": DONE}


class FlowSimulation:
    """Transfers of different pairs share links by max-min fairness; those of one pair are served in order.

    `accelerated`: True for machine code (numba, in the extra `fluid`), False for none, None for what suits
    the size. `batch`: see BATCH; 0 for none. `progress` is called at least every 0.2 s and may raise.
    """

    watched_work: ClassVar[int] = 0
    """What all simulations in this process have cost at least, in hops looked at, since the first with
    `progress`, or since this became more than 0."""

    def __init__(
        self,
        network: Network,
        accelerated: bool | None = None,
        *,
        batch: float = BATCH,
        progress: Callable[[SolverProgress], None] | None = None,
    ) -> None:
        if accelerated and find_spec("numba") is None:
            raise MachineError(
                "numba is not installed, and accelerated=True asks for it. "
                "Install it: pip install 'railweave[fluid]', or leave accelerated out."
            )
        self._network, self._accelerated, self._progress = network, accelerated, progress
        self._jobs: dict[int, RunningJob] = {}
        self._ended: dict[int, Float] = {}
        self._added = self._total = self._size = self._work = self._resumed = 0
        self._carried = np.zeros(network.n_links)
        self._state = idle(network, batch)
        self._code = machine_code() if accelerated else PLAIN

    @property
    def now_s(self) -> float:
        return float(self._state.clock[0])

    @property
    def moment(self) -> tuple[int, bytes]:
        """The same while nothing starts, ends or changes, so that rates stay as they are."""
        self._share()
        return self._resumed, self._state.tally.tobytes()

    @property
    def tally(self) -> Int64:
        """What the simulation took so far, at the places in COUNTED: moments at which something happened,
        rates of flows that were computed, repetitions that are done."""
        return self._state.tally

    def add(self, tasks: Tasks, at_s: float | None = None) -> int:
        """A job that starts at `at_s`, now if None; its number. Transfers of a pair that jobs before it use
        too are served after theirs."""
        at_s = self.now_s if at_s is None else at_s
        self._pause()
        number, self._added = self._added, self._added + 1
        repetitions = int(tasks.repeat.sum())
        self._total += repetitions
        if self._progress is not None or FlowSimulation.watched_work:
            FlowSimulation.watched_work += EACH * repetitions
        self._jobs[number] = RunningJob.new(tasks, at_s)
        self._resume()
        return number

    def advance(self, until_s: float = inf) -> tuple[int, ...]:
        """Run to `until_s` or until a job has ended, whichever is earlier; the jobs that have ended. Nothing
        ends any more where it stops before both; then pairs in `standing` have no capacity.

        Raises FabricError where tasks wait for each other.
        """
        if ended := self._over():
            return ended
        if not self._jobs:
            self._state.clock[0] = until_s if until_s < inf else self.now_s
            return ()
        why = PAUSED
        while why == PAUSED:
            work = COMPILED_WORK if self._code is not PLAIN else WORK
            why = self._code.run(self._state, float(until_s), work)
            if self._progress is not None:
                self._progress(SolverProgress(int(self._state.tally[DONE]), self._total, self.now_s))
            self._work += work if why == PAUSED else 0
            if self._code is PLAIN and self._wants_machine_code():
                self._pause()
                self._resume()
        if why == STANDS and self._jobs and not len(self.standing()):
            left = int(self._state.unfinished.sum())
            raise FabricError(f"{left} tasks wait for each other at {self.now_s:g} s; none can start.")
        return self._over()

    def change(self, network: Network) -> None:
        """From now on the links have these rates and the pairs these routes; flows keep what they have left.
        The network has as many pairs and links as before."""
        self._pause()
        self._carried = self.carried_bits()
        self._state.sent[:] = 0.0
        self._network = network
        self._resume()

    def ended(self, job: int) -> bool:
        """Whether all its tasks have ended, as far as `advance` has said."""
        return job in self._ended

    def end_s(self, job: int) -> Float:
        """(n,): when all repetitions of each of its tasks had ended; NaN for a task that has not ended."""
        if job in self._ended:
            return self._ended[job]
        s, mine = self._state, self._jobs[job].entries
        return np.where(s.done[mine] == s.repeat[mine], s.end[mine], np.nan)

    def drop(self, job: int) -> None:
        """End a job that is under way, and give its links back; of one that has ended, forget the ends."""
        self._ended.pop(job, None)
        if job not in self._jobs:
            return
        self._pause()
        mine, s = self._jobs.pop(job).entries, self._state
        pairs = np.flatnonzero((s.head >= mine.start) & (s.head < mine.stop))
        s.busy[pairs] = False
        self._resume()

    def carried_bits(self) -> Float:
        """(L,): what every link has carried so far."""
        s = self._state
        bits = s.sent.copy()
        flows = np.flatnonzero(s.busy & np.isfinite(s.rates))
        bits[flows] += s.asked[flows] - s.left[flows] + s.rates[flows] * (s.clock[0] - s.since[flows])
        network, carried = self._network, np.zeros(self._network.n_links)
        for first in range(0, network.n_pairs, BLOCK):
            block = slice(first, first + BLOCK)
            last = min(first + BLOCK, network.n_pairs)
            hops = slice(int(network.start[first]), int(network.start[last]))
            of_hop = np.repeat(bits[block], network.hops[block]) * network.use[hops]
            np.add.at(carried, network.link[hops], of_hop)  # bincount takes ten times as long
        return self._carried + carried

    def rates_bps(self) -> Float:
        """(P,): the rate of each pair's flow."""
        self._share()
        return np.where(self._state.busy, self._state.rates, 0.0)

    def left_bits(self) -> Float:
        """(P,): bits still to send of each pair's current transfer."""
        self._share()
        s = self._state
        rates = np.where(np.isfinite(s.rates), s.rates, 0.0)
        return np.where(s.busy, np.maximum(s.left - rates * (s.clock[0] - s.since), 0.0), 0.0)

    def standing(self) -> Int64:
        """Pairs with something to send whose rate is 0, ascending."""
        self._share()
        return np.flatnonzero(self._state.busy & (self._state.rates == 0))

    def _share(self) -> None:
        """Rates of flows that started at this moment."""
        if self._state.tally[JOINED]:
            self._code.share_out(self._state)

    def _over(self) -> tuple[int, ...]:
        """Jobs that have ended and were not reported."""
        left = self._state.unfinished.tolist()
        if 0 not in left:
            return ()
        over = tuple(job for job, unfinished in zip(self._jobs, left, strict=True) if not unfinished)
        if over:
            self._pause()
            self._ended |= {job: self._jobs.pop(job).end for job in over}
            self._resume()
        return over

    def _wants_machine_code(self) -> bool:
        """Where it is there already, or pays for this simulation or all since one was watched: this process
        computes runs then. A lab's decisions, which are not watched, have no half second to spare. Both codes
        give the same bits."""
        if self._accelerated is not None:
            return False
        work = max(self._size, self._work, FlowSimulation.watched_work)
        return loaded() or (work >= LARGE and find_spec("numba") is not None)

    def _pause(self) -> None:
        pause(self._state)
        for job in self._jobs.values():
            job.note(self._state)

    def _resume(self) -> None:
        """All jobs under way over the network as it is."""
        self._resumed += 1
        jobs = list(self._jobs.values())
        repetitions = sum(int(job.tasks.repeat.sum()) for job in jobs)
        self._size = len(self._network.link) + EACH * repetitions
        if self._wants_machine_code():
            self._code = machine_code()
        by_link = bool(jobs) and self._code is not PLAIN
        self._state = state_of(self._network, jobs, self._state, by_link)
        self._state.tally[ENDED] = 0
