"""A year of a pod: rows, intervals, and what follows from the rates alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.papers.fleet.assumptions import assumptions
from railweave.framework.papers.fleet.component_failures import Draws
from railweave.framework.papers.fleet.job_mix import JobMix, SliceKind
from railweave.framework.papers.fleet.pod import FailureRates, Pod
from railweave.framework.papers.fleet.seed_interval import SeedMean, seed_mean
from railweave.framework.papers.fleet.slices import availability, up_chances
from railweave.framework.papers.fleet.year import (
    Fleet,
    cube_availability,
    simulate,
)

MIX = JobMix((SliceKind((1, 2, 2), 1.0, 0.5),), 6, 1.0)
FLEET = Fleet(Pod(16, 2), FailureRates(ocs=0.002), MIX, 200, Draws(40, 3))


def near(value: SeedMean, expected: float) -> None:
    """Within twice the 95 % interval, about 4 standard errors."""
    assert abs(value.mean - expected) <= value.high - value.low


def test_rows_are_the_closed_forms_and_repeat() -> None:
    """All opt in, so a job-day is on fault-tolerant routes with the odds of one OCS down to none or one."""
    rows = simulate(FLEET, (0.25, 1.0))
    assert rows == simulate(FLEET, (0.25, 1.0))
    for row in rows:
        up, cube = row.availability, cube_availability(FLEET.rates, row.repair_days)
        near(up.cubes_up, cube)
        near(up.pod_up, up_chances(16, cube)[14:].sum())
        near(up.host_failures, 0.0008 * 365 * 256)
        ocs_up = availability(0.002, row.repair_days) ** 48
        near(up.every_ocs_up, ocs_up)
        for size in up.slices:
            near(size.fixed, size.expected_fixed)
            near(size.reconfigurable, size.expected_reconfigurable)
        jobs, down = row.jobs, 0.002 * row.repair_days
        assert jobs.circuits_per_job.mean == pytest.approx(48 * 4)
        assert jobs.circuits_started.mean == pytest.approx(48 * 4 * jobs.started.mean)
        assert jobs.circuits_swapped.mean == pytest.approx(80 * jobs.swaps.mean)
        one_down = 48 * down * ocs_up
        near(jobs.tolerant, one_down / (one_down + ocs_up))
        assert jobs.tolerant_to_end.mean >= jobs.tolerant.mean
    assert rows[0].availability.cubes_up.mean > rows[1].availability.cubes_up.mean


def test_no_job_is_on_fault_tolerant_routes_unless_an_ocs_fails_and_it_opts_in() -> None:
    nothing = SeedMean(0.0, 0.0, 0.0)
    for fleet in (
        replace(FLEET, rates=replace(FLEET.rates, ocs=0.0), draws=Draws(4, 3)),
        replace(FLEET, mix=replace(MIX, opt_in=0.0), draws=Draws(4, 3)),
    ):
        (row,) = simulate(fleet, (1.0,))
        assert row.jobs.tolerant == row.jobs.tolerant_to_end == row.jobs.tolerant_jobs == nothing
        assert row.jobs.started.mean > 3


def test_progress_counts_all_jobs_of_all_rows() -> None:
    seen: list[tuple[int, int]] = []
    simulate(replace(FLEET, draws=Draws(2, 3)), (0.25, 0.5), lambda done, total: seen.append((done, total)))
    done = [step for step, _ in seen]
    assert done == sorted(done) and len({total for _, total in seen}) == 1
    assert done[-1] < seen[0][1] and any(step >= seen[0][1] / 2 for step in done)


def test_intervals_cover_the_mean_as_often_as_they_say() -> None:
    """95 % of 400 intervals of 60 values, to 4 standard errors of that share."""
    values = np.random.default_rng(2).normal(1, 3, size=(400, 60))
    covered = np.mean([row.low <= 1 <= row.high for row in map(seed_mean, values)])
    assert covered == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 400))
    assert seed_mean(np.array([2.0, 2.0])) == SeedMean(2.0, 2.0, 2.0)


def test_what_cannot_be_simulated() -> None:
    with pytest.raises(ExperimentError, match=r"a repair takes 0 days: give a time above 0"):
        simulate(FLEET, (0.0,))
    with pytest.raises(ExperimentError, match="0 days are no period"):
        replace(FLEET, days=0)


def test_every_assumption_names_its_source() -> None:
    stated = assumptions(FLEET, own_rates=False, own_jobs=False)
    assert all(assumption.source for assumption in stated)
    texts = {assumption.text: assumption.source for assumption in stated}
    assert texts["0.08 % of hosts, 0.005 % of cables, 0.2 % of OCSes fail in a day"] == "figure 12"
    assert assumptions(FLEET, own_rates=True, own_jobs=False)[0].source == "given"
