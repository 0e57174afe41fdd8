"""The simulation's machine code, and the functions of plugins that it calls."""

from collections.abc import Callable
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from railweave.framework.errors import NotInstalledError
from railweave.framework.hookspecs import CongestionControl, PathChooser
from railweave.framework.solver.held_signals import hold_signals
from railweave.framework.solver.plugin_code import OF_CHOOSERS, OF_CONTROLS, plugin_code
from railweave.plugins.packet import (
    calendar,
    layout,
    lists,
    loop,
    losses,
    pauses,
    queues,
    receiving,
    sending,
    steering,
    trimming,
)

MODULES = (calendar, lists, queues, pauses, steering, sending, losses, trimming, receiving, loop)
VERSION = sha256(
    b"".join(
        Path(str(file)).read_bytes()
        for file in (
            __file__,
            Path(__file__).with_name("addresses.py"),
            layout.__file__,
            *(m.__file__ for m in MODULES),
        )
    )
).hexdigest()[:8]
"""Of the sources as they are imported: what they become while the process runs is not what it compiles."""
INLINED = ("mixed", "draw", "chance", "new_packet", "look", "chooser_of", "becomes_ready", "happens",
           "waiting_at", "mark", "arrives", "arrived", "taken", "heard", "list_sent", "owe",
           "settle", "list_lost", "drop_lost")  # fmt: skip
REPLACED = ("addressed", "fetch", "lowest_bit")
"""By instructions (addresses.py)."""
ARGUMENTS = 8
"""Of any compiled call, 64 bits each; those that a call does not have are 0."""
SET = np.dtype([("window", "f8"), ("rate", "f8"), ("wake", "i8")])
"""What a congestion control sets, as a pair begins with it (layout.PAIR)."""
FAILED = -1
"""Answered in place of a function of a plugin that fails or sets what cannot be."""
NO_RECORD = np.dtype([("none", np.int64)])
"""Of receivers that have no say."""


@cache
def machine_code(extras: bool) -> Callable[..., int]:
    """`loop.run`, compiled by numba, which keeps the result on disk; `extras`: layout.EXTRAS. Raises
    NotInstalledError without numba.

    numba notices changes of a function's own file alone, so a function's name holds VERSION.
    """
    try:
        import numba

        from railweave.plugins.packet import addresses
    except ImportError:
        raise NotInstalledError(
            "the engine packet computes with numba, which is not installed. "
            "Install it: pip install 'railweave[fluid]'."
        ) from None
    hold_signals()
    names: dict[str, Any] = {}
    for module in MODULES:
        names |= vars(module)
    names["EXTRAS"] = extras
    for module in MODULES:
        for name, function in vars(module).items():
            if name in REPLACED:
                names[name] = getattr(addresses, name)
            elif isinstance(function, FunctionType) and function.__module__ == module.__name__:
                clone = FunctionType(function.__code__, names, name)
                clone.__qualname__ = f"{name}_{VERSION}{'_extras' * extras}"
                inner = name != "run"
                names[name] = numba.njit(
                    cache=True, error_model="numpy", no_cpython_wrapper=inner, no_cfunc_wrapper=True,
                    forceinline=name in INLINED, _nrt=False,
                )(clone)  # fmt: skip
    code: Callable[..., int] = names["run"]
    return code


def _record_at(record: Any) -> Any:
    """A compiled function from an address to what lies there."""
    from numba import types
    from numba.extending import intrinsic

    pointer = types.CPointer(record)

    @intrinsic  # type: ignore[untyped-decorator]
    def at(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(pointer))

        return pointer(types.int64), generate

    return at


def called(
    chooser: PathChooser | None, control: CongestionControl | None, names: tuple[str, str] = ("", "")
) -> Any:
    """The functions of a chooser and of a congestion control, which are registered as `names`, behind the one
    address that the loop calls: call(what, address of what is known of the pair, address of the pair, now,
    ...) (sending.py). It gives FAILED where a function does. Without both: one that is never called.

    Raises PluginError for a function that does not compile or allocates memory.
    """
    choosing = controlling = None
    if chooser is not None:
        records = dict.fromkeys(OF_CHOOSERS, chooser.state)
        code = plugin_code(f"chooser {names[0]}", chooser, OF_CHOOSERS, records)
        choosing = Functions(tuple(code.values()), (chooser.state,))
    if control is not None:
        far = control.receiver or NO_RECORD
        records = {**dict.fromkeys(OF_CONTROLS, control.state), "received": far}
        code = plugin_code(f"congestion-control {names[1]}", control, OF_CONTROLS, records)
        controlling = Functions(tuple(code.values()), (control.state, far))
    return _called(choosing, controlling)


class Functions(NamedTuple):
    """Compiled functions of a plugin in the order of their names, and its records."""

    code: tuple[Callable[..., Any], ...]
    records: tuple[np.dtype[Any], ...]


@lru_cache(maxsize=16)
def _called(choosing: Functions | None, controlling: Functions | None) -> Any:
    import numba
    from numba import types

    signature = types.int64(*[types.int64] * ARGUMENTS)
    if choosing is None and controlling is None:
        return numba.cfunc(signature, cache=True)(_nothing)
    paths = numba.njit(_nothing if choosing is None else _chooser_call(choosing))
    rates = numba.njit(_nothing if controlling is None else _control_call(controlling))
    last, failed = sending.PATH_LOST, FAILED

    def call(what: int, address: int, out: int, now: int, a: int, b: int, c: int, d: int) -> Any:
        answer = failed
        try:
            if what <= last:
                answer = paths(what, address, out, now, a, b, c, d)
            else:
                answer = rates(what, address, out, now, a, b, c, d)
        except Exception:  # noqa: BLE001 (numba knows no other; the model names the plugin)
            answer = failed
        return answer

    return numba.cfunc(signature)(call)


def _chooser_call(plugin: Functions) -> Any:
    import numba
    from numba import carray, types

    record, share = _record_at(numba.from_dtype(plugin.records[0])), _record_at(types.float64)
    use_paths, choose, acknowledged, lost = plugin.code
    _use_paths, _choose, _heard = sending.USE_PATHS, sending.CHOOSE, sending.PATH_HEARD

    def call(what: int, address: int, out: int, now: int, a: int, b: int, c: int, d: int) -> Any:
        s = carray(record(address), 1)[0]
        if what == _choose:
            return np.int64(choose(s, now, np.uint64(a), carray(share(b), c)))
        if what == _heard:
            acknowledged(s, now, a, b != 0, c)
        elif what == _use_paths:
            use_paths(s, a)
        else:
            lost(s, now, a)
        return np.int64(0)

    return call


def _control_call(plugin: Functions) -> Any:
    import numba
    from numba import carray

    record, receiver = (_record_at(numba.from_dtype(dtype)) for dtype in plugin.records)
    fields = _record_at(numba.from_dtype(SET))
    _, sent, acknowledged, notified, lost, woke, received = plugin.code
    _sent, _heard, _notified, _gone, _woke, _received = (
        sending.SENT, sending.HEARD, sending.NOTIFIED, sending.GONE, sending.WOKE, sending.RECEIVED,
    )  # fmt: skip
    failed = FAILED

    def call(what: int, address: int, out: int, now: int, a: int, b: int, c: int, d: int) -> Any:
        if what == _received:
            return np.int64(received(carray(receiver(address), 1)[0], now, a, b != 0))
        s = carray(record(address), 1)[0]
        if what == _sent:
            sent(s, now, a)
        elif what == _heard:
            acknowledged(s, now, a, b, c, d)
        elif what == _notified:
            notified(s, now)
        elif what == _gone:
            lost(s, now, a, b)
        else:
            woke(s, now)
        pair = carray(fields(out), 1)[0]
        pair["window"], pair["rate"], pair["wake"] = s["window"], s["rate"], s["wake"]
        if not (s["window"] > 0.0 and s["rate"] > 0.0) or (what == _woke and s["wake"] <= now):
            return np.int64(failed)
        return np.int64(0)

    return call


def _nothing(what: int, address: int, out: int, now: int, a: int, b: int, c: int, d: int) -> int:
    return 0
