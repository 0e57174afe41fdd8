"""Inputs are exact in any order: compared with whole-number arithmetic in Python, which never rounds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError
from railweave.traffic.collectives.arithmetic import BLOCK, REDOPS, exact_input, reduced

DTYPES = ("float16", "float32", "int32", "int8")
EXACTLY: dict[str, Callable[[list[int]], int]] = {"sum": sum, "max": max, "min": min, "prod": math.prod}


def wrapped(value: int, dtype: str) -> int:
    """A whole number as the type holds it: integers wrap in two's complement, floats hold it as it is."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return value
    bits = kind.itemsize * 8
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


@given(
    dtype=st.sampled_from(DTYPES),
    redop=st.sampled_from(sorted(REDOPS)),
    n=st.integers(1, 70),
    count=st.integers(0, 40),
    seed=st.integers(0, 2**31),
)
def test_reduction_equals_whole_number_arithmetic_in_any_order(
    dtype: str, redop: str, n: int, count: int, seed: int
) -> None:
    inputs = [exact_input(dtype, redop, n, rank, count, seed) for rank in range(n)]
    assert all(x.dtype == np.dtype(dtype) and x.shape == (count,) for x in inputs)
    exact = [wrapped(EXACTLY[redop]([int(x[i]) for x in inputs]), dtype) for i in range(count)]
    shuffled = inputs[:]
    random.Random(seed).shuffle(shuffled)
    assert reduced(redop, inputs).tolist() == exact
    assert reduced(redop, shuffled).tolist() == exact


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("redop", sorted(REDOPS))
def test_every_rank_matters(dtype: str, redop: str) -> None:
    """A rank left out, or counted twice, shows in the result (a maximum counted twice cannot)."""
    inputs = [exact_input(dtype, redop, 16, rank, 5000, 1) for rank in range(16)]
    whole = reduced(redop, inputs)
    for rank in range(16):
        without = reduced(redop, inputs[:rank] + inputs[rank + 1 :])
        assert np.any(without != whole)
        if redop in ("sum", "prod"):
            assert np.any(reduced(redop, [*inputs, inputs[rank]]) != whole)


def test_long_inputs_repeat_with_a_prime_period() -> None:
    long = exact_input("int32", "sum", 4, 0, 3 * BLOCK, 7)
    assert np.array_equal(long[:BLOCK], long[BLOCK : 2 * BLOCK])
    assert all(BLOCK % p for p in range(2, math.isqrt(BLOCK) + 1))


def test_inexact_sums_are_refused() -> None:
    with pytest.raises(ExperimentError, match="2048 ranks"):
        exact_input("float16", "sum", 2049, 0, 8, 0)
