"""What senders count by path, against what a fabric in memory lost and marked on each."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from railweave.framework.model.addressing import ENTROPY_BASE
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.rocev2.tuning import Tuning
from tests.traffic.memory_fabric import MemoryFabric
from tests.traffic.rocev2.test_delivery import one_message, table

PACKETS, PATHS, GREY = 600, 3, 1


def begun(fabric: MemoryFabric) -> None:
    schedule = one_message(PACKETS * 256)
    buffers = RankBuffers(schedule)
    buffers.fill([np.arange(PACKETS * 64, dtype=np.int32)] * 2)
    fabric.executor.prepare(schedule, buffers)
    fabric.executor.begin(fabric.now)


@pytest.fixture
def fabric() -> MemoryFabric:
    fabric = MemoryFabric(2, tuning=Tuning(min_window=16))
    fabric.executor.use_entropies(table(2, {(0, 1): PATHS}, version=4), 0.0)
    return fabric


def test_losses_and_marks_are_counted_on_their_paths(fabric: MemoryFabric) -> None:
    """Every fifth packet of one path is lost, every packet of another one is marked; what has arrived or is
    taken for lost was sent, once each."""
    on = Counter[int]()

    def alive(src: int, dst: int, udp_src: int) -> bool:
        on[udp_src - ENTROPY_BASE] += src == 0
        return src == 1 or udp_src != ENTROPY_BASE + GREY or on[GREY] % 5 > 0

    fabric.alive = alive
    fabric.marks = lambda src, dst, udp_src, waits_s: src == 0 and udp_src == ENTROPY_BASE + 2
    begun(fabric)
    fabric.advance(lambda: fabric.executor.drained)
    counts = fabric.executor.path_counts()
    assert counts.version == 4
    of_pair = list(zip(counts.src.tolist(), counts.dst.tolist(), strict=True)).index((0, 1))
    known, lost, marked = counts.packets[:, counts.start[of_pair] : counts.start[of_pair + 1]]
    assert known.tolist() == [on[path] for path in range(PATHS)]
    assert known.sum() == fabric.executor.counts()["packets_sent"]
    assert lost[GREY] == on[GREY] // 5 > 20
    assert lost.sum() - lost[GREY] <= 1  # a probe of the tail
    assert marked.tolist() == [0, 0, known[2] - lost[2]]
    assert not fabric.executor.path_counts().packets.any()  # since the last call


def test_what_was_under_way_on_paths_that_were_left_does_not_count(fabric: MemoryFabric) -> None:
    begun(fabric)
    fabric.advance(lambda: len(fabric.seen) > 120)
    before = fabric.executor.path_counts()
    fabric.executor.use_entropies(table(2, {(0, 1): 2}, version=5), fabric.now)
    fabric.advance(lambda: fabric.executor.drained)
    after = fabric.executor.path_counts()
    assert (before.version, after.version) == (4, 5)
    assert before.packets[0].sum() > 50 and np.diff(after.start).max() == 2
    assert before.packets[0].sum() + after.packets[0].sum() < fabric.executor.counts()["packets_sent"]
