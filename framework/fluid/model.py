"""The flows of a run and the fabric they run on, by the run's clock."""

import numpy as np

from railweave.framework.errors import LabError, TransportError
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.plan import Plan
from railweave.framework.fluid.flows import Flows, OneJob, SeveralJobs
from railweave.framework.fluid.quotient import Quotient, State
from railweave.framework.fluid.reduction import quotient
from railweave.framework.fluid.work import Work
from railweave.framework.model import PathBatch, Schedule
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.routing.checks import pair_name

DEAD_AFTER_S = 4.5
"""A pair that stands still for so long fails its job, where the transport does not say (`dead_after`)."""
SETTLED_ITERATIONS = 3
"""After so many iterations without a change, the one under way included, others show nothing new."""
STEP_S = 0.1
"""How often pairs that stand still are looked for, where links are down."""


class Model:
    """The flows of a run and what they run on, by the run's clock: declared seconds are those times
    `rate_scale`. Faults, routes and traffic change it; the clock moves it.

    `up` (L,): the links that have a carrier, and a switch at both ends.
    """

    def __init__(self, plan: Plan, paths: PathBatch, work: Work) -> None:
        self.plan, self.paths, self._work = plan, paths, work
        self.now_s, self.rate_scale = 0.0, 1.0
        self._share, self._down = np.ones(plan.fabric.n_links), np.zeros(plan.fabric.n_links, bool)
        self._dead = np.zeros(plan.fabric.n_nodes, bool)
        self.up, self._all_up = ~self._down, True
        self._changed_s, self._settled_in = np.inf, 0
        self._stands_since = np.full(len(paths.src), np.inf)
        options = plan.experiment.transport.options
        self._dead_after_s = float(str(options.get("dead_after", DEAD_AFTER_S)))
        self._placed: dict[int, tuple[Schedule, Schedule]] = {}
        self._alone = OneJob(plan.fabric, self._state(), self._reduced, work.simulation)
        self.flows: Flows = self._alone
        if plan.jobs:
            self.flows = SeveralJobs(plan.fabric, self._state(), plan.packet, work.simulation)

    def _reduced(self, schedule: Schedule, states: tuple[State, ...]) -> Quotient:
        symmetry = bool(self.plan.experiment.engine.options["symmetry"])
        return quotient(schedule, self.plan.fabric, states, self.plan.packet, symmetry=symmetry)

    def placed(self, job: Plan, schedule: Schedule) -> Schedule:
        """A schedule of a job between GPUs; always the same object, by which iterations are recognised."""
        return self._placed.setdefault(id(schedule), (schedule, job.on_gpus(schedule)))[1]

    def trial_s(self, job: Plan, schedule: Schedule) -> float:
        """Declared seconds of an iteration with nothing else on the fabric."""
        with self._work.solving():
            return self._alone.trial(self.placed(job, schedule)).seconds

    # -- the fabric ------------------------------------------------------------------------------------
    @property
    def rates_bps(self) -> Float:
        """(L,): by the run's clock; those of links that are down, too."""
        return self.plan.fabric.capacity_bps * self._share * self.rate_scale

    def _state(self) -> State:
        return State(self.paths, np.where(self.up, self.plan.fabric.capacity_bps * self._share, 0.0))

    def inject(self, fault: ResolvedFault) -> None:
        """What a fault does to links and switches."""
        cables = np.concatenate((fault.links, fault.links ^ 1))
        match fault.verb:
            case "degrade":
                self._share[fault.links] = float(fault.options["to"])
            case "down" | "up" as carrier:
                self._down[cables] = carrier == "down"
            case "restore":
                self._share[fault.links], self._down[cables] = 1.0, False
            case "kill" | "start" if fault.process == "switch":
                self._dead[fault.node] = fault.verb == "kill"
            case other:
                raise LabError(f"{fault.text!r}: the engine fluid cannot {other}.")
        fabric = self.plan.fabric
        self.up = ~(self._down | self._dead[fabric.link_src] | self._dead[fabric.link_dst])
        self._all_up = bool(self.up.all())
        if self._all_up:
            self._stands_since[:] = np.inf
        self._take_up()

    def use(self, paths: PathBatch) -> None:
        """Other routes of the same pairs."""
        self.paths = paths
        self._take_up()

    def _take_up(self) -> None:
        self._changed_s, self._settled_in = self.now_s, SETTLED_ITERATIONS
        self.flows.change(self._state())

    def other_schedule(self) -> None:
        """Iterations differ from those before."""
        if np.isfinite(self._changed_s):
            self._settled_in = SETTLED_ITERATIONS

    def iteration_ended(self) -> None:
        """One of the first job, with which the fabric shows again what it showed before."""
        self._settled_in = max(0, self._settled_in - 1)

    @property
    def watched(self) -> bool:
        """Whether health has something to find: since the last change of links or routes there were too few
        iterations for all that they show, or a pair may still wait for the end of its dwell time. Of several
        jobs nobody knows what meets."""
        if self.plan.jobs:
            return self._changed_s < np.inf
        settling_s = 2 * self.plan.experiment.health.dwell_s
        return self._settled_in > 0 or self._changed_s <= self.now_s < self._changed_s + settling_s

    # -- time ------------------------------------------------------------------------------------------
    def advance(self, until_s: float) -> None:
        """Go on until then, or to the first end of an iteration if that is earlier."""
        until_s = max(until_s, self.now_s)
        if not self._all_up:
            until_s = min(until_s, self.now_s + STEP_S)
        target_s = until_s * self.rate_scale
        with self._work.solving():
            self.flows.advance(target_s)
        self.now_s = until_s if self.flows.now_s >= target_s else self.flows.now_s / self.rate_scale
        if not self._all_up:
            stands = np.zeros(len(self._stands_since), bool)
            stands[self.flows.standing()] = True
            self._stands_since = np.where(stands, np.minimum(self._stands_since, self.now_s), np.inf)

    def given_up(self, job: Plan) -> Int64:
        """The pairs of a job that stand still, by their places, once one of them did for too long."""
        if self.now_s - self._stands_since.min(initial=np.inf) < self._dead_after_s:
            return np.empty(0, np.int64)
        since_s = np.where(self._used_by(job), self._stands_since, np.inf)
        if self.now_s - since_s.min(initial=np.inf) < self._dead_after_s:
            return np.empty(0, np.int64)
        return np.flatnonzero(np.isfinite(since_s))

    def _used_by(self, job: Plan) -> Bool:
        """(P,): the pairs that a job uses."""
        gpus, n = np.asarray(job.ranks, np.int64), self.plan.fabric.n_gpus
        used = [gpus[src] * n + gpus[dst] for src, dst, _ in (one.pairs() for one in job.schedules)]
        return np.isin(self.paths.src * n + self.paths.dst, np.concatenate(used))

    def failure(self, pairs: Int64) -> TransportError:
        """Why a job failed whose pairs stand still; the ranks are those of every such pair, if there are any,
        else all of them."""
        fabric, ends = self.plan.fabric, np.stack((self.paths.src, self.paths.dst))[:, pairs]
        gpus, times = np.unique(ends, return_counts=True)
        blamed = gpus[times == len(pairs)] if len(pairs) > 1 and (times == len(pairs)).any() else gpus
        names = ", ".join(fabric.node_name(int(gpu)) for gpu in blamed[:8])
        more = f" and {len(blamed) - 8} more" if len(blamed) > 8 else ""
        return TransportError(
            f"the collective failed at {names}{more}: {len(pairs)} pairs, such as "
            f"{pair_name(fabric, *ends[:, 0])}, stood still for {self._dead_after_s:g} s: their paths lead "
            f"over links that are down ({int((~self.up).sum())} are). Leave a path, or repair one earlier."
        )
