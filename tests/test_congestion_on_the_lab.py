"""Real packets leave as a congestion control says."""

from __future__ import annotations

import pytest

import railweave as rw

pytestmark = [pytest.mark.lab, pytest.mark.untimed, pytest.mark.usefixtures("nothing_left")]


def test_dcqcn_slows_pairs_down_by_cnps() -> None:
    """Eight GPUs on one rail send to each other at once: seven pairs meet in front of each. Marks make the
    receivers send CNPs; every element is right."""
    result = rw.run(
        topology={"name": "rail-only", "domains": 8, "rails": 1}, collective="direct-all-to-all", size="1M",
        control={"name": "dcqcn", "cnp_interval": "5us"}, iterations=1, faults=[], feedback=False,
    )  # fmt: skip
    row = result.rows[0]
    assert row.wrong == 0 and row.compared
    assert (row.marked or 0) > 0 and (row.cnps or 0) > 0
