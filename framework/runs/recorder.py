"""What happens in a run, written down once: kept for the findings, reported as events, shown to observers."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.hookspecs import Callers
from railweave.framework.judging.link_figures import is_large
from railweave.framework.model import Fabric, HealthSnapshot, Measurement
from railweave.framework.model.arrays import Float32
from railweave.framework.model.events import (
    CircuitsConnected,
    FaultInjected,
    HealthPublished,
    IterationEnded,
    Note,
    PhaseStarted,
    RoutesChanged,
    RunEvent,
)
from railweave.framework.model.findings import (
    HealthPoint,
    HealthSamples,
    IterationRecord,
    PathsInUse,
    RuleAgreement,
)
from railweave.framework.model.names import element_name, score_changes
from railweave.framework.model.routes import PathBatch
from railweave.framework.routing.route_control import Reroute
from railweave.framework.runs.observers import Observers

ROUTED_GPUS = 64
"""GPUs of a fabric up to which every path is kept, and the rules in force at the end."""


class Recorder:
    """Keeps what a run finds, in the order it comes, and passes it on to `emit` and to the observers of
    plugins.

    `now_s`: seconds on the run's clock. `job`: which job of the experiment iterations and reroutes belong to.
    `blind_s`: since when health could not be measured any more, None if it can.
    """

    def __init__(
        self,
        fabric: Fabric,
        observers: Callers,
        emit: Callable[[RunEvent], None],
        now_s: Callable[[], float],
        job: int = 0,
    ) -> None:
        self._fabric, self._now_s, self.job = fabric, now_s, job
        self.emit = emit
        self.observers = Observers(observers, self.note)
        self.iterations: list[IterationRecord] = []
        self.reroutes: list[RoutesChanged] = []
        self.faults: list[FaultInjected] = []
        self.circuits: list[CircuitsConnected] = []
        self.notes: list[Note] = []
        self.health: list[HealthPoint] = []
        self.truth: list[HealthSnapshot] = []
        self.agreements: list[RuleAgreement] = []
        self.blind_s: float | None = None
        self._samples: list[tuple[float | Float32, ...]] = []
        self._sampled: HealthSnapshot | None = None
        self._scores: tuple[Float32, Float32] = np.empty(0, np.float32), np.empty(0, np.float32)
        """Of links and elements, of `_sampled`."""
        self._sent = np.zeros((4, fabric.n_links))
        self._not_paused = np.full(fabric.n_links, np.nan)
        self._paths: list[tuple[float, PathBatch]] = []

    def forget(self) -> None:
        """Keep nothing of what was recorded so far but paths: most are in use still."""
        kept = (self.iterations, self.reroutes, self.faults, self.circuits, self.notes, self.health,
                self.truth, self.agreements, self._samples)  # fmt: skip
        for items in kept:
            items.clear()

    # -- the run's course ------------------------------------------------------------------------------
    def phase(
        self,
        name: str,
        text: str | None = None,
        seconds: float | None = None,
        rate_scale: float | None = None,
    ) -> None:
        self.emit(PhaseStarted(name, text, seconds, rate_scale))

    def iteration(self, record: IterationRecord) -> None:
        result = record.result
        self.iterations.append(replace(record, result=replace(result, end_s=np.empty(0))))
        alone = record.alone or None
        ended = result.iteration, result.seconds, result.wrong, alone, record.end_s
        self.emit(IterationEnded(*ended, job=record.job))
        self.observers.fire("on_iteration", result=result, t_s=record.end_s, job=record.job)

    def note(self, text: str) -> None:
        """Something that a user should read."""
        self.notes.append(Note(text))
        self.emit(self.notes[-1])

    # -- faults ----------------------------------------------------------------------------------------
    def fault(self, text: str) -> None:
        """A fault was injected just now."""
        self.faults.append(FaultInjected(self._now_s(), text, job=self.job))
        self.emit(self.faults[-1])

    def connected(self, fault: ResolvedFault, since_s: float) -> None:
        """Light passes over the circuits of a fault from now on."""
        assert fault.circuits is not None
        circuits = fault.circuits
        self.circuits.append(
            CircuitsConnected(
                self._now_s(), fault.text, circuits.summary, len(circuits.dark) // 2, circuits.switches,
                circuits.connect_s, since_s, job=self.job,
            )
        )  # fmt: skip
        self.emit(self.circuits[-1])

    def circuits_set(self) -> None:
        """The circuits of the fabric as the run finds them, set before its clock starts."""
        fabric = self._fabric
        if fabric.circuits is None:
            return
        passed = fabric.ocs[0::2][fabric.ocs[0::2] >= 0]
        switches, connect_s = len(np.unique(passed)), fabric.circuits.connect_s
        self.emit(CircuitsConnected(0.0, "", "set before the run", len(passed), switches, connect_s, 0.0))

    def agreement(self, agrees: bool) -> None:
        """Whether the controller and all switches hold the same rules, from now on."""
        self.agreements.append(RuleAgreement(self._now_s(), agrees))

    # -- health and routes -----------------------------------------------------------------------------
    def blind(self, why: str) -> None:
        """Health cannot be measured any more, from now on."""
        self.blind_s = self._now_s()
        self.note(f"health is no longer measured: {why}. Scores, and routes by them, stay as they are")

    def sample(self, measurement: Measurement, health: HealthSnapshot) -> None:
        """What was measured, and the scores in force after it; of a large fabric only what changed scores."""
        paused_s = measurement.paused_s if len(measurement.paused_s) else self._not_paused
        new = measurement.sent_bytes, measurement.sent_packets, measurement.lost, paused_s
        for sum_, values in zip(self._sent, new, strict=True):
            sum_ += values
        if self._samples and health is self._sampled and is_large(self._fabric):
            return
        if health is not self._sampled:
            self._sampled = health
            self._scores = health.link_score.astype(np.float32), health.element_score.astype(np.float32)
        queue, waited, service = (
            values.astype(np.float32)
            for values in (measurement.queue_bytes, measurement.waited_bytes, measurement.service_bps)
        )
        sent = self._sent.astype(np.float32)
        self._samples.append((measurement.t_s, queue, waited, service, *self._scores, *sent))
        self._sent[:] = 0

    def published(self, before: HealthSnapshot, health: HealthSnapshot, measurement: Measurement) -> None:
        """New scores, from this measurement."""
        fabric = self._fabric
        links = {
            fabric.link_name(int(i)): float(health.link_score[i])
            for i in np.flatnonzero(health.link_score != before.link_score)
        }
        elements = {
            element_name(fabric, node): float(health.element_score[node])
            for node in np.unique(fabric.link_element[fabric.link_element >= 0]).tolist()
        }
        self.health.append(HealthPoint(health.t_s, health.version, elements, links, self.job))
        if changes := score_changes(fabric, before, health):
            self.emit(HealthPublished(health.t_s, health.version, changes, job=self.job))
        self.observers.fire("on_health", health=health, measurement=measurement)

    def first_paths(self, paths: PathBatch) -> None:
        """The routes with which the run begins; those of large fabrics are not kept."""
        if self._fabric.n_gpus <= ROUTED_GPUS:
            self._paths.append((0.0, paths))

    def paths(self) -> PathsInUse | None:
        """All paths so far, where they are kept."""
        return PathsInUse.of(self._paths) if self._paths else None

    def rerouted(self, reroute: Reroute) -> None:
        """Changed routes are in use."""
        if self._paths:
            self._paths.append((self._now_s(), reroute.table.paths(*reroute.pairs.T)))
        now, version = self._now_s(), reroute.table.version
        self.reroutes.append(RoutesChanged(now, version, reroute.pairs_changed, reroute.why, job=self.job))
        self.emit(self.reroutes[-1])
        if reroute.unreachable:
            self.note(
                f"no path is left for {len(reroute.unreachable)} pairs, such as {reroute.unreachable[0]}"
            )
        self.observers.fire(
            "on_reroute", table=reroute.table, pairs=reroute.pairs, pairs_changed=reroute.pairs_changed,
            why=reroute.why, t_s=now,
        )  # fmt: skip

    # -- what came of it -------------------------------------------------------------------------------
    def samples(self) -> HealthSamples:
        """All samples so far, as arrays."""
        n, n_links = len(self._samples), self._fabric.n_links
        widths = (*[n_links] * 4, self._fabric.n_nodes, *[n_links] * 4)
        return HealthSamples(
            np.array([sample[0] for sample in self._samples]),
            *(
                np.array([sample[i] for sample in self._samples], np.float32).reshape(n, width)
                for i, width in enumerate(widths, 1)
            ),
        )
