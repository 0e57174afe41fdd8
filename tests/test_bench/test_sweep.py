"""`bench sweep`: every row is there, and its points are what they are said to be."""

from __future__ import annotations

from railweave.bench.sweep import FAULTS, sweep
from railweave.framework.experiment.settings import LayeredSettings
from railweave.framework.registry import load_plugins
from railweave.framework.studies.sweep_file import sweep_of


def test_every_figure_has_its_limit() -> None:
    told: list[str] = []
    found = sweep(load_plugins(), 8, True, told.append)["rows"]
    named = {row["what"]: row for row in found}
    assert [row["unit"] for row in found if row["what"].startswith("overhead")] == ["ms a point"] * 2
    assert named["10,000 points of 256 GPUs"]["points"] == 8 and told
    assert all(row["figure"] > 0 and row["limit"] for row in found)
    assert not any(row.get("failed") for row in found)


def test_its_points_are_drawn_faults_of_four_kinds() -> None:
    study = sweep_of(LayeredSettings("bench", {**FAULTS, "seeds": 50}), "faults").study
    faults = [study.keys(point)[0]["faults"][0] for point in study.points()]  # type: ignore[index]
    assert study.count == 200 and len({*faults}) > 190
    for kind in ("rail:", "domain:", "nic:", "link:g"):
        assert sum(f"degrade {kind}" in fault for fault in faults) == 50
    assert not any("{" in fault for fault in faults)
