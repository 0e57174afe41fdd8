"""All-gathers carried out in memory, in random orders, against the shards put side by side; times by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError, FabricError, UnsupportedFabricError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.papers.optical.algorithms import plan_of
from railweave.framework.parameters import resolve
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.ring import Ring
from railweave.traffic.collectives.operations import AllGather, shard_bytes
from railweave.traffic.collectives.optical import (
    NeighborExchange,
    OneStage,
    OpticalAllGather,
    OpTreeAllGather,
    Wrht,
)
from railweave.traffic.collectives.rings import RingAllGather
from tests.fakes.transfers import transfer_of
from tests.traffic.random_execution import execute

OPTICAL: tuple[OpticalAllGather, ...] = (OpTreeAllGather(), OneStage(), NeighborExchange(), Wrht())
EVERY: tuple[AllGather, ...] = (*OPTICAL, RingAllGather())


def ring(nodes: int, wavelengths: int = 1, **more: object) -> Fabric:
    return Ring().build({"nodes": nodes, "wavelengths": wavelengths, **more})  # type: ignore[dict-item]


def planned(algorithm: AllGather, fabric: Fabric, size: int, dtype: str = "int32") -> Schedule:
    return algorithm.schedule(fabric, range(fabric.n_gpus), size, dtype, "sum").expand()


@settings(max_examples=60)
@given(
    which=st.integers(0, len(EVERY) - 1),
    nodes=st.integers(2, 9),
    wavelengths=st.integers(1, 3),
    size=st.integers(0, 900),
    dtype=st.sampled_from(["float32", "float16", "int32", "int8"]),
    barrier=st.sampled_from(["step", "rank"]),
    seed=st.integers(0, 2**20),
)
def test_every_order_gathers_all_shards(
    which: int, nodes: int, wavelengths: int, size: int, dtype: str, barrier: str, seed: int
) -> None:
    algorithm = EVERY[which]
    if isinstance(algorithm, NeighborExchange):
        nodes += nodes % 2
    if isinstance(algorithm, OpticalAllGather):
        algorithm = type(algorithm)(barrier)
    schedule = planned(algorithm, ring(nodes, wavelengths), size, dtype)
    assert schedule.size_bytes == size // nodes // 16 * 16 * nodes
    inputs = algorithm.inputs(schedule, seed)
    held = execute(schedule, inputs, seed)
    for rank in range(nodes):
        assert np.array_equal(held[rank], algorithm.expected(schedule, inputs, rank))
        assert np.count_nonzero(held[rank]) == len(held[rank])


@pytest.mark.parametrize("algorithm", EVERY)
def test_each_item_reaches_each_rank_once(algorithm: AllGather) -> None:
    schedule = planned(algorithm, ring(16, 2), 16 * 4096)
    assert schedule.n_transfers == 240 and set(schedule.size) == {4096}
    pairs = list(zip(schedule.dst.tolist(), schedule.dst_offset.tolist(), strict=True))
    assert len(set(pairs)) == 240
    assert not schedule.reduce.any()
    assert np.array_equal(schedule.src_offset, schedule.dst_offset)


@pytest.mark.parametrize("algorithm", OPTICAL)
def test_a_step_waits_for_all_of_the_step_before(algorithm: OpticalAllGather) -> None:
    fabric = ring(12, 2)
    schedule, plan = planned(algorithm, fabric, 12 * 16), algorithm.plan(fabric)
    for i in range(schedule.n_transfers):
        before = np.flatnonzero(plan.step == plan.step[i] - 1)
        assert transfer_of(schedule, i).after == tuple(before.tolist())
    assert schedule.phase_names == plan.stage_names
    assert np.array_equal(schedule.phase, plan.stage)


def test_ranks_may_wait_for_themselves_alone() -> None:
    fabric = ring(12, 2)
    everyone, own = (planned(OpTreeAllGather(barrier), fabric, 12 * 16) for barrier in ("step", "rank"))
    assert len(own.after) < len(everyone.after)
    assert np.array_equal(own.src, everyone.src) and np.array_equal(own.dst, everyone.dst)
    for i in range(own.n_transfers):
        sender = own.src[i]
        assert all(sender in (own.src[j], own.dst[j]) for j in transfer_of(own, i).after)


def test_options_reach_the_plan() -> None:
    fabric = ring(16, 2)
    algorithm = OpTreeAllGather().configured(
        resolve("optree", OpTreeAllGather.parameters, {"depth": 3, "barrier": "rank"})
    )
    assert algorithm.plan(fabric) == plan_of("optree", 16, 2, 3)
    other = OneStage().configured(resolve("one-stage", OneStage.parameters, {"barrier": "rank"}))
    assert len(planned(other, fabric, 4096).after) == len(planned(OneStage("rank"), fabric, 4096).after)


@pytest.mark.parametrize(
    ("algorithm", "items"),
    [(OpTreeAllGather(), 12), (OneStage(), 16), (NeighborExchange(), 15), (Wrht(), 20)],
)
def test_item_times_of_sixteen_ranks_two_wavelengths(algorithm: OpticalAllGather, items: int) -> None:
    """After Dai et al., arXiv 2211.15119: OpTree 12, one-stage 16, neighbor-exchange 15 (8 steps);
    Wrht 1 + 4 + 15."""
    fabric = ring(16, 2, rate=40e6)
    assert algorithm.plan(fabric).item_times == items
    schedule = planned(algorithm, fabric, 16 << 18)
    item_s = (64 * (4096 + 58) + 16) * 8 / 40e6
    assert algorithm.closed_form_s(fabric, schedule, PacketFormat(4096)) == pytest.approx(items * item_s)


def test_ring_takes_15_item_times() -> None:
    fabric = ring(16, 2, rate=40e6)
    schedule = planned(RingAllGather(), fabric, 16 << 18)
    item_s = (64 * (4096 + 58) + 16) * 8 / 40e6
    assert RingAllGather().closed_form_s(fabric, schedule, PacketFormat(4096)) == pytest.approx(15 * item_s)


def test_latency_counts_for_the_longest_lightpath_of_each_step() -> None:
    """Neighbours: one hop a step. One stage over 4 GPUs on 2 wavelengths: one step of 2 hops at most."""
    packet = PacketFormat(1024)
    for algorithm, hops in ((NeighborExchange(), 2), (OneStage(), 2)):
        still, far = ring(4, 2), ring(4, 2, latency=1e-3)
        times = [algorithm.closed_form_s(f, planned(algorithm, f, 4096), packet) for f in (still, far)]
        assert times[0] is not None and times[1] is not None
        assert times[1] - times[0] == pytest.approx(hops * 1e-3)
    still, far = ring(4), ring(4, latency=1e-3)
    times = [
        RingAllGather().closed_form_s(f, planned(RingAllGather(), f, 4096), packet) for f in (still, far)
    ]
    assert times[0] is not None and times[1] is not None
    assert times[1] - times[0] == pytest.approx(3e-3)


def test_nothing_to_gather_is_an_empty_schedule() -> None:
    for algorithm in EVERY:
        schedule = planned(algorithm, ring(4), 63)
        assert (schedule.n_transfers, schedule.size_bytes) == (0, 0)
        assert algorithm.closed_form_s(ring(4), schedule, PacketFormat()) == 0.0


def test_ring_runs_on_any_fabric_and_over_some_ranks() -> None:
    fabric = RailOnly().build({"domains": 2, "rails": 3})
    algorithm = RingAllGather()
    schedule = algorithm.schedule(fabric, [4, 0, 5], 300, "float32", "sum").expand()
    inputs = algorithm.inputs(schedule, 3)
    held = execute(schedule, inputs, 3)
    assert all(np.array_equal(h, algorithm.expected(schedule, inputs, 0)) for h in held)
    assert algorithm.closed_form_s(fabric, schedule, PacketFormat()) is None
    assert algorithm.schedule(fabric, [1], 300, "float32", "sum").expand().n_transfers == 0


def test_sizes_and_factor_are_those_of_nccl_tests() -> None:
    """doc/PERFORMANCE.md: the size is the whole array, shards of 16 bytes' multiples; busbw (n - 1) / n."""
    assert shard_bytes(1 << 20, 16) == 1 << 16
    assert shard_bytes(1000, 3) == 320
    assert RingAllGather().busbw_factor(16) == 15 / 16
    assert {algorithm.kind for algorithm in EVERY} == {"all-gather"}


@pytest.mark.parametrize(
    ("fabric", "ranks", "error", "says"),
    [
        (ring(4, directions=1), range(4), UnsupportedFabricError, "needs a ring of 2 directions"),
        (ring(4), [0, 1, 2], ExperimentError, "3 of 4 ranks"),
        (ring(4), [1, 0, 2, 3], ExperimentError, "in another order"),
    ],
)
@pytest.mark.parametrize("algorithm", OPTICAL)
def test_what_cannot_be_planned_is_refused(
    algorithm: OpticalAllGather, fabric: Fabric, ranks: Sequence[int], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        algorithm.schedule(fabric, ranks, 4096, "float32", "sum").expand()


def test_odd_rings_have_no_neighbor_exchange() -> None:
    with pytest.raises(FabricError, match="5 nodes"):
        planned(NeighborExchange(), ring(5), 4096)
