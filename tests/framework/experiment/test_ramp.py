"""Shares of marked packets against the ramp of DCQCN (SIGCOMM 2015, figure 5)."""

from __future__ import annotations

import numpy as np
import pytest

import railweave as rw
from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.ramp import LEVELS, Ramp


@pytest.mark.parametrize("pmax", [0.01, 0.5, 1.0])
def test_a_queue_marks_in_proportion_between_its_thresholds(pmax: float) -> None:
    queues = np.arange(0, 60_000, 250.0)
    share = Ramp(10_000, 50_000, pmax).levels(queues) / LEVELS
    ramp = np.where(queues >= 50_000, 1.0, np.clip(pmax * (queues - 10_000) / 40_000, 0.0, None))
    assert (share >= ramp).all() and (share < ramp + 1 / LEVELS).all()


def test_equal_thresholds_are_a_step() -> None:
    assert Ramp(5_000, 5_000, 1.0).levels(np.array([0.0, 4_999, 5_000, 9_000])).tolist() == [0, 0, 8, 8]


def test_thresholds_that_contradict_each_other_are_refused_with_both() -> None:
    with pytest.raises(ExperimentError, match=r"engine.*kmin 64K lies above kmax 32K"):
        rw.load(engine={"name": "emulation", "kmin": "64K", "kmax": "32K"})
