"""All-gathers planned as lightpaths on an optical ring: transfers in steps."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.model.arrays import Int64, Lists
from railweave.framework.model.routes import starts
from railweave.framework.papers.optical.algorithms import plan_of
from railweave.framework.papers.optical.lightpath_plan import LightpathPlan
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.entries import NO_RANK, Entries, columns
from railweave.traffic.collectives.operations import AllGather, longest_s

STEP, RANK = "step", "rank"
BARRIER = Parameter(
    "barrier",
    STEP,
    "text",
    "who waits between steps: step, all ranks for all; rank, each for its own transfers",
    choices=(STEP, RANK),
)
STEP_TIME = Parameter(
    "step_time", 0.0, "time", "to set lightpaths anew before each step; engines that compute", minimum=0
)


class OpticalAllGather(AllGather):
    """Base of the all-gathers on optical rings; `name` is that of the lightpath plan, `depth` is OpTree's.

    A step is a barrier, as in the source: no transfer starts before all of the step before have landed. It
    needs the lightpaths that `--router optree` installs for the same algorithm.
    """

    serves: tuple[str, ...] = ("ring",)
    parameters: tuple[Parameter, ...] = (BARRIER, STEP_TIME)

    def __init__(self, barrier: str = STEP, depth: int = 0, step_time: float = 0.0) -> None:
        self._barrier, self._depth, self._step_s = barrier, depth, step_time

    @property
    def router(self) -> Mapping[str, object]:
        """That of its lightpaths."""
        return {"name": "optree", "algorithm": self.name}

    def plan(self, fabric: Fabric) -> LightpathPlan:
        """The lightpaths on this ring. Raises UnsupportedFabricError for a ring of one direction."""
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
        self.plan(fabric)

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        """Item i, rank i's shard, hop by hop; phases are the stages of the plan."""
        plan, shard = self.plan(fabric), count // fabric.n_gpus
        for name in plan.stage_names:
            entries.phase(name)
        barriers = _of_ranks(plan) if self._barrier == RANK else _of_steps(plan)
        # joins are numbered behind the transfers, and take the slots between their steps
        joined = np.where(barriers.before >= 0, barriers.before + len(plan.step), -1)
        set_at, first = (0 if self._barrier == STEP else plan.src), len(plan.step) + len(barriers.rank)
        later = int(self._step_s > 0)
        if later:  # the lightpaths of first steps are set by entries behind the joins, in a slot before all
            joined = np.where(joined >= 0, joined, first + set_at)
        entries.add(
            plan.src,
            plan.dst,
            first=plan.item.astype(np.int64) * shard,
            length=shard,
            after=columns(joined, barriers.item),
            phase=plan.stage,
            slot=2 * plan.step + later,
        )
        rank = np.where(barriers.rank == NO_RANK, 0, barriers.rank) if later else barriers.rank
        awaited = np.isin(np.arange(len(rank)), barriers.before)  # after its last step a rank sets no more
        entries.wait(
            rank,
            barriers.of,
            seconds=np.where(awaited, self._step_s, 0.0),
            slot=2 * barriers.step + 1 + later,
        )
        if later:
            sets = np.arange(1 if self._barrier == STEP else fabric.n_gpus)
            entries.add(sets, sets, seconds=self._step_s, phase=0, slot=0)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """The plan's item times x a shard at the slowest link, and per step the latency of its longest
        lightpath. Source: equation 3 of arXiv 2211.15119, with equal shares of the items that would need it
        (as the router optree sends them). None with a `step_time`, which is declared, on a scaled fabric."""
        if fabric.kind not in self.serves or self._step_s:
            return None
        if schedule.n_transfers == 0:
            return 0.0
        plan = self.plan(fabric)
        longest_hops = np.zeros(plan.n_steps, np.int64)
        np.maximum.at(longest_hops, plan.step, plan.hops)
        item_s = longest_s(fabric, schedule, packet)
        return plan.shared_item_times * item_s + int(longest_hops.sum()) * float(fabric.latency_s.max())


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
    counts them like those of gathering; framework/papers/optical/wrht.py says what is the source's and what
    is ours.
    """

    summary = "groups of 2w+1 on a ring gather at their middle node, exchange, and spread"
    name = "wrht"


class OpTreeAllGather(OpticalAllGather):
    """An m-ary tree of stages: subsets exchange over the whole ring, then inside ever smaller segments.

    Source: Dai et al., arXiv 2211.15119.
    """

    summary = "stages of subsets on a ring, each pair on a wavelength that no other pair shares"
    name = "optree"
    parameters: tuple[Parameter, ...] = (
        Parameter("depth", 0, "count", "stages of the tree; 0 takes the depth of fewest steps", minimum=0),
        BARRIER,
        STEP_TIME,
    )


class _Barriers(NamedTuple):
    """Joins: the `rank` of each, its `step`, and the transfers `of` it. For every transfer the join `before`
    it, and the transfer that brought its `item`; -1 for none."""

    rank: Int64
    step: Int64
    of: Lists
    before: Int64
    item: Int64


def _of_steps(plan: LightpathPlan) -> _Barriers:
    """Each step but the last is joined; no transfer starts before all of the step before have landed."""
    steps = np.arange(max(0, plan.n_steps - 1))
    count = np.bincount(plan.step, minlength=plan.n_steps)[: len(steps)]
    rank, none = np.full(len(steps), NO_RANK), np.full(len(plan.step), -1)
    return _Barriers(
        rank, steps, (starts(count), np.arange(int(count.sum()))), plan.step.astype(np.int64) - 1, none
    )


def _of_ranks(plan: LightpathPlan) -> _Barriers:
    """Each transfer waits for those of the last step that its sender took part in, and for its item."""
    rows, step = np.arange(len(plan.step)), plan.step.astype(np.int64)
    part = np.concatenate((plan.src, plan.dst)).astype(np.int64) * plan.n_steps + np.tile(step, 2)
    order = np.argsort(part, kind="stable")
    keys, count = np.unique(part, return_counts=True)
    rank = keys // plan.n_steps
    before = np.searchsorted(keys, part[: len(rows)]) - 1
    before = np.where((before >= 0) & (rank[before] == plan.src), before, -1)
    arrival = np.full((plan.nodes, plan.nodes), -1)
    arrival[plan.dst, plan.item] = rows
    item = np.where(plan.src == plan.item, -1, arrival[plan.src, plan.item])
    return _Barriers(rank, keys % plan.n_steps, (starts(count), np.tile(rows, 2)[order]), before, item)
