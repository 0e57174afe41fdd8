"""Files of a run directory that do not belong to its fabric are left out, and it is said why."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from railweave.framework import api
from railweave.framework.model import HealthSnapshot
from railweave.framework.model.findings import PathsInUse
from railweave.framework.report.samples import read_paths


def test_paths_of_another_fabric_are_left_out(tmp_path: Path) -> None:
    """A page would name each of its GPUs."""
    small, large = (api.topology("rail-only", domains=domains, rails=8) for domains in (2, 10))
    table = api.installed()["router"]["shortest"].routes(small, HealthSnapshot.healthy(small))
    paths = PathsInUse.of([(0.0, table.paths(np.array([0]), np.array([8])))])
    np.savez_compressed(tmp_path / "routes.npz", **asdict(paths))
    arrays, why = read_paths(tmp_path / "routes.npz", small)
    assert arrays is not None and why == ""
    assert read_paths(tmp_path / "routes.npz", large) == (
        None, "routes.npz is left out: routes are kept of up to 64 GPUs, and this fabric has 80.",
    )  # fmt: skip
