"""The messages of a training iteration: their numbers by arithmetic, their bytes by the traffic matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric, Schedule
from railweave.framework.papers.training.clusters import GPUS, Cluster
from railweave.framework.papers.training.iteration import Calibration, iteration_time
from railweave.framework.papers.training.placement import place, scaled_degrees
from railweave.framework.papers.training.strategies import Strategy
from railweave.framework.papers.training.traffic_matrix import traffic
from railweave.framework.parameters import resolve
from railweave.framework.registry import load_plugins
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.rail_optimised import RailOptimised
from railweave.topologies.ring import Ring
from railweave.traffic.workloads.ptdp import Ptdp
from railweave.traffic.workloads.replay import replay
from railweave.traffic.workloads.training import Layout, emulated_microbatches, layout
from tests.traffic.random_execution import execute

SIZE = 1 << 18


def ptdp(**options: object) -> Ptdp:
    return Ptdp().configured(resolve("ptdp", Ptdp.parameters, options))


def rails(domains: int, count: int) -> Fabric:
    return RailOnly().build({"domains": domains, "rails": count})


def planned(
    work: Ptdp, fabric: Fabric, size: int = SIZE, dtype: str = "int32", redop: str = "sum"
) -> Schedule:
    return work.schedule(fabric, range(fabric.n_gpus), size, dtype, redop).expand()


def sizes_of(work: Ptdp, fabric: Fabric, size: int, most: int = 4) -> Layout:
    job = work.job
    placed = place(fabric, *scaled_degrees(fabric, job.t, job.p, job.d), job.v)
    return layout(job, placed, size // 4, emulated_microbatches(job.m, placed.p, job.v, most))


def check_arithmetic(
    work: Ptdp, fabric: Fabric, before: list[NDArray[Any]], after: list[NDArray[Any]]
) -> None:
    """By what the operations mean: gathered arrays, reduced shards, passed-on activations, summed
    gradients."""
    job = work.job
    placed = place(fabric, *scaled_degrees(fabric, job.t, job.p, job.d), job.v)
    sizes = sizes_of(work, fabric, SIZE)
    t, p, v = placed.t, placed.p, job.v
    for data in range(placed.d):
        for stage in range(p):
            group = placed.gpu[data, stage]
            for forward in (True, False):
                for m in range(sizes.m):
                    for chunk in range(v):
                        first = sizes.gathered_at(forward, m, chunk)
                        parts = [
                            slice(first + i * sizes.chunk, first + (i + 1) * sizes.chunk) for i in range(t)
                        ]
                        whole = np.concatenate([before[group[i]][parts[i]] for i in range(t)])
                        first = sizes.reduced_at(forward, m, chunk)
                        end = 0 if forward else p * v - 1
                        at = sizes.edge_at(forward, m, chunk)
                        source = placed.gpu[data, end % p]
                        origin = sizes.edge_at(forward, m, end // p)
                        for i in range(t):
                            mine = slice(first + i * sizes.chunk, first + (i + 1) * sizes.chunk)
                            if t > 1:
                                assert np.array_equal(after[group[i]][parts[0].start : parts[-1].stop], whole)
                                assert np.array_equal(
                                    after[group[i]][mine],
                                    sum(before[g][mine].astype(np.int64) for g in group).astype(np.int32),
                                )
                            if p > 1:
                                assert np.array_equal(
                                    after[group[i]][at : at + sizes.edge],
                                    before[source[i]][origin : origin + sizes.edge],
                                )
    gradients = slice(sizes.first_gradient, sizes.count)
    for stage in range(p):
        for tensor in range(t):
            group = placed.gpu[:, stage, tensor]
            total = sum(before[g][gradients].astype(np.int64) for g in group).astype(np.int32)
            assert all(np.array_equal(after[g][gradients], total) for g in group)


CASES = [
    ((4, 4), {}),
    ((4, 4), {"interleave": 2}),
    ((2, 4), {"tp": 2, "pp": 2, "dp": 2, "interleave": 2}),
    ((1, 8), {"tp": 2, "pp": 2, "dp": 2}),
    ((4, 2), {"tp": 1, "pp": 4, "dp": 2, "interleave": 4}),
    ((3, 2), {"tp": 2, "pp": 1, "dp": 3, "batch": 513}),
    ((1, 4), {"tp": 4, "pp": 1, "dp": 1}),
    ((4, 1), {"tp": 1, "pp": 4, "dp": 1}),
]


@pytest.mark.parametrize(("shape", "options"), CASES)
def test_one_after_the_other_gives_the_arithmetic(shape: tuple[int, int], options: dict[str, object]) -> None:
    fabric, work = rails(*shape), ptdp(**options)
    schedule = planned(work, fabric)
    before = work.inputs(schedule, 7)
    check_arithmetic(work, fabric, before, replay(schedule, before))


@pytest.mark.parametrize(("shape", "options"), CASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_gives_the_same(shape: tuple[int, int], options: dict[str, object], seed: int) -> None:
    """Executed in memory at random, as slowly and unevenly as the dependencies allow."""
    fabric, work = rails(*shape), ptdp(**options)
    schedule = planned(work, fabric)
    before = work.inputs(schedule, seed)
    after = execute(schedule, before, seed)
    check_arithmetic(work, fabric, before, after)
    for rank, held in enumerate(after):
        assert np.array_equal(held, work.expected(schedule, before, rank))


@pytest.mark.parametrize(("shape", "options"), CASES)
def test_bytes_are_the_matrix_scaled(shape: tuple[int, int], options: dict[str, object]) -> None:
    """Pair by pair; the busiest GPU sends what was asked for, and pairs without traffic have no message."""
    fabric, work = rails(*shape), ptdp(**options)
    size = 1 << 28
    schedule = planned(work, fabric, size)
    sent = np.zeros((fabric.n_gpus, fabric.n_gpus))
    np.add.at(sent, (schedule.src, schedule.dst), schedule.size)
    job = work.job
    found = traffic(job, place(fabric, *scaled_degrees(fabric, job.t, job.p, job.d), job.v))
    matrix = found.matrix()
    assert np.array_equal(sent > 0, matrix > 0)
    assert sent == pytest.approx(matrix * (size / found.sent.max()), rel=0.01)
    assert sent.sum(axis=1).max() == pytest.approx(size, rel=0.001)
    assert schedule.size_bytes == size


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8"])
@pytest.mark.parametrize("redop", ["sum", "prod", "max", "min"])
def test_types_and_reductions_are_exact(dtype: str, redop: str) -> None:
    fabric, work = rails(2, 4), ptdp(tp=4, pp=2, dp=1)
    schedule = planned(work, fabric, 1 << 14, dtype, redop)
    before = work.inputs(schedule, 3)
    after = execute(schedule, before, 11)
    assert all(np.array_equal(held, work.expected(schedule, before, r)) for r, held in enumerate(after))


@settings(max_examples=25)
@given(
    st.sampled_from([(2, 2), (4, 2), (2, 4), (4, 4)]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 5),
    st.integers(0, 1 << 14),
)
def test_every_job_that_fits_ends(
    shape: tuple[int, int], tp: int, pp: int, dp: int, v: int, most: int, size: int
) -> None:
    fabric = rails(*shape)
    work = ptdp(tp=tp, pp=pp, dp=dp, interleave=v, microbatches=most, batch=16)
    try:
        schedule = planned(work, fabric, size // 4 * 4)
    except ExperimentError:
        assume(False)
    before = work.inputs(schedule, 1)
    after = execute(schedule, before, 1) if schedule.n_transfers < 700 else replay(schedule, before)
    assert all(np.array_equal(held, work.expected(schedule, before, r)) for r, held in enumerate(after))


def test_microbatches_that_are_emulated_carry_the_whole_job() -> None:
    """Half as many, each twice as large."""
    fabric = rails(4, 4)
    two, four = (planned(ptdp(microbatches=m), fabric, 1 << 24) for m in (2, 4))
    assert two.n_transfers < four.n_transfers
    assert two.size.sum() == pytest.approx(four.size.sum(), rel=0.01)
    assert emulated_microbatches(64, 4, 1, 6) == 6
    assert emulated_microbatches(64, 4, 2, 6) == 4
    assert emulated_microbatches(64, 4, 2, 3) == 4
    assert emulated_microbatches(2, 4, 1, 6) == 2


def test_nothing_to_send() -> None:
    schedule = planned(ptdp(), rails(4, 4), 0)
    assert schedule.n_transfers == 0 and schedule.buffer_bytes == 0
    assert [len(array) for array in ptdp().inputs(schedule, 1)] == [0] * 16


def test_it_is_a_workload_on_rails() -> None:
    work = load_plugins()["workload"]["ptdp"]
    assert work.requires == ("domains", "lattice")
    fabric = RailOptimised().build({"domains": 4, "rails": 4})
    assert planned(work, fabric) == planned(ptdp(), rails(4, 4))
    assert work.busbw_factor(16) == 1


def test_ranks_may_stand_in_any_order() -> None:
    """The numbers of the ranks change, not the GPUs that talk."""
    fabric, order = rails(4, 4), np.random.default_rng(4).permutation(16)
    shuffled = ptdp().schedule(fabric, order.tolist(), SIZE, "int32", "sum").expand()
    plain = planned(ptdp(), fabric)
    assert np.array_equal(order[shuffled.src], plain.src) and np.array_equal(order[shuffled.dst], plain.dst)


def test_a_part_of_a_fabric_is_as_good_as_a_fabric_of_that_size() -> None:
    """Rails 1 and 3 of domains 1 and 2, in any order: the ranks send what those of 2 x 2 GPUs do."""
    gpus = (5, 7, 9, 11)
    part = ptdp().schedule(rails(4, 4), gpus, SIZE, "int32", "sum").expand()
    assert part == planned(ptdp(), rails(2, 2))
    turned = ptdp().schedule(rails(4, 4), gpus[::-1], SIZE, "int32", "sum").expand()
    assert np.array_equal(3 - turned.src, part.src) and np.array_equal(3 - turned.dst, part.dst)


def test_refusals() -> None:
    with pytest.raises(UnsupportedFabricError):
        planned(ptdp(), Ring().build({"nodes": 4}))
    with pytest.raises(ExperimentError, match="domain 1 lacks rail 2"):
        ptdp().schedule(rails(4, 4), range(6), SIZE, "int32", "sum").expand()
    with pytest.raises(ExperimentError, match="constraint 13"):
        planned(ptdp(batch=5), rails(4, 4))
    with pytest.raises(ExperimentError, match="constraint 18"):
        planned(ptdp(pp=7), rails(4, 4))
    with pytest.raises(ExperimentError, match="Raise dp"):
        planned(ptdp(tp=2, pp=2, dp=2), rails(4, 4))
    with pytest.raises(ExperimentError, match="Did you mean gpt-175b"):
        ptdp(model="gpt-175")


@pytest.mark.parametrize(("interleave", "microbatches", "batch"), [(1, 0, 8), (2, 0, 8), (1, 4, 16)])
def test_computation_takes_the_time_of_the_model(interleave: int, microbatches: int, batch: int) -> None:
    """Without a network: (m + (p - 1) / v) microbatches of equation 10, as equations 3 and 4 say, scaled as
    the bytes are; the emulated ones are longer by what each represents."""
    fabric = rails(4, 4)
    options = {"tp": 4, "pp": 4, "dp": 1, "interleave": interleave, "batch": batch}
    work = ptdp(**options, microbatches=microbatches, compute="h100")
    schedule = work.schedule(fabric, range(16), SIZE, "int32", "sum")
    end = np.zeros(schedule.n_entries)
    for i, seconds in enumerate(schedule.seconds.tolist()):
        waits = schedule.after[schedule.after_start[i] : schedule.after_start[i + 1]]
        end[i] = seconds + end[waits].max(initial=0.0)
    job = work.job
    whole = traffic(job, place(fabric, 4, 4, 1, interleave)).sent.max()
    cluster, strategy = Cluster(16, 4, GPUS["h100"]), Strategy(4, 4, 1, 1, interleave, 4, 1, 1)
    terms = iteration_time(job.model, cluster, batch, strategy, Calibration())
    represented = job.m / (microbatches or job.m)
    computed_s = terms.bubble_compute_s * represented + terms.steady_compute_s
    assert end.max() == pytest.approx(computed_s * SIZE / whole, rel=1e-9)
    idle = ptdp(**options, microbatches=microbatches).schedule(fabric, range(16), SIZE, "int32", "sum")
    assert not idle.seconds.any() and idle.expand() == schedule.expand()
