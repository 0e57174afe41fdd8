"""Calls congestion controls as senders do: before a run, and in `plugin check`."""

from collections.abc import Callable
from math import isfinite, isnan
from typing import Any, NamedTuple

import numpy as np

from railweave.framework.errors import PluginError, blaming, defined_at
from railweave.framework.hookspecs import CongestionControl

READ = {"window": np.float64, "rate": np.float64, "wake": np.int64}
PLAIN = "ifb"
"""Kinds of numbers that a record may hold."""
MOST_BYTES = 4096
"""Bytes of the record of a pair at most: a simulator has one for each pair."""
CALLS = 2000
"""Calls drawn at random, in which bounds and records are checked."""
ROUNDING = 1e-9
"""Relative error of a rate that rounding explains."""


class ControlFunctions(NamedTuple):
    """The functions of a control, as they are or compiled."""

    start: Callable[..., Any]
    sent: Callable[..., Any]
    acknowledged: Callable[..., Any]
    notified: Callable[..., Any]
    lost: Callable[..., Any]
    woke: Callable[..., Any]
    received: Callable[..., Any]

    @classmethod
    def of(cls, control: CongestionControl) -> "ControlFunctions":
        return cls(*(getattr(control, name) for name in cls._fields))


def no_record(made: CongestionControl) -> str:
    """What keeps its records from being such; empty where they are."""
    for part, dtype in (("state", made.state), ("receiver", made.receiver or made.state)):
        if not isinstance(dtype, np.dtype) or dtype.names is None:
            return f"{part} is {dtype}, not a numpy dtype of named fields"
    pairs: list[tuple[str, Any, Any]] = [("sender_record", made.sender_record(), made.state)]
    far = made.receiver_record()
    if (far is None) != (made.receiver is None):
        return f"receiver is {made.receiver}, and receiver_record() gives {far}"
    if far is not None:
        pairs.append(("receiver_record", far, made.receiver))
    for name, record, dtype in pairs:
        record = np.asarray(record)
        if record.shape != (1,) or record.dtype != dtype:
            return f"{name}() gives {record.dtype} of shape {record.shape}, not (1,) of its dtype {dtype}"
        if record.dtype.itemsize > MOST_BYTES:
            return f"{name}() has {record.dtype.itemsize} bytes, {MOST_BYTES} at most"
        odd = [field for field in dtype.names if dtype[field].base.kind not in PLAIN]
        if odd:
            return f"{name}(): {odd[0]} is {dtype[odd[0]]}; it takes int64, float64, bool or arrays of them"
    names = made.state.names or ()
    wrong = [name for name, kind in READ.items() if name not in names or made.state[name] != kind]
    return f"state has no {wrong[0]} of {READ[wrong[0]].__name__}" if wrong else ""


def scripted(
    made: CongestionControl,
    calls: ControlFunctions,
    settings: list[tuple[float, float]] | None = None,
    since: int = 0,
) -> bytes:
    """Calls as they may come from `since` on, long silences and other paths included; `settings` gets window
    and rate after each. Raises PluginError where they leave their bounds, and what the control raises."""
    rng = np.random.default_rng(1)
    sender, far = made.sender_record(), made.receiver_record()
    s: Any = sender[0]
    line, mtu, now, in_flight, answers = 12.5e9, 4160, since, 0, list[bool]()
    calls.start(s, now, line, 8_000_000, 2, mtu)
    for call in range(CALLS):
        now += int(10 ** rng.uniform(3, 11 if call % 50 == 0 else 7))
        size, delay = int(rng.integers(64, mtu + 1)), int(10 ** rng.uniform(3, 9))
        match int(rng.integers(0, 10)):
            case 0:
                calls.notified(s, now)
            case 1:
                calls.lost(s, now, size, int(rng.integers(0, 3)))
            case 2 if call % 5 == 0:
                line = float(rng.choice([6.25e9, 12.5e9, 50e9]))
                calls.start(s, now, line, int(rng.integers(1, 10_000_000)), int(rng.integers(1, 8)), mtu)
            case 3 | 4 | 5:
                in_flight += size
                calls.sent(s, now, size)
            case _:
                in_flight = max(in_flight - size, 0)
                calls.acknowledged(s, now, size, int(size * rng.integers(0, 2)), delay, in_flight)
        if far is not None:
            answers.append(calls.received(far[0], now, size, bool(rng.integers(0, 2))))
            if not isinstance(answers[-1], bool | np.bool_):
                raise PluginError(f"received() gives {answers[-1]!r}, not a bool")
        if s["wake"] <= now:
            calls.woke(s, now)
        if settings is not None:
            settings.append((float(s["window"]), float(s["rate"])))
        if why := out_of_bounds(s, now, made.least_rate * line, line):
            raise PluginError(f"after {call + 1} calls drawn at random {why}")
    return sender.tobytes() + (b"" if far is None else far.tobytes()) + bytes(answers)


def out_of_bounds(s: Any, now: int, least: float, line: float) -> str:
    """What is wrong with the three fields that are read; empty where they are right."""
    window, rate, wake = float(s["window"]), float(s["rate"]), int(s["wake"])
    if isnan(window) or window <= 0:
        return f"window is {window}: it takes bytes above 0, or inf"
    if not isfinite(rate) or not least * (1 - ROUNDING) <= rate <= line * (1 + ROUNDING):
        return f"rate is {rate:.6g} bytes/s, outside {least:.6g} to {line:.6g}"
    return f"wake is {wake} after woke() at {now}: it lies ahead, or is NEVER" if wake <= now else ""


def check_control(name: str, control: CongestionControl) -> None:
    """Call a control as it may be called in a run. Raises PluginError, with file and line, for a record that
    is none, for what it raises, a division by zero, an overflow, and what leaves its bounds."""
    with blaming(f"congestion-control {name}"):
        if not (why := no_record(control)):
            try:
                with np.errstate(divide="raise", over="raise", invalid="raise"):
                    scripted(control, ControlFunctions.of(control))
            except PluginError as error:
                why = str(error)
    if why:
        raise PluginError(f"congestion-control {name} at {defined_at(control)}: {why}.")
