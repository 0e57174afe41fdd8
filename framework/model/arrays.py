"""Read-only arrays inside frozen nouns, and their comparison by value."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


def readonly(values: ArrayLike, dtype: type[np.generic]) -> NDArray[Any]:
    """A read-only array of `dtype`; copies only if the input is writable or of another type."""
    array = np.asarray(values, dtype=dtype)
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def equal_by_value(a: object, b: object) -> bool:
    """Whether two dataclass instances of one class agree in every compared field, arrays included (NaN = NaN)."""
    if type(a) is not type(b):
        return False
    return all(
        _same(getattr(a, f.name), getattr(b, f.name))
        for f in fields(a)  # type: ignore[arg-type]
        if f.compare
    )


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        if not (isinstance(x, np.ndarray) and isinstance(y, np.ndarray)):
            return False
        return bool(np.array_equal(x, y, equal_nan=x.dtype.kind == "f"))
    return bool(x == y)
