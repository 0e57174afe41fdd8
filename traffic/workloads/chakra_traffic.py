"""The transfers of a trace: every operation is carried out by a collective, in buffer space of its own."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import Float
from railweave.traffic.collectives.all_to_all import DirectAllToAll, HierarchicalAllToAll
from railweave.traffic.collectives.entries import Entries, levels, listed
from railweave.traffic.collectives.hierarchical import (
    HierarchicalAllGather,
    HierarchicalAllReduce,
    HierarchicalReduceScatter,
)
from railweave.traffic.collectives.operations import SHARD_STEP, Operation
from railweave.traffic.collectives.rings import RingAllGather, RingAllReduce, RingReduceScatter
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
"""Transfers and dependencies of a schedule, together, at most."""

Key = tuple[str, tuple[int, ...], int, int]
"""Kind, members, root and bytes of an operation."""


class OperationPattern:
    """The schedule of one operation among its members."""

    def __init__(self, schedule: Schedule, itemsize: int) -> None:
        self.schedule, self._itemsize = schedule, itemsize
        self.messages = np.bincount(schedule.src, minlength=schedule.n_ranks).tolist()
        self.sent = np.bincount(schedule.src, schedule.size, schedule.n_ranks)

    @cached_property
    def rows(self) -> list[tuple[Any, ...]]:
        """Of every transfer: source, destination, first element at both, how many, reduced, the length of the
        longest chain before it, and the transfers that it waits for."""
        schedule, itemsize = self.schedule, self._itemsize
        columns: list[NDArray[Any]] = [
            schedule.src,
            schedule.dst,
            schedule.src_offset // itemsize,
            schedule.dst_offset // itemsize,
            schedule.size // itemsize,
            schedule.reduce,
            levels((schedule.after_start, schedule.after)),
        ]
        ranges = pairwise(schedule.after_start.tolist())
        waits = [schedule.after[begin:end].tolist() for begin, end in ranges]
        return list(zip(*(column.tolist() for column in columns), waits, strict=True))

    @cached_property
    def part(self) -> list[set[int]]:
        """For each member, the transfers whose completion completes its part."""
        parts: list[set[int]] = [set() for _ in self.messages]
        for i, (src, dst, *_, waits) in enumerate(self.rows):
            for member in {src, dst}:
                parts[member].difference_update(waits)
                parts[member].add(i)
        return parts


class TracedTraffic:
    """Plans operations over the GPUs `ranks`. With `two_levels`, groups that fill domains and rails
    communicate inside the domains and along the rails; all others use rings, or send pair by pair."""

    def __init__(
        self, fabric: Fabric, ranks: Sequence[int], dtype: str, redop: str, *, two_levels: bool
    ) -> None:
        self._fabric, self._ranks, self._dtype, self._redop = fabric, ranks, dtype, redop
        self._itemsize = np.dtype(dtype).itemsize
        self._two_levels = two_levels
        self._known: dict[Key, OperationPattern] = {}

    def sent(self, operations: Sequence[TraceOperation]) -> Float:
        """(n_ranks,): bytes that each rank sends when sizes are those of the trace, without barriers."""
        total = np.zeros(len(self._ranks))
        for operation in operations:
            if operation.kind not in (BARRIER, COMPUTATION):
                total[np.asarray(operation.members)] += self._pattern(operation, 1.0).sent
        return total

    def schedule(self, ordered: Sequence[Ordered], size_bytes: int, scale: float) -> Schedule:
        """All operations, sizes times `scale`, so that the busiest rank sends about `size_bytes`, each in its
        time slot, with space of its own in the buffers of its members."""
        entries, used = Entries(len(self._ranks), self._itemsize), [0] * len(self._ranks)
        if size_bytes:
            entries.phase("trace")  # operations overlap, so they are one phase
            self._check_waits(ordered, scale)
        rows, after, seconds = list[tuple[int, ...]](), list[list[int]](), list[float]()
        parts: list[dict[int, list[int]]] = []
        for task in ordered if size_bytes else ():
            members, pattern, begin = task.operation.members, self._pattern(task.operation, scale), len(rows)
            entry = [
                [i for before in befores for i in parts[before][rank]]
                for rank, befores in zip(members, task.after, strict=True)
            ]
            base = [0 if task.operation.kind == COMPUTATION else used[rank] for rank in members]
            for src, dst, first, to, length, reduce, step, waits in pattern.rows:
                span = (base[src] + first, base[dst] + to, length)
                rows.append((members[src], members[dst], *span, reduce, task.level, step))
                after.append(sorted({*entry[src], *(begin + i for i in waits)}))
                seconds.append(task.operation.seconds * scale)
            for rank in members:
                used[rank] += pattern.schedule.buffer_bytes // self._itemsize
            parts.append(
                {rank: [begin + i for i in part] for rank, part in zip(members, pattern.part, strict=True)}
            )
        src, dst, first, to, length, reduce, level, step = np.array(rows, np.int64).reshape(-1, 8).T
        entries.add(
            src,
            dst,
            first=first,
            to=to,
            length=length,
            reduce=reduce,
            after=listed(after),
            seconds=seconds,
            slot=np.argsort(np.lexsort((step, level))),
        )
        return entries.build(
            "chakra", size_bytes // self._itemsize, self._dtype, self._redop, buffer_count=max(used)
        )

    def _check_waits(self, ordered: Sequence[Ordered], scale: float) -> None:
        total, parts = 0, list[dict[int, int]]()
        for task in ordered:
            pattern, members = self._pattern(task.operation, scale), task.operation.members
            total += len(pattern.schedule.after)
            for rank, befores, count in zip(members, task.after, pattern.messages, strict=True):
                total += count * (1 + sum(parts[before][rank] for before in befores))
            parts.append(dict(zip(members, map(len, pattern.part), strict=True)))
        if total > MOST_WAITS:
            raise ExperimentError(
                f"the trace makes {total} transfers and dependencies, more than {MOST_WAITS}. Trace fewer "
                "iterations, or fewer ranks."
            )

    # -- one operation ---------------------------------------------------------------------------------
    def _pattern(self, operation: TraceOperation, scale: float) -> OperationPattern:
        key = self._key(operation, scale)
        if key not in self._known:
            self._known[key] = OperationPattern(self._planned(*key), self._itemsize)
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
        if kind in (SEND_RECV, COMPUTATION):
            entries, count = Entries(len(members), self._itemsize), size_bytes // self._itemsize
            entries.phase(kind)
            entries.add(0, len(members) - 1, length=count)
            return entries.build(kind, count, self._dtype, self._redop)
        gpus = [self._ranks[rank] for rank in members]
        algorithm = Broadcast(root=root) if kind == BROADCAST else FLAT[kind]
        if self._two_levels and kind in TWO_LEVELS:
            # refused for GPUs that do not fill domains and rails
            with suppress(ExperimentError, UnsupportedFabricError):
                TWO_LEVELS[kind].check(self._fabric, gpus)
                algorithm = TWO_LEVELS[kind]
        schedule = algorithm.schedule(self._fabric, gpus, size_bytes, self._dtype, self._redop)
        return schedule.expand()
