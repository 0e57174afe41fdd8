"""Interference and fairness of jobs, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.judging.job_figures import in_company, median_s
from railweave.framework.judging.key_figures import jain
from tests.fakes.findings import iteration
from tests.fakes.small_fabrics import rail_only


def test_company_is_half_of_an_iteration() -> None:
    fabric = rail_only(2, 2)
    own = [iteration(fabric, i, begin_s=float(i)) for i in range(4)]
    others = [iteration(fabric, 0, 0.4, 0.3), iteration(fabric, 1, 0.6, 0.5), iteration(fabric, 2, 2.6, 9.0)]
    # 0.4 to 1.1 is 0.6 of the first; 0.1 of the second; 0.4 of the third; all of the last
    assert [one.result.iteration for one in in_company(own, others, float("inf"))] == [0, 3]
    assert [one.result.iteration for one in in_company(own, others, 2.0)] == [0]
    assert [one.result.iteration for one in in_company(own, others, 0.5)] == [0, 3]
    assert in_company(own, [], float("inf")) == [] and median_s([]) is None


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9))
def test_fairness_lies_between_one_job_and_all(shares: list[float]) -> None:
    assert 1 / len(shares) <= jain(shares) * (1 + 1e-9) and jain(shares) <= 1 + 1e-9
    assert jain([2.0] * len(shares)) == pytest.approx(1)


def test_fairness_by_hand() -> None:
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([1.0, 0.5]) == pytest.approx(2.25 / 2.5)
