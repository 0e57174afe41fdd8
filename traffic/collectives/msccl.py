"""Collectives from MSCCL's XML files and MSCCL++'s execution plans: `--collective msccl:FILE`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import Int64, Lists
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.arithmetic import count_of
from railweave.traffic.collectives.entries import Entries, listed
from railweave.traffic.collectives.msccl_file import CUSTOM, SHARDED, Algorithm, Memory, contents, parse
from railweave.traffic.collectives.msccl_flow import flow_of
from railweave.traffic.collectives.msccl_moves import Flow, Move
from railweave.traffic.collectives.mscclpp_flow import plan_flow
from railweave.traffic.collectives.mscclpp_plan import ExecutionPlan, parse_plan
from railweave.traffic.collectives.operations import (
    SHARD_STEP,
    AllGather,
    AllReduce,
    AllToAll,
    Operation,
    ReduceScatter,
)
from railweave.traffic.collectives.trees import Broadcast
from railweave.traffic.workloads.replay import ReplayedWorkload, replay

DATA, SCRATCH = 0, 2
"""Numbers of buffers (model/schedule.py)."""
PROBE = 4
"""Elements of a chunk when an algorithm is tried: shards are then multiples of SHARD_STEP bytes, and the
contents of a chunk 128 random bits."""
OPERATIONS: dict[str, type[Operation]] = {
    operation.kind: operation for operation in (AllReduce, AllGather, ReduceScatter, AllToAll)
}


def read(path: str) -> Algorithm:
    """The algorithm in a file: a plan of MSCCL++ where it begins as JSON does, otherwise XML. Raises
    ExperimentError with the file, the place in it and the fix."""
    data = contents(path)
    return parse_plan(data, path) if data.lstrip().startswith(b"{") else parse(data, path)


def _flow(algorithm: Algorithm, memory: Memory, *, staged: bool) -> Flow | None:
    if isinstance(algorithm, ExecutionPlan):
        return plan_flow(algorithm, memory)
    return flow_of(algorithm, memory, staged=staged)


class CustomCollective(ReplayedWorkload):
    """Whatever the steps leave, carried out one after the other in memory."""

    kind = CUSTOM


@dataclass(frozen=True, slots=True)
class _AlgorithmPlan:
    """The transfers of an algorithm, for chunks of one element, and the operation that they carry out.
    `columns` (6, n): source, destination, first element at both, how many, whether they are reduced;
    `scratch` and `size`: where scratch chunks begin, and a rank's memory ends; `skipped`: chunks in front of
    what the operation calls its input."""

    columns: Int64
    waits: Lists
    scratch: int
    size: int
    skipped: int
    operation: Operation


class Msccl(Operation):
    """An imported algorithm, as the file has it, with one rank for each of its GPUs.

    `kind` is the operation of the file. Sizes are rounded down to whole chunks. A file's steps are first
    carried out on numbers that identify every contribution: a file that leaves a wrong result is refused, and
    one of `coll="custom"` is run as it is, with a note. Copies and reductions inside a GPU take no time.
    """

    summary = "an algorithm from an MSCCL XML file or an MSCCL++ plan: --collective msccl:FILE"
    name = "msccl"
    parameters: tuple[Parameter, ...] = (Parameter("file", "", "text", "XML, or a plan in JSON"),)

    def __init__(self, file: str = "") -> None:
        self._algorithm = read(file) if file else None
        self.kind = self._algorithm.kind if self._algorithm else "imported"

    def notes(self, fabric: Fabric, ranks: Sequence[int]) -> Sequence[str]:
        """That a custom one is not checked."""
        if self.kind != CUSTOM:
            return ()
        return (f"{self._file.path}: a custom collective, so whether the algorithm is right is not checked",)

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """Raises ExperimentError with file and line for steps that cannot be carried out, or are wrong."""
        itemsize = np.dtype(dtype).itemsize
        algorithm = self._file
        if len(ranks) != algorithm.n_ranks:
            raise ExperimentError(
                f"{algorithm.path} is an algorithm for {algorithm.n_ranks} GPUs and there are {len(ranks)} "
                "ranks. Use a fabric of as many, or make the file for this one."
            )
        if algorithm.kind in SHARDED:
            step = lcm(SHARD_STEP, algorithm.shard * itemsize)
            chunk = size_bytes // algorithm.n_ranks // step * step // algorithm.shard // itemsize
        else:
            chunk = size_bytes // algorithm.chunks // itemsize
        schedule = self._in_data(self._plan, chunk, dtype, redop)
        return (
            schedule
            if algorithm.kind == CUSTOM
            else _with_scratch(schedule, chunk * self._plan.scratch * itemsize)
        )

    def _in_data(self, plan: _AlgorithmPlan, chunk: int, dtype: str, redop: str) -> Schedule:
        """The schedule for chunks of `chunk` elements, scratch behind the data."""
        algorithm, (src, dst, first, to, length, reduce) = self._file, plan.columns
        entries = Entries(algorithm.n_ranks, np.dtype(dtype).itemsize)
        if chunk and len(src):
            entries.phase(algorithm.name)
            entries.add(
                src,
                dst,
                first=first * chunk,
                to=to * chunk,
                length=length * chunk,
                reduce=reduce,
                after=plan.waits,
                slot=np.arange(len(src)),
            )
        count, name = chunk * algorithm.chunks, f"msccl:{algorithm.kind}"
        return entries.build(name, count, dtype, redop, buffer_count=chunk * plan.size)

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """As all collectives of the file's kind; behind the output, where the input has a place of its
        own."""
        arrays, skipped = self._plan.operation.inputs(schedule, seed), self._skipped(schedule)
        return [np.concatenate((np.zeros(skipped, a.dtype), a)) for a in arrays] if skipped else arrays

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """As all collectives of the file's kind."""
        inputs = [array[self._skipped(schedule) :] for array in inputs]
        return self._plan.operation.expected(schedule, inputs, rank)

    def _skipped(self, schedule: Schedule) -> int:
        """The elements in front of what the operation calls its input."""
        return count_of(schedule) // self._file.chunks * self._plan.skipped

    def busbw_factor(self, n_ranks: int) -> float:
        """That of the file's kind."""
        return OPERATIONS[self.kind]().busbw_factor(n_ranks) if self.kind in OPERATIONS else 1.0

    @property
    def _file(self) -> Algorithm:
        if self._algorithm is None:
            raise ExperimentError("msccl needs a file: --collective msccl:FILE, or the option `file`.")
        return self._algorithm

    @cached_property
    def _plan(self) -> _AlgorithmPlan:
        """The first of the ways to carry the file out that leaves what its kind should: with input and output
        in place and as few local steps as can be; with messages staged as in a FIFO; with input and output
        apart. Raises ExperimentError for one that is wrong in every way."""
        algorithm, why = self._file, ""
        roots = range(algorithm.n_ranks if algorithm.kind == Broadcast.kind else 1)
        for apart, staged in algorithm.ways:
            memory = algorithm.memory(apart=apart)
            flow = _flow(algorithm, memory, staged=staged)
            if flow is None:
                continue
            sends = *_transfers(flow.moves, memory.scratch), memory.scratch, flow.memory
            if algorithm.kind == CUSTOM:
                return _AlgorithmPlan(*sends, 0, CustomCollective())
            # a broadcast may start anywhere, so that all ranks have something to send
            plan = _AlgorithmPlan(*sends, memory.input, OPERATIONS.get(algorithm.kind, AllReduce)())
            schedule = self._in_data(plan, PROBE, "int32", "sum")
            # inputs repeat after some thousand elements; factors by place make all chunks differ
            odd = 1 + 2 * np.random.default_rng(0).integers(1 << 30, size=count_of(schedule), dtype=np.int32)
            inputs = [array * np.resize(odd, len(array)) for array in plan.operation.inputs(schedule, 0)]
            before = np.zeros((algorithm.n_ranks, PROBE * plan.size), np.int32)
            before[:, PROBE * plan.skipped :][:, : len(inputs[0])] = inputs
            after = replay(schedule, list(before))
            for root in roots:
                if algorithm.kind == Broadcast.kind:
                    plan = replace(plan, operation=Broadcast(root=root))
                if not (wrong := _wrong(plan.operation, schedule, inputs, after)):
                    return plan
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


def _transfers(moves: Sequence[Move], scratch: int) -> tuple[Int64, Lists]:
    """A transfer for every run of chunks that is contiguous at both ends and does not reach across `scratch`,
    as columns, and the transfers that each waits for."""
    rows, after, of_move = list[list[int]](), list[list[int]](), list[range]()
    for move in moves:
        begin, waits = len(rows), sorted(i for before in move.after for i in of_move[before])
        for first, to in zip(move.chunks, move.to, strict=True):
            *_, last_first, last_to, length, _ = rows[-1] if len(rows) > begin else [-1] * 6
            if (first, to) == (last_first + length, last_to + length) and scratch not in (first, to):
                rows[-1][4] += 1
            else:
                rows.append([move.src, move.dst, first, to, 1, move.reduce])
                after.append(waits)
        of_move.append(range(begin, len(rows)))
    return np.array(rows, np.int64).reshape(-1, 6).T, listed(after)


def _wrong(
    operation: Operation, schedule: Schedule, inputs: Sequence[NDArray[Any]], after: Sequence[NDArray[Any]]
) -> str:
    """The first chunk that is not what the operation leaves; empty if there is none."""
    for rank, buffer in enumerate(after):
        expected = operation.expected(schedule, inputs, rank)
        if (wrong := np.flatnonzero(buffer[: len(expected)] != expected)).size:
            return f"chunk {wrong[0] // PROBE} of the result of GPU {rank}"
    return ""
