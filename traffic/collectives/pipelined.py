"""All-reduce in two levels whose phases overlap: while one chunk is on the rails, others are in the domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.all_reduce import AllReduce, element_count
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.hierarchical import plan_levels
from railweave.traffic.collectives.levels import RAIL_FABRICS, grid_of, level_s
from railweave.traffic.collectives.plan import Plan, chunk_bounds

CHUNKS = 4


class PipelinedAllReduce(AllReduce):
    """The four phases of `all-reduce`, each chunk of the buffer on its own: chunk c is in phase p in time slot
    c + p, so d and r links work at the same time.

    A chunk waits for nothing but its own last phase. Within a slot the steps of its phases take turns, so that a
    link has something to send while the next step of one phase is still on its way.
    """

    summary = "all-reduce with its phases overlapped: chunks follow one another through domains and rails"
    serves: tuple[str, ...] = RAIL_FABRICS
    parameters: tuple[Parameter, ...] = (
        Parameter("chunks", CHUNKS, "count", "parts of the buffer that follow one another", minimum=1, maximum=4096),
    )  # fmt: skip

    def __init__(self, chunks: int = CHUNKS) -> None:
        self._chunks = chunks

    def configured(self, options: Mapping[str, Value]) -> Self:
        return type(self)(int(options["chunks"]))

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        grid = grid_of(fabric, ranks, "pipelined-all-reduce", "ring-all-reduce")
        count = element_count(size_bytes, dtype, redop)
        plan = Plan(len(ranks), dtype_of(dtype).itemsize)
        if count and len(ranks) > 1:
            chunks = min(self._chunks, count)
            bounds = chunk_bounds(0, count, chunks)
            for chunk in range(chunks):
                plan_levels(plan, grid, bounds[chunk], bounds[chunk + 1] - bounds[chunk], first_slot=chunk)
        return plan.schedule("pipelined-all-reduce", count, dtype, redop)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """All work of the busier level and what nothing hides, headers counted: if that is the rails, a chunk's
        work in the domains, on the first one's way in and the last one's way out; if the domains, a chunk's work
        on the rails, but from 3 chunks on other chunks hide that. None where links have a latency: other chunks
        hide a part of it, and no formula says how much."""
        if fabric.kind not in RAIL_FABRICS or fabric.latency_s.any():
            return None
        level = level_s(fabric, schedule, packet)
        domain, rail = level["domain"], level["rail"]
        chunks = max(1, min(self._chunks, schedule.size_bytes // dtype_of(schedule.dtype).itemsize))
        if rail >= domain:
            return rail + domain / chunks
        return domain + (rail / chunks if chunks < 3 else 0.0)
