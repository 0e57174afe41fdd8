"""Collectives from MSCCL's XML files: `--collective msccl:FILE`."""

from collections.abc import Sequence
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, Schedule
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.msccl_file import Algorithm, read
from railweave.traffic.collectives.msccl_flow import Move, moves_of
from railweave.traffic.collectives.msccl_memory import Memory
from railweave.traffic.collectives.operations import (
    SHARD_STEP,
    AllGather,
    AllReduce,
    AllToAll,
    Operation,
    ReduceScatter,
    check_ranks,
    check_size,
)
from railweave.traffic.collectives.schedule_builder import ScheduleBuilder

OPERATIONS: dict[str, Operation] = {
    operation.kind: operation for operation in (AllReduce(), AllGather(), ReduceScatter(), AllToAll())
}


class Msccl(Operation):
    """An imported algorithm, as the file has it, with one rank for each of its GPUs.

    `kind` is the operation of the file. Sizes are rounded down to whole chunks. A file's steps are first
    carried out on numbers that identify every contribution: a file that leaves a wrong result is refused.
    """

    summary = "an algorithm from an MSCCL XML file: --collective msccl:FILE"
    name = "msccl"
    parameters: tuple[Parameter, ...] = (Parameter("file", "", "text", "the XML file"),)

    def __init__(self, file: str = "") -> None:
        self._algorithm = read(file) if file else None
        self.kind = self._algorithm.kind if self._algorithm else "imported"

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """Raises ExperimentError with file and line for steps that cannot be carried out, or are wrong."""
        check_ranks(fabric, ranks)
        check_size(size_bytes, dtype, redop)
        algorithm = self._algorithm
        if algorithm is None:
            raise ExperimentError("msccl needs a file: --collective msccl:FILE, or the option `file`.")
        if len(ranks) != algorithm.n_ranks:
            raise ExperimentError(
                f"{algorithm.path} is an algorithm for {algorithm.n_ranks} GPUs and there are {len(ranks)} "
                "ranks. Use a "
                "fabric of as many, or make the file for this one."
            )
        memory = Memory(algorithm)
        moves = moves_of(algorithm, memory)
        _check_result(algorithm, memory, moves)
        itemsize = dtype_of(dtype).itemsize
        if algorithm.kind == "all-reduce":
            chunk = size_bytes // algorithm.chunks // itemsize
        else:
            step = lcm(SHARD_STEP, memory.shard * itemsize)
            chunk = size_bytes // algorithm.n_ranks // step * step // memory.shard // itemsize
        builder = ScheduleBuilder(algorithm.n_ranks, itemsize)
        if chunk and moves:
            builder.phase(algorithm.name)
            _add(builder, moves, chunk)
        count, buffer_count = chunk * algorithm.chunks, chunk * memory.size
        return builder.build(f"msccl:{algorithm.kind}", count, dtype, redop, buffer_count=buffer_count)

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """As all collectives of the file's kind."""
        return _operation(schedule).inputs(schedule, seed)

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """As all collectives of the file's kind."""
        return _operation(schedule).expected(schedule, inputs, rank)

    def busbw_factor(self, n_ranks: int) -> float:
        """That of the file's kind."""
        return OPERATIONS[self.kind].busbw_factor(n_ranks)


def _operation(schedule: Schedule) -> Operation:
    return OPERATIONS[schedule.collective.removeprefix("msccl:")]


def _add(builder: ScheduleBuilder, moves: Sequence[Move], chunk: int) -> None:
    """Add a transfer for every run of chunks that is contiguous at both ends."""
    transfers: list[list[int]] = []
    for move in moves:
        after = [transfer for before in move.after for transfer in transfers[before]]
        ends = list(zip(move.chunks, move.to, strict=True))
        breaks = [i for i in range(1, len(ends)) if ends[i] != (ends[i - 1][0] + 1, ends[i - 1][1] + 1)]
        transfers.append(
            [
                builder.transfer(
                    move.src,
                    move.dst,
                    (ends[start][0] * chunk, (ends[start][0] + end - start) * chunk),
                    to=ends[start][1] * chunk,
                    reduce=move.reduce,
                    after=after,
                )
                for start, end in zip([0, *breaks], [*breaks, len(ends)], strict=True)
            ]
        )


def _check_result(algorithm: Algorithm, memory: Memory, moves: Sequence[Move]) -> None:
    held = memory.start()
    for move in moves:
        sent = held[move.src, move.chunks]
        held[move.dst, move.to] = held[move.dst, move.to] + sent if move.reduce else sent
    for rank in range(algorithm.n_ranks):
        wrong = np.flatnonzero(held[rank, : memory.result] != memory.expected(rank))
        if wrong.size:
            raise ExperimentError(
                f"{algorithm.path}: after all steps, chunk {wrong[0]} of the result of GPU {rank} is not "
                "what an "
                f"{algorithm.kind} gives: something is missing, counted twice, or in the wrong place. Fix "
                "the file."
            )
