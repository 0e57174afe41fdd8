"""Traces as workloads: their results by plain arithmetic, their order by closed forms and brute force."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import from_document, load_plan
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.registry import Registers
from railweave.framework.registry import load_plugins as registers
from railweave.topologies.torus import Torus
from railweave.traffic import plugin
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.workloads.chakra import Chakra
from tests.fakes.transfers import transfer_of
from tests.traffic.collectives.link_queues import seconds
from tests.traffic.memory_fabric import Harm, MemoryFabric, count_wrong
from tests.traffic.random_execution import COMBINE, execute
from tests.traffic.workloads import chakra_traces as make
from tests.traffic.workloads.chakra_runs import Ranks, check, planned, rails, ring, sent
from tests.traffic.workloads.chakra_traces import COLL, COMP, RECV, SEND, node

PIPELINE = str(Path(__file__).with_name("fixtures") / "pipeline_8")


def collective(kind: int, size: int, n: int, **given: make.Value) -> Ranks:
    return [[node(1, COLL, comm_type=kind, comm_size=size, **given)] for _ in range(n)]


def test_it_is_a_workload() -> None:
    work = Registers([("traffic", plugin)])["workload"]["chakra"]
    assert (work.kind, work.serves, work.busbw_factor(8)) == ("execution-trace", (), 1.0)
    assert work.closed_form_s(ring(8), planned(Chakra(PIPELINE), ring(8), 4096), PacketFormat(1024)) is None


@pytest.mark.parametrize("n", [2, 3, 4, 8])
@pytest.mark.parametrize("fabric", ["ring", "rails"])
@pytest.mark.parametrize("redop", sorted(COMBINE))
def test_a_data_parallel_step_reduces_every_gradient(
    trace: Callable[..., Chakra], n: int, fabric: str, redop: str
) -> None:
    """Everything in the buffers is gradients, so in the end every rank holds the reduction of all buffers."""
    work = trace(make.data_parallel(n, [4096, 1 << 14, 96]))
    over = ring(n) if fabric == "ring" else rails(2, n // 2) if n % 2 == 0 else rails(1, n)
    schedule = planned(work, over, 1 << 12, redop=redop)
    before = work.inputs(schedule, 5)
    total = before[0].copy()
    for other in before[1:]:
        total = COMBINE[redop](total, other)
    assert len(total) > 0
    for seed in range(3):
        assert all(np.array_equal(held, total) for held in execute(schedule, before, seed))
    assert all(np.array_equal(work.expected(schedule, before, rank), total) for rank in range(n))
    assert max(sent(schedule)) == pytest.approx(1 << 12, rel=0.02)
    assert schedule.size_bytes == 1 << 12


def test_size_is_what_the_busiest_sends(trace: Callable[..., Chakra]) -> None:
    """By the closed forms of a ring: all-reduce 2 (n - 1) / n, all-gather n - 1 of a shard, the others (n -
    1) / n."""
    n, size = 4, 1 << 16
    kinds = (make.ALL_REDUCE, make.ALL_GATHER, make.REDUCE_SCATTER, make.ALL_TO_ALL)
    for kind, factor in zip(kinds, (1.5, 3, 0.75, 0.75), strict=True):
        work = trace(collective(kind, size, n))
        schedule = planned(work, ring(n), round(size * factor))
        assert sent(schedule) == [round(size * factor)] * n
        check(work, schedule)
        half = planned(work, ring(n), round(size * factor) // 2)
        assert sent(half) == [round(size * factor) // 2] * n


def test_collectives_are_what_their_names_say(trace: Callable[..., Chakra]) -> None:
    """By numpy, from the inputs, in the layouts of the collectives: in place, all-to-all received first."""
    n, shard = 3, 8
    fabric = ring(n)

    def over(kind: int, size: int, busiest: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        work = trace(collective(kind, size, n, comm_src=2))
        schedule = planned(work, fabric, busiest)
        before = work.inputs(schedule, 3)
        return before, execute(schedule, before, 4)

    whole = 4 * n * shard
    before, after = over(make.ALL_GATHER, whole // n, whole - whole // n)
    gathered = np.concatenate([before[r][r * shard : (r + 1) * shard] for r in range(n)])
    assert all(np.array_equal(held, gathered) for held in after)
    before, after = over(make.BROADCAST, whole, whole)
    assert all(np.array_equal(held, before[2]) for held in after)
    before, after = over(make.ALL_TO_ALL, whole, whole - whole // n)
    for rank in range(n):
        for other in set(range(n)) - {rank}:
            place = (n + rank) * shard
            received = after[rank][other * shard : (other + 1) * shard]
            assert np.array_equal(received, before[other][place : place + shard])
    before, after = over(make.REDUCE_SCATTER, whole, whole - whole // n)
    for rank in range(n):
        mine = [before[other][(rank - other) % n * shard :][:shard].astype(np.int64) for other in range(n)]
        assert np.array_equal(after[rank][:shard], sum(mine).astype(np.int32))


def test_a_pipeline_on_wires_of_its_own_takes_its_closed_form() -> None:
    """Forward and backward m + p - 2 messages each, one after another, then a ring of 2 copies: 2 halves."""
    p, m, size, gradients = 4, 4, 1 << 20, 1 << 22
    work, packet = Chakra(PIPELINE, two_levels=False), PacketFormat(4096)
    busiest = 2 * m * size + gradients  # a middle stage: forward and backward, and 2 x (1/2) of its gradients
    schedule = planned(work, ring(8), busiest)
    assert max(sent(schedule)) == busiest
    one, half = packet.wire_bytes(size), packet.wire_bytes(gradients // 2)
    expected = (2 * (m + p - 2) * one + 2 * half) / 1e6
    assert seconds(schedule, lambda a, b: 8e6, packet) == pytest.approx(expected)
    assert sent(schedule) == [m * size + gradients, *[busiest] * 2, m * size + gradients] * 2


def test_a_pipeline_moves_what_was_sent() -> None:
    """Messages land where nothing else does, from where nothing lands; so they arrive as they were at the
    start."""
    work = Chakra(PIPELINE)
    schedule = planned(work, rails(2, 4), 1 << 11)
    before = work.inputs(schedule, 2)
    after = execute(schedule, before, 3)
    touched = [np.zeros(len(held), int) for held in before]
    moves = [transfer_of(schedule, i) for i in range(schedule.n_transfers)]
    for t in moves:
        touched[t.dst][t.dst_offset // 4 : (t.dst_offset + t.size) // 4] += 1
    plain = [t for t in moves if abs(t.src - t.dst) == 1]
    assert len(plain) == 2 * 3 * 4 * 2
    for t in plain:
        here, there = (
            slice(t.src_offset // 4, (t.src_offset + t.size) // 4),
            slice(t.dst_offset // 4, (t.dst_offset + t.size) // 4),
        )
        assert not touched[t.src][here].any() and (touched[t.dst][there] == 1).all()
        assert np.array_equal(after[t.dst][there], before[t.src][here])
    check(work, schedule)


def test_groups_that_fill_domains_and_rails_use_both(trace: Callable[..., Chakra]) -> None:
    """Of 2 x 4 GPUs: in two levels no message leaves its domain or its rail; around a ring some do."""
    fabric = rails(2, 4)
    where = fabric.gpu_coordinates
    for kind in (
        make.ALL_REDUCE, make.ALL_GATHER, make.REDUCE_SCATTER, make.ALL_TO_ALL, make.BARRIER,
    ):  # fmt: skip
        away = []
        for two_levels in (True, False):
            work = trace(
                [[*r, node(2, COLL, comm_type=0, comm_size=64)] for r in collective(kind, 4096, 8)],
                two_levels=two_levels,
            )
            schedule = planned(work, fabric, 1 << 13)
            check(work, schedule)
            away.append(int((where[schedule.src] != where[schedule.dst]).all(axis=1).sum()))
        assert away[0] == 0 < away[1]


@pytest.mark.parametrize("fabric", [ring(4), rails(2, 2), Torus().build({"shape": "2x2"})])
def test_a_group_is_named_or_defined_or_everyone(trace: Callable[..., Chakra], fabric: Fabric) -> None:
    """Ranks 1 and 3 by use of the name; 3, 2, 0 in that order by definition; all without a name or with 0."""
    defined = node(9, 1, name="## process_group:init ##", inputs=make.groups({"7": [3, 2, 0], "0": []}))
    ranks = []
    for rank in range(4):
        nodes = (
            [node(1, COLL, comm_type=0, comm_size=96), defined]
            if rank != 1
            else [node(1, COLL, comm_type=0, comm_size=96)]
        )
        if rank in (1, 3):
            nodes.append(node(2, COLL, comm_type=(make.UINT64, 0), comm_size=1000, pg_name="13"))
        if rank != 1:
            nodes.append(node(3, COLL, comm_type=make.BROADCAST, comm_size=1200, pg_name="7", comm_src=2))
        ranks.append(nodes)
    schedule = planned(trace(ranks), fabric, 1 << 12)
    pairs = set(zip(schedule.src.tolist(), schedule.dst.tolist(), strict=True))
    assert {(1, 3), (3, 1), (2, 0), (0, 3)} <= pairs  # the chain of 3, 2, 0 goes from 2 to 0 to 3
    check(trace(ranks), schedule)
    zero = [[node(1, COLL, comm_type=0, comm_size=96, pg_name="0" if r % 2 else "")] for r in range(4)]
    assert set(planned(trace(zero), fabric, 4096).src.tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_over_the_transport_nothing_is_wrong(dtype: str) -> None:
    """Its own executor, in memory and with lossy links; and it counts what is missing before."""
    work = Chakra(PIPELINE)
    schedule = planned(work, rails(2, 4), 5000, dtype)
    buffers = RankBuffers(schedule)
    inputs = work.inputs(schedule, 1)
    buffers.fill(inputs)
    assert count_wrong(work, buffers, inputs) > 0
    MemoryFabric(8, harm=Harm(loss=0.03, late=0.05), seed=1).run(schedule, buffers)
    assert count_wrong(work, buffers, inputs) == 0


def test_nothing_to_send_and_little_to_send() -> None:
    work = Chakra(PIPELINE)
    nothing = planned(work, ring(8), 0)
    assert (nothing.n_transfers, nothing.buffer_bytes) == (0, 0)
    assert [len(held) for held in work.inputs(nothing, 1)] == [0] * 8
    for dtype in ("float32", "float16", "int32", "int8"):
        little = planned(work, ring(8), 4, dtype)
        assert little.size.min() > 0
        check(work, little)


def test_results_need_no_files() -> None:
    """The transport checks results with an object of its own, from the schedule alone."""
    schedule = planned(Chakra(PIPELINE), ring(8), 4096)
    other = Chakra("not there")
    before = other.inputs(schedule, 9)
    assert np.array_equal(other.expected(schedule, before, 3), Chakra(PIPELINE).expected(schedule, before, 3))


def test_ranks_may_stand_in_any_order() -> None:
    """Rank i of the trace is the i-th of the list."""
    order = [5, 2, 7, 0, 1, 6, 3, 4]
    flat = Chakra(PIPELINE, two_levels=False)
    assert flat.schedule(ring(8), order, 4096, "int32", "sum").expand() == planned(flat, ring(8), 4096)


def test_a_name_with_a_colon_brings_the_trace() -> None:
    """`--workload chakra:DIR`, and the document that goes to the lab."""
    asked = {
        "topology": "ring", "topology.nodes": 8, "router": "shortest", "size": 8192, "fault": "none",
        "workload": f"chakra:{PIPELINE}",
    }  # fmt: skip
    known = registers()
    plan = load_plan(None, asked, known)
    assert plan.schedule == planned(Chakra(PIPELINE), ring(8), 8192, "float32")
    assert from_document(plan.document(), known).schedule == plan.schedule
    with pytest.raises(ExperimentError, match=r"none cannot be read|none has no Chakra trace"):
        load_plan(None, {**asked, "workload": "chakra:none"}, known)


def test_other_refusals(trace: Callable[..., Chakra]) -> None:
    with pytest.raises(ExperimentError, match="chakra needs a trace: --workload chakra:DIR"):
        planned(Chakra(), ring(4), 64)
    with pytest.raises(ExperimentError, match="is a trace of 8 ranks and there are 4 GPUs"):
        planned(Chakra(PIPELINE), ring(4), 64)
    with pytest.raises(ExperimentError, match="sends nothing: it has no send"):
        planned(trace([[node(1, COMP)], [node(1, COMP)]]), ring(2), 64)
    with pytest.raises(ExperimentError, match="sends nothing"):
        planned(trace(collective(0, 0, 2)), ring(2), 64)
    many = [
        [node(i, COLL, [i - 1] if i else [], comm_type=0, comm_size=64) for i in range(3000)]
        for _ in range(16)
    ]
    with pytest.raises(ExperimentError, match=r"the trace makes \d+ transfers and dependencies, more than"):
        planned(trace(many), ring(16), 1 << 20)


def test_computations_take_their_time_one_at_a_time(trace: Callable[..., Chakra]) -> None:
    """Rank 0 computes 3 ms and 1 ms, which do not depend on each other, and sends what the second gives; rank
    1 receives it and computes 2 ms. Twice the bytes are twice the time; nodes of 0 us are nobody's work."""
    ranks = [
        [
            node(1, COMP, micros=3000),
            node(2, COMP, micros=1000),
            node(3, COMP, [2]),
            node(4, SEND, [3], comm_src=0, comm_dst=1, comm_tag=0, comm_size=4096),
        ],
        [node(1, RECV, comm_src=0, comm_dst=1, comm_tag=0, comm_size=4096), node(2, COMP, [1], micros=2000)],
    ]
    work = trace(ranks)
    fabric = ring(2)
    schedule = trace(ranks, compute=True).schedule(fabric, range(2), 8192, "int32", "sum")
    computes = np.flatnonzero(~schedule.is_transfer)
    assert schedule.src[computes].tolist() == [0, 0, 1]
    assert schedule.seconds[computes].tolist() == pytest.approx([0.006, 0.002, 0.004])
    (message,) = np.flatnonzero(schedule.is_transfer).tolist()
    waits = [transfer_of(schedule, i).after for i in (*computes.tolist(), message)]
    assert waits == [(), (computes[0],), (message,), (computes[1],)]
    assert schedule.expand() == planned(work, fabric, 8192)


TIMELESS = [
    [
        node(1, COMP, num_ops=10**12, tensor_size=10**6),
        node(2, SEND, [1], comm_src=0, comm_dst=1, comm_tag=0, comm_size=4096),
    ],
    [node(1, RECV, comm_src=0, comm_dst=1, comm_tag=0, comm_size=4096), node(2, COMP, [1], num_ops=1)],
]
"""As STAGE and the generators of ASTRA-sim write computations: operations, and no duration."""


def test_operations_take_their_time_at_a_given_rate(trace: Callable[..., Chakra]) -> None:
    """10^12 operations at 400 x 10^12 a second are 2.5 ms; at half the bytes of the trace 1.25 ms."""
    for options, size, expected in (({"scaled": False}, 8192, 2.5e-3), ({}, 2048, 1.25e-3)):
        work = trace(TIMELESS, compute=True, flops=400e12, **options)
        schedule = work.schedule(ring(2), range(2), size, "int32", "sum")
        assert schedule.seconds.max() == pytest.approx(expected)
    says = r"node 1 \(unnamed\): compute=true, and no computation of the trace has a duration, only num_ops"
    with pytest.raises(ExperimentError, match=says):
        planned(trace(TIMELESS, compute=True), ring(2), 64)
    nothing = [[node(1, COMP), node(2, COLL, comm_type=0, comm_size=64)] for _ in range(2)]
    with pytest.raises(ExperimentError, match="has a duration or num_ops"):
        planned(trace(nothing, compute=True, flops=1e12), ring(2), 64)


def test_a_trace_can_run_at_its_own_size(trace: Callable[..., Chakra]) -> None:
    """An all-reduce of 4 MiB around a ring of 4: every rank sends 2 x 3/4 of it."""
    work = trace(collective(0, 4 << 20, 4), scaled=False)
    for size in (1 << 10, 1 << 30):
        schedule = work.schedule(ring(4), range(4), size, "float32", "sum")
        assert sent(schedule) == [6 << 20] * 4
        assert schedule.size_bytes == 6 << 20
    assert work.notes(ring(4), range(4))[0].endswith(
        "its busiest rank sends 6291456 bytes, which is the size of the run"
    )
    scaled = trace(collective(0, 4 << 20, 4))
    assert sent(scaled.schedule(ring(4), range(4), 1536, "float32", "sum")) == [1536] * 4
    assert scaled.notes(ring(4), range(4))[0].endswith(
        "its busiest rank sends 6291456 bytes, scaled to the size of the run"
    )
