"""The health of links as the model knows it."""

import numpy as np

from railweave.framework.fluid.model import Model
from railweave.framework.hookspecs import LinkState
from railweave.framework.model import Measurement
from railweave.framework.model.arrays import Bool
from railweave.framework.model.findings import LinkTotals

SLOW = 0.9
"""A link whose measured rate is below this share of its rate is measured again."""
IDLE_S, PERIOD_S = 1.0, 2.0
"""After how long without a statement a link is measured by itself, and how often: as the lab's trains do."""


class ModelSource:
    """Which links are up, and the rates of those that carry all they can. Idle links that ought to be known
    are measured by themselves, as the trains of a lab do it, at no cost: those that became unknown at once,
    slow ones and those of the same switch from time to time."""

    def __init__(self, model: Model) -> None:
        fabric = model.plan.fabric
        self._model, self._last_s, self._last_bits = model, 0.0, np.zeros(fabric.n_links)
        self._probed: Bool = np.zeros(fabric.n_links, bool)
        self._unknown = self._probed
        self._probed_s = np.full(fabric.n_links, -np.inf)
        self._busy_s, self._stated_s = np.zeros((2, fabric.n_links))

    def measure(self) -> Measurement:
        model, now, bits = self._model, self._model.now_s, self._model.flows.carried_bits()
        sent, since_s = (bits - self._last_bits) / 8, self._last_s
        self._last_s, self._last_bits = now, bits
        full, none = model.flows.saturated(), np.zeros(len(bits))
        self._busy_s = np.where(sent > 0, now, self._busy_s)
        self._stated_s = np.where(full, now, self._stated_s)
        rated, self._probed = full | self._probed, np.zeros(len(bits), bool)
        return Measurement(
            t_s=now, dt_s=now - since_s, sent_bytes=sent, drops=none, lost=none, queue_bytes=none,
            sent_packets=sent / model.plan.packet.full_packet_bytes, waited_bytes=np.where(full, sent, 0.0),
            service_bps=np.where(rated, model.rates_bps, np.nan), probe_s=none + np.nan, up=model.up,
        )  # fmt: skip

    def probe(self, now_s: float, links: LinkState) -> None:
        fabric = self._model.plan.fabric
        slow = links.service_bps < SLOW * fabric.capacity_bps * self._model.rate_scale
        tainted = np.zeros(fabric.n_nodes + 1, bool)
        tainted[fabric.link_element[slow]] = True
        tainted[-1] = False  # links of no switch
        silent = now_s - np.where(slow, self._stated_s, self._busy_s) > IDLE_S
        rested = now_s - self._probed_s > PERIOD_S
        again = (slow | tainted[fabric.link_element]) & silent & rested
        self._probed = (again | (links.unknown & (rested | ~self._unknown))) & links.up
        self._unknown = links.unknown.copy()
        self._probed_s = np.where(self._probed, now_s, self._probed_s)

    def totals(self) -> LinkTotals:
        sent = self._model.flows.carried_bits() / 8
        return LinkTotals(sent, sent / self._model.plan.packet.full_packet_bytes, 0 * sent, 0 * sent)
