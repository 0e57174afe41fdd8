"""One run's health: measurements in, snapshots out when something changed."""

import numpy as np

from railweave.framework.errors import PluginError, blaming, defined_at
from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import publish
from railweave.framework.health.smoothing import LinkTracker, observe
from railweave.framework.hookspecs import Estimator, LinkState
from railweave.framework.model import Fabric, HealthSnapshot, Measurement, PacketFormat
from railweave.framework.model.arrays import Float
from railweave.framework.model.health import EQUAL_WITHIN


class HealthMonitor:
    """Holds the present state between the pure steps: smooth, estimate, publish. It has no clock of its own.

    `fabric` has emulated (scaled) rates, as the measurements do. `snapshot`: the last one published; all
    healthy, version 0, before any. `name`: the estimator's, for messages.
    """

    def __init__(
        self,
        fabric: Fabric,
        estimator: Estimator,
        packet: PacketFormat,
        options: HealthOptions | None = None,
        *,
        name: str = "",
    ) -> None:
        self._name = name
        self.fabric, self.estimator, self.packet = fabric, estimator, packet
        self.options = options or HealthOptions()
        self._tracker = LinkTracker.start(fabric, packet.full_packet_bytes)
        self.snapshot = HealthSnapshot.healthy(fabric, margin=self.options.margin)

    @property
    def links(self) -> LinkState:
        return self._tracker.links

    @property
    def measured_s(self) -> Float:
        """(n_links,): when the rate of each was last measured, -inf before any."""
        return self._tracker.measured_s

    def observe(self, measurement: Measurement) -> HealthSnapshot | None:
        """The new snapshot if this measurement changed what is published, else None."""
        self._tracker = observe(self._tracker, measurement, self.options.smoothing_s)
        raw = scores_of(self.estimator, self.fabric, self.links, self.packet, self._name)
        news = publish(
            self.fabric, self.snapshot, raw, self.links.up, self.links.unknown,
            loss=self.links.loss, t_s=measurement.t_s, options=self.options,
        )  # fmt: skip
        self.snapshot = news or self.snapshot
        return news


def scores_of(
    estimator: Estimator, fabric: Fabric, links: LinkState, packet: PacketFormat, registered: str = ""
) -> Float:
    """(n_links,): what an estimator answers. Raises PluginError, with its file and line, where it fails or
    answers with anything but numbers of 0..1. `registered`: the estimator's name; its class by default."""
    name = f"estimator {registered or type(estimator).__name__}: scores()"
    with blaming(name):
        answer = np.asarray(estimator.scores(fabric, links, packet))
        scores = answer.real.astype(np.float64)
    place = defined_at(estimator.scores)
    if scores.shape != (fabric.n_links,):
        raise PluginError(
            f"{name} at {place} returns shape {scores.shape}, not ({fabric.n_links},), one per link."
        )
    bad = np.flatnonzero(~((scores >= 0) & (scores <= 1 + EQUAL_WITHIN) & (answer.imag == 0)))
    if bad.size:
        raise PluginError(
            f"{name} at {place} returns {answer[bad[0]]} for link {fabric.link_name(int(bad[0]))}: "
            "a score lies in 0..1."
        )
    return scores
