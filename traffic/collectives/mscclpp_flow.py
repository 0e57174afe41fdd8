"""The moves of an execution plan of MSCCL++, and what each of them must wait for.

The operations are executed once. What signals, semaphores, barriers and packets order is known by vector
clocks (Mattern 1989): every operation on memory has the number of its block's operations before it, and a
block knows how many operations of every block it comes after. A plan in which an operation writes a
chunk that another touches, and nothing orders the two, is refused.
"""

from collections import defaultdict, deque
from collections.abc import Sequence

import numpy as np

from railweave.framework.model.arrays import Int64
from railweave.traffic.collectives.msccl_file import Memory
from railweave.traffic.collectives.msccl_moves import Execution, Flow, Move
from railweave.traffic.collectives.mscclpp_plan import (
    COPIES,
    PACKETS_READ,
    REDUCES,
    SIGNALS,
    WAITS,
    ExecutionPlan,
    Key,
    Op,
    Slice,
)

Chunks = tuple[int, Sequence[int]]
"""A GPU, and chunks of its memory."""


def plan_flow(plan: ExecutionPlan, memory: Memory) -> Flow:
    """The moves of a plan. Raises ExperimentError with the place of an operation that waits for ever, that
    signals without one that waits, or that races with another."""
    return _PlanExecution(plan, memory).execute()


class _PlanExecution(Execution[Op]):
    def __init__(self, plan: ExecutionPlan, memory: Memory) -> None:
        super().__init__(plan, memory)
        self._plan = plan
        self._block = {block: i for i, block in enumerate(sorted(plan.programs))}
        self._clocks = np.zeros((len(self._block), len(self._block)), np.int64)
        """[block, other]: the operations of the other that this block comes after."""
        self._initial = dict(plan.initial)
        self._signals: dict[Key, deque[tuple[Op, Int64]]] = defaultdict(deque)
        self._arrived: dict[Key, list[Int64]] = defaultdict(list)
        self._arrival: dict[int, int] = {}
        self._stamps: list[tuple[Op, int, Int64]] = []
        """Of every move: its operation, block, and the block's clock."""

    def execute(self) -> Flow:
        self._run([(rank, number, ops) for (rank, number), ops in sorted(self._plan.programs.items())])
        for (kind, src, dst, _), left in self._signals.items():
            if left and kind != "semaphore":
                raise self._plan.refuse(
                    left[0][0].where,
                    f"GPU {dst} never waits for this signal of GPU {src}. Add a wait, or remove the signal.",
                )
        moves = self._sorted()
        assert moves is not None  # each waits for earlier ones
        return Flow(moves, self._memory.size)

    def _try(self, rank: int, number: int, op: Op) -> bool:
        block = self._block[rank, number]
        if op.name == "barrier":
            return self._pass(block, op)
        if op.name in WAITS or op.name == "sem_acquire":
            return self._acquire(block, op)
        if op.name in PACKETS_READ:
            packets = [self._at(part, op) for part in op.src[PACKETS_READ[op.name] :]]
            written = [self._chunks[at, chunk].base for at, chunks in packets for chunk in chunks]
            if not all(written):
                return False
            self._join(block, [self._stamps[move][2] for base in written for move in base])
        if op.name in COPIES | REDUCES:
            self._clocks[block, block] += 1
            self._carry_out(block, op)
        if op.name in SIGNALS or op.name == "sem_release":
            for key in op.keys:
                self._signals[key].append((op, self._clocks[block].copy()))
        return True

    def _pass(self, block: int, op: Op) -> bool:
        """Arrive at a barrier, once; whether all have that pass it together."""
        arrived = self._arrived[op.keys[0]]
        if block not in self._arrival:
            self._arrival[block] = len(arrived)
            arrived.append(self._clocks[block].copy())
        first = self._arrival[block] // op.arrivals * op.arrivals
        together = arrived[first : first + op.arrivals]
        if len(together) < op.arrivals:
            return False
        del self._arrival[block]
        self._join(block, together)
        return True

    def _acquire(self, block: int, op: Op) -> bool:
        if not all(self._signals[key] or self._initial.get(key) for key in op.keys):
            return False
        for key in op.keys:
            if self._initial.get(key):
                self._initial[key] -= 1
            else:
                self._join(block, [self._signals[key].popleft()[1]])
        return True

    def _join(self, block: int, clocks: Sequence[Int64]) -> None:
        if clocks:
            self._clocks[block] = np.maximum.reduce([self._clocks[block], *clocks])

    def _at(self, part: Slice, op: Op) -> Chunks:
        return part.rank, self._places(part.rank, part.place, part.count, op.where)

    def _carry_out(self, block: int, op: Op) -> None:
        src, dst = ([self._at(part, op) for part in parts] for parts in (op.src, op.dst))
        if op.name in COPIES:
            for source, to in zip(src if len(src) == len(dst) else src * len(dst), dst, strict=True):
                self._move(block, op, source, to)
            return
        # the sum is made in the first destination, which may be one of the sources
        first, *others = sorted(src, key=lambda source: source != dst[0])
        self._move(block, op, first, dst[0])
        for source in others:
            self._move(block, op, source, dst[0], reduce=True)
        for to in dst[1:]:
            self._move(block, op, dst[0], to)

    def _move(self, block: int, op: Op, src: Chunks, dst: Chunks, *, reduce: bool = False) -> None:
        if src == dst and not reduce:
            return
        if src[0] == dst[0] and set(src[1]) & set(dst[1]):
            raise self._plan.refuse(op.where, "source and destination overlap. Give two places apart.")
        number = self._new(Move(src[0], dst[0], src[1], 0, dst[1], reduce))
        self._stamps.append((op, block, self._clocks[block].copy()))
        also = {m for chunk in dst[1] for m in self._chunks[dst[0], chunk].reduced} if reduce else set()
        after = self._read(*src, number) | self._write(*dst, number, reduce=reduce)
        self._moves[number].after = after - {number}
        for other in sorted(after | also):
            its_op, its_block, its_clock = self._stamps[other]
            if its_clock[its_block] > self._clocks[block, its_block]:
                raise self._plan.refuse(
                    op.where,
                    f"it touches memory that {its_op.where} touches too, and no signal, semaphore, barrier "
                    "or packet orders the two. Let one wait for the other.",
                )

    def _refuse_stuck(self, rank: int, number: int, op: Op) -> None:
        missing = "packets that are never written"
        if op.name == "barrier":
            missing = f"{op.arrivals} thread blocks at barrier {op.keys[0][3]}"
        elif op.keys:
            kind, src, _, which = next(k for k in op.keys if not (self._signals[k] or self._initial.get(k)))
            missing = f"a release of semaphore {which}" if kind == "semaphore" else f"a signal of GPU {src}"
        raise self._plan.refuse(op.where, f"GPU {rank} waits for ever, for {missing}.")
