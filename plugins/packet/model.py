"""The packets of a run and the fabric they run on, by the run's clock."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from railweave.framework.analysis.limits.shaped import BUCKET_S
from railweave.framework.errors import PluginError, TransportError, blaming, defined_at
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.plan import Plan
from railweave.framework.experiment.plugin_calls import wants_paths
from railweave.framework.experiment.ramp import ramp_of
from railweave.framework.experiment.wants import chooses, controls
from railweave.framework.model import PathBatch, PathCounts, RouteTable, Schedule
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.model.senders import Senders
from railweave.framework.model.traffic import MessageTimes
from railweave.framework.parameters.units import size as size_text
from railweave.framework.routing.batches import answer, distinct, join, same_paths, take
from railweave.framework.routing.table_checks import pair_name
from railweave.framework.runs.computed import switches_crossed
from railweave.framework.runs.faulty_links import FaultyLinks
from railweave.plugins.packet import layout
from railweave.plugins.packet.alone import alone_ps
from railweave.plugins.packet.buffers import Buffers
from railweave.plugins.packet.deadlocks import Deadlock, deadlock_of
from railweave.plugins.packet.layout import NEVER, PICOSECONDS
from railweave.plugins.packet.livelocks import Livelocks
from railweave.plugins.packet.messages import Messages, messages_of
from railweave.plugins.packet.settings import Settings, Waits
from railweave.plugins.packet.simulation import Simulation
from railweave.plugins.packet.windows import ideal_window, links_of, most_in_nic

ADAPTIVE = {"off": 0, "packet": layout.BY_PACKET, "flowlet": layout.BY_FLOWLET}
MARKS = {"on": True, "off": False}
AS_TRANSPORT, MOST_ACKNOWLEDGED = 0, 256
"""Settings.ack_every where the transport says how many packets an acknowledgement is for, and the most."""
MOST_MESSAGES = 1 << 16
"""Of an iteration, whose times a run keeps."""


def settings_of(plan: Plan, rate_scale: float) -> Settings:
    """How the options of the engine have packets carried. Raises ExperimentError where they contradict."""
    options: Mapping[str, object] = plan.experiment.engine.options
    latency_s = float(str(options["packet_latency"]))
    buckets = options["switching"] == ("auto" if latency_s else "token-buckets")
    usual = AS_TRANSPORT if latency_s else 4
    buffers = Buffers.of(options, plan.packet)
    ramp = ramp_of(options)
    needs = *getattr(plan.chooser, "needs", ()), *getattr(plan.control, "needs", ())
    marks = MARKS.get(str(options["marks"]), "mark" in needs)
    return Settings(
        room=0 if buffers.flags else int(str(options["buffer"])),
        kmin=ramp.kmin_bytes if marks else 0.0,
        kmax=max(ramp.kmax_bytes, 1.0) if marks else 0.0,
        pmax=ramp.pmax,
        ack_every=usual if options["ack_every"] == "auto" else int(str(options["ack_every"])),
        in_turn=options["nic"] == "in-turn" or (options["nic"] == "auto" and not latency_s),
        buffers=buffers,
        seed=plan.experiment.seed,
        trimming=bool(options["trimming"]),
        adaptive=ADAPTIVE[str(options["adaptive"])],
        ties_drawn=options["ties"] == "drawn",
        marks_leaving=options["marks_at"] == "dequeue",
        cut_through=options["switching"] == "cut-through",
        fair=options["queue"] == "fair",
        credit=round(BUCKET_S * rate_scale * PICOSECONDS) if buckets else None,
        late=round(latency_s / switches_crossed(plan) * rate_scale * PICOSECONDS) if latency_s else 0,
        gap=round(float(str(options["gap"])) * PICOSECONDS),
    )


def pairs_of(job: Plan) -> tuple[Int64, Int64]:
    """(src, dst) of the pairs of GPUs that a job uses, by src, then dst."""
    n, gpus = job.fabric.n_gpus, np.asarray(job.ranks, np.int64)
    used = [gpus[src] * n + gpus[dst] for src, dst, _ in (schedule.pairs() for schedule in job.schedules)]
    src, dst = np.divmod(distinct(np.concatenate(used)), n)
    return src, dst


class Model:
    """The packets of a run and what they run on, by the run's clock: declared seconds are those times
    `rate_scale`. Faults, routes and traffic change it; the clock moves it."""

    def __init__(
        self, plan: Plan, table: RouteTable, rate_scale: float, show: Callable[[], None] = lambda: None
    ) -> None:
        self.plan, self.rate_scale, self._show = plan, rate_scale, show
        self.now_s = 0.0
        self.settings = settings_of(plan, rate_scale)
        self._links = FaultyLinks(plan.fabric)
        self._pairs = [pairs_of(job) for job in plan.jobs]
        self._messages = {
            id(schedule): messages_of(job.on_gpus(schedule), plan.packet, *pairs, plan.fabric.n_gpus)
            for job, pairs in zip(plan.jobs, self._pairs, strict=True)
            for schedule in job.schedules
        }
        by_job = [[self.messages(schedule) for schedule in job.schedules] for job in plan.jobs]
        chooser = plan.chooser if chooses(plan.experiment) else None
        self._controlled = controls(plan.experiment)
        control = plan.control if self._controlled else None
        self.sim = Simulation(
            plan.fabric, plan.packet, self._pairs, by_job, self.settings, chooser, control,
            by_path=wants_paths(plan.estimator),
        )  # fmt: skip
        self._counted = self.sim.counts
        self._paths = list[PathBatch]()
        for job, pairs in enumerate(self._pairs):
            batch = answer(table, *pairs)
            self._paths.append(batch)
            self.sim.use_paths(job, batch)
            self._allow(job)
        self._given_up: dict[int, list[int]] = {}
        self._first_paths, self._alone = tuple(self._paths), dict[tuple[int, int], Float]()
        self._deadlocks: dict[int, Deadlock] = {}
        self._livelocks, self._why_livelocked = Livelocks(), dict[int, str]()

    def messages(self, schedule: Schedule) -> Messages:
        return self._messages[id(schedule)]

    def message_times(self, job: int, schedule: Schedule) -> MessageTimes | None:
        """Of the iteration of a job that has ended; alone is on the first routes of the healthy fabric. None
        of none, of more than MOST_MESSAGES, and over token buckets, which let packets go early."""
        messages = self.messages(schedule)
        at = messages.order
        if not 0 < len(at) <= MOST_MESSAGES or self.settings.credit is not None:
            return None
        if (job, id(schedule)) not in self._alone:
            pair, size = (messages.entry[name][at].astype(np.int64) for name in ("pair", "size"))
            paths = self._first_paths[job]
            self._alone[job, id(schedule)] = alone_ps(
                self.plan.fabric, self.plan.packet, paths, pair, size, self.settings.cut_through
            )
        alone, entry = self._alone[job, id(schedule)], self.sim.entries(job, len(messages.of))[at]
        finite, scale = np.isfinite(alone), PICOSECONDS * self.rate_scale
        took = (entry["end"] - entry["ready"])[finite] / scale
        return MessageTimes(messages.entry["size"][at][finite], took, alone[finite] / scale)

    def path_counts(self) -> PathCounts:
        """What senders have learnt since the last call, of the paths that pairs take now."""
        new, before = self.sim.counts, self._counted
        new[: len(before)] -= before
        self._counted = self.sim.counts
        counts = np.vstack([new[self.sim.paths_of(job)] for job in range(len(self._paths))])
        return PathCounts(join(*self._paths), counts.T.astype(np.float64))

    def senders(self, paths: PathBatch) -> Senders:
        """What the transport states of those of the pairs of `paths`, by the run's clock."""
        plan, window_bits = self.plan, None
        if plan.experiment.engine.options["window"] == "ideal" and not self._controlled:
            links = links_of(plan.fabric, paths, plan.packet)
            window_bits = 8 * ideal_window(links, plan.packet)
        stated = plan.senders(self.rate_scale, paths, window_bits)
        if self.settings.ack_every:
            stated = replace(stated, ack_every=np.full(len(paths.src), float(self.settings.ack_every)))
        if self.settings.cut_through or self.settings.credit is not None:
            stated = stated.unstored()
        if not self.settings.in_turn:
            return stated
        full_bits = 8 * plan.packet.full_packet_bytes
        return replace(stated, nic_bits=(full_bits * most_in_nic(paths)).astype(np.float64))

    def _allow(self, job: int, which: Bool | None = None) -> None:
        """Windows of a job's pairs, and the waits that its transport states for them on their paths."""
        plan, paths = self.plan, self._paths[job]
        senders = self.senders(paths)
        window = senders.window_bits / 8
        slack = window * plan.packet.RETH / plan.packet.full_packet_bytes  # a window counts packets
        waits = (senders.first_s, senders.timeout_s, senders.most_s, senders.dead_after_s)
        scale = self.rate_scale * PICOSECONDS
        in_ps = (np.minimum(seconds * scale, NEVER).astype(np.int64) for seconds in waits)
        every = np.minimum(senders.ack_every, MOST_ACKNOWLEDGED).astype(np.int64)
        self.sim.allow(job, window + slack, Waits(*in_ps), every)
        if self._controlled:
            with blaming(f"congestion-control {plan.experiment.control.name}: start()"):
                self.sim.control(job, links_of(plan.fabric, paths, plan.packet), which)

    @property
    def described(self) -> str:
        """The queues, in words."""
        settings = self.settings
        room = settings.buffers.described(self.plan.fabric, self.plan.packet)
        room = room or (size_text(settings.room) if settings.room else "no limit")
        room += ", trimmed where full" * settings.trimming
        where = "dequeue" if settings.marks_leaving else "enqueue"
        marks = f"marks at {where} from {size_text(int(settings.kmin))} to {size_text(int(settings.kmax))}"
        return (
            f"queues: {room}, {marks if settings.kmax else 'no marks'}"
            + ", cut-through" * settings.cut_through
            + ", token buckets" * (settings.credit is not None)
        )

    # -- the fabric ------------------------------------------------------------------------------------
    @property
    def links(self) -> FaultyLinks:
        return self._links

    @property
    def rates_bps(self) -> Float:
        """(L,): by the run's clock; those of links that are down, too."""
        return self.plan.fabric.capacity_bps * self._links.share * self.rate_scale

    def inject(self, fault: ResolvedFault) -> None:
        """What a fault does to links and switches."""
        self._links.inject(fault, "packet")
        link = self.sim.s.link
        link["ps_per_byte"] = 8 * PICOSECONDS / (self.plan.fabric.capacity_bps * self._links.share)
        self.sim.harm(self._links.loss, 1 - self._links.right_icrc, ~self._links.up)

    def follow(self, table: RouteTable) -> None:
        """Other routes of the same pairs: packets under way stay on theirs."""
        for job, before in enumerate(self._paths):
            paths = answer(table, before.src, before.dst)
            changed: Bool = ~same_paths(before, paths) | ~_same_weights(before, paths)
            if changed.any():
                self._paths[job] = paths
                self.sim.use_paths(job, paths, changed)
                self._allow(job, changed)

    # -- time ------------------------------------------------------------------------------------------
    def advance(self, until_s: float) -> None:
        """Go on until then, or to the first end of an iteration if that is earlier."""
        until_s = max(until_s, self.now_s)
        scale = self.rate_scale * PICOSECONDS
        until = round(min(until_s * scale, float(NEVER - 1)))
        reached = self.sim.advance(max(until, self.sim.now), self._show)
        self.now_s = until_s if reached else self.sim.now / scale
        self._look_for_failures()

    def data_bytes(self) -> Float:
        """(L,): bytes of data that links have sent so far."""
        return np.asarray(self.sim.s.link["data_bytes"], np.float64)

    def _look_for_failures(self) -> None:
        g, pair = self.sim.s.globals, self.sim.s.pair
        if wrong := int(g[layout.WRONG_CALL]):
            raise self._wrong_call(wrong)
        dead = int(g[layout.DEAD])
        if (g[layout.DEADLOCK] or dead) and (deadlock := deadlock_of(self.sim.s)) is not None:
            self._deadlocks.update(dict.fromkeys(deadlock.jobs - self._deadlocks.keys(), deadlock))
        g[layout.DEADLOCK] = 0
        if g[layout.TRIMMING] and (jobs := self._livelocks.livelocked(self.sim.s)):
            still_s = (self.sim.now - self._livelocks.since) / PICOSECONDS / self.rate_scale
            why = self._livelocks.described(self.sim.s, self.plan.fabric, still_s)
            self._why_livelocked.update(dict.fromkeys(jobs, why))
        if dead:
            g[layout.DEAD] = 0
            pair[dead - 1]["dead_after"] = NEVER
            self._given_up.setdefault(int(pair[dead - 1]["job"]), []).append(dead - 1)

    def _wrong_call(self, wrong: int) -> PluginError:
        """What a plugin did that the loop ended for (layout.WRONG_CALL)."""
        plan, pair = self.plan, self.sim.s.pair
        if wrong > 0:
            name, place = plan.experiment.chooser.name, defined_at(plan.chooser.choose)
            most = int(pair[wrong - 1]["paths"]) - 1
            return PluginError(
                f"chooser {name}: choose() at {place} gives a path that is none of 0..{most}, or another "
                f"function fails. `railweave plugin check {name}` tries them."
            )
        name, place = plan.experiment.control.name, defined_at(plan.control)
        record = self.sim.controlled[-1 - wrong]
        return PluginError(
            f"congestion-control {name} at {place}: {self.sim.now / PICOSECONDS:.4g} s after the beginning "
            f"(declared) a function fails, or sets what cannot be: window {record['window']:.6g} bytes, rate "
            f"{record['rate']:.6g} bytes/s, wake {record['wake']}. `railweave plugin check {name}` tries "
            "them."
        )

    def failure(self, job: int) -> TransportError | None:
        """Why a job has failed whose pairs have given up; None if it has not."""
        if job in self._deadlocks:
            why = self._deadlocks[job].described(self.plan.fabric)
            return TransportError(f"the collective failed: {why}")
        if job in self._why_livelocked:
            return TransportError(f"the collective failed: {self._why_livelocked[job]}")
        if job not in self._given_up:
            return None
        fabric, (src, dst) = self.plan.fabric, self._pairs[job]
        records = self.sim.of_job(job)
        silent = np.flatnonzero((records["probes"] > 0) | (records["dead_after"] == NEVER))
        ends = np.stack((src, dst))[:, silent]
        gpus, times = np.unique(ends, return_counts=True)
        blamed = gpus[times == len(silent)] if len(silent) > 1 and (times == len(silent)).any() else gpus
        names = ", ".join(map(fabric.node_name, blamed[:8].tolist()))
        rest = f" and {len(blamed) - 8} more" if len(blamed) > 8 else ""
        first = self._given_up[job][0] - self.sim.first_pair(job)
        still_s = (self.sim.now - int(records[first]["heard"])) / PICOSECONDS / self.rate_scale
        closed = int((~self._links.passing).sum())
        return TransportError(
            f"the collective failed at {names}{rest}: {len(silent)} pairs, such as "
            f"{pair_name(fabric, int(src[first]), int(dst[first]))}, stood still for {still_s:.3g} s: their "
            f"packets are lost on links that are down or lose every packet ({closed} of them) or in full "
            "queues. Leave a path, repair one earlier, or give queues more room."
        )

    def drop(self, job: int) -> None:
        """A job has failed, and others go on."""
        self.sim.drop(job)
        self._given_up.pop(job, None)


def _same_weights(a: PathBatch, b: PathBatch) -> Bool:
    """(P,): whether pairs with the same paths share their packets out alike."""
    if len(a.weight) == len(b.weight) and np.array_equal(a.pair_start, b.pair_start):
        wrong = np.bincount(a.path_pair, a.weight != b.weight, len(a.src)) > 0
        return np.asarray(~wrong, np.bool_)
    alike = np.diff(a.pair_start) == np.diff(b.pair_start)
    at = np.flatnonzero(alike)
    same = np.zeros(len(a.src), np.bool_)
    first, second = take(a, at), take(b, at)
    same[at] = np.bincount(first.path_pair, first.weight != second.weight, len(at)) == 0
    return same
