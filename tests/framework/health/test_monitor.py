"""From measurements to snapshots over a made-up run: a slow rail falls and stays low once it is idle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from railweave.framework.health.monitor import HealthMonitor
from railweave.framework.health.options import HealthOptions
from railweave.framework.model import Fabric, HealthSnapshot, Measurement, PacketFormat
from railweave.plugins.estimators.formulas import Rate

Make = Callable[..., Measurement]


def run(fabric: Fabric, measured: Make) -> list[HealthSnapshot]:
    monitor, published = HealthMonitor(fabric, Rate(), PacketFormat()), []
    assert monitor.snapshot == HealthSnapshot.healthy(fabric, margin=1.25)
    rail = fabric.element_links(fabric.node_ids["r1"]).tolist()
    for step in range(1, 31):
        seen = {link: 2e5 + 2e3 * (step % 3) for link in rail} if 10 <= step < 15 else {}
        news = monitor.observe(measured(t_s=step / 10, service_bps=seen))
        if news is not None:
            published.append(news)
            assert monitor.snapshot is news
    return published


def test_a_slow_rail_is_published_once_and_stays_low_when_idle(fabric: Fabric, measured: Make) -> None:
    published = run(fabric, measured)
    assert [(s.version, s.t_s) for s in published] == [(1, 1.0)]
    assert published[0].element_score[fabric.node_ids["r1"]] == 0.2
    assert published[0].rail_order.tolist() == [1, 0, 2]


def test_equal_measurements_give_equal_snapshots(fabric: Fabric, measured: Make) -> None:
    assert run(fabric, measured) == run(fabric, measured)


def test_a_new_margin_is_news(fabric: Fabric, measured: Make) -> None:
    monitor = HealthMonitor(fabric, Rate(), PacketFormat(), HealthOptions(margin=1.5))
    assert monitor.snapshot.margin == 1.5
    assert monitor.observe(measured()) is None
    assert np.isnan(monitor.links.service_bps).all()
