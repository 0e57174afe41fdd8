"""Collectives from MSCCL's XML files: `--collective msccl:FILE`."""

from collections.abc import Sequence
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, Schedule
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.msccl_file import Algorithm, read
from railweave.traffic.collectives.msccl_flow import Move, moves_of
from railweave.traffic.collectives.operations import (
    SHARD_STEP,
    AllGather,
    AllReduce,
    AllToAll,
    Operation,
    ReduceScatter,
    check_ranks,
    checked_itemsize,
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
        itemsize = checked_itemsize(size_bytes, dtype, redop)
        algorithm = self._algorithm
        if algorithm is None:
            raise ExperimentError("msccl needs a file: --collective msccl:FILE, or the option `file`.")
        if len(ranks) != algorithm.n_ranks:
            raise ExperimentError(
                f"{algorithm.path} is an algorithm for {algorithm.n_ranks} GPUs and there are {len(ranks)} "
                "ranks. Use a fabric of as many, or make the file for this one."
            )
        moves = moves_of(algorithm)
        _check_result(algorithm, moves)
        if algorithm.kind == "all-reduce":
            chunk = size_bytes // algorithm.chunks // itemsize
        else:
            step = lcm(SHARD_STEP, algorithm.shard * itemsize)
            chunk = size_bytes // algorithm.n_ranks // step * step // algorithm.shard // itemsize
        builder = ScheduleBuilder(algorithm.n_ranks, itemsize)
        if chunk and moves:
            builder.phase(algorithm.name)
            _add(builder, moves, chunk)
        count, buffer_count = chunk * algorithm.chunks, chunk * algorithm.memory
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
        ends = np.array([move.chunks, move.to])
        breaks = np.flatnonzero(np.any(np.diff(ends) != 1, axis=0)) + 1
        runs = [run.tolist() for run in np.split(ends, breaks, axis=1)]
        transfers.append(
            [
                builder.transfer(
                    move.src,
                    move.dst,
                    (sent[0] * chunk, (sent[-1] + 1) * chunk),
                    to=landed[0] * chunk,
                    reduce=move.reduce,
                    after=after,
                )
                for sent, landed in runs
            ]
        )


def _check_result(algorithm: Algorithm, moves: Sequence[Move]) -> None:
    """Carry out the moves on random numbers for each chunk's content; a sum of them identifies what was
    reduced."""
    n, shard = algorithm.n_ranks, algorithm.shard
    contents = np.random.default_rng(0).integers(1, 1 << 63, (n, algorithm.chunks), np.uint64)
    held = np.zeros((n, algorithm.memory), np.uint64)
    for rank, content in enumerate(contents):
        inputs = [algorithm.chunk(rank, "i", i) for i in range(algorithm.length(rank, "i"))]
        held[rank, inputs] = content[: len(inputs)]
    for move in moves:
        sent = held[move.src, move.chunks]
        held[move.dst, move.to] = held[move.dst, move.to] + sent if move.reduce else sent
    for rank in range(n):
        own = contents[:, rank * shard : (rank + 1) * shard]
        match algorithm.kind:
            case "all-reduce":
                expected = contents.sum(axis=0)
            case "reduce-scatter":
                expected = own.sum(axis=0)
            case "all-gather":
                expected = contents[:, :shard].ravel()
            case _:
                expected = own.ravel()
        wrong = np.flatnonzero(held[rank, : len(expected)] != expected)
        if wrong.size:
            raise ExperimentError(
                f"{algorithm.path}: after all steps, chunk {wrong[0]} of the result of GPU {rank} is not "
                f"what an {algorithm.kind} gives: something is missing, counted twice, or in the wrong "
                "place. Fix the file."
            )
