"""Samples for those who watch: sums by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railweave.framework.model import Fabric, HealthSnapshot, Measurement
from railweave.framework.model.events import RunEvent, Sampled
from railweave.framework.runs.live_samples import LiveSamples
from railweave.topologies.rail_only import RailOnly


def measured(fabric: Fabric, t_s: float, dt_s: float, share: float, lost: float) -> Measurement:
    """Every link sent at `share` of its rate, 100 packets of which `lost` were lost; 7 bytes wait."""
    n = fabric.n_links
    return Measurement(
        t_s=t_s, dt_s=dt_s, sent_bytes=share * fabric.capacity_bps * dt_s / 8, sent_packets=np.full(n, 100.0),
        drops=np.zeros(n), lost=np.full(n, lost), queue_bytes=np.full(n, 7.0), waited_bytes=np.zeros(n),
        service_bps=np.full(n, np.nan), probe_s=np.full(n, np.nan), up=np.ones(n, bool),
    )  # fmt: skip


def test_measurements_between_two_samples_add_up() -> None:
    fabric = RailOnly().build({"domains": 2, "rails": 2, "domain_rate": 72e6, "rail_rate": 8e6})
    events: list[RunEvent] = []
    wall_s = 0.0
    live = LiveSamples(fabric.n_links, events.append, lambda: wall_s)
    health = HealthSnapshot.healthy(fabric)
    live.add(measured(fabric, 0.1, 0.1, 0.5, 0), health)  # the first one at once
    for wall_s, share, lost in ((0.1, 0.2, 10), (0.2, 0.4, 0), (0.3, 0.9, 20)):
        paused_s = np.full(fabric.n_links, 0.1 * share)
        live.add(replace(measured(fabric, 0.1 + wall_s, 0.1, share, lost), paused_s=paused_s), health)
    first, second = events
    assert isinstance(first, Sampled) and isinstance(second, Sampled)
    assert first.sent_bytes == pytest.approx(0.5 * fabric.capacity_bps * 0.1 / 8)
    assert (second.t_s, second.dt_s) == (pytest.approx(0.4), pytest.approx(0.3))
    assert second.sent_bytes == pytest.approx(1.5 * fabric.capacity_bps * 0.1 / 8)
    assert (second.sent_packets == 300).all() and (second.lost == 30).all()
    assert not len(first.paused_s) and second.paused_s == pytest.approx(np.full(fabric.n_links, 0.15))
    assert (second.queue_bytes == 7).all()
    assert (second.element_score == health.element_score).all()
