"""The health loop: sample, score, route, install. It never looks into the traffic."""

from dataclasses import replace
from math import inf

import numpy as np

from railweave.framework.errors import HealthError, LabError, PluginError, RunFailedError, describe
from railweave.framework.health.monitor import HealthMonitor
from railweave.framework.health.outages import Outages
from railweave.framework.health.outlook import Outlook
from railweave.framework.health.relapses import Relapses
from railweave.framework.model import HealthSnapshot, RouteTable
from railweave.framework.routing.route_control import Reroute, RouteControl
from railweave.framework.runs.decisions import Decisions
from railweave.framework.runs.fault_timetable import GroundTruth
from railweave.framework.runs.live_samples import LiveSamples
from railweave.framework.runs.parts import Clock, EngineParts
from railweave.framework.runs.recorder import Recorder

MOST_TABLES = 32
"""Earlier routes that are kept."""


class HealthLoop:
    """Measures every `interval_s` and changes routes when scores say so.

    `scores`: what routes follow, measured ones or the ground truth; None where routes stay as they
    are. `delay_s`: how long a decided change waits before the switches are told, and no other is decided.
    `probing`: whether measuring traffic may be sent. `moved_s`: when changed routes last came into use;
    `tables`: since when which routes were in use, the latest last.

    Where measuring fails (the source died, or says what cannot be), the run goes on: the scores, and the
    routes that follow them, stay as they are, and the recorder keeps when that began. An estimator or router
    that breaks its contract ends the run with RunFailedError.
    """

    def __init__(
        self,
        clock: Clock,
        parts: EngineParts,
        monitor: HealthMonitor,
        control: RouteControl,
        recorder: Recorder,
        *,
        interval_s: float,
        scores: HealthMonitor | GroundTruth | None,
        delay_s: float = 0.0,
        probing: bool = True,
    ) -> None:
        self._clock, self._parts, self._monitor, self._control = clock, parts, monitor, control
        self._recorder, self._interval_s, self._scores, self._probing = recorder, interval_s, scores, probing
        self._next_s, self.moved_s = interval_s, 0.0  # a measurement needs time to cover
        self._relapses = Relapses(parts.fabric, monitor.options)
        self._outages = Outages(parts.fabric, monitor.options, parts.rate_scale)
        self._down = monitor.snapshot.down  # of the scores that routes follow, as senders know it
        self._idle = not self._watched
        self._delay_s, self._due_s = delay_s, inf
        self._decided: Reroute | None = None
        """A change that waits until `_due_s`."""
        self._decisions = Decisions(control, concurrent=parts.concurrent)
        self._live = LiveSamples(parts.fabric.n_links, recorder.emit)
        self.tables: list[tuple[float, RouteTable]] = [(-inf, control.table)]

    @property
    def next_s(self) -> float:
        """When the next sample is due; infinity while it would show nothing new."""
        return min(self._next_s if self._watched else inf, self._due_s)

    @property
    def _watched(self) -> bool:
        """Links that come and go are watched until they have proved that they no longer do."""
        return self._parts.watched() or self._outages.waiting or bool(self._relapses.doubted.any())

    @property
    def table(self) -> RouteTable:
        """The routes in use; routes on their way to the switches come later."""
        return self.tables[-1][1]

    @property
    def followed(self) -> HealthSnapshot | None:
        """The latest of the scores that routes follow; None where routes stay as they are."""
        return None if self._scores is None else self._scores.snapshot

    @property
    def at_rest(self) -> bool:
        """Whether no change of routes is being decided or on its way to the switches."""
        decided = self._decisions.under_way or self._decided is not None
        return self._parts.rules.at_rest and not decided

    def tables_since(self, begin_s: float) -> list[tuple[float, RouteTable]]:
        """Those in use at a time and since then."""
        later = [i for i, (since_s, _) in enumerate(self.tables) if since_s > begin_s]
        return self.tables[max(0, later[0] - 1) if later else -1 :]

    def advance(self) -> None:
        """Do what is due by the clock; cheap when nothing is."""
        now, rules = self._clock.now_s(), self._parts.rules
        self._take_up(now)
        if now >= self._due_s:
            if rules.ready:
                self._tell(now)
            else:
                self._due_s = now + self._interval_s
        if self._idle:  # nothing was new up to now
            self._next_s = now + self._interval_s
            self._relapses.seen(slice(None), now)
        self._idle = not self._watched
        if not self._idle and now >= self._next_s:
            self._next_s = max(self._next_s + self._interval_s, now)
            try:
                if self._recorder.blind_s is None:
                    self._sample()
                self._retry()
                if self._scores is not None and rules.ready and self._decided is None:
                    outlook = self._outlook(now)
                    self._decided = self._decisions.change(outlook, now)
                    if self._decided is not None:
                        self._due_s = now + self._delay_s
                        if not self._delay_s:
                            self._tell(now)
                    elif self.at_rest:
                        self._control.rest()
            except PluginError as error:  # bad input is refused before a run; this one has begun
                raise RunFailedError(str(error)) from error

    def settle(self) -> None:
        """Wait for a change of routes that is being decided, and put it in."""
        self._decided = self._decided or self._decisions.finish()
        if self._decided is not None:
            self._due_s = self._clock.now_s()
            if self._parts.rules.ready:
                self._tell(self._due_s)

    def _tell(self, now: float) -> None:
        """Let the switches have the change that was decided."""
        assert self._decided is not None
        self._parts.rules.reroute(self._decided)
        self._decided, self._due_s = None, inf
        self._take_up(now)  # a table needs no time, switches do

    def _outlook(self, now: float) -> Outlook:
        """What routes are decided by; the truth has no past."""
        assert self._scores is not None
        if self._scores is not self._monitor:
            return Outlook.steady(self._scores.snapshot)
        relapses = self._relapses.outlook(self._monitor.snapshot, self._monitor.measured_s, now)
        return self._outages.outlook(relapses, now)

    def _retry(self) -> None:
        """Let senders know of links that are up again."""
        if self._scores is None or (down := self._scores.snapshot.down) is self._down:
            return
        if (self._down & ~down).any():
            for traffic in self._parts.traffic:
                traffic.retry()
        self._down = down

    def _take_up(self, now: float) -> None:
        """Let senders and the recorder know of the changes that have come into use."""
        for reroute in self._parts.rules.advance(now):
            self.moved_s = now
            self.tables = [*self.tables[-MOST_TABLES:], (now, reroute.table)]
            for traffic in self._parts.traffic:
                traffic.use_routes(reroute)
            self._recorder.rerouted(reroute)

    def _sample(self) -> None:
        """Measure once, and publish scores that changed."""
        source, monitor = self._parts.source, self._monitor
        before = monitor.snapshot
        if (repeated := self._parts.repeated()) is not None:
            self._relapses.seen(np.isfinite(repeated.service_bps), repeated.t_s)
            self._recorder.sample(repeated, before)
            self._live.add(repeated, before)
            return
        try:
            measurement = source.measure()
            if self._probing:
                source.probe(measurement.t_s, replace(monitor.links, doubted=self._relapses.doubted))
            published = monitor.observe(measurement)
        except (LabError, HealthError, OSError) as error:
            self._recorder.blind(describe(error))
            return
        self._recorder.sample(measurement, monitor.snapshot)
        self._live.add(measurement, monitor.snapshot)
        if published is not None:
            self._recorder.published(before, published, measurement)
