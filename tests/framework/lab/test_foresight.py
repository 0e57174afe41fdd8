"""What a run should take is within a factor of two of what runs took. A test on the lab may add to
`MEASURED`, (keys, seconds in all, MB), and compare with `within`."""

from __future__ import annotations

import pytest

from railweave.framework.experiment.plan import load_plan
from railweave.framework.lab import foresight
from railweave.framework.lab.foresight import foreseen
from railweave.framework.registry import Registers, load_plugins

Measured = tuple[dict[str, object], float, float]


def drawn(
    topology: str,
    router: str,
    collective: str,
    kib: int,
    fault: str,
    seconds: float,
    mb: float,
    **options: object,
) -> Measured:
    keys = {f"topology.{key}": value for key, value in options.items()}
    keys |= {"topology": topology, "router": router, "collective": collective, "size": kib << 10}
    keys |= {"iterations": 3, "feedback": False, "fault": f"at=iter:1 degrade {fault}"}
    return keys, seconds, mb


MEASURED: list[Measured] = [
    ({}, 35.0, 378.0),  # README.md: up 2.4 s, run 32.6 s
    ({"rate_scale": 5.5e-6}, 42.4, 380.0),  # the same on a busier machine, as were the next two
    ({"rate_scale": 4.5e-6}, 51.9, 390.0),
    ({"rate_scale": 4.4e-6}, 53.3, 390.0),
    # drawn; three iterations, the last two with a fault; seconds of the whole command
    drawn("rail-only", "spray", "all-to-all", 512, "link:d0->g0.1 to=10%", 12.8, 345.0, domains=3, rails=3),
    drawn("rail-only", "hscore", "all-reduce", 512, "rail:3 to=10%", 23.6, 371.0, domains=4, rails=4),
    drawn("rail-only", "spray", "all-to-all", 1024, "rail:1 to=10%", 43.5, 387.0, domains=3, rails=3),
    drawn(
        "rail-only",
        "hscore",
        "ring-all-reduce",
        2048,
        "link:d1->g1.1 to=10%",
        12.4,
        350.0,
        domains=3,
        rails=2,
    ),
    drawn("rail-only", "hscore", "all-reduce", 256, "link:d0->g0.0 to=50%", 8.6, 310.0, domains=2, rails=3),
    drawn(
        "rail-optimised",
        "ecmp",
        "all-reduce",
        2048,
        "rail:1 to=10%",
        64.8,
        387.0,
        domains=3,
        rails=4,
        spines=2,
    ),
    drawn("rail-only", "spray", "all-gather", 2048, "rail:0 to=40%", 11.2, 366.0, domains=2, rails=4),
    drawn("ring", "shortest", "ring-all-reduce", 256, "link:g3->g4 to=20%", 6.4, 309.0, nodes=6),
    drawn("rail-only", "spray", "all-to-all", 1024, "link:d1->g1.1 to=10%", 15.0, 382.0, domains=3, rails=3),
    drawn("torus", "dor", "multi-ring-all-reduce", 512, "link:g1.0->g1.1 to=50%", 12.8, 327.0, shape="3x3"),
]


def within(foreseen_figure: float, measured: float, factor: float = 2.0) -> bool:
    return measured / factor <= foreseen_figure <= measured * factor


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the machine that was measured."""
    monkeypatch.setattr(foresight.os, "sched_getaffinity", lambda process: {0, 1})


@pytest.fixture(scope="module")
def installed() -> Registers:
    return load_plugins()


@pytest.mark.parametrize(("keys", "seconds", "megabytes"), MEASURED)
def test_it_is_within_a_factor_of_two(
    installed: Registers, keys: dict[str, object], seconds: float, megabytes: float
) -> None:
    ahead = foreseen(load_plan(None, keys, installed))
    assert within(ahead.seconds, seconds) and within(ahead.memory_bytes / 1e6, megabytes)


def test_an_iteration_of_ten_gibibytes_takes_hours(installed: Registers) -> None:
    """4.6 hours, as a user reckoned from its progress, and 160 GiB: 16 ranks of 10 GiB."""
    keys = {"size": "10G", "iterations": 1, "faults": "none"}
    ahead = foreseen(load_plan(None, keys, installed))
    assert within(ahead.seconds, 4.6 * 3600) and within(ahead.memory_bytes, 160 * 2**30, 1.1)


def test_time_grows_with_the_iterations_and_a_program_has_none(installed: Registers) -> None:
    def seconds(**keys: object) -> float:
        return foreseen(load_plan(None, {"faults": "none", **keys}, installed)).seconds

    up_s = seconds(program="true")
    assert seconds(iterations=20) - up_s == pytest.approx(2 * (seconds(iterations=10) - up_s))
