"""Trees against the drawings in NCCL's source and the theorem of two trees; halving and doubling against its
counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from railweave.framework.model import PacketFormat, Schedule
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.ring import Ring
from railweave.traffic.collectives.halving_doubling import HalvingDoublingAllReduce
from railweave.traffic.collectives.rings import SendRecv
from railweave.traffic.collectives.trees import (
    Broadcast,
    TreeAllReduce,
    binomial_parent,
    children_of,
    depths_of,
    double_binary_tree,
)
from tests.traffic.collectives.link_queues import seconds

PACKET = PacketFormat(4096)
HALVING = HalvingDoublingAllReduce()


def children(parents: NDArray[np.int64]) -> list[list[int]]:
    return [[child for child in row if child >= 0] for row in children_of(parents).tolist()]


def test_drawing_of_fourteen_ranks() -> None:
    """NCCL src/graph/trees.cc, above ncclGetBtree: 0 - 8; 8: 4, 12; 4: 2, 6; 12: 10, 13."""
    first, _ = double_binary_tree(14)
    assert children(first) == [
        [8],
        [],
        [1, 3],
        [],
        [2, 6],
        [],
        [5, 7],
        [],
        [4, 12],
        [],
        [9, 11],
        [],
        [10, 13],
        [],
    ]


def test_drawings_of_the_second_tree() -> None:
    """The same file, above ncclGetDtree: mirrored for 12 ranks (11 - 3; 3: 1, 7; 7: 5, 9; leaves even), moved
    on by one for 13 (1 - 9; 9: 5, 0; 5: 3, 7; 0: 11)."""
    _, mirrored = double_binary_tree(12)
    assert children(mirrored) == [[], [0, 2], [], [1, 7], [], [4, 6], [], [5, 9], [], [8, 10], [], [3]]
    _, moved = double_binary_tree(13)
    assert children(moved) == [[11], [9], [], [2, 4], [], [3, 7], [], [6, 8], [], [0, 5], [], [10, 12], []]


@given(n=st.integers(2, 300))
def test_two_trees_span_all_ranks_and_share_the_work(n: int) -> None:
    """Sanders, Speck and Traff: nobody has more than two children in a tree; who has some in one has none in
    the other, but for one rank if n is odd; depth is about log2 n."""
    trees = double_binary_tree(n)
    busy = []
    for parents in trees:
        assert np.count_nonzero(parents == -1) == 1
        assert max(map(len, children(parents))) <= 2
        assert max(depths_of(parents)) <= n.bit_length()
        busy.append({rank for rank, below in enumerate(children(parents)) if below})
    assert len(busy[0] & busy[1]) <= n % 2


@given(n=st.integers(1, 300))
def test_binomial_tree(n: int) -> None:
    parents = np.array([binomial_parent(rank) for rank in range(n)])
    assert depths_of(parents).tolist() == [rank.bit_count() for rank in range(n)]


@pytest.mark.parametrize("n", [2, 3, 8, 13])
def test_tree_moves_the_buffer_up_and_down_once_a_rank(n: int) -> None:
    """Each tree: n - 1 transfers up and n - 1 down of half the buffer; so 2 (n - 1) buffers in all, the least
    there is (nccl-tests, doc/PERFORMANCE.md)."""
    schedule = TreeAllReduce(4).schedule(Ring().build({"nodes": n}), range(n), n * 64, "int8", "sum").expand()
    assert int(schedule.size.sum()) == 2 * (n - 1) * n * 64
    assert schedule.n_transfers == 2 * 4 * 2 * (n - 1)
    sent = np.bincount(schedule.src, schedule.size, n)
    assert sent.max() <= (3 if n % 2 or n == 2 else 2.5) * n * 64


def uniform_s(schedule: Schedule) -> float:
    return seconds(schedule, lambda a, b: 8.0, PACKET)


def test_chunks_of_a_tree_follow_one_another() -> None:
    """A wire for every pair, 16 ranks, C chunks: every tree is 4 deep, up and down 8 steps, so 8 + C - 1
    chunk times for a chunk no earlier than the pair's way in the other tree lets it; without chunks 8 times
    the half."""
    fabric = Ring().build({"nodes": 16})
    whole = 1 << 20
    times = [
        uniform_s(TreeAllReduce(c).schedule(fabric, range(16), whole, "int8", "sum").expand())
        for c in (1, 16)
    ]
    half, chunk = PACKET.wire_bytes(whole // 2), PACKET.wire_bytes(whole // 32)
    assert times[0] == pytest.approx(8 * half)
    assert 23 * chunk <= times[1] <= 2 * 16 * chunk + 8 * chunk


@given(n=st.integers(2, 70), count=st.integers(1, 300))
def test_halving_doubling_counts(n: int, count: int) -> None:
    """Thakur et al.: 2 log2 p exchanges by all p ranks, and 2 messages for each rank that is folded in; a
    power of two sends 2 (p - 1)/p of the buffer a rank."""
    power = 1 << n.bit_length() - 1
    schedule = HALVING.schedule(
        RailOnly().build({"domains": 1, "rails": n}), range(n), count * 4, "int32", "sum"
    ).expand()
    assert schedule.n_transfers == 2 * (power.bit_length() - 1) * power + 2 * (n - power)
    folded = 2 * (n - power) * count
    assert int(schedule.size.sum()) // 4 == 2 * (power - 1) * count + folded
    if n == power and count % n == 0:
        assert set(np.bincount(schedule.src, schedule.size, n)) == {2 * (n - 1) * count * 4 // n}


def test_halving_doubling_closed_form_on_rails() -> None:
    """4 x 4: 1 and 2 apart are in the domain (1/2, 1/4 of 1 MiB), 4 and 8 apart on the rail (1/8, 1/16);
    twice."""
    fabric = RailOnly().build({"domains": 4, "rails": 4}).scaled(1e-5)
    schedule = HALVING.schedule(fabric, range(16), 1 << 20, "float32", "sum").expand()
    assert schedule.phase_names[:4] == tuple(f"halve, {x} apart" for x in (1, 2, 4, 8))
    parts = [
        ((128 * 4154 + 16), 36e6),
        ((64 * 4154 + 16), 36e6),
        ((32 * 4154 + 16), 4e6),
        ((16 * 4154 + 16), 4e6),
    ]
    by_hand = 2 * sum(wire * 8 / rate for wire, rate in parts)
    assert HALVING.closed_form_s(fabric, schedule, PACKET) == pytest.approx(by_hand)
    where = fabric.gpu_coordinates
    wires = seconds(schedule, lambda a, b: 36e6 if where[a][0] == where[b][0] else 4e6, PACKET)
    assert wires == pytest.approx(by_hand)


def test_halving_doubling_has_no_closed_form_where_partners_share_no_link() -> None:
    for fabric in (RailOnly().build({"domains": 2, "rails": 3}), Ring().build({"nodes": 4})):
        schedule = HALVING.schedule(fabric, range(fabric.n_gpus), 4096, "int8", "sum").expand()
        assert HALVING.closed_form_s(fabric, schedule, PACKET) is None


@pytest.mark.parametrize("chunks", [1, 5])
def test_chain_on_a_ring_is_what_the_wires_take(chunks: int) -> None:
    fabric = Ring().build({"nodes": 6, "rate": 8.0, "latency": 100.0})
    broadcast = Broadcast(root=4, chunks=chunks)
    schedule = broadcast.schedule(fabric, range(6), 5 * 4096, "int8", "sum").expand()
    formula = broadcast.closed_form_s(fabric, schedule, PACKET)
    assert formula is not None
    assert formula - 5 * 100 == pytest.approx(uniform_s(schedule))
    assert formula - 5 * 100 == pytest.approx((4 + chunks) * PACKET.wire_bytes(5 * 4096 // chunks))
    assert Broadcast(shape="tree").closed_form_s(fabric, schedule, PACKET) is None


def test_tree_broadcast_takes_log_steps() -> None:
    """13 ranks, one chunk: 4 steps where a chain has 12."""
    fabric = Ring().build({"nodes": 13})
    for shape, steps in (("tree", 3), ("chain", 12)):
        schedule = (
            Broadcast(root=5, shape=shape, chunks=1).schedule(fabric, range(13), 4096, "int8", "sum").expand()
        )
        assert schedule.n_transfers == 12
        assert uniform_s(schedule) == pytest.approx(steps * (4096 + 58 + 16))


def test_neighbours_on_a_ring_take_one_message() -> None:
    fabric = Ring().build({"nodes": 5, "rate": 8.0, "latency": 3.0})
    schedule = SendRecv().schedule(fabric, range(5), 4096, "int8", "sum").expand()
    assert SendRecv().closed_form_s(fabric, schedule, PACKET) == 4096 + 58 + 16 + 3


@pytest.mark.parametrize(
    ("what", "ranks", "says"),
    [
        (Broadcast(root=4), range(4), "root is 0 to 3"),
        (SendRecv(), [2], r"send-recv of 1 rank: it needs 2 or more"),
    ],
)
def test_refusals(what: Broadcast | SendRecv, ranks: list[int], says: str) -> None:
    with pytest.raises(Exception, match=says):
        what.schedule(Ring().build({"nodes": 4}), ranks, 64, "int8", "sum").expand()
