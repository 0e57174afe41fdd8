"""What a run found so far, in the order it came; the conductor writes, the runner reads."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.figures import health_point
from railweave.framework.lab.emulation import proportional_memory_bytes
from railweave.framework.model import Fabric, HealthSnapshot, Measurement
from railweave.framework.model.arrays import Float, Int64


class Notebook:
    """`figures`: single numbers by name. The lists hold plain mappings as `framework/runner.py` reads them;
    `control`: when the controller and all switches stopped agreeing on the rules, and when they did again."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self.figures: dict[str, Any] = {"memory_peak_bytes": 0, "most_waiting_bytes": 0}
        self.iterations: list[dict[str, Any]] = []
        self.health: list[dict[str, Any]] = []
        self.reroutes: list[dict[str, Any]] = []
        self.faults: list[dict[str, Any]] = []
        self.notes: list[dict[str, Any]] = []
        self.truth: list[dict[str, Any]] = []
        self.control: list[dict[str, Any]] = []
        self._samples: dict[str, list[Any]] = {
            name: [] for name in ("t_s", "queue_bytes", "service_bps", "link_score", "element_score")
        }

    def sample(self, measurement: Measurement, health: HealthSnapshot) -> None:
        """One look: what was measured, and the scores in force after it."""
        self._samples["t_s"].append(measurement.t_s)
        self._samples["queue_bytes"].append(measurement.queue_bytes.astype(np.float32))
        self._samples["service_bps"].append(measurement.service_bps.astype(np.float32))
        self._samples["link_score"].append(health.link_score.astype(np.float32))
        self._samples["element_score"].append(health.element_score.astype(np.float32))

    def samples(self) -> dict[str, NDArray[Any]]:
        """`t_s` (n,), `queue_bytes`, `service_bps` and `link_score` (n, links), `element_score` (n, nodes)."""
        return {name: np.array(values) for name, values in self._samples.items()}

    def published(self, before: HealthSnapshot, news: HealthSnapshot) -> None:
        self.health.append(asdict(health_point(self._fabric, news, before)))

    def waiting(self, queue_bytes: Float, group: Int64) -> None:
        """Look at what waits at the links of each group, (n_links,) both; the most of any group is kept."""
        most = int(np.bincount(group, queue_bytes).max())
        self.figures["most_waiting_bytes"] = max(self.figures["most_waiting_bytes"], most)

    def became_true(self, truth: HealthSnapshot) -> None:
        """What the scores should say from now on."""
        self.truth.append(
            {"t_s": truth.t_s, "link_score": truth.link_score, "element_score": truth.element_score}
        )

    def memory(self) -> None:
        """Look at the memory of the whole process tree; the most is kept."""
        now = proportional_memory_bytes()
        self.figures["memory_peak_bytes"] = max(self.figures["memory_peak_bytes"], now)

    def findings(self) -> dict[str, Any]:
        return {
            **self.figures,
            "iterations": self.iterations,
            "health": self.health,
            "reroutes": self.reroutes,
            "faults": self.faults,
            "notes": self.notes,
            "truth": self.truth,
            "control": self.control,
            "samples": self.samples(),
        }
