"""All-gathers planned as lightpaths on an optical ring: transfers in steps."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.model.arrays import Int64
from railweave.framework.optical.algorithms import plan_of
from railweave.framework.optical.plan import LightpathPlan
from railweave.framework.parameters import Parameter
from railweave.framework.routing.batches import spread, starts
from railweave.traffic.collectives.operations import AllGather, checked_itemsize, longest_s, shard_bytes

STEP, RANK = "step", "rank"
BARRIER = Parameter(
    "barrier",
    STEP,
    "text",
    "who waits between steps: step, all ranks for all; rank, each for its own transfers",
    choices=(STEP, RANK),
)
MOST_WAITS = 1 << 22
"""The most dependencies of a schedule; a barrier has one for every two transfers of neighbouring steps."""


class OpticalAllGather(AllGather):
    """Base of the all-gathers on optical rings; `name` is that of the lightpath plan, `depth` is OpTree's.

    A step is a barrier, as in the source: no transfer starts before all of the step before have landed. It
    needs the lightpaths that `--router optree` installs for the same algorithm.
    """

    serves: tuple[str, ...] = ("ring",)
    parameters: tuple[Parameter, ...] = (BARRIER,)

    def __init__(self, barrier: str = STEP, depth: int = 0) -> None:
        self._barrier, self._depth = barrier, depth

    def plan(self, fabric: Fabric) -> LightpathPlan:
        """The lightpaths on this ring. Raises UnsupportedFabricError for other fabrics."""
        if fabric.kind not in self.serves:
            raise UnsupportedFabricError(
                f"{self.name} is an all-gather on {', '.join(self.serves)} fabrics, not {fabric.kind}. Use "
                "`--collective ring-all-gather`, which runs on all."
            )
        if not fabric.usable.all():
            raise UnsupportedFabricError(
                f"{self.name} needs a ring of 2 directions and this one has 1. Use `--directions 2`, or "
                "`--collective ring-all-gather`."
            )
        return plan_of(self.name, fabric.n_gpus, len(np.unique(fabric.wavelength)), self._depth)

    def check(self, fabric: Fabric, ranks: Sequence[int]) -> None:
        super().check(fabric, ranks)
        if list(ranks) != list(range(fabric.n_gpus)):
            raise ExperimentError(
                f"{self.name} gathers from all {fabric.n_gpus} GPUs of the ring in the order of their "
                f"positions; this list has {len(ranks)} of {fabric.n_gpus} ranks, or they are in another "
                "order. Use `ring-all-gather` for other lists."
            )

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """Item i, rank i's shard, hop by hop; phases are the stages of the plan."""
        self.check(fabric, ranks)
        checked_itemsize(size_bytes, dtype, redop)
        plan, shard = self.plan(fabric), shard_bytes(size_bytes, fabric.n_gpus)
        rows = len(plan.step) if shard else 0
        counts, after = self._waits(plan) if shard else (np.empty(0, np.int64), np.empty(0, np.int64))
        offset = plan.item[:rows].astype(np.int64) * shard
        return Schedule(
            self.name,
            fabric.n_gpus,
            shard * fabric.n_gpus,
            dtype,
            redop,
            shard * fabric.n_gpus,
            plan.src[:rows],
            plan.dst[:rows],
            offset,
            offset,
            np.full(rows, shard),
            np.zeros(rows, np.int32),
            plan.stage[:rows].astype(np.int32),
            starts(counts),
            after,
            phase_names=plan.stage_names if shard else (),
        )

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """The plan's item times x a shard at the slowest link, and per step the latency of its longest
        lightpath. Source: equation 3 of arXiv 2211.15119, without reconfiguration, which the emulation does
        not have."""
        if fabric.kind not in self.serves:
            return None
        if schedule.n_transfers == 0:
            return 0.0
        plan = self.plan(fabric)
        longest_hops = np.zeros(plan.n_steps, np.int64)
        np.maximum.at(longest_hops, plan.step, plan.hops)
        item_s = longest_s(fabric, schedule, packet)
        return plan.item_times * item_s + int(longest_hops.sum()) * float(fabric.latency_s.max())

    def _waits(self, plan: LightpathPlan) -> tuple[Int64, Int64]:
        """(how many transfers each waits for, which)."""
        if self._barrier == RANK:
            return _own_waits(plan)
        first = np.searchsorted(plan.step, np.arange(plan.n_steps + 1))
        size = np.diff(first)
        total = int(size[1:] @ size[:-1])
        if total > MOST_WAITS:
            raise ExperimentError(
                f"{self.name} over {plan.nodes} GPUs: barriers between its {plan.n_steps} steps make {total} "
                f"dependencies, more than {MOST_WAITS}. Use fewer GPUs, or barrier=rank."
            )
        before = np.maximum(plan.step.astype(np.int64) - 1, 0)
        counts = np.where(plan.step > 0, size[before], 0)
        return counts, spread(first[before], counts)


class NeighborExchange(OpticalAllGather):
    """N / 2 steps on one wavelength: one item in the first, two in each later one. Even N only.

    Source: Table I of arXiv 2211.15119.
    """

    summary = "neighbours on a ring swap what they received last, in n/2 steps; even n"
    name = "neighbor-exchange"


class OneStage(OpticalAllGather):
    """Every rank sends its item to every other on a lightpath of its own: ceil(N^2 / 8w) steps for even N.

    Source: Lemma 1 and Table I of arXiv 2211.15119.
    """

    summary = "every pair of a ring has a lightpath of its own, in as few steps as wavelengths allow"
    name = "one-stage"


class Wrht(OpticalAllGather):
    """Groups of 2w + 1 neighbours gather at their middle, the middles exchange, and the result is spread in
    the groups.

    Spreading brings every item to every member one by one, so its steps exceed the formula of Table I, which
    counts them like those of gathering; framework/optical/wrht.py says what is the source's and what is ours.
    """

    summary = "groups of 2w+1 on a ring gather at their middle node, exchange, and spread"
    name = "wrht"


class OpTree(OpticalAllGather):
    """An m-ary tree of stages: subsets exchange over the whole ring, then inside ever smaller segments.

    Source: Dai et al., arXiv 2211.15119.
    """

    summary = "stages of subsets on a ring, each pair on a wavelength that no other pair shares"
    name = "optree"
    parameters: tuple[Parameter, ...] = (
        Parameter("depth", 0, "count", "stages of the tree; 0 takes the depth of fewest steps", minimum=0),
        BARRIER,
    )


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
