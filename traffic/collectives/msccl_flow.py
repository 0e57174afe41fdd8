"""The messages and local steps of an MSCCL algorithm, and what each of them must wait for.

The steps are executed once, with channels that hold any number of messages. Only the flow of data is kept: a
move waits for the moves that bring what it sends, and for all that must have read or written the chunk it
lands in. Beyond that the order of steps in a thread block reflects how many blocks a GPU has, and is ignored.
"""

from collections import defaultdict, deque
from collections.abc import Sequence

from railweave.traffic.collectives.msccl_file import (
    RECEIVES,
    REDUCES,
    SENDS,
    Algorithm,
    Block,
    Memory,
    Step,
)
from railweave.traffic.collectives.msccl_moves import Execution, Flow, Move


def flow_of(algorithm: Algorithm, memory: Memory, *, staged: bool) -> Flow | None:
    """The moves of an algorithm. Raises ExperimentError with the line of a step that cannot be executed.

    Messages land in their places, and what `rrs` adds up stays where its source was; None where they would
    wait for each other in a cycle. With `staged`, which takes more memory and local steps, they land in
    chunks of their own where their place is read or written meanwhile, as MSCCL's messages wait in a FIFO.
    """
    return _ChannelExecution(algorithm, memory, staged=staged).execute()


class _ChannelExecution(Execution[Step]):
    def __init__(self, algorithm: Algorithm, memory: Memory, *, staged: bool) -> None:
        super().__init__(algorithm, memory)
        self._staged = staged
        self._channels: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)
        self._used = dict.fromkeys(algorithm.gpus, memory.size)

    def execute(self) -> Flow | None:
        self._run(
            [
                (rank, number, block.steps)
                for rank, gpu in sorted(self._algorithm.gpus.items())
                for number, block in sorted(gpu.blocks.items())
            ]
        )
        for (src, dst, channel), left in self._channels.items():
            if left:
                raise self._algorithm.refuse(
                    self._moves[left[0]].line,
                    f"GPU {dst} never receives what GPU {src} sends on channel {channel}.",
                )
        moves = self._moves if self._staged else self._sorted()
        return None if moves is None else Flow(moves, max(self._used.values()))

    def _try(self, rank: int, number: int, step: Step) -> bool:
        block = self._algorithm.gpus[rank].blocks[number]
        if ready := self._ready(rank, block, step):
            self._do(rank, block, step)
        return ready

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
        if step.type in ("cpy", "re"):
            src, dst = (self._places(rank, place, step.count, step.line) for place in (step.src, step.dst))
            if step.type == "re" or src != dst:
                self._local(rank, src, dst, step.line, reduce=step.type == "re")
            return
        place = step.src
        chunks: Sequence[int] = ()
        if step.type in RECEIVES:
            chunks = self._receive(rank, block, step)
            place = step.dst
        if step.type in SENDS:
            chunks = chunks or self._places(rank, place, step.count, step.line)
            number = self._new(Move(rank, block.send, chunks, step.line))
            self._moves[number].after |= self._read(rank, chunks, number)
            self._channels[rank, block.send, block.channel].append(number)

    def _receive(self, rank: int, block: Block, step: Step) -> Sequence[int]:
        """Take the next message; where what was received, and combined, now is."""
        number = self._channels[block.recv, rank, block.channel].popleft()
        reduces, keeps = step.type in REDUCES, step.type != "rrs"
        added = self._places(rank, step.src, step.count, step.line) if reduces else ()
        to = self._places(rank, step.dst, step.count, step.line) if keeps else added
        if len(to) != len(self._moves[number].chunks):
            raise self._algorithm.refuse(
                step.line,
                f"it receives {len(to)} chunks where line {self._moves[number].line} sends "
                f"{len(self._moves[number].chunks)}.",
            )
        if reduces and to != added and set(to) & set(added):
            raise self._algorithm.refuse(
                step.line, f"src and dst of {step.type} overlap. Give the same place twice, or two apart."
            )
        if self._staged and not keeps:
            to = self._spare(rank, len(to))
        self._land(rank, number, to, step.line, reduce=reduces and to == added)
        if reduces and to != added:
            self._local(rank, added, to, step.line, reduce=True)
        return to

    def _land(self, rank: int, number: int, to: Sequence[int], line: int, *, reduce: bool) -> None:
        """Let a message land, by way of chunks of its own where it must wait for later moves."""
        if self._staged and any(self._blocked(rank, chunk, number, reduce=reduce) for chunk in to):
            spare = self._spare(rank, len(to))
            self._land(rank, number, spare, line, reduce=False)
            self._local(rank, spare, to, line, reduce=reduce)
            return
        move = self._moves[number]
        move.to, move.reduce = to, reduce
        move.after |= self._write(rank, to, number, reduce=reduce)

    def _blocked(self, rank: int, chunk: int, number: int, *, reduce: bool) -> bool:
        moves = self._chunks[rank, chunk]
        parts = (moves.base, moves.readers) if reduce else (moves.base, moves.readers, moves.reduced)
        return any(other > number for part in parts for other in part)

    def _spare(self, rank: int, count: int) -> Sequence[int]:
        self._used[rank] += count
        return list(range(self._used[rank] - count, self._used[rank]))

    def _local(self, rank: int, src: Sequence[int], dst: Sequence[int], line: int, *, reduce: bool) -> None:
        number = self._new(Move(rank, rank, src, line, dst, reduce))
        after = self._read(rank, src, number) | self._write(rank, dst, number, reduce=reduce)
        self._moves[number].after = after - {number}

    def _refuse_stuck(self, rank: int, number: int, step: Step) -> None:
        missing = f"a message from GPU {self._algorithm.gpus[rank].blocks[number].recv}"
        if step.needs:
            missing = f"step {step.needs[1]} of tb {step.needs[0]}"
        raise self._algorithm.refuse(
            step.line, f"step type {step.type} of GPU {rank} waits for ever, for {missing}."
        )
