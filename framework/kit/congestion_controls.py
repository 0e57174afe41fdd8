"""The checks of congestion controls."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from railweave.framework.errors import PluginError, RailweaveError, blaming
from railweave.framework.experiment.control_calls import CALLS, ControlFunctions, no_record, scripted
from railweave.framework.hookspecs import CongestionControl
from railweave.framework.kit.check_report import Broken, Outcome, Violation
from railweave.framework.kit.shared_port import PortRun, SharedPort
from railweave.framework.kit.subject import Subject
from railweave.framework.solver.plugin_code import OF_CONTROLS, plugin_code

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
        if why := no_record(made):
            yield Outcome.of("a record", [Violation("", why)], "")
            return
        size = made.state.itemsize
        yield Outcome.of("a record", [], f"{size} bytes a pair")
        plain, port = ControlFunctions.of(made), SharedPort()
        yield _checked("bounds", lambda: scripted(made, plain), f"{CALLS} calls drawn at random")
        first, again = (_bits(made, plain) for _ in range(2))
        different = [Violation("", "the same calls give another record")] * (first != again)
        yield Outcome.of("pure", different, "equal calls give equal records")
        yield _checked("any clock", lambda: _later(made, plain), "the same calls a day later")
        yield _checked("equal shares", lambda: _equal(made, port), "two flows, the second one later")
        yield _checked("busy port", lambda: _busy(made, port), f"{INCAST} flows to one port")
    yield from _compiled(made, first, subject.name)


def _checked(check: str, run: Any, detail: str) -> Outcome:
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            run()
    except (RailweaveError, ArithmeticError) as error:
        why = error if isinstance(error, RailweaveError) else Broken(f"{type(error).__name__}: {error}")
        return Outcome.of(check, [Violation.of("", why)], "")
    return Outcome.of(check, [], detail)


def _bits(made: CongestionControl, calls: ControlFunctions) -> bytes:
    """The records after all calls; empty where they break a bound or arithmetic, which another check says."""
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            return scripted(made, calls)
    except (RailweaveError, ArithmeticError):
        return b""


def _later(made: CongestionControl, calls: ControlFunctions) -> None:
    """Windows and rates are those of equal calls on a clock that began earlier."""
    early, late = list[tuple[float, float]](), list[tuple[float, float]]()
    scripted(made, calls, early)
    scripted(made, calls, late, DAY)
    same = np.isclose(early, late, rtol=1e-6).all(axis=1)
    if not same.all():
        call = int(np.argmin(same))
        raise Broken(
            f"call {call}: begun a day later, its window and rate are {late[call]}, not {early[call]}; "
            "start() takes the time from which the control counts"
        )


def _equal(made: CongestionControl, port: SharedPort) -> None:
    arrived = PortRun(made, port, [0, PAIR_SECOND]).run(PAIR_ENDS, PAIR_FROM).arrived
    shares = [2 * n / max(sum(arrived), 1) for n in arrived]
    if any(abs(share - 1) > EQUAL for share in shares):
        raise Broken(f"two flows end at {shares[0]:.3f} and {shares[1]:.3f} of their equal shares")


def _busy(made: CongestionControl, port: SharedPort) -> None:
    busy = PortRun(made, port, [0] * INCAST).run(INCAST_ENDS, INCAST_FROM).busy
    if busy < BUSY:
        raise Broken(f"{INCAST} flows keep the port busy for {busy:.3f} of the time, {BUSY} at least")


def _compiled(made: CongestionControl, plain: bytes, name: str) -> Iterator[Outcome]:
    if find_spec("numba") is None:
        why = "numba is not installed: pip install 'railweave[fluid]'"
        yield from (Outcome(check, "skipped", why) for check in ("no allocation", "equal bits compiled"))
        return
    records = {**dict.fromkeys(OF_CONTROLS, made.state), "received": made.receiver or made.state}
    try:
        code = plugin_code(f"congestion-control {name}", made, OF_CONTROLS, records)
    except PluginError as error:
        yield Outcome.of("no allocation", [Violation.of("", error)], "")
        return
    yield Outcome.of("no allocation", [], f"{len(code)} functions compiled by numba")
    differs = [Violation("", "compiled code gives another record")]
    differs *= _bits(made, ControlFunctions(**code)) != plain
    yield Outcome.of("equal bits compiled", differs, f"{CALLS} calls")
