"""The messages of an MSCCL algorithm, and what each of them must wait for.

The steps are executed once, with channels that hold any number of messages. Only the flow of data is kept: a
move waits for those that bring what it sends, and for those that must have read or written the chunk it lands
in. Beyond that the order of steps in a thread block reflects how many blocks a GPU has, and is ignored.
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from railweave.traffic.collectives.msccl_file import RECEIVES, REDUCES, SENDS, Algorithm, Block, Place, Step


@dataclass(slots=True)
class Move:
    """A message: chunks of the sender's memory to chunks of the receiver's. `line` is that of its send."""

    src: int
    dst: int
    chunks: list[int]
    line: int
    to: list[int] = field(default_factory=list)
    reduce: bool = False
    after: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Chunk:
    """The moves that wrote a chunk (`base`), were reduced into it since, and have read it since."""

    base: set[int] = field(default_factory=set)
    reduced: set[int] = field(default_factory=set)
    readers: set[int] = field(default_factory=set)


def moves_of(algorithm: Algorithm) -> list[Move]:
    """All moves, each after those it waits for. Raises ExperimentError with the line of a step that cannot be
    executed."""
    return _Flow(algorithm).execute()


class _Flow:
    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._moves: list[Move] = []
        self._chunks: dict[tuple[int, int], _Chunk] = defaultdict(_Chunk)
        self._channels: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)
        self._done: dict[tuple[int, int], int] = defaultdict(int)

    def execute(self) -> list[Move]:
        waiting = deque(
            (rank, number, block)
            for rank, gpu in sorted(self._algorithm.gpus.items())
            for number, block in sorted(gpu.blocks.items())
            if block.steps
        )
        idle = 0  # blocks that could do nothing, one after the other
        while waiting:
            rank, number, block = waiting.popleft()
            before = self._done[rank, number]
            for step in block.steps[before:]:
                if not self._ready(rank, block, step):
                    waiting.append((rank, number, block))
                    break
                self._do(rank, block, step)
                self._done[rank, number] += 1
            idle = idle + 1 if self._done[rank, number] == before else 0
            if waiting and idle >= len(waiting):
                self._refuse_stuck(*waiting[0])
        for (src, dst, channel), left in self._channels.items():
            if left:
                raise self._algorithm.refuse(
                    self._moves[left[0]].line,
                    f"GPU {dst} never receives what GPU {src} sends on channel {channel}.",
                )
        return self._sorted()

    def _ready(self, rank: int, block: Block, step: Step) -> bool:
        if step.needs is not None:
            number, last = step.needs
            other = self._algorithm.gpus[rank].blocks.get(number)
            if other is None or last >= len(other.steps):
                raise self._algorithm.refuse(
                    step.line, f"depid {number} deps {last} is no step of GPU {rank}."
                )
            if self._done[rank, number] <= last:
                return False
        return step.type not in RECEIVES or bool(self._channels.get((block.recv, rank, block.channel)))

    def _do(self, rank: int, block: Block, step: Step) -> None:
        if step.type == "cpy" and self._places(rank, step, step.src) != self._places(rank, step, step.dst):
            raise self._algorithm.refuse(
                step.line,
                "step type cpy is supported only between places that are the same when run in place. Send "
                "from the source, or let the receiver write to both.",
            )
        if step.type in RECEIVES:
            self._receive(rank, block, step)
        if step.type in SENDS:
            self._send(rank, block, step)

    def _receive(self, rank: int, block: Block, step: Step) -> None:
        number = self._channels[block.recv, rank, block.channel].popleft()
        move = self._moves[number]
        move.reduce = step.type in REDUCES
        move.to = self._places(rank, step, step.src if step.type == "rrs" else step.dst)
        if len(move.to) != len(move.chunks):
            raise self._algorithm.refuse(
                step.line,
                f"it receives {len(move.to)} chunks where line {move.line} sends {len(move.chunks)}.",
            )
        if step.type in ("rrc", "rrcs") and self._places(rank, step, step.src) != move.to:
            raise self._algorithm.refuse(
                step.line, f"step type {step.type} is supported in place only: give src as dst."
            )
        for place in move.to:
            held = self._chunks[rank, place]
            move.after |= held.base | held.readers
            if move.reduce:
                held.reduced.add(number)
            else:
                move.after |= held.reduced
                held.base, held.reduced, held.readers = {number}, set(), set()
        move.after.discard(number)

    def _send(self, rank: int, block: Block, step: Step) -> None:
        number = len(self._moves)
        place = step.dst if step.type in ("rcs", "rrcs") else step.src
        move = Move(rank, block.send, self._places(rank, step, place), step.line)
        self._moves.append(move)
        for chunk in move.chunks:
            held = self._chunks[rank, chunk]
            move.after |= held.base | held.reduced
            held.readers.add(number)
        self._channels[rank, block.send, block.channel].append(number)

    def _places(self, rank: int, step: Step, place: Place) -> list[int]:
        buffer, first = place
        length = self._algorithm.length(rank, buffer)
        if first < 0 or first + step.count > length:
            raise self._algorithm.refuse(
                step.line,
                f"chunks {first} to {first + step.count - 1} of buffer {buffer} of GPU {rank}, which has "
                f"{length}.",
            )
        return [self._algorithm.chunk(rank, buffer, first + i) for i in range(step.count)]

    def _sorted(self) -> list[Move]:
        """All moves, each after those it waits for; otherwise in the order of their sends."""
        sorter = TopologicalSorter({i: move.after for i, move in enumerate(self._moves)})
        try:
            sorter.prepare()
        except CycleError as error:
            lines = sorted({self._moves[i].line for i in error.args[1]})
            shown = ", ".join(map(str, lines))
            raise self._algorithm.refuse(
                lines[0],
                f"messages swap chunks that each must read before the other writes (lines {shown}). Receive "
                "into scratch chunks.",
            ) from None
        order: list[int] = []
        while sorter.is_active():
            ready = sorted(sorter.get_ready())
            order += ready
            sorter.done(*ready)
        place = {i: at for at, i in enumerate(order)}
        for move in self._moves:
            move.after = {place[j] for j in move.after}
        return [self._moves[i] for i in order]

    def _refuse_stuck(self, rank: int, number: int, block: Block) -> None:
        step = block.steps[self._done[rank, number]]
        missing = f"a message from GPU {block.recv}"
        if step.needs:
            missing = f"step {step.needs[1]} of tb {step.needs[0]}"
        raise self._algorithm.refuse(
            step.line, f"step type {step.type} of GPU {rank} waits for ever, for {missing}."
        )
