"""What MSCCL's algorithms and MSCCL++'s plans have in common: moves of chunks, what each must wait for, and
programs that are executed step by step and may wait for each other.

Only the flow of data is kept: a move waits for the moves that bring what it sends, and for those which must
have read or written the chunk it lands in.
"""

from abc import abstractmethod
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from railweave.traffic.collectives.entries import levels, listed
from railweave.traffic.collectives.msccl_file import Algorithm, Memory, Place

Step = TypeVar("Step")


@dataclass(slots=True)
class Move:
    """A message: chunks of the sender's memory to chunks of the receiver's. A local step, `cpy` or `re`, has
    one rank as both. `line` is that of its send."""

    src: int
    dst: int
    chunks: Sequence[int]
    line: int
    to: Sequence[int] = ()
    reduce: bool = False
    after: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Chunk:
    """The moves that wrote a chunk (`base`), were reduced into it since, and have read it since."""

    base: set[int] = field(default_factory=set)
    reduced: set[int] = field(default_factory=set)
    readers: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Flow:
    """All moves, each after those it waits for, over ranks with `memory` chunks each."""

    moves: list[Move]
    memory: int


class Execution(Generic[Step]):
    """Executes every program, a thread block's steps, as far as it goes, in turns until all are done."""

    def __init__(self, algorithm: Algorithm, memory: Memory) -> None:
        self._algorithm, self._memory = algorithm, memory
        self._moves: list[Move] = []
        self._chunks: dict[tuple[int, int], _Chunk] = defaultdict(_Chunk)
        self._done: dict[tuple[int, int], int] = defaultdict(int)

    @abstractmethod
    def _try(self, rank: int, number: int, step: Step) -> bool:
        """Execute the next step of a block; False where it must wait. Raises ExperimentError."""

    @abstractmethod
    def _refuse_stuck(self, rank: int, number: int, step: Step) -> None:
        """Raise ExperimentError for a step that waits for ever."""

    def _run(self, programs: Sequence[tuple[int, int, Sequence[Step]]]) -> None:
        """Execute all (rank, number of the block, steps)."""
        waiting = deque(program for program in programs if program[2])
        idle = 0  # blocks that could do nothing, one after the other
        while waiting:
            rank, number, steps = waiting.popleft()
            before = self._done[rank, number]
            for step in steps[before:]:
                if not self._try(rank, number, step):
                    waiting.append((rank, number, steps))
                    break
                self._done[rank, number] += 1
            idle = idle + 1 if self._done[rank, number] == before else 0
            if waiting and idle >= len(waiting):
                rank, number, steps = waiting[0]
                self._refuse_stuck(rank, number, steps[self._done[rank, number]])

    def _new(self, move: Move) -> int:
        self._moves.append(move)
        return len(self._moves) - 1

    def _read(self, rank: int, chunks: Sequence[int], number: int) -> set[int]:
        """Note that a move reads these chunks; the moves that must have written them before."""
        after: set[int] = set()
        for chunk in chunks:
            moves = self._chunks[rank, chunk]
            after |= moves.base
            after |= moves.reduced
            moves.readers.add(number)
        return after

    def _write(self, rank: int, chunks: Sequence[int], number: int, *, reduce: bool) -> set[int]:
        """Note that a move writes these chunks; the moves that must have read or written them before."""
        after: set[int] = set()
        for chunk in chunks:
            moves = self._chunks[rank, chunk]
            after |= moves.base
            after |= moves.readers
            if reduce:
                moves.reduced.add(number)
            else:
                after |= moves.reduced
                moves.base, moves.reduced, moves.readers = {number}, set(), set()
        after.discard(number)
        return after

    def _places(self, rank: int, place: Place, count: int, where: int | str) -> Sequence[int]:
        """The chunks of a rank's memory. Raises ExperimentError, with `where`, for those it does not have."""
        buffer, first = place
        chunks = self._memory.places[rank, buffer]
        if first < 0 or first + count > len(chunks):
            raise self._algorithm.refuse(
                where,
                f"chunks {first} to {first + count - 1} of buffer {buffer} of GPU {rank}, which has "
                f"{len(chunks)}.",
            )
        return chunks[first : first + count]

    def _sorted(self) -> list[Move] | None:
        """All moves, each after those it waits for, by the length of the chain of waits; otherwise in the
        order of their sends. None where there is no such order. What a rank sends to a peer it sends in this
        order, so that nothing stands behind what must wait longer."""
        level = levels(listed([list(move.after) for move in self._moves]))
        if level.min(initial=0) < 0:
            return None
        order = np.argsort(level, kind="stable").tolist()
        place = {i: at for at, i in enumerate(order)}
        for move in self._moves:
            move.after = {place[j] for j in move.after}
        return [self._moves[i] for i in order]
