"""The checks of congestion controls."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from railweave.framework.errors import RailweaveError, blaming
from railweave.framework.hookspecs import CongestionControl
from railweave.framework.kit.check_report import Broken, Outcome, Violation
from railweave.framework.kit.choosers import MOST_BYTES
from railweave.framework.kit.shared_port import ControlFunctions, PortRun, SharedPort, out_of_bounds
from railweave.framework.kit.subject import Subject

READ = {"window": np.float64, "rate": np.float64, "wake": np.int64}
PLAIN = "ifb"
"""Kinds of numbers that a record may hold."""
CALLS = 2000
"""Calls drawn at random, in which bounds and records are checked."""
DAY = 86_400 * 10**12
"""Picoseconds: a lab's clock does not start at 0."""
MILLISECOND = 10**9
"""In picoseconds."""
PAIR_ENDS, PAIR_FROM, PAIR_SECOND = 40 * MILLISECOND, 20 * MILLISECOND, 1 * MILLISECOND
"""Of two flows: when they are looked at, and when the second begins. DCQCN needs 250 steps of 55 us to
recover half of the line."""
EQUAL = 0.1
"""By which shares may differ from equal ones: windows of whole packets, and marks drawn at random."""
INCAST, INCAST_ENDS, INCAST_FROM, BUSY = 8, 20 * MILLISECOND, 10 * MILLISECOND, 0.95
"""Flows to one port; picoseconds at which the run ends, and from which it counts; share of that time for
which the port is busy at least."""


def control(subject: Subject) -> Iterator[Outcome]:
    """Its records are such, it stays within its bounds and knows no accident of arithmetic, equal calls give
    equal records, two flows get equal shares, many keep the port busy, and compiled code gives the same
    bits."""
    made: CongestionControl = subject.made()
    with blaming(f"congestion-control {subject.name}"):
        if why := _no_record(made):
            yield Outcome.of("a record", [Violation("", why)], "")
            return
        size = made.state.itemsize
        yield Outcome.of("a record", [], f"{size} bytes a pair")
        plain, port = ControlFunctions.of(made), SharedPort()
        yield _checked("bounds", lambda: _script(made, plain), f"{CALLS} calls drawn at random")
        first, again = (_bits(made, plain) for _ in range(2))
        different = [Violation("", "the same calls give another record")] * (first != again)
        yield Outcome.of("pure", different, "equal calls give equal records")
        yield _checked("any clock", lambda: _later(made, plain), "the same calls a day later")
        yield _checked("equal shares", lambda: _equal(made, port), "two flows, the second one later")
        yield _checked("busy port", lambda: _busy(made, port), f"{INCAST} flows to one port")
    yield _compiled(made, first, subject.name)


def _checked(check: str, run: Any, detail: str) -> Outcome:
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            run()
    except (Broken, ArithmeticError) as error:
        why = error if isinstance(error, RailweaveError) else Broken(f"{type(error).__name__}: {error}")
        return Outcome.of(check, [Violation.of("", why)], "")
    return Outcome.of(check, [], detail)


def _no_record(made: CongestionControl) -> str:
    """What keeps its records from being such; empty where they are."""
    pairs: list[tuple[str, Any, Any]] = [("sender_record", made.sender_record(), made.state)]
    far = made.receiver_record()
    if (far is None) != (made.receiver is None):
        return f"receiver is {made.receiver}, and receiver_record() gives {far}"
    if far is not None:
        pairs.append(("receiver_record", far, made.receiver))
    for name, record, dtype in pairs:
        record = np.asarray(record)
        if record.shape != (1,) or record.dtype != dtype or dtype.names is None:
            return f"{name}() gives {record.dtype} of shape {record.shape}, not (1,) of its dtype {dtype}"
        if record.dtype.itemsize > MOST_BYTES:
            return f"{name}() has {record.dtype.itemsize} bytes, {MOST_BYTES} at most"
        odd = [field for field in dtype.names if dtype[field].base.kind not in PLAIN]
        if odd:
            return f"{name}(): {odd[0]} is {dtype[odd[0]]}: it takes int64, float64, bool or arrays of them"
    names = made.state.names or ()
    wrong = [name for name, kind in READ.items() if name not in names or made.state[name] != kind]
    return f"state has no {wrong[0]} of {READ[wrong[0]].__name__}" if wrong else ""


def _bits(made: CongestionControl, calls: ControlFunctions) -> bytes:
    """The records after all calls; empty where they break a bound or arithmetic, which another check says."""
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            return _script(made, calls)
    except (Broken, ArithmeticError):
        return b""


def _later(made: CongestionControl, calls: ControlFunctions) -> None:
    """Windows and rates are those of equal calls on a clock that began earlier."""
    early, late = list[tuple[float, float]](), list[tuple[float, float]]()
    _script(made, calls, early)
    _script(made, calls, late, DAY)
    same = np.isclose(early, late, rtol=1e-6).all(axis=1)
    if not same.all():
        call = int(np.argmin(same))
        raise Broken(
            f"call {call}: begun a day later, its window and rate are {late[call]}, not {early[call]}; "
            "start() takes the time from which the control counts"
        )


def _script(
    made: CongestionControl,
    calls: ControlFunctions,
    said: list[tuple[float, float]] | None = None,
    since: int = 0,
) -> bytes:
    """Calls as they may come from `since` on, long silences and other paths included; `said` gets window and
    rate after each. Raises Broken where a bound is."""
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
            answers.append(bool(calls.received(far[0], now, size, bool(rng.integers(0, 2)))))
        if s["wake"] <= now:
            calls.woke(s, now)
        if said is not None:
            said.append((float(s["window"]), float(s["rate"])))
        if why := out_of_bounds(s, now, made.least_rate * line, line):
            raise Broken(f"call {call}: {why}")
    return sender.tobytes() + (b"" if far is None else far.tobytes()) + bytes(answers)


def _equal(made: CongestionControl, port: SharedPort) -> None:
    arrived = PortRun(made, port, [0, PAIR_SECOND]).run(PAIR_ENDS, PAIR_FROM).arrived
    shares = [2 * n / max(sum(arrived), 1) for n in arrived]
    if any(abs(share - 1) > EQUAL for share in shares):
        raise Broken(f"two flows end at {shares[0]:.3f} and {shares[1]:.3f} of their equal shares")


def _busy(made: CongestionControl, port: SharedPort) -> None:
    busy = PortRun(made, port, [0] * INCAST).run(INCAST_ENDS, INCAST_FROM).busy
    if busy < BUSY:
        raise Broken(f"{INCAST} flows keep the port busy for {busy:.3f} of the time, {BUSY} at least")


def _compiled(made: CongestionControl, plain: bytes, name: str) -> Outcome:
    check = "equal bits compiled"
    if find_spec("numba") is None:
        return Outcome(check, "skipped", "numba is not installed: pip install 'railweave[fluid]'")
    import numba

    with blaming(f"congestion-control {name}, compiled by numba"):
        compiled = ControlFunctions(*(numba.njit(function) for function in ControlFunctions.of(made)))
        differs = [Violation("", "compiled code gives another record")] * (_bits(made, compiled) != plain)
    return Outcome.of(check, differs, f"{CALLS} calls")
