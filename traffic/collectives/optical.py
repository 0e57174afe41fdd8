"""All-gathers planned as lightpaths on an optical ring: transfers in steps, and what the steps take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.model.arrays import Int64
from railweave.framework.optical.algorithms import plan_of
from railweave.framework.optical.plan import LightpathPlan
from railweave.framework.parameters import Parameter, Value
from railweave.framework.routing.batches import spread, starts
from railweave.traffic.collectives.all_gather import AllGather, shard_bytes
from railweave.traffic.collectives.all_reduce import check_ranks

STEP, RANK = "step", "rank"
BARRIER = Parameter(
    "barrier", STEP, "text",
    "who waits between steps: step, everyone for everyone; rank, each for its own transfers", choices=(STEP, RANK),
)  # fmt: skip
MOST_WAITS = 1 << 22
"""Dependencies of a schedule at most; a barrier has one for every two transfers of neighbouring steps."""


class OpticalAllGather(AllGather):
    """Base of the all-gathers on optical rings; a subclass names its algorithm.

    A step is a barrier, as in the source: no transfer starts before all of the step before have landed. It
    needs the lightpaths that `--router optree` installs for the same algorithm.
    """

    serves: tuple[str, ...] = ("ring",)
    parameters: tuple[Parameter, ...] = (BARRIER,)
    algorithm = ""

    def __init__(self, barrier: str = STEP) -> None:
        self._barrier = barrier

    def configured(self, options: Mapping[str, Value]) -> Self:
        return type(self)(str(options["barrier"]))

    def plan(self, fabric: Fabric) -> LightpathPlan:
        """The lightpaths on this ring. Raises UnsupportedFabricError for other fabrics."""
        return plan_of(self.algorithm, fabric.n_gpus, self._wavelengths(fabric))

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """Item i, rank i's shard, hop by hop; phases are the plan's stages."""
        check_ranks(fabric, ranks)
        if list(ranks) != list(range(fabric.n_gpus)):
            raise ExperimentError(
                f"{self.algorithm} gathers from every GPU of the ring in the order of its positions; {len(ranks)} "
                f"of {fabric.n_gpus} ranks were given, or in another order. Use `ring-all-gather` for a part."
            )
        plan, shard = self.plan(fabric), shard_bytes(size_bytes, dtype, fabric.n_gpus)
        rows = len(plan.step) if shard else 0
        counts, after = self._waits(plan) if shard else (np.empty(0, np.int64), np.empty(0, np.int64))
        offset = plan.item[:rows].astype(np.int64) * shard
        return Schedule(
            self.algorithm, fabric.n_gpus, shard * fabric.n_gpus, dtype, redop, shard * fabric.n_gpus,
            plan.src[:rows], plan.dst[:rows], offset, offset, np.full(rows, shard), np.zeros(rows, np.int32),
            plan.stage[:rows].astype(np.int32), starts(counts), after,
            phase_names=plan.stage_names if shard else (),
        )  # fmt: skip

    def item_times(self, fabric: Fabric) -> int:
        """How many shards have to be waited for one after another (optree.md, 2.2: not the number of steps)."""
        return self.plan(fabric).item_times

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Item-times x a shard with its headers at the slowest link, and per step the latency of its longest
        lightpath. Source: equation 3, without reconfiguration, which the emulation does not have."""
        if fabric.kind not in self.serves:
            return None
        if schedule.n_transfers == 0:
            return 0.0
        plan = self.plan(fabric)
        longest = np.zeros(plan.n_steps, np.int64)
        np.maximum.at(longest, plan.step, plan.hops)
        item_s = packet.wire_bytes(int(schedule.size.max())) * 8 / float(fabric.capacity_bps.min())
        return plan.item_times * item_s + int(longest.sum()) * float(fabric.latency_s.max())

    def _wavelengths(self, fabric: Fabric) -> int:
        if fabric.kind not in self.serves:
            raise UnsupportedFabricError(
                f"{self.algorithm} is an all-gather on {', '.join(self.serves)} fabrics, not {fabric.kind}. Use "
                "`--collective ring-all-gather`, which runs on all."
            )
        if "unused" in fabric.kinds:
            raise UnsupportedFabricError(
                f"{self.algorithm} needs a ring of 2 directions and this one has 1. Use `--directions 2`, or "
                "`--collective ring-all-gather`."
            )
        return len(np.unique(fabric.wavelength))

    def _waits(self, plan: LightpathPlan) -> tuple[Int64, Int64]:
        """(how many transfers each waits for, which)."""
        if self._barrier == RANK:
            return _own_waits(plan)
        first = np.searchsorted(plan.step, np.arange(plan.n_steps + 1))
        size = np.diff(first)
        total = int(size[1:] @ size[:-1])
        if total > MOST_WAITS:
            raise ExperimentError(
                f"{self.algorithm} over {plan.nodes} GPUs: barriers between its {plan.n_steps} steps make {total} "
                f"dependencies, more than {MOST_WAITS}. Use fewer GPUs, or barrier=rank."
            )
        before = np.maximum(plan.step.astype(np.int64) - 1, 0)
        counts = np.where(plan.step > 0, size[before], 0)
        return counts, spread(first[before], counts)


def _own_waits(plan: LightpathPlan) -> tuple[Int64, Int64]:
    """Each transfer waits for those of the last step that its sender took part in, and for its item."""
    arrival: dict[tuple[int, int], int] = {}
    latest: list[tuple[int, list[int]]] = [(-1, []) for _ in range(plan.nodes)]
    previous: list[list[int]] = [[] for _ in range(plan.nodes)]
    counts: list[int] = []
    flat: list[int] = []
    rows = zip(plan.step.tolist(), plan.src.tolist(), plan.dst.tolist(), plan.item.tolist(), strict=True)
    for row, (step, src, dst, item) in enumerate(rows):
        for rank in (src, dst):
            if latest[rank][0] < step:
                previous[rank] = latest[rank][1]
                latest[rank] = (step, [])
            latest[rank][1].append(row)
        waits = set(previous[src])
        if src != item:
            waits.add(arrival[src, item])
        arrival[dst, item] = row
        counts.append(len(waits))
        flat.extend(sorted(waits))
    return np.array(counts, np.int64), np.array(flat, np.int64)
