"""The benchmark of live pages, with an engine whose iterations all take the same time."""

from __future__ import annotations

from railweave.bench.live import live
from railweave.framework.registry import load_plugins


def test_every_number_of_streams_has_its_iterations() -> None:
    keys = {"engine": "fluid", "topology.domains": 2, "topology.rails": 2, "size": "64K"}
    told: list[str] = []
    rows = live(load_plugins(), 3, told.append, keys)["rows"]
    assert [(row["streams"], row["iterations"]) for row in rows] == [(0, 3), (1, 3), (5, 3)]
    assert [round(row["to_none"], 6) for row in rows] == [1, 1, 1]
    assert told[-1] == "9/9 iterations"
