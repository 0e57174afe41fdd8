"""Measurements by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from railweave.framework.model import Fabric, Measurement
from railweave.topologies.rail_only import RailOnly

MakeMeasurement = Callable[..., Measurement]


@pytest.fixture
def fabric() -> Fabric:
    """2 domains x 3 rails, domain links 9 Mb/s, rail links 1 Mb/s: 24 links, links 2c and 2c+1 of GPU c to
    its domain, then to its rail from link 12."""
    return RailOnly().build({"domains": 2, "rails": 3, "domain_rate": 9e6, "rail_rate": 1e6})


@pytest.fixture
def measured(fabric: Fabric) -> MakeMeasurement:
    """A measurement of a quiet, healthy fabric, but for what is given: {name: {link: value}}."""

    def make(t_s: float = 0.1, dt_s: float = 0.1, **changes: dict[int, float]) -> Measurement:
        n = fabric.n_links
        counts = ("sent_bytes", "sent_packets", "drops", "lost", "queue_bytes", "waited_bytes")
        arrays = {name: np.zeros(n) for name in counts}
        arrays |= {name: np.full(n, np.nan) for name in ("service_bps", "probe_s")}
        arrays["up"] = np.ones(n, bool)
        if "since_s" in changes:
            arrays["since_s"] = np.full(n, -np.inf)
        if "counted" in changes:
            arrays["counted"] = np.zeros(n)
        for name, values in changes.items():
            for link, value in values.items():
                arrays[name][link] = value
        return Measurement(t_s, dt_s, **arrays)

    return make
