"""What a run should take is within a factor of two of what runs took. A test on the lab may add to
`MEASURED`, (keys, seconds in all, MB), and compare with `within`."""

from __future__ import annotations

import pytest

from railweave.framework.experiment.plan import load_plan
from railweave.framework.lab import foresight
from railweave.framework.lab.foresight import foreseen
from railweave.framework.registry import Registers, load_plugins

MEASURED = [
    ({}, 35.0, 378.0),  # README.md: up 2.4 s, run 32.6 s
    ({"rate_scale": 5.5e-6}, 42.4, 380.0),  # the same on a busier machine, as were the next two
    ({"rate_scale": 4.5e-6}, 51.9, 390.0),
    ({"rate_scale": 4.4e-6}, 53.3, 390.0),
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
