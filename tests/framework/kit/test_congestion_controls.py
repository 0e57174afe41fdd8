"""What `plugin check` finds wrong with congestion controls, one mistake each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import railweave as rw
from railweave.framework.errors import ExperimentError, PluginError
from railweave.framework.hookspecs import CongestionControl
from railweave.framework.hookspecs.congestion import NEVER
from railweave.framework.kit.congestion_controls import control
from railweave.framework.kit.subject import Subject
from railweave.framework.solver.plugin_code import OF_CONTROLS, plugin_code

FIELDS = [("window", np.float64), ("rate", np.float64), ("wake", np.int64), ("x", np.float64)]


class Steady(CongestionControl):
    """A window of two round trips, which is right."""

    summary = "steady"
    state = np.dtype(FIELDS)

    def sender_record(self) -> NDArray[np.void]:
        return np.zeros(1, self.state)

    @staticmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        s["window"], s["rate"], s["wake"] = 2e-12 * line_rate * base_rtt + mtu, line_rate, NEVER


class NoRecord(Steady):
    state = np.dtype(FIELDS[1:])


class Large(Steady):
    state = np.dtype([*FIELDS, ("more", np.int64, (512,))])


class Words(Steady):
    state = np.dtype([*FIELDS, ("word", "U4")])


class NoDtype(Steady):
    state: Any = (("window", float), ("rate", float), ("wake", int))


class NoFar(Steady):
    receiver = np.dtype([("x", np.int64)])


class Fast(Steady):
    @staticmethod
    def acknowledged(s: Any, now: int, nbytes: int, marked_bytes: int, delay: int, in_flight: int) -> None:
        s["rate"] *= 1.01


class Nan(Steady):
    @staticmethod
    def lost(s: Any, now: int, nbytes: int, why: int) -> None:
        s["window"] = np.nan


class Divides(Steady):
    @staticmethod
    def notified(s: Any, now: int) -> None:
        s["x"] = 1.0 / s["x"]


class Woken(Steady):
    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        s["wake"] = now


class Selfish(Steady):
    """Who comes first has a window of forty times the other's."""

    @staticmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        s["window"] = (40.0 if now < 1000 else 1.0) * 1e-12 * line_rate * base_rtt + mtu
        s["rate"], s["wake"] = line_rate, NEVER


class Shy(Steady):
    """A tenth of a fair share."""

    @staticmethod
    def start(s: Any, now: int, line_rate: float, base_rtt: int, hops: int, mtu: int) -> None:
        s["window"], s["rate"], s["wake"] = 1e9, line_rate / 80, NEVER


class Remembers(Steady):
    calls: list[int] = []  # noqa: RUF012

    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        Remembers.calls.append(now)
        s["x"] = len(Remembers.calls)


class Early(Steady):
    """Takes the first ten seconds of the clock for its own."""

    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        s["window"] = 1e5 if now < 10**13 else 2e5


WRONG = {
    "a record": ((NoRecord, "no window of float64"), (NoDtype, "not a numpy dtype of named fields"),
                 (Large, "4128 bytes, 4096 at most"),
                 (Words, "word is <U4"), (NoFar, "receiver_record() gives None")),
    "bounds": ((Fast, "bytes/s, outside"), (Nan, "window is nan"), (Divides, "division|divide"),
               (Woken, "it lies ahead")),
    "equal shares": ((Selfish, "of their equal shares"),),
    "busy port": ((Shy, "of the time, 0.95 at least"),),
    "pure": ((Remembers, "another record"),),
    "any clock": ((Early, "begun a day later, its window and rate are (200000.0, "),),
}  # fmt: skip


@pytest.mark.parametrize(
    ("check", "wrong", "why"),
    [(check, wrong, why) for check, rows in WRONG.items() for wrong, why in rows],
)
def test_a_mistake_is_found_by_its_check(
    check: str, wrong: type[Steady], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without numba: compiling is checked with the built-in controls."""
    monkeypatch.setattr("railweave.framework.kit.congestion_controls.find_spec", lambda name: None)
    found = {o.check: o for o in control(Subject("congestion-control", "mine", wrong(), {}))}
    assert found[check].status == "failed", found
    text = found[check].text()
    assert any(part in text for part in why.split("|")), text


def test_a_right_one_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railweave.framework.kit.congestion_controls.find_spec", lambda name: None)
    outcomes = list(control(Subject("congestion-control", "mine", Steady(), {})))
    assert [o.status for o in outcomes] == ["passed"] * 6 + ["skipped"] * 2


class Allocates(Steady):
    @staticmethod
    def acknowledged(s: Any, now: int, nbytes: int, marked_bytes: int, delay: int, in_flight: int) -> None:
        s["x"] = np.zeros(4).sum()


class Lists(Steady):
    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        sizes = [nbytes]
        sizes.append(now)
        s["x"] = sizes[-1]


class Calls(Steady):
    @staticmethod
    def woke(s: Any, now: int) -> None:
        s["x"] = sorted_by_nobody(now)  # type: ignore[name-defined]  # noqa: F821


class Pairs(Steady):
    """Tuples are registers: nothing is allocated."""

    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        both = (nbytes, now)
        s["x"] = both[0]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (Allocates, r"acknowledged\(\) at .*test_congestion_controls.py:\d+ allocates memory"),
        (Lists, r"sent\(\) at .*test_congestion_controls.py:\d+ allocates memory"),
        (Calls, r"woke\(\) at .*test_congestion_controls.py:\d+ does not compile: .*sorted_by_nobody"),
    ],
)
def test_what_cannot_run_in_compiled_code_is_named(wrong: type[Steady], why: str) -> None:
    pytest.importorskip("numba")
    with pytest.raises(PluginError, match=f"^congestion-control mine: {why}"):
        plugin_code("congestion-control mine", wrong(), OF_CONTROLS, dict.fromkeys(OF_CONTROLS, wrong.state))


def test_tuples_are_no_allocation() -> None:
    pytest.importorskip("numba")
    found = {o.check: o for o in control(Subject("congestion-control", "mine", Pairs(), {}))}
    assert (found["no allocation"].status, found["equal bits compiled"].status) == ("passed", "passed")


class LateDivision(Steady):
    """Right for as many calls as are tried before a run."""

    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        s["x"] += 1.0
        if s["x"] == 2500.0:
            s["x"] = 1.0 / (s["x"] - 2500.0)


class LateNan(Steady):
    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        s["x"] += 1.0
        if s["x"] == 2500.0:
            s["window"] = np.nan


class LateWake(Steady):
    @staticmethod
    def sent(s: Any, now: int, nbytes: int) -> None:
        s["x"] += 1.0
        if s["x"] == 2500.0:
            s["wake"] = now


KEYS: dict[str, Any] = {"engine": "packet", "domains": 2, "rails": 2, "faults": None, "iterations": 1}


@pytest.mark.parametrize("wrong", [NoDtype, Fast, Nan, Divides, Woken], ids=lambda wrong: wrong.__name__)
def test_a_run_with_it_is_refused_before_it_starts(wrong: type[Steady]) -> None:
    with pytest.raises(
        ExperimentError, match=r"^control: congestion-control .*(not a numpy|outside|nan|divi|ahead)"
    ):
        rw.load(control=wrong(), size="64K", **KEYS)


@pytest.mark.parametrize("wrong", [LateDivision, LateNan, LateWake], ids=lambda wrong: wrong.__name__)
def test_a_call_that_fails_in_a_run_ends_it(wrong: type[Steady]) -> None:
    """16 MiB are 4,096 packets, of one pair 2,048: the call comes."""
    pytest.importorskip("numba")
    with pytest.raises(PluginError, match=r"congestion-control late-.* a function fails, .* plugin check"):
        rw.run(control=wrong(), size="16M", **KEYS)
