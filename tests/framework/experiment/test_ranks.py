"""Selectors of ranks on fabrics with and without rails, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.framework import api
from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.ranks import between_gpus, gpus_of, selectors_of
from railweave.traffic.collectives.rings import RingAllReduce
from tests.fakes.small_fabrics import rail_only

RAILS = rail_only(4, 4)
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("written", "gpus"),
    [
        ("all", range(16)),
        (3, range(3)),
        ("domain:0-1", range(8)),
        ("domain:3", range(12, 16)),
        ("rail:0", (0, 4, 8, 12)),
        ("rail:1,3", (1, 5, 9, 13, 3, 7, 11, 15)),
        ("gpu:0.0,1.2", (0, 6)),
        ("gpu:1.2,0.0", (6, 0)),
        ("gpu:2-3.1", (9, 13)),
        ("gpu:*.0", (0, 4, 8, 12)),
        ("all/4", (0, 4, 8, 12)),
        ("all/4+3", (3, 7, 11, 15)),
        ("domain:0-1/2+1", (1, 3, 5, 7)),
        (["domain:0", "gpu:1.0,0.1"], (0, 1, 2, 3, 4)),
        ("rail:0/2 rail:1/2+1", (0, 8, 5, 13)),
    ],
)
def test_selectors_of_a_rail_fabric(written: object, gpus: tuple[int, ...]) -> None:
    assert gpus_of(RAILS, selectors_of(written)) == tuple(gpus)


def test_axes_of_a_torus_and_switches_of_a_file_select_too() -> None:
    torus = api.topology("torus", shape="2x3")
    assert gpus_of(torus, f"{torus.axis_names[1]}:2") == (2, 5)
    planes = api.topology("file", file=str(EXAMPLES / "dual-plane.yaml"))
    assert gpus_of(planes, "server:1/2") == (4, 6)
    assert gpus_of(planes, "leaf:0.1") == gpus_of(planes, "domain:2-3") == tuple(range(8, 16))
    with pytest.raises(ExperimentError, match=r"no GPU has a cable to spine:0\.0"):
        gpus_of(planes, "spine:0.0")
    unequal = api.topology("file", file=str(EXAMPLES / "unequal-domains.yaml"))
    assert gpus_of(unequal, "rail:3") == (3,)
    with pytest.raises(ExperimentError, match=r"there is no gpu:1.3; these places"):
        gpus_of(unequal, "gpu:1.3")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (0, "too small"),
        ("-1", "too small"),
        (17, "17 ranks do not fit on 16 GPUs"),
        ("domain:4", "no domain:4; this fabric has domain:0-3"),
        ("domain:1-0", "no domain:1-0"),
        ("domain:", "is none of domain:0-3"),
        ("rail:x", "is none of rail:0-3"),
        ("gpu:1", "is none of gpu:0-3.0-3"),
        ("spine:0", "selects no ranks.*domain:, gpu:, rail:"),
        ("domian:0", "Did you mean domain"),
        ("all/0", "selects no ranks"),
        ("all/2/2", "selects no ranks"),
        ("all/4+16", "begins behind the last of its 16"),
        ("", "selects no ranks"),
        ([], "expects all"),
        (True, "expects all"),
        ({"domain": 1}, "expects all"),
        (1.5, "expects all"),
    ],
)
def test_what_selects_nothing_is_refused(written: object, message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        gpus_of(RAILS, selectors_of(written))


def test_a_schedule_between_gpus_sends_what_its_ranks_send() -> None:
    schedule = RingAllReduce().schedule(RAILS, (0, 6, 9), 3 * 64, "float32", "sum")
    placed = between_gpus(schedule, (0, 6, 9), 16)
    assert placed.n_ranks == 16 and placed.src.max() == 9
    (src, dst, sent), (*_, before) = placed.pairs(), schedule.pairs()
    assert list(zip(src.tolist(), dst.tolist(), strict=True)) == [(0, 6), (6, 9), (9, 0)]
    assert sent.tolist() == before.tolist() and min(sent) > 0
    assert between_gpus(schedule, range(3), 3) is schedule
