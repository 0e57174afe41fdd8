"""The simulation's code, as it stands or in machine code."""

from collections.abc import Callable
from dataclasses import make_dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import NamedTuple, cast

from railweave.framework.solver import horizon, plain, sharing, state, stepping
from railweave.framework.solver.held_signals import hold_signals
from railweave.framework.solver.state import FlowState

MODULES = (stepping, horizon, sharing)
VERSION = sha256(
    b"".join(
        Path(str(file)).read_bytes() for file in (__file__, *(m.__file__ for m in (*MODULES, plain, state)))
    )
).hexdigest()[:8]
"""Of the sources as they are imported: what they become while the process runs is not what it compiles."""


class Code(NamedTuple):
    """`stepping.run` and the `share_out` that it calls."""

    run: Callable[[FlowState, float, int], int]
    share_out: Callable[[FlowState], int]


_Items = make_dataclass("_Items", [*FlowState._fields, "arrays"], slots=True)


def _run_plain(s: FlowState, until: float, work: int) -> int:
    """`stepping.run` on views of the arrays whose items are Python's numbers: with those of numpy it takes
    longer. `plain` takes the arrays themselves."""
    return stepping.run(cast(FlowState, _Items(*(array.data for array in s), s)), until, work)


PLAIN = Code(_run_plain, plain.share_out)


@cache
def machine_code() -> Code:
    """Compiled by numba, which keeps the result on disk; `horizon` and `sharing` stand in for `plain`. Raises
    ImportError without numba.

    numba notices changes of a function's own file alone, so a function's name holds VERSION.
    """
    import numba

    hold_signals()
    names = vars(stepping) | vars(horizon) | vars(sharing)
    for module in MODULES:
        for name, function in vars(module).items():
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                clone = FunctionType(function.__code__, names, name)
                clone.__qualname__ = f"{name}_{VERSION}"
                inner = name not in Code._fields  # is called by compiled code alone
                # A call hands over all arrays of the state, and counts a reference to each: for short
                # functions that takes several times as long as what they do. So they are inlined, and
                # references not counted; nothing here makes an array.
                compiler = numba.njit(
                    cache=True, error_model="numpy", no_cpython_wrapper=inner, no_cfunc_wrapper=True,
                    forceinline=inner, _nrt=False,
                )  # fmt: skip
                names[name] = compiler(clone)
    return Code(names["run"], names["share_out"])


def loaded() -> bool:
    """Whether this process has the machine code already, so that it costs nothing more."""
    return machine_code.cache_info().currsize > 0
