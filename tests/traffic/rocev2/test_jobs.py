"""Executors of several jobs on the same hosts: what one sends is nothing to another."""

from __future__ import annotations

import pytest

from railweave.framework.errors import TransportError
from tests.traffic.memory_fabric import MemoryFabric
from tests.traffic.rocev2.test_delivery import all_reduce, wrong_after


def test_packets_of_another_job_between_the_same_ranks_change_nothing() -> None:
    schedule = all_reduce(4, 4096)
    other, fabric = MemoryFabric(4, job=(0, 2)), MemoryFabric(4, job=(1, 2))
    assert wrong_after(other, schedule) == 0
    assert wrong_after(fabric, schedule) == 0  # its queue pairs are open
    counts = fabric.executor.counts()
    for _, _, rank, frame in other.seen:
        fabric._deliver(rank, frame)
        fabric.executor.step([fabric.ports[rank]], fabric.now)
    assert fabric.executor.counts() == counts
    assert sum(port.noise for port in fabric.ports) == len(other.seen) > 0
    assert wrong_after(fabric, schedule) == 0


@pytest.mark.parametrize("sizes", [(2, 3), (8, 2, 5), (3, 3, 3, 16)])
def test_queue_pairs_of_jobs_of_any_sizes_differ(sizes: tuple[int, ...]) -> None:
    seen: set[int] = set()
    for number, n in enumerate(sizes):
        executor = MemoryFabric(n, job=(number, len(sizes))).executor
        for src in range(n):
            for dst in range(n):
                executor.pair(src, dst)
        own = {qp for port in executor.ports for qp, _ in port.halves}
        assert len(own) == n * n and not own & seen
        seen |= own
    assert max(seen) < 1 << 24


def test_more_pairs_than_there_are_numbers_are_refused() -> None:
    with pytest.raises(TransportError, match="Take fewer ranks or jobs"):
        MemoryFabric(8, job=(0, 1 << 18))
