"""The flows of a run and the fabric they run on, by the run's clock."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.errors import TransportError
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.plan import Plan
from railweave.framework.health.loss import passes_at_loss
from railweave.framework.model import PathBatch, RouteTable, Schedule
from railweave.framework.model.arrays import Bool, Float, Int64, readonly
from railweave.framework.model.senders import Senders
from railweave.framework.routing.batches import replaced, take
from railweave.framework.routing.table_checks import pair_name
from railweave.framework.runs.faulty_links import FaultyLinks
from railweave.framework.solver.quotient import NetworkState, Quotient
from railweave.framework.solver.reduction import quotients
from railweave.plugins.fluid.counters import Counters
from railweave.plugins.fluid.flows import Flows
from railweave.plugins.fluid.queues import WaitingPlaces
from railweave.plugins.fluid.work import Work

SETTLED_ITERATIONS = 3
"""Iterations without a change, the one under way included, after which others show nothing new."""
SETTLED_S = 5.0
"""Nor does what is later than this: two trains over a link that was busy are over."""
ROUNDING = 1e-12
"""Times that differ by less, relative to them, are one instant: ends of iterations are sums."""
STEP_S = 0.1
"""How often pairs that stand still are looked for, where links are down."""


class FlowModel:
    """The flows of a run and what they run on, by the run's clock: declared seconds are those times
    `rate_scale`. Faults, routes and traffic change it; the clock moves it.

    `links`: what faults have made of them; `version` counts the changes of links and routes.
    """

    def __init__(self, plan: Plan, paths: PathBatch, work: Work) -> None:
        self.plan, self.paths, self._work = plan, paths, work
        self.now_s, self.rate_scale, self.version = 0.0, 1.0, 0
        self._switch_s = 0.0
        self.links = FaultyLinks(plan.fabric)
        self._rates_of, self._rates_bps = (-1, 0.0), np.empty(0)
        self._counters = Counters(plan.fabric.n_links, plan.packet)
        self._senders: tuple[PathBatch, Senders, WaitingPlaces] | None = None
        self._passing = self.links.up
        self._all_pass = True
        self._changed_s, self._settled_in = np.inf, 0
        self._stands_since, self._tried = np.full(len(paths.src), np.inf), np.zeros(len(paths.src))
        self._wanted, self._resumes_s = paths, np.full(len(paths.src), -np.inf)
        self._next_resumes_s = np.inf
        """When the next sender that waits takes its new path."""
        self._dark_until_s = np.full(plan.fabric.n_links, -np.inf)
        self._placed: dict[int, tuple[Schedule, Schedule]] = {}
        schedules = [self.placed(job, job.schedule) for job in plan.jobs]
        self.flows = Flows(plan.fabric, self._state(), schedules, self._reduced, work.simulation)

    def _reduced(
        self, schedules: Sequence[Schedule], states: Sequence[NetworkState], symmetry: bool
    ) -> tuple[Quotient, ...]:
        symmetry &= bool(self.plan.experiment.engine.options["symmetry"])
        return quotients(schedules, self.plan.fabric, states, self.plan.packet, symmetry=symmetry)

    def placed(self, job: Plan, schedule: Schedule) -> Schedule:
        """A schedule of a job between GPUs; always the same object, by which iterations are recognised."""
        return self._placed.setdefault(id(schedule), (schedule, job.on_gpus(schedule)))[1]

    def trial_s(self, job: Plan, schedule: Schedule) -> float:
        """Declared seconds of an iteration with nothing else on the fabric."""
        with self._work.solving():
            return self.flows.trial(job.job.number, self.placed(job, schedule)).seconds

    # -- the fabric ------------------------------------------------------------------------------------
    @property
    def rates_bps(self) -> Float:
        """(L,): by the run's clock; those of links that are down, too."""
        if self._rates_of != (present := (self.version, self.rate_scale)):
            rates_bps = self.plan.fabric.capacity_bps * self.links.share * self.rate_scale
            self._rates_of, self._rates_bps = present, readonly(rates_bps, np.float64)
        return self._rates_bps

    def _state(self) -> NetworkState:
        """What is lost leaves flows a part of the rate, and messages wait for it (health/loss.py); a wrong
        ICRC costs as much, and only the destination notices."""
        capacity_bps, wait_s = self.plan.fabric.capacity_bps * self.links.share, np.empty(0)
        if self.links.lossy:
            packet_bits = 8.0 * self.plan.packet.full_packet_bytes
            capacity_bps, wait_s = passes_at_loss(capacity_bps, 1 - self.links.through, packet_bits)
        capacity_bps = np.where(self._passing & ~self._dark, capacity_bps, 0.0)
        if self._switch_s:
            capacity_bps /= 1 + self._acks()
        return NetworkState(self.paths, capacity_bps, self._switch_s, wait_s)

    def _acks(self) -> Float:
        """(L,): bytes of acknowledgements next to each byte of data over a link, if as much is sent the other
        way; they go back over the cables of the data."""
        paths, n_links = self.paths, self.plan.fabric.n_links
        back, weight = paths.links ^ 1, paths.weight[paths.hop_path]
        packet, ack_every = self.plan.packet, self.senders.ack_every[paths.path_pair[paths.hop_path]]
        acks = weight * packet.acknowledgement_bytes / (ack_every * packet.full_packet_bytes)
        sent = np.bincount(back, weight, n_links)
        return np.bincount(back, acks, n_links) / np.where(sent > 0, sent, 1.0)

    def like_a_lab(self, switch_s: float) -> None:
        """Every switch on its path adds so much to a message, by the run's clock, and acknowledgements take
        their part of the links."""
        self._switch_s = switch_s * self.rate_scale
        self.flows.change(self._state())

    @property
    def senders(self) -> Senders:
        """Of the pairs on their paths."""
        return self._on_paths()[0]

    @property
    def places(self) -> WaitingPlaces:
        """Where packets may wait on the paths."""
        return self._on_paths()[1]

    def _on_paths(self) -> tuple[Senders, WaitingPlaces]:
        if self._senders is None or self._senders[0] is not self.paths:
            senders = self.plan.senders(self.rate_scale, self.paths)
            self._senders = self.paths, senders, WaitingPlaces.of(self.paths, senders.window_bits)
        return self._senders[1:]

    def counted(self) -> Counters:
        """The counters of the links, now."""
        self._counters.count(self.flows.carried_bits(), self.links.loss if self.links.lossy else None)
        if self.links.lossy and not self._all_pass:
            self._count_unheard()
        return self._counters

    def data_bytes(self) -> Float:
        """(L,): bytes of data that links have sent so far."""
        return self.counted().data_bytes()

    def _count_unheard(self) -> None:
        """The packets with which silent senders try a path on which nothing arrives, or no answer comes back:
        the first one, and one each time. They, or their acknowledgements, are lost at the first link that
        loses every packet."""
        stands = np.isfinite(self._stands_since)
        silent_s = np.where(stands, self.now_s - self._stands_since, 0.0)
        tried = np.where(stands, 1.0 + self.senders.tries(silent_s)[1], 0.0)
        new, self._tried = np.maximum(tried - self._tried, 0.0), tried
        if new.any():
            paths, black = self.paths, (self.links.loss == 1) & self.links.up
            lost, unanswered = np.zeros((2, len(black)))
            hops = np.flatnonzero(black[paths.links])
            path, first = np.unique(paths.hop_path[hops], return_index=True)
            np.add.at(lost, paths.links[hops[first]], new[paths.path_pair[path]])
            hops = np.flatnonzero(black[paths.links ^ 1] & ~np.isin(paths.hop_path, path))[::-1]
            path, first = np.unique(paths.hop_path[hops], return_index=True)
            np.add.at(unanswered, paths.links[hops[first]] ^ 1, new[paths.path_pair[path]])
            self._counters.add(lost, self._counters.packet_bytes, self.links.loss)
            self._counters.add(unanswered, self.plan.packet.acknowledgement_bytes, self.links.loss)

    def inject(self, fault: ResolvedFault) -> None:
        """What a fault does to links and switches."""
        self.counted()
        before, links = self._passing, self.links
        links.inject(fault, "fluid")
        self._passing = links.passing
        self._wait_for_senders(self._passing & ~before)
        self._all_pass = bool(self._passing.all()) and not self._dark.any()
        if self._all_pass:
            self._stands_since[:] = np.inf
        self._take_up()
        self._look_who_stands()

    def _wait_for_senders(self, repaired: Bool) -> None:
        """Links that are back carry nothing before the first sender that stands still on them tries again."""
        hops = np.flatnonzero(repaired[self.paths.links])
        pairs = self.paths.path_pair[self.paths.hop_path[hops]]
        stands = np.isfinite(self._stands_since)
        if (waiting := stands[pairs]).any():
            silent_s = np.where(stands, self.now_s - self._stands_since, 0.0)
            tries_s = self.now_s - silent_s + self.senders.tries(silent_s)[0]
            back, first_s = self.paths.links[hops[waiting]], np.full(len(repaired), np.inf)
            np.minimum.at(first_s, back, tries_s[pairs[waiting]])
            self._dark_until_s[back] = first_s[back]

    def retry(self) -> None:
        """Senders that stand still on links that are back try again now."""
        if self._dark.any():
            self._dark_until_s[self._dark] = self.now_s
            self._try_again()

    def follow(self, table: RouteTable) -> None:
        """Other routes of the same pairs. Senders on dead paths follow once they have been silent for as long
        as it takes until they try again."""
        self._look_who_stands()
        stands = np.isfinite(self._stands_since)
        self._resumes_s = np.where(stands, self._stands_since + self.senders.first_s, -np.inf)
        self._wanted = table.paths(self.paths.src, self.paths.dst)
        self._go_on()

    def _go_on(self) -> None:
        """The routes that are wanted, but for senders that still wait."""
        waiting = np.flatnonzero(self._resumes_s > self.now_s)
        self._next_resumes_s = float(self._resumes_s[waiting].min(initial=np.inf))
        self.paths = replaced(self._wanted, waiting, take(self.paths, waiting))
        self._take_up()

    def _try_again(self) -> None:
        """Senders whose time has come."""
        self._all_pass = bool(self._passing.all()) and not self._dark.any()
        self._go_on()
        self._look_who_stands()

    @property
    def _dark(self) -> Bool:
        """(L,): links that are back, but carry nothing yet."""
        dark: Bool = self._dark_until_s > self.now_s
        return dark

    def _look_who_stands(self) -> None:
        stands = np.zeros(len(self._stands_since), bool)
        if not self._all_pass:
            stands[self.flows.standing()] = True
        self._stands_since = np.where(stands, np.minimum(self._stands_since, self.now_s), np.inf)

    def _take_up(self) -> None:
        self.version += 1
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
        iterations for all that they show, or a pair may still wait for the end of its dwell time, or a link
        for a train. What several jobs send together, and when enough losses show, is not known."""
        if len(self.plan.jobs) > 1:
            return self._changed_s < np.inf
        settling_s = max(2 * self.plan.experiment.health.dwell_s, SETTLED_S)
        settled = (
            not self._settled_in > 0 and not self._changed_s <= self.now_s < self._changed_s + settling_s
        )
        return self.links.ever_lossy or not settled

    # -- time ------------------------------------------------------------------------------------------
    def advance(self, until_s: float) -> None:
        """Go on until then, or to the first end of an iteration if that is earlier."""
        until_s = max(until_s, self.now_s)
        if not self._all_pass:
            until_s = min(until_s, self.now_s + STEP_S)
        dark_until_s = float(self._dark_until_s[self._dark].min(initial=np.inf))
        until_s = min(until_s, try_s := min(dark_until_s, self._next_resumes_s))
        target_s = until_s * self.rate_scale
        with self._work.solving():
            self.flows.advance(target_s * (1 + ROUNDING))
        reached = self.flows.now_s >= target_s * (1 - ROUNDING)
        self.now_s = until_s if reached else self.flows.now_s / self.rate_scale
        if self.now_s >= try_s:
            self._try_again()
        if not self._all_pass:
            self._look_who_stands()

    def given_up(self, job: Plan) -> Int64:
        """The pairs of a job that stand still, by their places, once one of them did for too long."""
        if self._all_pass or not (gone := self._gone()).any() or not (used := self._used_by(job))[gone].any():
            return np.empty(0, np.int64)
        return np.flatnonzero(used & np.isfinite(self._stands_since))

    def _gone(self) -> Bool:
        """(P,): the pairs that have stood still until their job fails."""
        stands: Bool = np.isfinite(self._stands_since)
        if not stands.any():
            return stands
        gone: Bool = self.now_s - self._stands_since >= self.senders.dead_after_s
        return gone

    def _used_by(self, job: Plan) -> Bool:
        """(P,): the pairs that a job uses."""
        return np.isin(self.paths.src * self.plan.fabric.n_gpus + self.paths.dst, job.used_pairs)

    def failure(self, pairs: Int64) -> TransportError:
        """Why a job failed whose pairs stand still; the ranks are those of every such pair, if there are any,
        else all of them."""
        fabric, ends = self.plan.fabric, np.stack((self.paths.src, self.paths.dst))[:, pairs]
        gpus, times = np.unique(ends, return_counts=True)
        blamed = gpus[times == len(pairs)] if len(pairs) > 1 and (times == len(pairs)).any() else gpus
        names = ", ".join(map(fabric.node_name, blamed[:8].tolist()))
        still_s = self.senders.dead_after_s[pairs[self._gone()[pairs]]].min()
        rest = f" and {len(blamed) - 8} more" if len(blamed) > 8 else ""
        return TransportError(
            f"the collective failed at {names}{rest}: {len(pairs)} pairs, such as "
            f"{pair_name(fabric, *ends[:, 0])}, stood still for {still_s:g} s: their paths lead "
            f"over links that are down or lose every packet ({int((~self._passing).sum())} of them). Leave a "
            "path, or repair one earlier."
        )
