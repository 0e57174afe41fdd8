"""Collectives from MSCCL's XML files: `--collective msccl:FILE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.all_gather import SHARD_STEP, AllGather
from railweave.traffic.collectives.all_reduce import AllReduce, check_ranks, element_count
from railweave.traffic.collectives.all_to_all import AllToAll
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.msccl_file import Algorithm, read
from railweave.traffic.collectives.msccl_flow import Move, moves_of
from railweave.traffic.collectives.msccl_memory import Memory
from railweave.traffic.collectives.plan import Plan
from railweave.traffic.collectives.reduce_scatter import ReduceScatter


class _Arithmetic(Protocol):
    """What a collective knows but its transfers."""

    kind: str

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]: ...
    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]: ...
    def busbw_factor(self, n_ranks: int) -> float: ...


def _arithmetic(kind: str) -> _Arithmetic:
    every: tuple[_Arithmetic, ...] = (AllReduce(), AllGather(), ReduceScatter(), AllToAll())
    return next(known for known in every if known.kind == kind)


class Msccl:
    """An imported algorithm, as the file has it, with one rank for each of its GPUs.

    `kind` is the operation of the file. Sizes are rounded down to whole chunks. A file's steps are played first, with
    numbers that tell every contribution from every other: one that leaves a wrong result is refused.
    """

    summary = "an algorithm from an MSCCL XML file: --collective msccl:FILE"
    parameters: tuple[Parameter, ...] = (Parameter("file", "", "text", "the XML file"),)
    serves: tuple[str, ...] = ()
    same_result_everywhere = False

    def __init__(self, file: str = "") -> None:
        self._algorithm = read(file) if file else None
        self.kind = self._algorithm.kind if self._algorithm else "imported"

    def configured(self, options: Mapping[str, Value]) -> Self:
        return type(self)(str(options["file"]))

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """Raises ExperimentError with file and line for what cannot be carried out, or is wrong."""
        check_ranks(fabric, ranks)
        element_count(size_bytes, dtype, redop)
        algorithm = self._algorithm
        if algorithm is None:
            raise ExperimentError("msccl needs a file: --collective msccl:FILE, or the option `file`.")
        if len(ranks) != algorithm.n_ranks:
            raise ExperimentError(
                f"{algorithm.path} is an algorithm for {algorithm.n_ranks} GPUs and there are {len(ranks)} ranks. Use a "
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
        plan = Plan(algorithm.n_ranks, itemsize)
        if chunk and moves:
            plan.phase(algorithm.name)
            _add(plan, moves, chunk)
        return plan.schedule(
            f"msccl:{algorithm.kind}",
            chunk * algorithm.chunks,
            dtype,
            redop,
            buffer_count=chunk * memory.size,
        )

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """As all collectives of the file's kind."""
        return _of(schedule).inputs(schedule, seed)

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """As all collectives of the file's kind."""
        return _of(schedule).expected(schedule, inputs, rank)

    def busbw_factor(self, n_ranks: int) -> float:
        """That of the file's kind."""
        return _arithmetic(self.kind).busbw_factor(n_ranks)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """None: a file has no formula."""
        return None


def _of(schedule: Schedule) -> _Arithmetic:
    return _arithmetic(schedule.collective.removeprefix("msccl:"))


def _add(plan: Plan, moves: Sequence[Move], chunk: int) -> None:
    """A transfer for every run of chunks that is one at both ends."""
    transfers: list[list[int]] = []
    for move in moves:
        after = [transfer for before in move.after for transfer in transfers[before]]
        mine = []
        start = 0
        for end in range(1, len(move.to) + 1):
            together = end < len(move.to) and (
                move.to[end] == move.to[end - 1] + 1 and move.chunks[end] == move.chunks[end - 1] + 1
            )
            if not together:
                first = move.chunks[start] * chunk
                mine.append(
                    plan.add(
                        move.src, move.dst, first, first + (end - start) * chunk,
                        to=move.to[start] * chunk, reduce=move.reduce, after=after,
                    )
                )  # fmt: skip
                start = end
        transfers.append(mine)


def _check_result(algorithm: Algorithm, memory: Memory, moves: Sequence[Move]) -> None:
    held = memory.start()
    for move in moves:
        brought = held[move.src, move.chunks]
        held[move.dst, move.to] = held[move.dst, move.to] + brought if move.reduce else brought
    for rank in range(algorithm.n_ranks):
        wrong = np.flatnonzero(held[rank, : memory.result] != memory.right(rank))
        if wrong.size:
            raise ExperimentError(
                f"{algorithm.path}: after all steps, chunk {wrong[0]} of the result of GPU {rank} is not what an "
                f"{algorithm.kind} gives: something is missing, there twice, or in another's place. Mend the file."
            )
