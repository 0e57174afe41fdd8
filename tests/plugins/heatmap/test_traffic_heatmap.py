"""The heatmap of traffic: the first report, which enters by the same door as strangers'."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from railweave.framework.experiment.plan import load_plan
from railweave.framework.registry import load_plugins
from railweave.plugins.heatmap import traffic_heatmap

INSTALLED = load_plugins()


@pytest.mark.parametrize(
    ("keys", "files"),
    [
        ({"workload": "ptdp", "workload.tp": 2, "workload.pp": 2, "workload.dp": 4}, 3),
        ({}, 0),
        ({"reports.traffic.when": "always"}, 3),
        ({"workload": "ptdp", "reports.traffic.when": "never"}, 0),
    ],
)
def test_it_is_written_for_workloads_and_when_asked_for(
    keys: dict[str, object], files: int, tmp_path: Path
) -> None:
    plan = load_plan(None, keys, INSTALLED)
    plan.reports["traffic"].write({"experiment": plan.document()}, str(tmp_path))
    assert len(list(tmp_path.iterdir())) == files
    if files:
        table = np.loadtxt(tmp_path / "traffic.csv", delimiter=",")
        src, dst, sent = plan.schedule.pairs()
        assert table.shape == (16, 16) and table.sum() == sent.sum()
        assert np.array_equal(table[src, dst], sent)
        assert (tmp_path / "traffic.svg").read_text().startswith("<svg")
        assert (tmp_path / "traffic.png").read_bytes().startswith(b"\x89PNG")


def test_beyond_1024_gpus_it_lists_the_pairs_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_heatmap, "MOST_GPUS", 8)
    plan = load_plan(None, {"collective": "send-recv", "reports.traffic.when": "always"}, INSTALLED)
    plan.reports["traffic"].write({"experiment": plan.document()}, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["traffic.csv"]
    head, *rows = (tmp_path / "traffic.csv").read_text().splitlines()
    assert head == "src,dst,bytes"
    assert rows == [f"{rank},{(rank + 1) % 16},{plan.schedule.size_bytes}" for rank in range(16)]
