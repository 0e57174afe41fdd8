"""Jobs as users write them, and the circuits they need."""

from __future__ import annotations

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.papers.fleet.job_mix import JobMix, SliceKind, parse_days, parse_kind
from railweave.framework.papers.fleet.pod import Pod


def test_a_kind_as_it_is_written() -> None:
    kind = parse_kind("1x2x4:15%:36h")
    assert kind == SliceKind((1, 2, 4), 0.15, 1.5)
    assert (str(kind), kind.cubes) == ("1x2x4", 8)
    assert [parse_days(text, "--repair") for text in ("4h", "2d", "90min")] == [4 / 24, 2.0, 1 / 16]


def test_circuits_counted_one_by_one() -> None:
    """Every + face of every cube is the begin of a circuit to the next cube of its ring, at 16 positions; a
    swap sets the circuits that begin or end at the cube anew."""
    for shape in ((1, 1, 1), (1, 1, 2), (2, 2, 2), (1, 2, 4)):
        cubes = [(x, y, z) for x in range(shape[0]) for y in range(shape[1]) for z in range(shape[2])]
        circuits = [
            (cube, tuple((at + (d == axis)) % shape[d] for d, at in enumerate(cube)), axis, position)
            for cube in cubes
            for axis in range(3)
            for position in range(16)
        ]
        kind = SliceKind(shape, 1.0, 1.0)
        assert kind.circuits == len(circuits)
        assert kind.circuits_of_swap == sum((0, 0, 0) in circuit[:2] for circuit in circuits)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2x2:10%:1h", r"'2x2:10%:1h' is not SHAPE:SHARE:DURATION"),
        ("1x1x1:10%", "is not SHAPE:SHARE:DURATION"),
        ("1x1x0:10%:1h", "is not SHAPE:SHARE:DURATION"),
        ("1x1x1:most:1h", "'most' is not a share. Write 0.15 or 15%"),
        ("1x1x1:10%:12", "'12' is not a time with its unit. Write 12h or 3d"),
        ("1x1x1:10%:xd", "'xd' is not a time"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, says: str) -> None:
    with pytest.raises(ExperimentError, match=says):
        parse_kind(text)


def test_impossible_mixes() -> None:
    one = SliceKind((1, 1, 1), 0.5, 1.0)
    with pytest.raises(ExperimentError, match=r"add up to 50%, not to 100%"):
        JobMix((one,), 1, 0.5)
    whole = SliceKind((2, 2, 2), 1.0, 1.0)
    with pytest.raises(ExperimentError, match="0 jobs a day"):
        JobMix((whole,), 0, 0.5)
    with pytest.raises(ExperimentError, match="jobs of 2x2x2 that take no time"):
        JobMix((SliceKind((2, 2, 2), 1.0, 0.0),), 1, 0.5)
    with pytest.raises(
        ExperimentError, match=r"a job of 2x2x2 needs 8 cubes; of 9, less 2 spare, jobs have 7"
    ):
        JobMix((whole,), 1, 0.5).check(Pod(9, 2))
