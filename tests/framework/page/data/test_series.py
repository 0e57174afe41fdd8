"""Samples as figures over time: sums by hand."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest

from railweave.framework.page.data.items import shown
from railweave.framework.page.data.page_data import Packed
from railweave.framework.page.data.series import series
from railweave.topologies.rail_only import RailOnly

NAMES = ("queue_bytes", "sent_bytes", "sent_packets", "lost", "paused_s")


def rows(packed: Packed | None) -> np.ndarray:
    """(instants, items), bytes."""
    assert packed is not None
    steps = np.frombuffer(zlib.decompress(base64.b64decode(packed.zlib)), np.uint8).reshape(packed.shape)
    return np.cumsum(steps, axis=0, dtype=np.uint8)


def test_intervals_and_elements_put_samples_and_links_together() -> None:
    """400 samples make 200 intervals of two. Of the links of rail 1 two are used: both hold 640 bytes in the
    first sample of each interval, one of them sends at 0.2 and 0.6 of its rate and loses a packet of four,
    the other sends at 0.1 and loses none; their scores are 0.5, then 0.8. Of each interval the first is
    paused for a quarter, the other for a half."""
    fabric = RailOnly().build({"domains": 2, "rails": 2, "domain_rate": 72e6, "rail_rate": 8e6})
    rail = fabric.n_nodes - 1
    busy, quiet = np.flatnonzero(fabric.link_element == rail)[:2]
    n, first = 400, np.arange(400) % 2 == 0
    nothing = np.zeros((n, fabric.n_links))
    samples = {name: nothing.copy() for name in NAMES}
    samples["t_s"] = np.arange(1, n + 1) * 0.1
    samples["link_score"] = np.ones((n, fabric.n_links))
    samples["element_score"] = np.ones((n, fabric.n_nodes))
    samples["queue_bytes"][first[:, None] & np.isin(np.arange(fabric.n_links), (busy, quiet))] = 640
    full = 8e6 * 0.1 / 8
    samples["sent_bytes"][:, busy] = np.where(first, 0.2, 0.6) * full
    samples["sent_bytes"][:, quiet] = 0.1 * full
    samples["sent_packets"][:, [busy, quiet]] = 4
    samples["lost"][:, busy] = 1
    samples["paused_s"][:, busy] = np.where(first, 0.05, 0.0)
    samples["paused_s"][:, quiet] = 0.05
    samples["link_score"][:, [busy, quiet]] = np.where(first, 0.5, 0.8)[:, None]
    samples["element_score"][:, rail] = np.where(first, 0.5, 0.8)

    chosen = shown(fabric, samples)
    made = series(fabric, chosen, samples)
    assert made.t_s == pytest.approx(np.arange(1, 201) * 0.2)
    items = [len(chosen.nodes) - 1, *(len(chosen.nodes) + link for link in (busy, quiet))]
    expected = {  # codes.py: 200 steps for 1; of loss by the root; 16 ln(1 + bytes / 64)
        "score": (160, 160, 160),
        "queue": (round(16 * np.log(21)), round(16 * np.log(11)), round(16 * np.log(11))),
        "load": (80, 80, 20),
        "loss": (100, 100, 0),
        "paused": (100, 50, 100),
    }
    for name, steps in expected.items():
        assert {tuple(row) for row in rows(getattr(made, name))[:, items].tolist()} == {steps}, name
    samples["paused_s"][:] = np.nan
    assert series(fabric, chosen, samples).paused is None
