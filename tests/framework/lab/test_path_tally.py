"""A transport's reports by path, put where the routes in use have these paths."""

from __future__ import annotations

import numpy as np
import pytest

import railweave as rw
from railweave.framework.experiment.plan import Plan
from railweave.framework.lab.job_traffic import JobTraffic
from railweave.framework.lab.transport_link import PathTally, TransportLink
from railweave.framework.model import RouteTable, all_pairs
from railweave.framework.model.events import PathsCounted
from railweave.framework.processes.event_loop import Watch
from railweave.framework.registry import load_plugins
from railweave.framework.routing.batches import table_from_batch


@pytest.fixture
def plan() -> Plan:
    """Four GPUs that each send to all others, over three spines or within a switch."""
    return rw.load(
        topology="clos", servers=4, gpus=1, t0=2, t1=3, router="spray", collective="direct-all-to-all",
        size="1M", fault="none",
    )  # fmt: skip


def report(version: int, pair: tuple[int, int], *of_paths: tuple[float, float, float]) -> PathsCounted:
    src, dst = (np.array([gpu]) for gpu in pair)
    return PathsCounted(version, src, dst, np.array([0, len(of_paths)]), np.array(of_paths).T)


def table(plan: Plan, version: int, *, without: tuple[int, int] | None = None) -> RouteTable:
    """The healthy paths; the pair `without` has lost the first of its."""
    src, dst = np.divmod(np.unique(plan.used_pairs), plan.fabric.n_gpus)
    batch = plan.healthy_table.paths(src, dst)
    paths = [
        [path.links for path in batch.paths(i)][int((a, b) == without) :]
        for i, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True))
    ]
    return table_from_batch("mine", version, plan.fabric.n_gpus, type(batch).evenly(src, dst, paths))


def test_reports_add_up_until_they_are_taken(plan: Plan) -> None:
    tally = PathTally(plan, table(plan, 0))
    three = [(10.0, 1.0, 0.0), (11.0, 0.0, 2.0), (12.0, 0.0, 0.0)]
    for _ in range(2):
        tally.add(report(0, (0, 3), *three))
    assert tally.fresh
    counts = tally.take()
    paths = counts.paths
    place = list(zip(paths.src.tolist(), paths.dst.tolist(), strict=True)).index((0, 3))
    of_pair = counts.packets[:, paths.pair_start[place] : paths.pair_start[place + 1]]
    assert of_pair.T.tolist() == [[2 * n for n in path] for path in three]
    assert counts.packets.sum() == of_pair.sum()
    assert not tally.fresh and not tally.take().packets.any()


def test_a_change_of_routes_keeps_the_counts_of_the_other_pairs(plan: Plan) -> None:
    tally, full = PathTally(plan, table(plan, 0)), [(5.0, 0.0, 0.0)] * 3
    tally.add(report(0, (0, 3), *full))
    tally.add(report(0, (3, 0), *full))
    tally.follow(table(plan, 1, without=(0, 3)))
    tally.add(report(0, (3, 0), *full))  # of the routes before: too late
    tally.add(report(1, (0, 3), *full))  # of a pair whose sender has more paths than there are
    tally.add(report(1, (3, 0), *full))
    counts = tally.take()
    sums = np.bincount(counts.paths.path_pair, counts.packets[0])
    pairs = list(zip(counts.paths.src.tolist(), counts.paths.dst.tolist(), strict=True))
    assert {pair: n for pair, n in zip(pairs, sums.tolist(), strict=True) if n} == {(3, 0): 30.0}


def test_the_counts_of_jobs_stand_side_by_side() -> None:
    """Two jobs on the same GPUs: a pair of both has a place for each."""
    jobs = [f"ranks=all share=true size=64K collective={name}"
            for name in ("ring-all-reduce", "direct-all-to-all")]  # fmt: skip
    registers = load_plugins()
    plan = rw.load(
        registers=registers, topology="clos", servers=4, gpus=1, t0=2, t1=3, router="spray",
        jobs=jobs, alone=0, fault="none",
    )  # fmt: skip
    traffic = JobTraffic(plan, registers, Watch(), lambda event: None, None)
    assert traffic.path_counts() is None  # nobody wants them
    src, dst = all_pairs(plan.fabric.n_gpus)
    traffic.count_paths(table_from_batch("mine", 0, plan.fabric.n_gpus, plan.healthy_table.paths(src, dst)))
    assert traffic.path_counts() is None  # nothing is known
    (_, other) = traffic.links
    assert isinstance(other, TransportLink) and other.tally is not None
    other.tally.add(report(0, (0, 3), *[(5.0, 1.0, 0.0)] * 3))
    counts = traffic.path_counts()
    assert counts is not None and traffic.path_counts() is None
    paths = counts.paths
    at = [i for i, pair in enumerate(zip(paths.src, paths.dst, strict=True)) if pair == (3, 0)]
    assert len(at) == 2 and len(paths.src) == 4 + 12
    at = [i for i, pair in enumerate(zip(paths.src, paths.dst, strict=True)) if pair == (0, 3)]
    assert np.bincount(paths.path_pair, counts.packets[0])[at].tolist() == [15.0]
