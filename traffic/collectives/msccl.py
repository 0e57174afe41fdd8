"""Collectives from MSCCL's XML files: `--collective msccl:FILE`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, Schedule
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.msccl_file import CUSTOM, SHARDED, Algorithm, Memory, read
from railweave.traffic.collectives.msccl_flow import Flow, Move, flow_of
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
from railweave.traffic.collectives.trees import Broadcast
from railweave.traffic.workloads.replay import Workload

DATA, SCRATCH = 0, 2
"""Numbers of buffers (model/schedule.py)."""
OPERATIONS: dict[str, type[Operation]] = {
    operation.kind: operation for operation in (AllReduce, AllGather, ReduceScatter, AllToAll)
}


class Custom(Workload):
    """Whatever the steps leave, carried out one after the other in memory."""

    kind = CUSTOM


@dataclass(frozen=True, slots=True)
class _Checked:
    """A flow, the memory that it is for, and the operation that it was found to carry out."""

    flow: Flow
    memory: Memory
    operation: Operation


class Msccl(Operation):
    """An imported algorithm, as the file has it, with one rank for each of its GPUs.

    `kind` is the operation of the file. Sizes are rounded down to whole chunks. A file's steps are first
    carried out on numbers that identify every contribution: a file that leaves a wrong result is refused, and
    one of `coll="custom"` is run as it is, with a note. Copies and reductions inside a GPU take no time.
    """

    summary = "an algorithm from an MSCCL XML file: --collective msccl:FILE"
    name = "msccl"
    parameters: tuple[Parameter, ...] = (Parameter("file", "", "text", "the XML file"),)

    def __init__(self, file: str = "") -> None:
        self._algorithm = read(file) if file else None
        self.kind = self._algorithm.kind if self._algorithm else "imported"

    def notes(self, fabric: Fabric, ranks: Sequence[int]) -> Sequence[str]:
        """That nobody checks a custom one."""
        if self.kind != CUSTOM:
            return ()
        return (f"{self._file.path}: a custom collective, so nobody checks that the algorithm is right",)

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """Raises ExperimentError with file and line for steps that cannot be carried out, or are wrong."""
        check_ranks(fabric, ranks)
        itemsize = checked_itemsize(size_bytes, dtype, redop)
        algorithm = self._file
        if len(ranks) != algorithm.n_ranks:
            raise ExperimentError(
                f"{algorithm.path} is an algorithm for {algorithm.n_ranks} GPUs and there are {len(ranks)} "
                "ranks. Use a fabric of as many, or make the file for this one."
            )
        flow, memory = self._checked.flow, self._checked.memory
        if algorithm.kind in SHARDED:
            step = lcm(SHARD_STEP, algorithm.shard * itemsize)
            chunk = size_bytes // algorithm.n_ranks // step * step // algorithm.shard // itemsize
        else:
            chunk = size_bytes // algorithm.chunks // itemsize
        builder = ScheduleBuilder(algorithm.n_ranks, itemsize)
        if chunk and flow.moves:
            builder.phase(algorithm.name)
            _add(builder, flow.moves, chunk, memory.scratch)
        count, buffer_count = chunk * algorithm.chunks, chunk * flow.memory
        schedule = builder.build(f"msccl:{algorithm.kind}", count, dtype, redop, buffer_count=buffer_count)
        return (
            schedule
            if algorithm.kind == CUSTOM
            else _with_scratch(schedule, chunk * memory.scratch * itemsize)
        )

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """As all collectives of the file's kind; behind the output, where the input has a place of its
        own."""
        arrays, skipped = self._checked.operation.inputs(schedule, seed), self._skipped(schedule)
        return [np.concatenate((np.zeros(skipped, a.dtype), a)) for a in arrays] if skipped else arrays

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """As all collectives of the file's kind."""
        if skipped := self._skipped(schedule):
            inputs = [array[skipped:] for array in inputs]
        return self._checked.operation.expected(schedule, inputs, rank)

    def _skipped(self, schedule: Schedule) -> int:
        """The elements in front of what the operation calls its input."""
        if self.kind == CUSTOM:
            return 0
        count = schedule.size_bytes // np.dtype(schedule.dtype).itemsize
        return count // self._file.chunks * self._checked.memory.input

    def busbw_factor(self, n_ranks: int) -> float:
        """That of the file's kind."""
        return OPERATIONS[self.kind]().busbw_factor(n_ranks) if self.kind in OPERATIONS else 1.0

    @property
    def _file(self) -> Algorithm:
        if self._algorithm is None:
            raise ExperimentError("msccl needs a file: --collective msccl:FILE, or the option `file`.")
        return self._algorithm

    @cached_property
    def _checked(self) -> _Checked:
        """The first of the ways to carry the file out that leaves what its kind should: with input and output
        in place and as few local steps as can be; with messages staged as in a FIFO; with input and output
        apart. Raises ExperimentError for one that is wrong in every way."""
        algorithm = self._file
        ways = [(False, False), (False, True)] if algorithm.kind != CUSTOM else []
        if not algorithm.in_place or algorithm.kind == CUSTOM:
            ways.append((True, True))
        why = ""
        for apart, staged in ways:
            memory = algorithm.memory(apart=apart)
            flow = flow_of(algorithm, memory, staged=staged)
            if flow is None:
                continue
            if algorithm.kind == CUSTOM:
                return _Checked(flow, memory, Custom())
            held = _carried_out(algorithm, memory, flow)
            if algorithm.kind == "broadcast":
                for root in range(algorithm.n_ranks):
                    if not (wrong := _wrong(algorithm, held, root)):
                        return _Checked(flow, memory, Broadcast(root=root))
            elif not (wrong := _wrong(algorithm, held)):
                return _Checked(flow, memory, OPERATIONS[algorithm.kind]())
            why = why or wrong
        raise ExperimentError(
            f"{algorithm.path}: after all steps, {why} is not what {_A[algorithm.kind]} gives: something is "
            f"missing, counted twice, or in the wrong place. Fix the file, or run it unchecked, as {CUSTOM}."
        )


_A = {
    "all-reduce": "an all-reduce",
    "all-gather": "an all-gather",
    "reduce-scatter": "a reduce-scatter",
    "all-to-all": "an all-to-all",
    "broadcast": "a broadcast from any GPU",
}


def _with_scratch(schedule: Schedule, data_bytes: int) -> Schedule:
    """With what lies behind the data in scratch buffers, where it is no result."""
    buffers, offsets = [], []
    for offset in (schedule.src_offset, schedule.dst_offset):
        behind = offset >= data_bytes
        buffers.append(np.where(behind, SCRATCH, DATA).astype(np.int32))
        offsets.append(np.where(behind, offset - data_bytes, offset))
    return replace(
        schedule,
        buffer_bytes=max(data_bytes, schedule.buffer_bytes - data_bytes),
        src_offset=offsets[0],
        dst_offset=offsets[1],
        src_buffer=buffers[0],
        dst_buffer=buffers[1],
    )


def _add(builder: ScheduleBuilder, moves: Sequence[Move], chunk: int, scratch: int) -> None:
    """Add a transfer for every run of chunks that is contiguous at both ends and does not reach across
    `scratch`."""
    transfers: list[list[int]] = []
    for move in moves:
        after = [transfer for before in move.after for transfer in transfers[before]]
        transfers.append(
            [
                builder.transfer(
                    move.src,
                    move.dst,
                    (first * chunk, (first + count) * chunk),
                    to=to * chunk,
                    reduce=move.reduce,
                    after=after,
                )
                for first, to, count in _runs(move, scratch)
            ]
        )


def _runs(move: Move, scratch: int) -> list[tuple[int, int, int]]:
    """(first chunk, first at the receiver, how many) of every run."""
    runs: list[tuple[int, int, int]] = []
    for sent, landed in zip(move.chunks, move.to, strict=True):
        if runs:
            first, to, count = runs[-1]
            if (sent, landed) == (first + count, to + count) and scratch not in (sent, landed):
                runs[-1] = first, to, count + 1
                continue
        runs.append((sent, landed, 1))
    return runs


def _carried_out(algorithm: Algorithm, memory: Memory, flow: Flow) -> NDArray[np.uint64]:
    """(n_ranks, 2, chunks): random numbers for each chunk's content, and what the moves leave of them in the
    memory of each rank; a sum of them identifies what was reduced."""
    n = algorithm.n_ranks
    contents = np.random.default_rng(0).integers(1, 1 << 63, (n, algorithm.chunks), np.uint64)
    held = np.zeros((n, flow.memory), np.uint64)
    for rank, content in enumerate(contents):
        inputs = memory.places[rank, "i"]
        held[rank, inputs] = content[: len(inputs)]
        if algorithm.kind == "all-to-all":  # a rank's slice for itself stands in its place from the start
            own = slice(rank * algorithm.shard, (rank + 1) * algorithm.shard)
            held[rank, own] = content[own]
    for move in flow.moves:
        chunks, to = list(move.chunks), list(move.to)
        sent = held[move.src, chunks]
        held[move.dst, to] = held[move.dst, to] + sent if move.reduce else sent
    return np.stack((contents, held[:, : algorithm.chunks]), axis=1)


def _wrong(algorithm: Algorithm, held: NDArray[np.uint64], root: int = 0) -> str:
    """The first chunk that is not what the operation leaves; empty if there is none."""
    contents, shard = held[:, 0], algorithm.shard
    for rank in range(algorithm.n_ranks):
        own = contents[:, rank * shard : (rank + 1) * shard]
        match algorithm.kind:
            case "all-reduce":
                expected = contents.sum(axis=0)
            case "reduce-scatter":
                expected = own.sum(axis=0)
            case "all-gather":
                expected = contents[:, :shard].ravel()
            case "broadcast":
                expected = contents[root]
            case _:
                expected = own.ravel()
        wrong = np.flatnonzero(held[rank, 1, : len(expected)] != expected)
        if wrong.size:
            return f"chunk {wrong[0]} of the result of GPU {rank}"
    return ""
