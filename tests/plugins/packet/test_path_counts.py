"""What senders count by path, against what links have lost, and an estimator that goes by it alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import railweave as rw
from railweave.framework.errors import ExperimentError
from railweave.framework.hookspecs import hookimpl
from railweave.framework.model import HealthSnapshot, Measurement, PathCounts
from railweave.framework.registry import Registers, load_plugins
from tests.strangers import by_path

KEYS: dict[str, Any] = {
    "topology": "fat-tree", "k": 4, "router": "spray", "collective": "direct-all-to-all", "size": "16M",
    "iterations": 2, "feedback": False, "estimator": "by-path",
}  # fmt: skip
GREY = "a0.0->c0.0"


class Seen:
    """The last health of a run, and all that senders have learnt."""

    def __init__(self) -> None:
        self.health: HealthSnapshot | None = None
        self.counts = PathCounts.none()
        self.wrong = 0

    @hookimpl
    def on_health(self, health: HealthSnapshot, measurement: Measurement) -> None:
        self.health = health
        if measurement.paths is not None:
            self.counts = measurement.paths


def seen(**keys: Any) -> tuple[Seen, rw.RunResult]:
    observer = Seen()
    ours = load_plugins().manager.list_name_plugin()
    registers = Registers([*ours, ("by-path (by-path)", by_path), ("seen (seen)", observer)])
    return observer, rw.run(registers=registers, **{"engine": "packet", **KEYS, **keys})


@pytest.mark.parametrize("seed", range(3))
def test_a_loss_of_1_5_percent_is_found_by_the_paths_of_the_first_iteration(seed: int) -> None:
    """As SprayCheck does (arXiv 2605.03702), from the ends alone: the link, and no other."""
    observer, _ = seen(faults=[f"at=iter:0 loss link:{GREY} rate=1.5%"], iterations=1, seed=seed)
    assert observer.health is not None
    fabric = rw.load(**{**KEYS, "estimator": "delay", "engine": "packet"}).fabric
    assert [fabric.link_name(link) for link in np.flatnonzero(observer.health.link_score < 1)] == [GREY]


def test_nothing_is_blamed_without_a_fault() -> None:
    observer, _ = seen()
    assert observer.health is None


def test_who_has_no_packets_refuses_an_estimator_that_needs_paths() -> None:
    with pytest.raises(ExperimentError, match="measuring paths, which by-path needs: engine fluid cannot"):
        seen(engine="fluid")


def test_who_sends_must_count() -> None:
    with pytest.raises(
        ExperimentError, match="by-path needs counts of packets by path, which a program does"
    ):
        seen(engine="emulation", program="true", collective=None, size=None, iterations=None)


def test_where_there_are_no_packets_one_that_only_wants_paths_sees_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(by_path.ByPath, "needs", ())
    observer, result = seen(engine="fluid")
    assert observer.health is None and len(result.rows)
