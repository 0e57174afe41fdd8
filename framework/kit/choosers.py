"""The checks of choosers of paths."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import PluginError, blaming
from railweave.framework.experiment.control_calls import MOST_BYTES
from railweave.framework.experiment.plugin_calls import no_path
from railweave.framework.hookspecs import PathChooser
from railweave.framework.kit.check_report import Outcome, Violation
from railweave.framework.kit.subject import Subject
from railweave.framework.solver.plugin_code import OF_CHOOSERS, plugin_code

PACKETS = 400
"""Packets of one pair: each of 128 paths gets three."""
PATHS = (1, 2, 3, 16, 128)
"""Numbers of paths of a pair: one, few, a power of two, and the most that a chooser gets."""


class Calls(NamedTuple):
    """The four functions, as they are or compiled."""

    use_paths: Callable[..., Any]
    choose: Callable[..., Any]
    acknowledged: Callable[..., Any]
    lost: Callable[..., Any]


def chooser(subject: Subject) -> tuple[Outcome, ...]:
    """Its record is one, every path that it names is there, equal calls give equal paths, and compiled code
    gives the same bits."""
    made: PathChooser = subject.made()
    plain = Calls(*(getattr(made, name) for name in Calls._fields))
    wrong, different = list[Violation](), list[Violation]()
    with blaming(f"chooser {subject.name}"):
        record = np.asarray(made.start())
        if record.shape != (1,) or record.dtype != made.state or made.state.names is None:
            why = f"start() gives {record.dtype} of shape {record.shape}, not (1,) of its state {made.state}"
            return (Outcome.of("a record", [Violation("start", why)], ""),)
        if record.dtype.itemsize > MOST_BYTES:
            why = f"{record.dtype.itemsize} bytes a pair, {MOST_BYTES} at most"
            return (Outcome.of("a record", [Violation("state", why)], ""),)
        for n_paths in PATHS:
            first, after = _run(made, plain, n_paths)
            if errors := [error for path in first if (error := no_path(subject.name, made, path, n_paths))]:
                wrong.append(Violation(f"{n_paths} paths", str(errors[0])))
            again, after_again = _run(made, plain, n_paths)
            if first != again or after != after_again:
                different.append(Violation(f"{n_paths} paths", "the same calls give other paths"))
    return (
        Outcome.of("a record", [], f"{record.dtype.itemsize} bytes a pair"),
        Outcome.of("paths", wrong, f"of pairs with {', '.join(map(str, PATHS))} paths"),
        Outcome.of("pure", different, "equal calls give equal paths"),
        _compiled(made, plain, subject.name),
    )


def _compiled(made: PathChooser, plain: Calls, name: str) -> Outcome:
    check = "equal bits compiled"
    if find_spec("numba") is None:
        return Outcome(check, "skipped", "numba is not installed: pip install 'railweave[fluid]'")
    different = list[Violation]()
    records = dict.fromkeys(OF_CHOOSERS, made.state)
    with blaming(f"chooser {name}, compiled by numba"):
        try:
            compiled = Calls(**plugin_code(f"chooser {name}", made, OF_CHOOSERS, records))
        except PluginError as error:
            return Outcome.of(check, [Violation.of("", error)], "")
        for n_paths in PATHS:
            if _run(made, plain, n_paths) != _run(made, compiled, n_paths):
                different.append(Violation(f"{n_paths} paths", "compiled code chooses other paths"))
    return Outcome.of(check, different, f"{PACKETS} packets over each number of paths")


def _run(made: PathChooser, calls: Calls, n_paths: int) -> tuple[list[int], bytes]:
    """The paths of some packets, some of which arrive late, marked or not at all; and the record at last."""
    rng = np.random.default_rng(n_paths)
    shares: NDArray[np.float64] = rng.dirichlet(np.ones(n_paths))
    record = made.start()
    s, now, chosen = record[0], 0, list[int]()
    calls.use_paths(s, n_paths)
    for packet in range(PACKETS):
        now += int(rng.integers(1, 2_000_000))
        if packet == PACKETS // 2:
            shares = rng.dirichlet(np.ones(n_paths))
            calls.use_paths(s, n_paths)
        draw = np.uint64(rng.integers(0, 1 << 64, dtype=np.uint64))
        chosen.append(calls.choose(s, now, draw, shares))
        if no_path("", made, chosen[-1], n_paths):
            break
        if packet % 5:
            calls.acknowledged(s, now, chosen[-1], packet % 7 == 0, 1_000_000)
        else:
            calls.lost(s, now, chosen[-1])
    return chosen, record.tobytes()
