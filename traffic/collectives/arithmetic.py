"""Element types, reductions, and inputs whose reduction is exact in any order."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Schedule

REDOPS: Mapping[str, np.ufunc] = MappingProxyType(
    {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
)
EXACT = {"float32": 1 << 24, "float16": 1 << 11}
"""Largest whole number up to which all are exact in each floating type (its significand)."""
BLOCK = 4099
"""Inputs repeat after this many elements: a prime, so that no chunk length is a multiple of the period."""
DOUBLING_RANKS = 6
"""At most this many ranks contribute factors of 2 to a product; all others contribute 1 or -1."""


def exact_input(dtype: str, redop: str, n_ranks: int, rank: int, count: int, seed: int) -> NDArray[Any]:
    """(count,): what `rank` of `n_ranks` contributes; reducing all contributions is exact in any order.

    Integers use their whole range: they wrap around, which is exact. Floating-point sums stay below the
    significand; products are powers of two within float16's range.
    """
    kind = np.dtype(dtype)
    rng = np.random.default_rng([seed, rank])
    length = min(BLOCK, count)
    if redop == "prod" and kind.kind == "i":  # odd numbers: their products, cut to the type, never become 0
        block = rng.integers(-50, 50, length) * 2 + 1
    elif redop == "prod":
        doubling = np.random.default_rng(seed).permutation(n_ranks)[:DOUBLING_RANKS]
        block = rng.choice([-2, -1, 1, 2] if rank in doubling else [-1, 1], length)
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


def count_of(schedule: Schedule) -> int:
    """Elements of the size of a schedule."""
    return schedule.size_bytes // np.dtype(schedule.dtype).itemsize


def exact_inputs(schedule: Schedule, count: int, seed: int) -> list[NDArray[Any]]:
    """(count,) per rank, in rank order: the inputs of a reduction over all ranks of a schedule."""
    n = schedule.n_ranks
    return [exact_input(schedule.dtype, schedule.redop, n, rank, count, seed) for rank in range(n)]


def nonzero_input(schedule: Schedule, rank: int, count: int, seed: int) -> NDArray[Any]:
    """(count,): data of `rank` that is only moved, never reduced; without a 0, so that what is missing
    shows."""
    data = exact_input(schedule.dtype, "max", schedule.n_ranks, rank, count, seed)
    data[data == 0] = 1
    return data


def reduced(redop: str, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The element-wise reduction of all inputs, in their own type (integers wrap)."""
    combine = REDOPS[redop]
    result = inputs[0].copy()
    with np.errstate(over="ignore"):
        for other in inputs[1:]:
            combine(result, other, out=result)
    return result
