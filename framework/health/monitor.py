"""One run's health: measurements in, snapshots out when something changed."""

from __future__ import annotations

from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import publish
from railweave.framework.health.smoothing import LinkTracker, observe
from railweave.framework.hookspecs import Estimator, LinkState
from railweave.framework.model import Fabric, HealthSnapshot, Measurement, PacketFormat


class HealthMonitor:
    """Holds the present state between the pure steps: smooth, estimate, publish. It has no clock of its own.

    `fabric` has emulated (scaled) rates, as the measurements do.
    """

    def __init__(
        self, fabric: Fabric, estimator: Estimator, packet: PacketFormat, options: HealthOptions | None = None
    ) -> None:
        self.fabric, self.estimator, self.packet = fabric, estimator, packet
        self.options = options or HealthOptions()
        self._tracker = LinkTracker.start(fabric)
        self._snapshot = HealthSnapshot.healthy(fabric, margin=self.options.margin)

    @property
    def snapshot(self) -> HealthSnapshot:
        """The last one published; all healthy, version 0, before any."""
        return self._snapshot

    @property
    def links(self) -> LinkState:
        return self._tracker.links

    def observe(self, measurement: Measurement) -> HealthSnapshot | None:
        """The new snapshot if this measurement changed what is published, else None."""
        self._tracker = observe(self._tracker, measurement, self.options.smoothing_s)
        raw = self.estimator.scores(self.fabric, self._tracker.links, self.packet)
        news = publish(
            self.fabric,
            self._snapshot,
            raw,
            self._tracker.links.up,
            t_s=measurement.t_s,
            options=self.options,
        )
        self._snapshot = news or self._snapshot
        return news
