"""What the transfers of a trace wait for: brute force over random jobs, and small cases by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.model import Schedule
from railweave.traffic.workloads.chakra import Chakra
from tests.fakes.transfers import transfer_of
from tests.traffic.workloads import chakra_traces as make
from tests.traffic.workloads.chakra_runs import check, planned, ring, sent
from tests.traffic.workloads.chakra_traces import COLL, COMP, RECV, SEND, node


def test_a_barrier_holds_everyone_back(trace: Callable[..., Chakra]) -> None:
    """After it rank 2 sends; that waits for the message that rank 0 sends before it."""
    ranks: list[list[bytes]] = [[], [], []]
    ranks[0].append(node(1, SEND, comm_dst=1, comm_size=4000))
    ranks[1].append(node(1, RECV, comm_src=0))
    for rank in range(3):
        ranks[rank].append(node(5, COLL, [1] if rank < 2 else [], comm_type=make.BARRIER))
    ranks[2].append(node(6, SEND, [5], comm_dst=1, comm_size=4004))
    ranks[1].append(node(6, RECV, comm_src=2))
    schedule = planned(trace(ranks), ring(3), 4004)
    first, last = (int(np.flatnonzero(schedule.size == size)[0]) for size in (4000, 4004))
    assert first in closure(schedule)[last]


def closure(schedule: Schedule) -> list[set[int]]:
    """All that each transfer waits for, directly or not."""
    found: list[set[int]] = []
    for i in range(schedule.n_transfers):
        after = transfer_of(schedule, i).after
        found.append(set(after).union(*(found[j] for j in after)))
    return found


Job = list[tuple[str, tuple[int, ...], dict[int, list[int]], bool]]


@st.composite
def jobs(draw: st.DrawFn) -> tuple[int, Job]:
    """Operations (kind, members, what each member's node depends on, an empty computation before it)."""
    n = draw(st.integers(2, 4))
    job: Job = []
    own: dict[int, list[int]] = {rank: [] for rank in range(n)}
    for number in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["message", "all-reduce", "all-gather", "all-to-all", "broadcast"]))
        members = tuple(
            draw(st.permutations(range(n)))[: 2 if kind == "message" else draw(st.integers(2, n))]
        )
        if kind != "message":
            members = tuple(sorted(members))
        after = {r: draw(st.lists(st.sampled_from(own[r]), unique=True)) if own[r] else [] for r in members}
        job.append((kind, members, after, draw(st.booleans())))
        for rank in members:
            own[rank].append(number)
    return n, job


CODES = {
    "all-reduce": make.ALL_REDUCE,
    "all-gather": make.ALL_GATHER,
    "all-to-all": make.ALL_TO_ALL,
    "broadcast": make.BROADCAST,
}
STEP = 480
"""A shard of any group of 2 to 4 ranks is a whole number of 16 bytes."""


def nodes_of(n: int, job: Job) -> list[list[bytes]]:
    """Operation i is node 10 (i + 1), of (i + 1) STEP bytes in every transfer, so that it is known by its
    size."""
    ranks: list[list[bytes]] = [[] for _ in range(n)]
    for i, (kind, members, after, computes) in enumerate(job):
        size = STEP * (i + 1)
        for rank in members:
            number = 10 * (i + 1)
            deps = [10 * (j + 1) for j in after[rank]]
            if computes:
                ranks[rank].append(node(number - 1, COMP, deps[::2], ctrl=deps[1::2]))
                deps = [number - 1]
            if kind == "message":
                peer = members[1] if rank == members[0] else members[0]
                ends = {"comm_dst" if rank == members[0] else "comm_src": peer}
                ranks[rank].append(
                    node(number, SEND if rank == members[0] else RECV, deps, comm_size=size, **ends)
                )
            else:
                whole = {"all-reduce": len(members), "all-to-all": len(members), "broadcast": 8}.get(kind, 1)
                ranks[rank].append(
                    node(
                        number,
                        COLL,
                        deps,
                        comm_type=CODES[kind],
                        comm_size=size * whole,
                        pg_name="g" + "".join(map(str, members)),
                    )
                )
    return ranks


def busiest(n: int, job: Job) -> int:
    total = [0] * n
    for i, (kind, members, _, _) in enumerate(job):
        size, others = STEP * (i + 1), len(members) - 1
        for at, rank in enumerate(members):
            match kind:
                case "message":
                    total[rank] += size if at == 0 else 0
                case "broadcast":
                    total[rank] += 8 * size if at < others else 0
                case "all-reduce":
                    total[rank] += 2 * others * size
                case _:
                    total[rank] += others * size
    return max(total)


@settings(max_examples=60)
@given(made=jobs(), seed=st.integers(0, 99))
def test_everything_waits_for_what_its_node_depends_on(
    trace: Callable[..., Chakra], made: tuple[int, Job], seed: int
) -> None:
    """Brute force: whatever a rank sends for a node waits, directly or not, for all transfers that the rank
    takes part in for every node before it; nothing waits for what it has no dependency on; every order gives
    the same."""
    n, job = made
    work = trace(nodes_of(n, job))
    size = busiest(n, job)
    schedule = planned(work, ring(n), size)
    assert max(sent(schedule)) == size
    waits = closure(schedule)
    of = (schedule.size // STEP - 1).tolist()
    behind: list[dict[int, set[int]]] = []  # for each operation, by rank: those of this rank before it
    needs: list[
        set[tuple[int, int]]
    ] = []  # for each operation: every (operation, rank) before it on any rank
    for i, (_, members, after, _) in enumerate(job):
        behind.append({r: set(after[r]).union(*(behind[j][r] for j in after[r])) for r in members})
        needs.append({(j, r) for r in members for j in behind[i][r]})
    reach: list[set[int]] = []
    for i in range(len(job)):
        found = {j for j, _ in needs[i]}
        reach.append({i} | found.union(*(reach[j] for j in found)))
    for x in range(schedule.n_transfers):
        rank, i = int(schedule.src[x]), of[x]
        for y in range(schedule.n_transfers):
            if rank in (schedule.src[y], schedule.dst[y]) and of[y] in behind[i][rank]:
                assert y in waits[x]
        assert {of[y] for y in waits[x]} <= reach[i]
    check(work, schedule, seed)


def test_operations_of_equal_depth_advance_together(trace: Callable[..., Chakra]) -> None:
    """Two all-reduces at once: on each pair their steps alternate, so neither waits behind the other."""
    ranks = [
        [node(i, COLL, comm_type=0, comm_size=480 * i, pg_name=f"g{i}") for i in (1, 2)] for _ in range(3)
    ]
    schedule = planned(trace(ranks), ring(3), 480 * 4)
    of_pair = schedule.size[(schedule.src == 0) & (schedule.dst == 1)]
    assert of_pair.tolist() == [160, 320] * 4


def test_a_message_without_bytes_still_orders(trace: Callable[..., Chakra]) -> None:
    ranks = [
        [node(1, SEND, comm_dst=1, comm_size=0)],
        [node(1, RECV, comm_src=0, comm_size=0), node(2, SEND, [1], comm_dst=0, comm_size=64)],
    ]
    ranks[0].append(node(2, RECV, comm_src=1))
    schedule = planned(trace(ranks), ring(2), 64)
    assert schedule.size.tolist() == [0, 64] and transfer_of(schedule, 1).after == (0,)
    check(trace(ranks), schedule)
