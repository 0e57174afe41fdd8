"""h-scores of links: delay at line rate over delay now, and rate served over rate declared."""

from collections.abc import Mapping

import numpy as np

from railweave.framework.health.loss import speed_at_loss
from railweave.framework.hookspecs import Estimator, LinkState
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.arrays import Float
from railweave.framework.parameters import Parameter, Value


class Delay(Estimator):
    """h = speed_at_loss(loss) T0 / T with T0 = L/C and T = (Q + L)/C'; 0 for a link that is down.

    L wire bytes of a full packet, C the link's rate, Q its smoothed queue, C' the rate it was last seen to
    serve while backlogged (C before any evidence). C' is what keeps an emptied slow link low.

    The source's delay has the link's latency l in T0 and T as well (`latency`). At 400 Gb/s a packet takes
    0.08 us, so that any real latency hides a slow link: with 0.5 us one at 30 % scores 0.75. So a score says
    what a link serves, and latency counts once, where routes are compared by when the demand ends.

    A busy link is not a degraded one: senders keep their windows queued on healthy links too, and a rail that
    carries the traffic of two would score below a slow one that carries none. So of Q only what exceeds the
    windows counts: `allowance` full packets or `allowance_time` at line rate, whichever is more; and none of
    it on a link whose rate is known, which says all. 0, 0 and `latency` give the source's formula.
    """

    summary = "delay at line rate over delay now: queue beyond the senders' windows, and service rate"
    parameters: tuple[Parameter, ...] = (
        Parameter(
            "allowance", 16, "count", "packets of queue that count as none: senders' windows", minimum=0
        ),
        Parameter(
            "allowance_time", 0.12, "time", "queue that counts as none, in time at line rate", minimum=0
        ),
        Parameter(
            "latency",
            False,
            "bool",
            "add the link's latency to both delays, as the source does; it hides slow links",
        ),
    )

    def __init__(self, allowance: int = 16, allowance_time: float = 0.12, *, latency: bool = False) -> None:
        self._allowance, self._allowance_time, self._latency = allowance, allowance_time, latency

    def configured(self, options: Mapping[str, Value]) -> "Delay":
        allowance, allowance_time = int(options["allowance"]), float(options["allowance_time"])
        return Delay(allowance, allowance_time, latency=bool(options["latency"]))

    def scores(self, fabric: Fabric, state: LinkState, packet: PacketFormat) -> Float:
        """(n_links,) in 0..1."""
        packet_bits = 8.0 * packet.full_packet_bytes
        latency_s = fabric.latency_s if self._latency else 0.0
        service = np.where(np.isnan(state.service_bps), fabric.capacity_bps, state.service_bps)
        at_line_rate = packet_bits / fabric.capacity_bps + latency_s
        windows = np.maximum(self._allowance * packet_bits, self._allowance_time * fabric.capacity_bps)
        queue_bits = np.maximum(0.0, 8.0 * state.queue_bytes - windows)
        if windows.any():
            queue_bits[~np.isnan(state.service_bps)] = 0.0
        with np.errstate(divide="ignore", over="ignore"):  # a rate of (almost) 0 is an endless delay, score 0
            now = (queue_bits + packet_bits) / service + latency_s
        h = speed_at_loss(state.loss) * at_line_rate / now
        return np.where(state.up, np.clip(h, 0.0, 1.0), 0.0)


class Rate(Estimator):
    """h = speed_at_loss(loss) C'/C; 0 for a link that is down.

    Blind to queues, so a busy link scores as an idle one does; C' the rate last served while backlogged, C
    before any evidence.
    """

    summary = "rate served over rate declared: ignores queues"

    def scores(self, fabric: Fabric, state: LinkState, packet: PacketFormat) -> Float:
        """(n_links,) in 0..1."""
        service = np.where(np.isnan(state.service_bps), fabric.capacity_bps, state.service_bps)
        h = speed_at_loss(state.loss) * service / fabric.capacity_bps
        return np.where(state.up, np.clip(h, 0.0, 1.0), 0.0)
