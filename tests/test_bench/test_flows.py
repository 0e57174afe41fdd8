"""The benchmark of flows against packets."""

from __future__ import annotations

import pytest

from railweave.bench import flows


def test_every_traffic_and_transport_has_a_figure_of_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a ring all paths of a ring all-reduce are single links, on which nothing is stored and forwarded."""
    monkeypatch.setattr(flows, "FABRICS", {"ring": flows.FABRICS["ring"]})
    reported: list[str] = []
    figures = flows.flows(True, reported.append)
    assert reported == [f"ring, {row['traffic']}" for row in figures["fabrics"]]
    assert len(reported) == len(flows.TRAFFIC) - 1  # rails have one of their own
    assert [row["transport"] for row in figures["transports"]] == list(flows.TRANSPORTS)
    assert all({"16K", "64K"} < row.keys() for table in figures.values() for row in table)
    assert figures["fabrics"][0]["16K"] == pytest.approx((0, 0), abs=1e-3)
