"""Rate served over rate declared."""

import numpy as np

from railweave.framework.hookspecs import Configurable, LinkState
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.arrays import Float


class Rate(Configurable):
    """h = (1 - loss) C'/C; 0 for a link that is down.

    Blind to queues, so a busy link scores as an idle one does; C' the rate last served while backlogged, C
    before any evidence.
    """

    summary = "rate served over rate declared: ignores queues"

    def scores(self, fabric: Fabric, state: LinkState, packet: PacketFormat) -> Float:
        """(n_links,) in 0..1."""
        service = np.where(np.isnan(state.service_bps), fabric.capacity_bps, state.service_bps)
        h = (1.0 - state.loss) * service / fabric.capacity_bps
        return np.where(state.up, np.clip(h, 0.0, 1.0), 0.0)
