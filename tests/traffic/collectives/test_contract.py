"""What holds for every collective: carried out in memory, in random orders, it gives what plain numpy
says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from railweave.framework.analysis.limits import COLLECTIVES
from railweave.framework.experiment.plugin_calls import CheckedData
from railweave.framework.hookspecs import Collective
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.rail_optimised import RailOptimised
from railweave.topologies.ring import Ring
from railweave.topologies.torus import Torus
from railweave.traffic import plugin
from tests.fakes.cut_bounds import cut_bound_s
from tests.traffic.random_execution import COMBINE, execute

REGISTER = Registers([("traffic", plugin)])["collective"]
WIDTH = {"float32": 4, "float16": 2, "int32": 4, "int8": 1}
RAILS = (
    *(
        RailOnly().build({"domains": d, "rails": k})
        for d, k in ((1, 3), (3, 1), (2, 2), (2, 3), (3, 2), (4, 2))
    ),
    RailOptimised().build({"domains": 2, "rails": 2}),
)
RINGS = tuple(Ring().build({"nodes": n}) for n in (2, 3, 5, 6))
ONE_WAY = (Ring().build({"nodes": 4, "directions": 1}),)
TORI = tuple(Torus().build({"shape": shape}) for shape in ("2x2", "2x3", "3x3", "4", "2x2x2", "2x3x2"))
ANY = (*RAILS, *RINGS, *ONE_WAY, *TORI)

CASES: dict[str, tuple[tuple[Fabric, ...], tuple[dict[str, object], ...]]] = {
    "halving-doubling-all-reduce": (ANY, ({},)),
    "tree-all-reduce": (ANY, ({}, {"chunks": 1}, {"chunks": 3})),
    "multi-ring-all-reduce": ((*TORI, *RINGS, *ONE_WAY), ({},)),
    "pipelined-all-reduce": (RAILS, ({}, {"chunks": 1}, {"chunks": 3})),
    "all-gather": (RAILS, ({},)),
    "reduce-scatter": (RAILS, ({},)),
    "ring-reduce-scatter": (ANY, ({},)),
    "all-to-all": (RAILS, ({}, {"pipelined": True})),
    "direct-all-to-all": (ANY, ({},)),
    "broadcast": (
        ANY,
        ({}, {"shape": "tree"}, {"root": 1, "chunks": 3}, {"root": 1, "shape": "tree", "chunks": 1}),
    ),
    "send-recv": (ANY, ({},)),
    "permutation": (ANY, ({}, {"seed": 9}, {"sizes": "exponential"})),
    "moe-all-to-all": (ANY, ({}, {"spread": 0.9, "seed": 9}, {"spread": 0})),
}
DRAWN = ("permutation", "uneven-all-to-all")
"""Kinds whose messages a seed draws: no physical limit is known by the kind alone."""
SHARED = ("all-gather", "reduce-scatter", "all-to-all", "uneven-all-to-all")
"""Kinds whose size is cut into one part a rank, each a multiple of 16 bytes (nccl-tests)."""

Vectors = list[NDArray[Any]]


def folded(parts: Vectors, redop: str) -> NDArray[Any]:
    total = parts[0]
    with np.errstate(over="ignore"):
        for part in parts[1:]:
            total = COMBINE[redop](total, part)
    return total


def truth(kind: str, held: Vectors, redop: str, count: int, root: int) -> Callable[[int], NDArray[Any]]:
    """What each rank is left with, from what each holds at first; by hand, from nccl-tests' definitions."""
    n = len(held)
    one = count // n
    match kind:
        case "all-reduce":
            return lambda rank: folded(held, redop)
        case "all-gather":
            return lambda rank: np.concatenate([held[r][r * one : (r + 1) * one] for r in range(n)])
        case "reduce-scatter":
            unrolled = [np.roll(array, r * one) for r, array in enumerate(held)]
            return lambda rank: folded([u[rank * one : (rank + 1) * one] for u in unrolled], redop)
        case "all-to-all":
            sent = [array[count:].reshape(n, one) if one else array[count:].reshape(n, 0) for array in held]
            return lambda rank: np.concatenate([s[rank] for s in sent])
        case "broadcast":
            return lambda rank: held[root]
        case _:
            return lambda rank: held[rank - 1][count:]


def configured(name: str, options: dict[str, object]) -> Collective:
    thing: Collective = REGISTER[name]
    return thing.configured(resolve(name, thing.parameters, options))


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=80)
@given(data=st.data())
def test_every_order_gives_what_numpy_says(name: str, data: st.DataObject) -> None:
    fabrics, choices = CASES[name]
    fabric, options = data.draw(st.sampled_from(fabrics)), data.draw(st.sampled_from(choices))
    dtype, redop = data.draw(st.sampled_from(sorted(WIDTH))), data.draw(st.sampled_from(sorted(COMBINE)))
    size, seed = data.draw(st.integers(0, 500)), data.draw(st.integers(0, 2**20))
    ranks = data.draw(st.permutations(range(fabric.n_gpus)))
    if fabrics is ANY:
        ranks = ranks[: data.draw(st.integers(2, fabric.n_gpus))]
    algorithm, n, width = configured(name, options), len(ranks), WIDTH[dtype]
    schedule = algorithm.schedule(fabric, ranks, size, dtype, redop).expand()
    shared = algorithm.kind in SHARED
    assert schedule.size_bytes == (size // n // 16 * 16 * n if shared else size // width * width)
    inputs = CheckedData(name, algorithm, schedule).inputs(seed)
    memory = [np.zeros(schedule.buffer_bytes // width, dtype) for _ in inputs]
    for held, given_first in zip(memory, inputs, strict=True):
        held[: len(given_first)] = given_first
    count = schedule.size_bytes // width
    right = truth(algorithm.kind, inputs, redop, count, int(str(options.get("root", 0))))
    after = execute(schedule, memory, seed)
    for rank in range(n):
        expected = algorithm.expected(schedule, inputs, rank)
        if algorithm.kind not in DRAWN:  # see test_patterns.py
            assert np.array_equal(expected, right(rank))
        assert np.array_equal(after[rank][: len(expected)], expected)
        if not shared and algorithm.kind != "all-reduce":
            assert np.count_nonzero(expected) == len(expected)


@pytest.mark.parametrize("name", CASES)
def test_a_transfer_without_bytes_shows_in_the_result(name: str) -> None:
    """A transfer that is dropped shows: results differ without any one of the transfers (those with
    bytes)."""
    fabrics, choices = CASES[name]
    fabric = fabrics[3]
    algorithm = configured(name, choices[0])
    schedule = algorithm.schedule(fabric, range(fabric.n_gpus), 16 * fabric.n_gpus, "int32", "sum").expand()
    inputs = algorithm.inputs(schedule, 1)
    memory = [np.zeros(schedule.buffer_bytes // 4, np.int32) for _ in inputs]
    for held, given_first in zip(memory, inputs, strict=True):
        held[: len(given_first)] = given_first
    whole = [algorithm.expected(schedule, inputs, rank) for rank in range(fabric.n_gpus)]
    for lost in np.flatnonzero(schedule.size)[::5]:
        sizes = schedule.size.copy()
        sizes[lost] = 0
        fields = {f: getattr(schedule, f) for f in schedule.__dataclass_fields__}
        after = execute(type(schedule)(**{**fields, "size": sizes}), memory, 0)
        assert any(not np.array_equal(a[: len(w)], w) for a, w in zip(after, whole, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_equal_arguments_give_equal_schedules(name: str) -> None:
    fabrics, choices = CASES[name]
    fabric, algorithm = fabrics[-1], configured(name, choices[-1])
    ranks = range(fabric.n_gpus)
    first = algorithm.schedule(fabric, ranks, 1000, "float32", "sum").expand()
    assert (
        first == configured(name, choices[-1]).schedule(fabric, list(ranks), 1000, "float32", "sum").expand()
    )


@pytest.mark.parametrize("name", CASES)
def test_nothing_to_move_is_an_empty_schedule(name: str) -> None:
    fabrics, choices = CASES[name]
    fabric, algorithm = fabrics[0], configured(name, choices[0])
    schedule = algorithm.schedule(fabric, range(fabric.n_gpus), 0, "float32", "sum").expand()
    assert (schedule.n_transfers, schedule.size_bytes) == (0, 0)
    assert not algorithm.closed_form_s(fabric, schedule, PacketFormat())
    for rank in range(fabric.n_gpus):
        assert len(algorithm.expected(schedule, algorithm.inputs(schedule, 1), rank)) == 0


@pytest.mark.parametrize("name", CASES)
def test_every_kind_has_a_physical_limit_below_its_closed_form(name: str) -> None:
    """No formula may promise what the cuts of the fabric forbid."""
    fabrics, choices = CASES[name]
    packet = PacketFormat(4096)
    for fabric in fabrics:
        algorithm = configured(name, choices[0])
        if algorithm.kind in DRAWN:
            continue
        assert algorithm.kind in COLLECTIVES
        schedule = algorithm.schedule(fabric, range(fabric.n_gpus), 1 << 20, "int8", "sum").expand()
        formula = algorithm.closed_form_s(fabric, schedule, packet)
        bound = cut_bound_s(fabric, algorithm.kind, schedule.size_bytes, packet)
        assert bound > 0
        assert formula is None or formula >= bound * (1 - 1e-9)


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("all-reduce", 1.875),
        ("all-gather", 0.9375),
        ("reduce-scatter", 0.9375),
        ("all-to-all", 0.9375),
        ("broadcast", 1.0),
        ("send-recv", 1.0),
    ],
)
def test_factors_are_those_of_nccl_tests(kind: str, factor: float) -> None:
    """doc/PERFORMANCE.md for 16 ranks: 2 (n-1)/n; (n-1)/n; 1."""
    same = [thing for name, thing in REGISTER.items() if name in CASES and thing.kind == kind]
    assert same
    assert {thing.busbw_factor(16) for thing in same} == {factor}
