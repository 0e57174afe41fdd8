"""Frozen nouns that hold arrays: the arrays are read-only and compared by value."""

from dataclasses import fields
from functools import cache
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float = NDArray[np.float64]
Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]
Marks = NDArray[np.uint64]
Lists = tuple[Int64, Int64]
"""(n+1,) where each of n lists begins, and what they hold."""

DTYPES: dict[Any, type[np.generic]] = {
    noun: dtype
    for dtype, array in ((np.int32, Int32), (np.int64, Int64), (np.float64, Float), (np.bool_, Bool))
    for noun in (array, array | None)
}
"""Element types by the annotation of a field."""


def readonly(values: ArrayLike, dtype: type[np.generic]) -> NDArray[Any]:
    """A read-only array of `dtype`; copies only if the input is writable or of another type.

    >>> readonly([1, 2], np.int64).flags.writeable
    False
    """
    array = np.asarray(values, dtype=dtype)
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def spread(start: Int64, count: Int64) -> Int64:
    """The whole numbers of the ranges `start[i] : start[i] + count[i]`, one range after the other.

    >>> spread(np.array([5, 0]), np.array([2, 1]))
    array([5, 6, 0])
    """
    ends = np.cumsum(count)
    flat: Int64 = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(start - (ends - count), count)
    return flat


def distinct(numbers: Int64) -> Int64:
    """Each number once, ascending. np.unique hashes since numpy 2.3, and the numbers of rules and pairs are
    multiples that collide: at 256 GPUs a reaction took up to 2.8 times as long.

    >>> distinct(np.array([3, 1, 3]))
    array([1, 3])
    """
    ascending = np.sort(numbers)
    return ascending[np.append(True, np.diff(ascending) != 0)] if len(ascending) else ascending


def mixed(*columns: NDArray[np.int64 | np.uint64]) -> Marks:
    """A random-looking number for each place. Source: the finaliser of SplitMix64 (Steele, Lea and Flood,
    "Fast splittable pseudorandom number generators", 2014).

    >>> mixed(np.array([1, 2]))
    array([10451216379200822465, 10905525725756348110], dtype=uint64)
    """
    mark = np.zeros(columns[0].shape, np.uint64)
    high = np.empty_like(mark)  # in place: pages of new large arrays cost more than what is computed
    for column in columns:
        mark ^= column.view(np.uint64) if column.dtype.itemsize == 8 else column.astype(np.uint64)
        mark += np.uint64(0x9E3779B97F4A7C15)
        for bits, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mark ^= np.right_shift(mark, np.uint64(bits), out=high)
            mark *= np.uint64(factor)
        mark ^= np.right_shift(mark, np.uint64(31), out=high)
    return mark


class ArrayNoun:
    """Base of frozen dataclasses with fields annotated Int32, Int64, Float or Bool (or one of them `| None`).

    Makes those arrays read-only and of their type on creation, and compares instances by value (NaN equals
    NaN). Subclasses are `@dataclass(frozen=True, eq=False)`; a subclass with a `__post_init__` of its own
    calls `ArrayNoun.__post_init__(self)` first (a dataclass with slots has no zero-argument `super`).
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name, dtype in _array_fields(type(self)):  # type: ignore[arg-type]
            values = getattr(self, name)
            if type(values) is np.ndarray and values.dtype.type is dtype:  # most are; many nouns are made
                if values.flags.writeable:
                    values = values.copy()
                    values.setflags(write=False)
                    object.__setattr__(self, name, values)
            elif values is not None:
                object.__setattr__(self, name, readonly(values, dtype))

    def __eq__(self, other: object) -> bool:
        names = (f.name for f in fields(self) if f.compare)  # type: ignore[arg-type]
        return type(self) is type(other) and all(_same(getattr(self, n), getattr(other, n)) for n in names)


@cache
def _array_fields(noun: Any) -> tuple[tuple[str, type[np.generic]], ...]:
    """The array fields of a dataclass and their types; many nouns are made."""
    hints = get_type_hints(noun)
    return tuple((f.name, DTYPES[hints[f.name]]) for f in fields(noun) if hints[f.name] in DTYPES)


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return bool(np.array_equal(x, y, equal_nan=x.dtype.kind == "f"))
    return not (isinstance(x, np.ndarray) or isinstance(y, np.ndarray)) and bool(x == y)
