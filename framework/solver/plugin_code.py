"""Functions of choosers and congestion controls as machine code: arithmetic on a record, no allocation."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from railweave.framework.errors import PluginError, blaming, defined_at
from railweave.framework.solver.held_signals import hold_signals

OF_CHOOSERS = {"use_paths": "si", "choose": "siua", "acknowledged": "siibi", "lost": "sii"}
OF_CONTROLS = {
    "start": "sifiii",
    "sent": "sii",
    "acknowledged": "siiiii",
    "notified": "si",
    "lost": "siii",
    "woke": "si",
    "received": "siib",
}
"""Functions and the types of their arguments: a record, int64, uint64, float64, bool, an array of float64."""


def plugin_code(
    plugin: str, made: object, calls: Mapping[str, str], records: Mapping[str, np.dtype[Any]]
) -> dict[str, Callable[..., Any]]:
    """The functions `calls` of a plugin such as `chooser reps`, compiled by numba. `records`: the dtype of
    each function's record. Raises PluginError, with file and line, for one that does not compile or that
    allocates memory."""
    code = {}
    for name, arguments in calls.items():
        function = getattr(made, name)
        with blaming(f"{plugin}: {name}(), compiled by numba,"):
            code[name], why = _compiled(function, arguments, records[name])
        if why:
            raise PluginError(f"{plugin}: {name}() at {defined_at(function)} {why}")
    return code


@lru_cache(maxsize=256)
def _compiled(function: Callable[..., Any], arguments: str, record: np.dtype[Any]) -> tuple[Any, str]:
    """The function compiled, and what is wrong with it, "" for nothing."""
    import numba
    from numba import types
    from numba.core.errors import NumbaError

    hold_signals()
    kinds = {
        "s": numba.from_dtype(record), "i": types.int64, "u": types.uint64, "f": types.float64,
        "b": types.boolean, "a": types.Array(types.float64, 1, "C"),
    }  # fmt: skip
    signature = tuple(kinds[kind] for kind in arguments)
    code = numba.njit(function, _nrt=False)
    try:
        code.compile(signature)
    except NumbaError as error:
        return code, _why(numba.njit(function), signature, error)
    return code, ""


def _why(code: Any, signature: tuple[Any, ...], error: Exception) -> str:
    """Compiled with an allocator, a function that allocates is right."""
    from numba.core.errors import NumbaError

    try:
        code.compile(signature)
    except NumbaError:
        lines = [line for line in str(error).splitlines() if line and not line.startswith("Failed in")]
        return f"does not compile: {' '.join(lines[:2])}"
    return "allocates memory, for which there is no time in a packet; keep numbers in the record."
