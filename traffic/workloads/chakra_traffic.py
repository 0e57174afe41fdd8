"""The transfers of a trace: every operation is carried out by a collective, in buffer space of its own."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric, Schedule
from railweave.traffic.collectives.all_to_all import DirectAllToAll, HierarchicalAllToAll
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.hierarchical import (
    HierarchicalAllGather,
    HierarchicalAllReduce,
    HierarchicalReduceScatter,
)
from railweave.traffic.collectives.operations import SHARD_STEP, Operation
from railweave.traffic.collectives.rings import RingAllGather, RingAllReduce, RingReduceScatter
from railweave.traffic.collectives.schedule_builder import ScheduleBuilder
from railweave.traffic.collectives.trees import Broadcast
from railweave.traffic.workloads.chakra_match import (
    BARRIER,
    BROADCAST,
    COMPUTATION,
    SEND_RECV,
    TraceOperation,
)
from railweave.traffic.workloads.chakra_order import Ordered

FLAT: dict[str, Operation] = {
    "all-reduce": RingAllReduce(),
    BARRIER: RingAllReduce(),
    "all-gather": RingAllGather(),
    "reduce-scatter": RingReduceScatter(),
    "all-to-all": DirectAllToAll(),
}
TWO_LEVELS: dict[str, Operation] = {
    "all-reduce": HierarchicalAllReduce(),
    BARRIER: HierarchicalAllReduce(),
    "all-gather": HierarchicalAllGather(),
    "reduce-scatter": HierarchicalReduceScatter(),
    "all-to-all": HierarchicalAllToAll(pipelined=True),
}
MOST_WAITS = 1 << 23
"""The most transfers and dependencies of a schedule, together."""

Key = tuple[str, tuple[int, ...], int, int]
"""Kind, members, root and bytes of an operation."""


class Pattern:
    """The schedule of one operation among its members. `step`: for each transfer, the length of the longest
    chain before it; `part`: for each member, the transfers whose completion completes its part."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.step: list[int] = []
        self.part: list[set[int]] = [set() for _ in range(schedule.n_ranks)]
        for i in range(schedule.n_transfers):
            transfer = schedule.transfer(i)
            self.step.append(max((self.step[before] + 1 for before in transfer.after), default=0))
            for member in {transfer.src, transfer.dst}:
                self.part[member].difference_update(transfer.after)
                self.part[member].add(i)


class Traffic:
    """Plans operations over the GPUs `ranks`. With `two_levels`, groups that fill domains and rails
    communicate inside the domains and along the rails; all others use rings, or send pair by pair."""

    def __init__(
        self, fabric: Fabric, ranks: Sequence[int], dtype: str, redop: str, *, two_levels: bool
    ) -> None:
        self._fabric, self._ranks, self._dtype, self._redop = fabric, ranks, dtype, redop
        self._itemsize = dtype_of(dtype).itemsize
        self._two_levels = two_levels
        self._known: dict[Key, Pattern] = {}

    def sent(self, operations: Sequence[TraceOperation]) -> NDArray[np.float64]:
        """(n_ranks,): bytes that each rank sends when sizes are those of the trace, without barriers."""
        total = np.zeros(len(self._ranks))
        known: dict[Key, NDArray[np.int64 | np.float64]] = {}
        for operation in operations:
            if operation.kind not in (BARRIER, COMPUTATION):
                key = self._key(operation, 1.0)
                if key not in known:
                    schedule = self._planned(*key)
                    known[key] = np.bincount(schedule.src, schedule.size, schedule.n_ranks)
                total[np.asarray(operation.members)] += known[key]
        return total

    def schedule(self, ordered: Sequence[Ordered], size_bytes: int, scale: float) -> Schedule:
        """All operations, sizes times `scale`, so that the busiest rank sends about `size_bytes`, each in its
        time slot, with space of its own in the buffers of its members."""
        builder = ScheduleBuilder(len(self._ranks), self._itemsize)
        used = [0] * len(self._ranks)
        if size_bytes:
            builder.phase("trace")  # operations overlap, so they are one phase
            self._check_waits(ordered, scale)
        parts: list[dict[int, list[int]]] = []
        for one in ordered if size_bytes else ():
            members = one.operation.members
            if one.operation.kind == COMPUTATION:
                builder.slot(one.level)
                (rank,) = members
                after = [transfer for before in one.after[0] for transfer in parts[before][rank]]
                parts.append({rank: [builder.compute(rank, one.operation.seconds * scale, after=after)]})
                continue
            pattern = self._pattern(one.operation, scale)
            schedule = pattern.schedule
            entry = [
                [transfer for before in befores for transfer in parts[before][rank]]
                for rank, befores in zip(members, one.after, strict=True)
            ]
            base = [used[rank] for rank in members]
            builder.slot(one.level)
            numbers: list[int] = []
            for i in range(schedule.n_transfers):
                t = schedule.transfer(i)
                first = base[t.src] + t.src_offset // self._itemsize
                numbers.append(
                    builder.transfer(
                        members[t.src],
                        members[t.dst],
                        (first, first + t.size // self._itemsize),
                        to=base[t.dst] + t.dst_offset // self._itemsize,
                        reduce=t.reduce,
                        after=[*entry[t.src], *(numbers[before] for before in t.after)],
                        step=pattern.step[i],
                    )
                )
            for rank in members:
                used[rank] += schedule.buffer_bytes // self._itemsize
            parts.append(
                {rank: [numbers[i] for i in part] for rank, part in zip(members, pattern.part, strict=True)}
            )
        return builder.build(
            "chakra", size_bytes // self._itemsize, self._dtype, self._redop, buffer_count=max(used)
        )

    def _check_waits(self, ordered: Sequence[Ordered], scale: float) -> None:
        total = 0
        parts: list[dict[int, int]] = []
        for one in ordered:
            if one.operation.kind == COMPUTATION:
                (rank,) = one.operation.members
                total += 1 + sum(parts[before][rank] for before in one.after[0])
                parts.append({rank: 1})
                continue
            pattern, members = self._pattern(one.operation, scale), one.operation.members
            messages = np.bincount(pattern.schedule.src, minlength=len(members)).tolist()
            for rank, befores, count in zip(members, one.after, messages, strict=True):
                total += count * (1 + sum(parts[before][rank] for before in befores))
            total += len(pattern.schedule.after)
            parts.append({rank: len(part) for rank, part in zip(members, pattern.part, strict=True)})
        if total > MOST_WAITS:
            raise ExperimentError(
                f"the trace makes {total} transfers and dependencies, more than {MOST_WAITS}. Trace fewer "
                "iterations, or fewer ranks."
            )

    # -- one operation ---------------------------------------------------------------------------------
    def _pattern(self, operation: TraceOperation, scale: float) -> Pattern:
        key = self._key(operation, scale)
        if key not in self._known:
            self._known[key] = Pattern(self._planned(*key))
        return self._known[key]

    def _key(self, operation: TraceOperation, scale: float) -> Key:
        """With bytes as nccl-tests counts them, in whole shares of every member; at least one share unless
        the size is 0."""
        n, size = len(operation.members), operation.size
        match operation.kind:
            case "send-recv" | "broadcast":
                unit = self._itemsize
            case "all-reduce" | "barrier":
                unit = self._itemsize * n
            case _:
                unit = SHARD_STEP * n
        if operation.kind == "all-gather":  # the trace has what each member contributes
            size *= n
        shares = 1 if operation.kind == BARRIER else max(1, round(size * scale / unit)) if size else 0
        return operation.kind, operation.members, operation.root, shares * unit

    def _planned(self, kind: str, members: Sequence[int], root: int, size_bytes: int) -> Schedule:
        if kind == SEND_RECV:
            builder, count = ScheduleBuilder(2, self._itemsize), size_bytes // self._itemsize
            builder.phase(SEND_RECV)
            builder.transfer(0, 1, (0, count), reduce=False, after=[])
            return builder.build(SEND_RECV, count, self._dtype, self._redop)
        gpus = [self._ranks[rank] for rank in members]
        algorithm = Broadcast(root=root) if kind == BROADCAST else FLAT[kind]
        if self._two_levels and kind in TWO_LEVELS:
            # refused for GPUs that do not fill domains and rails
            with suppress(ExperimentError, UnsupportedFabricError):
                TWO_LEVELS[kind].check(self._fabric, gpus)
                algorithm = TWO_LEVELS[kind]
        schedule = algorithm.schedule(self._fabric, gpus, size_bytes, self._dtype, self._redop)
        return schedule.expand()
