"""Real packets leave as a congestion control says."""

from __future__ import annotations

from typing import Any

import pytest

import railweave as rw

pytestmark = [pytest.mark.lab, pytest.mark.untimed, pytest.mark.usefixtures("nothing_left")]


INCAST: dict[str, Any] = {
    "topology": {"name": "rail-only", "domains": 9, "rails": 1}, "collective": "incast",
    "faults": [], "feedback": False, "rate_scale": 2e-5,
}  # fmt: skip
"""Eight GPUs send to one at once: their queue grows however slow the machine is."""


def test_dcqcn_slows_pairs_down_by_cnps() -> None:
    """Marks make the receiver send CNPs; every element is right."""
    result = rw.run(control={"name": "dcqcn", "cnp_interval": "5us"}, size="128K", iterations=1, **INCAST)
    row = result.rows[0]
    assert row.wrong == 0 and row.compared
    assert (row.marked or 0) > 0 and (row.cnps or 0) > 0


def test_nscc_keeps_the_queue_of_an_incast_short() -> None:
    """The windows of the transport let queues grow, and marks and delay keep NSCC's near the 80 KiB from
    which all is marked; every element is right."""
    window, nscc = (
        rw.run(control=control, size="512K", iterations=2, **INCAST) for control in ("window", "nscc")
    )
    assert all(row.wrong == 0 and row.compared for result in (window, nscc) for row in result.rows)
    queues = [result.key_figures.queue_max_bytes or 0.0 for result in (window, nscc)]
    assert queues[1] < 0.6 * queues[0]
    assert (nscc.rows[-1].marked or 0) > 0
