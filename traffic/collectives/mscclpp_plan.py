"""Reads an execution plan of MSCCL++, with the place of each operation; checks all that can be checked
element by element.

    {name, collective, inplace, gpus: [{id, input_chunks, output_chunks, scratch_chunks,
        channels: [{channel_type, connected_to}], remote_buffers: [{rank, type}], semaphores: [{init_value}],
        threadblocks: [{id, channels: [{channel_type, channel_ids}],
            remote_buffer_refs: [{access_channel_type, remote_buffer_ids}], ops: [{name, ...}]}]}]}

A thread block executes its operations in order. It reads and writes memory of its own GPU, by `type` and
`index`, and of others, by `buffer_id` and `index`: a number in its `remote_buffer_refs`, which number the
GPU's `remote_buffers`; likewise a number in `channel_ids` is one of the block's channels, which number the
peers that the GPU's channels of that type are `connected_to`. Source: microsoft/mscclpp,
src/core/executor/execution_plan.cc (format) and src/core/include/execution_kernel.hpp (operations), as of
August 2026. Other keys are not needed.
"""

import json
from dataclasses import dataclass, field
from math import lcm

from railweave.framework.errors import ExperimentError
from railweave.traffic.collectives.msccl_file import (
    BUFFERS,
    SHARDED,
    UNSUPPORTED,
    Algorithm,
    Gpu,
    Place,
    kind_of,
)
from railweave.traffic.collectives.plan_node import PlanNode

COPIES = frozenset({"put", "pws", "pwsf", "get", "copy", "ppkt", "rppkt", "cpkt", "upkt"})
"""Each source to a destination, or one to all of them."""
REDUCES = frozenset({"re", "res", "rre", "rres", "repkt", "respkt", "recpkt", "recspkt"})
"""The sum of all sources to all destinations."""
PACKETS_READ = {"rppkt": 0, "upkt": 0, "repkt": 1, "respkt": 1, "recpkt": 1, "recspkt": 1}
"""The first source that consists of packets, which are waited for."""
SIGNALS = frozenset({"signal", "rlxsignal", "pws", "pwsf"})
WAITS = frozenset({"wait", "rlxwait"})
SEMAPHORES = frozenset({"sem_release", "sem_acquire"})
NO_DATA = frozenset({"nop", "flush", "barrier"})
OPS = COPIES | REDUCES | SIGNALS | WAITS | SEMAPHORES | NO_DATA
IN_SWITCHES = frozenset({"glres", "gstore", "gstorepkt"})
CHANNELS = ("memory", "port")
MOST_CHUNKS = 1 << 20
"""Chunks of a buffer at most; each is a record while the plan is read."""

Key = tuple[str, int, int, int]
"""A channel: its type, the GPUs from and to which it signals, which of those channels. A semaphore or
barrier: which of the two, its GPU twice, its number."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Chunks of a GPU's buffer: `place` is the first."""

    rank: int
    place: Place
    count: int


@dataclass(frozen=True, slots=True)
class Op:
    """One operation. `keys`: what it signals, waits for, releases, acquires, or the barrier at which
    `arrivals` blocks must arrive; `where`: its place in the file, for messages."""

    name: str
    where: str
    src: tuple[Slice, ...] = ()
    dst: tuple[Slice, ...] = ()
    keys: tuple[Key, ...] = ()
    arrivals: int = 0


@dataclass(slots=True)
class ExecutionPlan(Algorithm):
    """The whole plan: the operations of every (GPU, thread block), and the initial value of semaphores. Where
    blocks share an operation, chunks are divided so that each block has whole ones."""

    programs: dict[tuple[int, int], list[Op]] = field(default_factory=dict)
    initial: dict[Key, int] = field(default_factory=dict)

    @property
    def ways(self) -> tuple[tuple[bool, bool], ...]:
        """Input and output are where the plan has them, and nothing is staged."""
        return ((not self.in_place, False),)


def parse_plan(data: bytes, path: str) -> ExecutionPlan:
    """The plan in these bytes; `path` is for messages. Raises ExperimentError with the place and the fix."""
    try:
        document = json.loads(data)
    except json.JSONDecodeError as error:
        raise ExperimentError(
            f"{path}, line {error.lineno}, column {error.colno}: this is not JSON ({error.msg}). "
            "Give a plan as MSCCL++ writes it."
        ) from None
    except (ValueError, RecursionError) as error:
        raise ExperimentError(
            f"{path}: this is not JSON ({error}). Give a plan as MSCCL++ writes it."
        ) from None
    return _Reader(PlanNode(document, "the plan", path)).plan


class _Reader:
    def __init__(self, top: PlanNode) -> None:
        self._gpus = top.nodes("gpus")
        if not self._gpus:
            raise top.refuse("gpus is empty. Give it one object for each GPU.")
        collective = top.text("collective")
        kind = kind_of(collective)
        if kind is None:
            raise top.refuse(f"collective {collective!r} {UNSUPPORTED}")
        in_place = top.truth("inplace")
        if kind == "all-to-all" and in_place:
            raise top.refuse(
                'an all-to-all with "inplace": true overwrites its input; here input and output are apart. '
                "Write it with inplace false."
            )
        names = tuple(zip(BUFFERS, ("input_chunks", "output_chunks", "scratch_chunks"), strict=True))
        self._chunks = [{buffer: gpu.whole(name, 0) for buffer, name in names} for gpu in self._gpus]
        chunks = max(max(inside["i"], inside["o"]) for inside in self._chunks)
        n, self._scale = len(self._gpus), self._shares()
        if not 0 < max(chunks, *(inside["s"] for inside in self._chunks)) * self._scale <= MOST_CHUNKS:
            raise top.refuse(
                f"its buffers have none or more than {MOST_CHUNKS} chunks, divided among blocks that share "
                "operations. Use fewer."
            )
        self._check_chunks(kind, chunks)
        self.plan = ExecutionPlan(top.text("name"), kind, chunks * self._scale, n, top.path, in_place)
        for rank, gpu in enumerate(self._gpus):
            inside = [self._chunks[rank][b] * self._scale for b in BUFFERS]
            self.plan.gpus[rank] = Gpu(inside[0], inside[1], inside[2])
            self._read_gpu(rank, gpu)

    def _shares(self) -> int:
        """Into how many parts a chunk must be divided for all groups of blocks that share operations."""
        parts = 1
        for op in (op for gpu in self._gpus for tb in gpu.nodes("threadblocks") for op in _flat(tb)):
            if "tbg_info" in op.keys:
                parts = lcm(parts, op.node("tbg_info").whole("tbg_size", 1, MOST_CHUNKS, "chunks at most"))
        return parts

    def _check_chunks(self, kind: str, chunks: int) -> None:
        n = len(self._gpus)
        if kind in SHARDED and chunks % n:
            raise self._gpus[0].refuse(f"{chunks} chunks do not give each of {n} GPUs as many.")
        expected = {"i": chunks, "o": chunks}
        if smaller := {"all-gather": "i", "reduce-scatter": "o"}.get(kind):
            expected[smaller] = chunks // n
        for gpu, inside in zip(self._gpus, self._chunks, strict=True):
            for buffer, name in (("i", "input_chunks"), ("o", "output_chunks")):
                if kind != "custom" and inside[buffer] not in (0, expected[buffer]):
                    raise gpu.refuse(
                        f"{name} {inside[buffer]} does not fit {kind} of {n} GPUs with {chunks} chunks in "
                        f"the larger buffer: it must be {expected[buffer]}, or 0 for a buffer without use."
                    )

    def _read_gpu(self, rank: int, gpu: PlanNode) -> None:
        if gpu.whole("id", 0) != rank:
            raise gpu.refuse(f"id {gpu.keys['id']} stands at place {rank}; GPUs are in order, from 0.")
        n = len(self._gpus)
        peers: dict[str, list[int]] = {kind: [] for kind in CHANNELS}
        for channel in gpu.nodes("channels", optional=True):
            if (kind := channel.text("channel_type")) in peers:
                peers[kind] += channel.wholes("connected_to", 0, n, "GPUs")
        self._channels = {
            kind: [(to, peers[kind][:i].count(to)) for i, to in enumerate(peers[kind])] for kind in CHANNELS
        }
        self._remote = [
            (node.whole("rank", 0, n, "GPUs"), _buffer(node))
            for node in gpu.nodes("remote_buffers", optional=True)
        ]
        semaphores = gpu.nodes("semaphores", optional=True)
        for i, node in enumerate(semaphores):
            self.plan.initial["semaphore", rank, rank, i] = node.whole("init_value", 0)
        for block in gpu.nodes("threadblocks"):
            number = block.whole("id", 0)
            if (rank, number) in self.plan.programs:
                raise block.refuse(f"id {number} appears twice in this GPU.")
            self._read_block_tables(block)
            self.plan.programs[rank, number] = [self._op(rank, op) for op in _flat(block)]

    def _read_block_tables(self, block: PlanNode) -> None:
        """The channels and remote buffers that a block's operations number, by type of channel."""
        self._of_block: dict[str, list[tuple[int, int]]] = {kind: [] for kind in CHANNELS}
        self._refs: dict[str, list[tuple[int, str]]] = {kind: [] for kind in CHANNELS}
        for node in block.nodes("channels", optional=True):
            if (kind := node.text("channel_type")) in CHANNELS:
                channels = self._channels[kind]
                ids = node.wholes("channel_ids", 0, len(channels), f"{kind} channels of this GPU")
                self._of_block[kind] += [channels[i] for i in ids]
        for node in block.nodes("remote_buffer_refs", optional=True):
            if (kind := node.text("access_channel_type")) in CHANNELS:
                ids = node.wholes("remote_buffer_ids", 0, len(self._remote), "remote_buffers of this GPU")
                self._refs[kind] += [self._remote[i] for i in ids]

    def _op(self, rank: int, op: PlanNode) -> Op:
        name = op.text("name")
        if name in IN_SWITCHES:
            raise op.refuse(
                f"operation {name} adds up or copies data in NVLink switches (NVLS), which is not "
                "emulated. Use a plan without switch channels."
            )
        if name not in OPS:
            raise op.refuse(f"operation {name!r} is not supported; there are {', '.join(sorted(OPS))}.")
        where = f"{op.where} ({name})"
        if name == "barrier":
            key = ("barrier", rank, rank, op.whole("barrier_id", 0))
            return Op(name, where, keys=(key,), arrivals=op.whole("num_threadblocks", 1))
        keys = self._keys(rank, name, op)
        if name not in COPIES | REDUCES:
            return Op(name, where, keys=keys)
        src, dst = (
            tuple(self._slice(rank, op, node) for node in op.nodes(end)) for end in ("src_buff", "dst_buff")
        )
        if not src or not dst or (name in COPIES and len(src) not in (1, len(dst))):
            raise op.refuse(f"{name} has {len(src)} sources and {len(dst)} destinations.")
        if len(counts := {s.count for s in (*src, *dst)}) > 1:
            low, high = min(counts) // self._scale, max(counts) // self._scale
            raise op.refuse(f"{name} has parts of {low} and of {high} chunks; all must have the same size.")
        return Op(name, where, src, dst, keys)

    def _keys(self, rank: int, name: str, op: PlanNode) -> tuple[Key, ...]:
        """The channels or semaphores of an operation, in the direction of the signal."""
        if name in SEMAPHORES:
            semaphores = sum(key[:2] == ("semaphore", rank) for key in self.plan.initial)
            ids = op.wholes("semaphore_ids", 0, semaphores, "semaphores of this GPU")
            keys: list[Key] = [("semaphore", rank, rank, i) for i in ids]
        elif name in SIGNALS | WAITS:
            kind = _channel_type(op)
            channels = self._of_block[kind]
            ids = op.wholes("channel_ids", 0, len(channels), f"{kind} channels of this block")
            ends = [channels[i] for i in ids]
            if name in SIGNALS:
                keys = [(kind, rank, to, which) for to, which in ends]
            else:
                keys = [(kind, to, rank, which) for to, which in ends]
        else:
            return ()
        if not keys:
            raise op.refuse(f"{name} names no channel or semaphore.")
        if len(set(keys)) < len(keys):
            raise op.refuse(f"{name} names a channel or semaphore twice. Write it twice.")
        return tuple(keys)

    def _slice(self, rank: int, op: PlanNode, node: PlanNode) -> Slice:
        if "buffer_id" in node.keys:
            refs = self._refs[_channel_type(op)]
            rank, buffer = refs[node.whole("buffer_id", 0, len(refs), "remote buffers of this block")]
        else:
            buffer = _buffer(node)
        first, size, within = node.whole("index", 0), node.whole("size", 1), self._chunks[rank][buffer]
        if first + size > within:
            raise node.refuse(
                f"chunks {first} to {first + size - 1} of buffer {buffer} of GPU {rank}, which has {within}."
            )
        share, of_all = 0, 1
        if "tbg_info" in op.keys:
            group = op.node("tbg_info")
            of_all = group.whole("tbg_size", 1)
            share = group.whole("tb_id", 0, of_all, "blocks in the group")
        parts = size * self._scale // of_all
        return Slice(rank, (buffer, first * self._scale + share * parts), parts)


def _flat(block: PlanNode) -> list[PlanNode]:
    """The operations of a block; those of a pipeline once, for the whole of its chunks."""
    flat = []
    for op in block.nodes("ops"):
        flat += op.nodes("ops") if op.text("name") == "pipeline" else [op]
    return flat


def _buffer(node: PlanNode) -> str:
    if (buffer := node.text("type")) not in BUFFERS:
        raise node.refuse(f"type {buffer!r} is no buffer; there are {', '.join(BUFFERS)}.")
    return buffer


def _channel_type(op: PlanNode) -> str:
    if (kind := op.text("channel_type")) not in CHANNELS:
        raise op.refuse(f"channel_type {kind!r} is not supported; there are {' and '.join(CHANNELS)}.")
    return kind
