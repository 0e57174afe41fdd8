"""The transfers of a trace: every operation by the collective that serves its group, in places of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.hookspecs import Collective
from railweave.framework.model import Fabric, Schedule
from railweave.traffic.collectives.all_gather import SHARD_STEP
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.broadcast import Broadcast
from railweave.traffic.collectives.direct_all_to_all import DirectAllToAll
from railweave.traffic.collectives.hierarchical import HierarchicalAllReduce
from railweave.traffic.collectives.hierarchical_all_gather import HierarchicalAllGather
from railweave.traffic.collectives.hierarchical_all_to_all import HierarchicalAllToAll
from railweave.traffic.collectives.hierarchical_reduce_scatter import HierarchicalReduceScatter
from railweave.traffic.collectives.levels import RAIL_FABRICS, grid_of
from railweave.traffic.collectives.plan import Plan
from railweave.traffic.collectives.ring import RingAllReduce
from railweave.traffic.collectives.ring_all_gather import RingAllGather
from railweave.traffic.collectives.ring_reduce_scatter import RingReduceScatter
from railweave.traffic.workloads.chakra_match import BARRIER, BROADCAST, SEND_RECV, Operation
from railweave.traffic.workloads.chakra_order import Ordered

FLAT: dict[str, Collective] = {
    "all-reduce": RingAllReduce(), BARRIER: RingAllReduce(), "all-gather": RingAllGather(),
    "reduce-scatter": RingReduceScatter(), "all-to-all": DirectAllToAll(),
}  # fmt: skip
TWO_LEVELS: dict[str, Collective] = {
    "all-reduce": HierarchicalAllReduce(), BARRIER: HierarchicalAllReduce(),
    "all-gather": HierarchicalAllGather(), "reduce-scatter": HierarchicalReduceScatter(),
    "all-to-all": HierarchicalAllToAll(pipelined=True),
}  # fmt: skip
MOST_WAITS = 1 << 23
"""Transfers and dependencies of a schedule at most, together."""

Key = tuple[str, tuple[int, ...], int, int]
"""Kind, members, root and bytes of an operation."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The schedule of one operation among its members. `step`: transfers one after another before each; `part`:
    for each member, transfers that, complete, make its part complete."""

    schedule: Schedule
    step: tuple[int, ...]
    part: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, schedule: Schedule) -> Pattern:
        step: list[int] = []
        mine: list[set[int]] = [set() for _ in range(schedule.n_ranks)]
        for i in range(schedule.n_transfers):
            transfer = schedule.transfer(i)
            step.append(max((step[before] + 1 for before in transfer.after), default=0))
            for member in {transfer.src, transfer.dst}:
                mine[member].difference_update(transfer.after)
                mine[member].add(i)
        return cls(schedule, tuple(step), tuple(tuple(sorted(part)) for part in mine))


class Traffic:
    """Plans operations over the GPUs `ranks`. `two_levels`: groups that fill domains and rails communicate inside
    the domains and along the rails; all others, and all otherwise, around rings and pair by pair."""

    def __init__(
        self, fabric: Fabric, ranks: Sequence[int], dtype: str, redop: str, *, two_levels: bool
    ) -> None:
        self._fabric, self._ranks, self._dtype, self._redop = fabric, ranks, dtype, redop
        self._width = dtype_of(dtype).itemsize
        self._two_levels = two_levels
        self._known: dict[Key, Pattern] = {}

    def sent(self, operations: Sequence[Operation]) -> NDArray[np.float64]:
        """(n_ranks,): bytes that each rank sends when sizes are those of the trace; barriers count for nothing."""
        total = np.zeros(len(self._ranks))
        known: dict[Key, NDArray[np.float64]] = {}
        for operation in operations:
            if operation.kind == BARRIER:
                continue
            size = self._scaled(operation, 1.0)
            key = operation.kind, operation.members, operation.root, size
            if key not in known:
                schedule = self._planned(operation, size)
                sent = np.bincount(schedule.src, schedule.size, len(operation.members))
                known[key] = sent.astype(np.float64)
            total[np.asarray(operation.members)] += known[key]
        return total

    def schedule(self, ordered: Sequence[Ordered], size_bytes: int) -> Schedule:
        """All operations, sizes scaled so that the busiest rank sends about `size_bytes`."""
        most = float(self.sent([one.operation for one in ordered]).max())
        scale = size_bytes / most if most else 0.0
        plan = Plan(len(self._ranks), self._width)
        used = [0] * len(self._ranks)
        if size_bytes:
            plan.phase("trace")  # operations overlap, so they are one phase
            self._check_waits(ordered, scale)
            self._fill(plan, ordered, scale, used)
        return plan.schedule(
            "chakra", size_bytes // self._width, self._dtype, self._redop, buffer_count=max(used)
        )

    def _check_waits(self, ordered: Sequence[Ordered], scale: float) -> None:
        total = 0
        parts: list[dict[int, int]] = []
        for one in ordered:
            pattern, members = self._pattern(one.operation, scale), one.operation.members
            messages = np.bincount(pattern.schedule.src, minlength=len(members)).tolist()
            for rank, befores, count in zip(members, one.after, messages, strict=True):
                total += count * (1 + sum(parts[before][rank] for before in befores))
            total += len(pattern.schedule.after)
            parts.append({rank: len(part) for rank, part in zip(members, pattern.part, strict=True)})
        if total > MOST_WAITS:
            raise ExperimentError(
                f"the trace makes {total} transfers and dependencies, more than {MOST_WAITS}. Trace fewer iterations, or "
                "fewer ranks."
            )

    def _fill(self, plan: Plan, ordered: Sequence[Ordered], scale: float, used: list[int]) -> None:
        """Add every operation in its time slot. Every one has a place of its own in its members' buffers."""
        parts: list[dict[int, list[int]]] = []
        for one in ordered:
            members = one.operation.members
            pattern = self._pattern(one.operation, scale)
            schedule = pattern.schedule
            entry = [
                [transfer for before in befores for transfer in parts[before][rank]]
                for rank, befores in zip(members, one.after, strict=True)
            ]
            base = [used[rank] for rank in members]
            plan.at(one.level)
            numbers: list[int] = []
            for i in range(schedule.n_transfers):
                t = schedule.transfer(i)
                first = base[t.src] + t.src_offset // self._width
                numbers.append(
                    plan.add(
                        members[t.src], members[t.dst], first, first + t.size // self._width,
                        to=base[t.dst] + t.dst_offset // self._width, reduce=t.reduce,
                        after=[*entry[t.src], *(numbers[before] for before in t.after)], step=pattern.step[i],
                    )
                )  # fmt: skip
            for rank in members:
                used[rank] += schedule.buffer_bytes // self._width
            parts.append(
                {rank: [numbers[i] for i in part] for rank, part in zip(members, pattern.part, strict=True)}
            )

    # -- one operation ---------------------------------------------------------------------------------
    def _pattern(self, operation: Operation, scale: float) -> Pattern:
        size = self._scaled(operation, scale)
        key = operation.kind, operation.members, operation.root, size
        if key not in self._known:
            self._known[key] = Pattern.of(self._planned(operation, size))
        return self._known[key]

    def _scaled(self, operation: Operation, scale: float) -> int:
        """Bytes in nccl-tests' meaning, in whole shares of every member, one or more if there are any at all."""
        n, size = len(operation.members), operation.size
        match operation.kind:
            case "send-recv" | "broadcast":
                unit = self._width
            case "all-reduce" | "barrier":
                unit = self._width * n
            case _:
                unit = SHARD_STEP * n
        if operation.kind == BARRIER:
            return unit
        if operation.kind == "all-gather":  # the trace has what each member gives
            size *= n
        return max(1, round(size * scale / unit)) * unit if size else 0

    def _planned(self, operation: Operation, size_bytes: int) -> Schedule:
        gpus = [self._ranks[rank] for rank in operation.members]
        if operation.kind == SEND_RECV:
            plan, count = Plan(2, self._width), size_bytes // self._width
            plan.phase(SEND_RECV)
            plan.add(0, 1, 0, count, reduce=False, after=[])
            return plan.schedule(SEND_RECV, count, self._dtype, self._redop)
        if operation.kind == BROADCAST:
            how: Collective = Broadcast(root=operation.root)
        else:
            how = (TWO_LEVELS if self._is_grid(gpus) else FLAT)[operation.kind]
        return how.schedule(self._fabric, gpus, size_bytes, self._dtype, self._redop)

    def _is_grid(self, gpus: Sequence[int]) -> bool:
        """Whether the GPUs are every GPU of some domains on some rails."""
        if not self._two_levels or self._fabric.kind not in RAIL_FABRICS:
            return False
        try:
            grid_of(self._fabric, gpus, "trace", "ring")
        except ExperimentError:
            return False
        return True
