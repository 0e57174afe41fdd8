"""Two jobs with rails in common: who is where, and the rows of a comparison."""

from __future__ import annotations

from typing import Any

import pytest

import railweave as rw
from railweave.framework.errors import InputError
from railweave.framework.experiment.ranks import gpus_of
from railweave.framework.studies.shared_rails import SHARES, compare_shares, jobs_sharing


@pytest.mark.parametrize("percent", SHARES)
def test_each_job_has_half_of_the_rails_and_shares_what_it_should(percent: int) -> None:
    fabric = rw.topology(domains=2, rails=16)
    texts = [text.split()[1].removeprefix("ranks=") for text in jobs_sharing(fabric, percent)]
    ranks = [gpus_of(fabric, text) for text in texts]
    assert [len(one) for one in ranks] == [16, 16]
    assert len({*ranks[0]} & {*ranks[1]}) == 16 * percent // 100


def test_rails_that_cannot_be_shared_so_are_refused() -> None:
    with pytest.raises(InputError, match=r"25 % .*has 12 rails.*multiple of 8"):
        jobs_sharing(rw.topology(domains=2, rails=12), 25)
    with pytest.raises(InputError, match=r"has 5 rails"):
        jobs_sharing(rw.topology(domains=2, rails=5), 0)
    with pytest.raises(InputError, match=r"this torus has no rails"):
        jobs_sharing(rw.topology("torus", shape="2x3"), 0)


def row(*interferences: float | None) -> dict[str, Any]:
    """As much of a row as a comparison reads."""
    fairness = None if None in interferences else 0.9
    figures = {"interferences": [*interferences], "fairness": fairness}
    return {**figures, "wrong": 1, "verdict": "pass", "rate_scale": 1e-5}


def test_rows_are_medians_over_the_runs() -> None:
    runs = {0: [row(1.0, 1.1), row(1.2, 1.3), row(1.4, None)], 75: [row(None, None)]}
    first, last = compare_shares(runs)
    assert (first.percent, first.repeats, first.wrong, first.fairness) == (0, 3, 3, 0.9)
    assert first.interference == (1.2, pytest.approx(1.2)) and first.spread == (1.0, 1.4)
    assert (last.interference, last.spread, last.fairness) == ((None, None), None, None)


def test_routers_are_not_compared_with_several_jobs() -> None:
    with pytest.raises(InputError, match="jobs: routers are compared with one job"):
        rw.compare(jobs=["ranks=rail:0", "ranks=rail:1"], size="16K")
