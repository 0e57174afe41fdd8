"""Planning traces and checking what comes of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Fabric, Schedule
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.ring import Ring
from railweave.traffic.workloads.chakra import Chakra
from tests.traffic.random_execution import execute

Ranks = Sequence[Sequence[bytes]]


def ring(n: int) -> Fabric:
    return Ring().build({"nodes": n})


def rails(domains: int, count: int) -> Fabric:
    return RailOnly().build({"domains": domains, "rails": count})


def planned(work: Chakra, fabric: Fabric, size: int, dtype: str = "int32", redop: str = "sum") -> Schedule:
    return work.schedule(fabric, range(fabric.n_gpus), size, dtype, redop).expand()


def sent(schedule: Schedule) -> list[int]:
    return np.bincount(schedule.src, schedule.size, schedule.n_ranks).astype(int).tolist()


def check(work: Chakra, schedule: Schedule, seed: int = 1) -> None:
    """Any order gives what `expected` says."""
    before = work.inputs(schedule, seed)
    after = execute(schedule, before, seed)
    assert all(np.array_equal(held, work.expected(schedule, before, r)) for r, held in enumerate(after))
