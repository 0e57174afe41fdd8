"""Costs against the paper's table 2."""

from __future__ import annotations

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.papers.training.cost import compare, tiers

TABLE_2 = [
    (32768, 64, 2560, 1536, 196608, 131072, 37.5),
    (32768, 128, 1280, 256, 196608, 65536, 75.0),
    (32768, 256, 384, 128, 131072, 65536, 60.0),
    (65536, 64, 5120, 3072, 393216, 262144, 37.5),
    (65536, 128, 2560, 1536, 393216, 262144, 37.5),
    (65536, 256, 1280, 256, 393216, 131072, 75.0),
]
"""R-O1: GPUs, radix, switches and transceivers of any-to-any and rail-only networks, and the cut in
percent."""


@pytest.mark.parametrize("row", TABLE_2)
def test_table_2(row: tuple[int, int, int, int, int, int, float]) -> None:
    gpus, radix, switches, rail_switches, transceivers, rail_transceivers, cut = row
    found = compare(gpus, 256, radix)
    assert (found.any_to_any.switches, found.rail_only.switches) == (switches, rail_switches)
    assert (found.any_to_any.transceivers, found.rail_only.transceivers) == (transceivers, rail_transceivers)
    assert 100 * found.cut == pytest.approx(cut)


def test_dollars() -> None:
    """R-O1, first row."""
    found = compare(32768, 256, 64)
    assert (found.any_to_any.dollars, found.rail_only.dollars) == (196_083_712, 122_552_320)


@pytest.mark.parametrize(
    ("gpus", "radix", "expected"),
    [(1, 2, 1), (64, 64, 1), (65, 64, 2), (2048, 64, 2), (2049, 64, 3), (65536, 64, 3)],
)
def test_tiers(gpus: int, radix: int, expected: int) -> None:
    """A fat tree of T tiers of radix k joins 2 (k/2)^T: 64, 2048 and 65536 for k = 64."""
    assert tiers(gpus, radix) == expected


@pytest.mark.parametrize(
    ("gpus", "domain", "radix", "port", "says"),
    [
        (100, 256, 64, 748.0, "fill HB domains"),
        (256, 0, 64, 748.0, "fill HB domains"),
        (256, 256, 63, 748.0, "even number"),
        (256, 256, 0, 748.0, "even number"),
        (256, 8, 2, 748.0, "cannot join"),
        (256, 256, 64, -1.0, "prices"),
        (256, 256, 64, float("nan"), "prices"),
    ],
)
def test_bad_networks(gpus: int, domain: int, radix: int, port: float, says: str) -> None:
    with pytest.raises(ExperimentError, match=says):
        compare(gpus, domain, radix, port_dollars=port)
