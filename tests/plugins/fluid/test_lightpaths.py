"""Lightpaths that are set anew before each step of an all-gather on an optical ring."""

from __future__ import annotations

from typing import Any

import pytest

import railweave as rw
from railweave.framework.errors import ExperimentError

STEPS = {"optree": 12, "one-stage": 16, "neighbor-exchange": 8}
"""Of 16 nodes and 2 wavelengths. Source: Table I and the example of arXiv 2211.15119."""


def time_us(name: str, nodes: int = 16, wavelengths: int = 2, **options: Any) -> float:
    topology = {"name": "ring", "nodes": nodes, "wavelengths": wavelengths}
    result = rw.run(
        engine="fluid", topology=topology, collective={"name": name, **options}, size="1M", iterations=1,
        faults=[],
    )  # fmt: skip
    us = result.summary.declared_time_us
    assert us is not None
    return us


@pytest.mark.parametrize("name", STEPS)
def test_every_step_takes_so_much_longer(name: str) -> None:
    """Equation 3: S x a more, where all ranks wait for each other."""
    longer = time_us(name, step_time="25us") - time_us(name)
    assert longer == pytest.approx(STEPS[name] * 25, rel=1e-9)


def test_ranks_that_wait_for_themselves_set_no_more_often() -> None:
    """A rank sets its lightpaths once for each step that it takes part in: in NE each of them, and never more
    than if all wait for all."""
    longer = time_us("neighbor-exchange", barrier="rank", step_time="25us") - time_us("neighbor-exchange")
    assert longer == pytest.approx(8 * 25, rel=1e-9)
    free, bound = (time_us("optree", barrier=barrier, step_time="25us") for barrier in ("rank", "step"))
    assert free <= bound * (1 + 1e-9)


def test_engines_with_packets_refuse_it() -> None:
    with pytest.raises(ExperimentError, match="optree computes, and engine emulation only sends"):
        rw.run(
            engine="emulation", topology={"name": "ring", "nodes": 8, "wavelengths": 2}, faults=[],
            collective={"name": "optree", "step_time": "25us"},
        )  # fmt: skip
