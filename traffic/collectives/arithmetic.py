"""What collectives compute with: element types, reductions, and inputs whose results are exact in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError

DTYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {name: np.dtype(name) for name in ("float32", "float16", "int32", "int8")}
)
REDOPS: Mapping[str, np.ufunc] = MappingProxyType(
    {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
)
EXACT = {"float32": 1 << 24, "float16": 1 << 11}
"""Whole numbers up to here are exact in each floating type (its significand)."""
BLOCK = 4099
"""Inputs repeat after this many elements: prime, so that no chunk boundary falls in with the period."""
DOUBLING_RANKS = 6
"""A product has factors of 2 from this many ranks at most; all others give 1 or -1."""


def dtype_of(name: str) -> np.dtype[Any]:
    """The element type; ExperimentError lists those there are."""
    if name not in DTYPES:
        raise ExperimentError(f"dtype {name!r} is not known; it takes one of {', '.join(DTYPES)}.")
    return DTYPES[name]


def redop_of(name: str) -> np.ufunc:
    """The reduction as a numpy ufunc; ExperimentError lists those there are."""
    if name not in REDOPS:
        raise ExperimentError(f"redop {name!r} is not known; it takes one of {', '.join(REDOPS)}.")
    return REDOPS[name]


def exact_input(dtype: str, redop: str, n_ranks: int, rank: int, count: int, seed: int) -> NDArray[Any]:
    """(count,): what `rank` of `n_ranks` contributes; reducing all of them is exact in any order.

    Integers wrap around, which is exact, so they use their whole range. Floating sums stay below the
    significand; products are powers of two that float16 still holds.
    """
    kind = dtype_of(dtype)
    redop_of(redop)
    rng = np.random.default_rng([seed, rank])
    length = min(BLOCK, count)
    if redop == "prod":
        block = _factors(kind, n_ranks, rank, seed, rng, length)
    elif kind.kind == "i":
        limits = np.iinfo(kind)
        block = rng.integers(limits.min, limits.max, length, endpoint=True)
    else:
        top = EXACT[dtype] // (n_ranks if redop == "sum" else 1)
        if top < 1:
            raise ExperimentError(
                f"a sum of {dtype} over {n_ranks} ranks is not exact; {EXACT[dtype]} ranks are. Use float32."
            )
        block = rng.integers(-min(top, 1000), min(top, 1000), length, endpoint=True)
    return np.resize(block.astype(kind), count)


def _factors(
    kind: np.dtype[Any], n_ranks: int, rank: int, seed: int, rng: np.random.Generator, length: int
) -> NDArray[np.int64]:
    if kind.kind == "i":  # odd numbers: their products, cut to the type's width, never fade to 0
        return rng.integers(-50, 50, length) * 2 + 1
    doubling = np.random.default_rng(seed).permutation(n_ranks)[:DOUBLING_RANKS]
    return rng.choice([-2, -1, 1, 2] if rank in doubling else [-1, 1], length)


def reduced(redop: str, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The element-wise reduction of all inputs, in their own type (integers wrap)."""
    combine = redop_of(redop)
    result = inputs[0].copy()
    with np.errstate(over="ignore"):
        for other in inputs[1:]:
            combine(result, other, out=result)
    return result
