"""Execution plans of MSCCL++: the example and small plans made here, and everything that is refused, with its
place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import railweave as rw
from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, Schedule
from railweave.topologies.ring import Ring
from railweave.traffic.collectives.msccl import Msccl
from railweave.traffic.collectives.mscclpp_flow import plan_flow
from railweave.traffic.collectives.mscclpp_plan import parse_plan
from railweave.traffic.rocev2.buffers import RankBuffers
from tests.fakes.transfers import transfer_of
from tests.traffic.memory_fabric import Harm, MemoryFabric, count_wrong
from tests.traffic.random_execution import execute

EXAMPLE = Path(__file__).parents[3] / "examples" / "direct-all-reduce.json"
Op = dict[str, Any]
Write = Callable[[object], str]


def ring(n: int) -> Fabric:
    return Ring().build({"nodes": n})


def part(rank: int, n: int, text: str) -> Op:
    """`i0` or `i0:2` (2 chunks from 0) of this GPU, `1.i0` of GPU 1."""
    place, _, size = text.partition(":")
    peer, _, local = place.rpartition(".")
    buffer, inside = local[0], {"index": int(local[1:]), "size": int(size or 1)}
    if not peer:
        return {"type": buffer, **inside}
    others = [p for p in range(n) if p != rank]
    return {"buffer_id": 3 * others.index(int(peer)) + "ios".index(buffer), **inside}


def op(name: str, src: str = "", dst: str = "", **keys: Any) -> Op:
    return {"name": name, "src": src.split(), "dst": dst.split(), **keys}


def meet(name: str, *channels: int) -> Op:
    return op(name, channel_ids=list(channels or [0]), channel_type="memory")


SIGNAL, WAIT = meet("signal"), meet("wait")


def plan(
    collective: str,
    counts: tuple[int, int, int],
    *gpus: list[list[Op]],
    in_place: bool = True,
    semaphores: tuple[int, ...] = (),
) -> Op:
    """A plan in which every block has a channel to each other GPU, and reaches all of its buffers; of the
    thread blocks of each GPU."""
    n, made = len(gpus), []
    for rank, blocks in enumerate(gpus):
        others = [p for p in range(n) if p != rank]

        def finished(op: Op, rank: int = rank) -> Op:
            ends = {f"{end}_buff": [part(rank, n, p) for p in op[end]] for end in ("src", "dst") if op[end]}
            inner = {"ops": [finished(o) for o in op["ops"]]} if "ops" in op else {}
            rest = {key: value for key, value in op.items() if key not in ("src", "dst")}
            return {"channel_type": "memory", **rest, **ends, **inner}

        made.append(
            {
                "id": rank,
                **dict(zip(("input_chunks", "output_chunks", "scratch_chunks"), counts, strict=True)),
                "channels": [{"channel_type": "memory", "connected_to": others * len(blocks)}],
                "remote_buffers": [
                    {"rank": p, "type": b, "access_channel_types": ["memory"]} for p in others for b in "ios"
                ],
                "semaphores": [{"init_value": value} for value in semaphores],
                "threadblocks": [
                    {
                        "id": number,
                        "channels": [
                            {
                                "channel_type": "memory",
                                "channel_ids": [number * len(others) + i for i in range(len(others))],
                            }
                        ],
                        "remote_buffer_refs": [
                            {
                                "access_channel_type": "memory",
                                "remote_buffer_ids": list(range(3 * len(others))),
                            }
                        ],
                        "ops": [finished(o) for o in ops],
                    }
                    for number, ops in enumerate(blocks)
                ],
            }
        )
    return {"name": "p", "collective": collective, "protocol": "Simple", "inplace": in_place, "gpus": made}


@pytest.fixture
def written(tmp_path: Path) -> Write:
    def write(document: object) -> str:
        path = tmp_path / "plan.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(path)

    return write


def made(path: str, n: int, size: int = 1 << 12, dtype: str = "int8") -> Schedule:
    return Msccl(path).schedule(ring(n), range(n), size, dtype, "sum").expand()


def right(path: str, n: int, size: int, seed: int, dtype: str = "int32") -> bool:
    """Whether the order of this seed leaves what numpy says of the file's collective, with elements whose
    size is 4 bytes."""
    what, schedule = Msccl(path), made(path, n, size, dtype)
    inputs = what.inputs(schedule, seed)
    memory = [np.zeros(schedule.buffer_bytes // 4, dtype) for _ in inputs]
    for buffer, first in zip(memory, inputs, strict=True):
        buffer[: len(first)] = first
    after = execute(schedule, memory, seed)
    expected = [what.expected(schedule, inputs, rank) for rank in range(n)]
    return all(np.array_equal(a[: len(e)], e) for a, e in zip(after, expected, strict=True))


def test_bytes_of_the_example_are_those_derived_by_hand() -> None:
    """GPU r reads chunk r, a quarter, of each of the three others, adds them up, and writes the sum to them:
    each of 12 ordered pairs carries a quarter that is reduced and, after the three that r reads, a quarter
    that is not. In all 24 S / 4 = 6 S; each GPU sends 1.5 S, the 2 (n - 1) / n of an all-reduce."""
    size = 1 << 12
    schedule = made(str(EXAMPLE), 4, size)
    rows = zip(
        *(getattr(schedule, k).tolist() for k in ("src", "dst", "src_offset", "dst_offset")), strict=True
    )
    assert schedule.size.tolist() == [size // 4] * 24
    reads = {(p, r, r * size // 4, r * size // 4, 1) for r in range(4) for p in range(4) if p != r}
    writes = {(r, p, r * size // 4, r * size // 4, 0) for r in range(4) for p in range(4) if p != r}
    assert {
        (*row, reduce) for row, reduce in zip(rows, schedule.reduce.tolist(), strict=True)
    } == reads | writes
    for i in range(24):
        transfer = transfer_of(schedule, i)
        before = {(transfer_of(schedule, j).src, transfer_of(schedule, j).dst) for j in transfer.after}
        ours = {(p, transfer.src) for p in range(4) if p != transfer.src}
        assert before == (set() if transfer.reduce else ours)
    assert np.bincount(schedule.src, schedule.size).tolist() == [1.5 * size] * 4
    assert (Msccl(str(EXAMPLE)).kind, Msccl(str(EXAMPLE)).busbw_factor(4)) == ("all-reduce", 1.5)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("size", [0, 4096, 10_000])
def test_the_example_is_right_in_any_order(dtype: str, size: int, seed: int) -> None:
    assert right(str(EXAMPLE), 4, size, seed, dtype)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_the_example_is_right_over_a_transport_that_loses_packets(dtype: str) -> None:
    what, schedule = Msccl(str(EXAMPLE)), made(str(EXAMPLE), 4, 5000, dtype)
    buffers = RankBuffers(schedule)
    inputs = what.inputs(schedule, 1)
    buffers.fill(inputs)
    assert count_wrong(what, buffers, inputs) > 0
    MemoryFabric(4, harm=Harm(loss=0.03, late=0.05), seed=1).run(schedule, buffers)
    assert count_wrong(what, buffers, inputs) == 0


def test_the_example_on_fluid_takes_what_its_bytes_take() -> None:
    """A GPU sends three quarters of 1 MiB in the reads, then three in the writes, at 450 GB/s; a quarter is
    64 packets of 4,096 bytes and 58 of headers."""
    collective = f"msccl:{EXAMPLE}"
    result = rw.run(
        engine="fluid", domains=1, rails=4, collective=collective, size=1 << 20, iterations=2, faults=[]
    )
    assert (result.fidelity.verdict, result.wrong) == ("pass", 0)
    assert result.summary.declared_time_us == pytest.approx(6 * 64 * 4154 / 450e9 * 1e6, rel=1e-3)


def two(
    collective: str, counts: tuple[int, int, int], ops: Callable[[int], list[list[Op]]], **keys: Any
) -> Op:
    return plan(collective, counts, ops(0), ops(1), **keys)


def get_and_add(r: int) -> list[list[Op]]:
    """Two blocks: one gets the other GPU's array, chunk by chunk in a pipeline; the other adds it up."""
    got = [op("get", f"{1 - r}.i0:2", "s0:2"), op("sem_release", semaphore_ids=[0])]
    added = [op("sem_acquire", semaphore_ids=[0]), op("re", "i0:2 s0:2", "o0:2")]
    return [[op("pipeline", iter_context={"unit_size": 1024, "num_chunks": 2}, ops=got)], added]


def shared_put(r: int) -> list[list[Op]]:
    """Three blocks put a third of a chunk each to scratch; after a barrier the first signals, waits, adds."""
    arrive = op("barrier", barrier_id=0, num_threadblocks=3)
    third = [op("put", "i0", f"{1 - r}.s0", tbg_info={"tb_id": k, "tbg_size": 3}) for k in range(3)]
    return [[third[0], arrive, SIGNAL, WAIT, op("re", "i0 s0", "i0")], [third[1], arrive], [third[2], arrive]]


def packets(r: int) -> list[list[Op]]:
    """As the all-reduces of protocol LL: packets to scratch, the sum sent on as packets, unpacked."""
    own, other = f"i{r}", f"i{1 - r}"
    return [
        [op("ppkt", other, f"{1 - r}.s0"), op("respkt", f"{own} s0", f"{own} {1 - r}.s1")],
        [op("upkt", "s1", other)],
    ]


PLANS = {
    "all-reduce, one-sided reads": (
        two("allreduce", (2, 2, 2), get_and_add, in_place=False, semaphores=(0,)),
        [4096] * 2,
    ),
    "all-reduce, shared puts": (two("allreduce", (1, 1, 1), shared_put), [4096 // 3 // 4 * 4 * 3] * 2),
    "all-reduce, packets": (two("allreduce", (2, 2, 2), packets), [4096] * 2),
    "all-gather": (
        two("allgather", (1, 2, 0), lambda r: [[op("put", f"o{r}", f"{1 - r}.o{r}"), SIGNAL, WAIT]]),
        [2048] * 2,
    ),
    "all-gather, out of place": (
        two(
            "allgather",
            (1, 2, 0),
            lambda r: [[op("copy", "i0", f"o{r}"), op("put", "i0", f"{1 - r}.o{r}"), SIGNAL, WAIT]],
            in_place=False,
        ),
        [2048] * 2,
    ),
    "reduce-scatter": (
        two("reducescatter", (2, 1, 0), lambda r: [[op("rre", f"i{r} {1 - r}.i{r}", "o0")]]),
        [2048] * 2,
    ),
    "all-to-all": (
        two(
            "alltoall",
            (2, 2, 0),
            lambda r: [[op("copy", f"i{r}", f"o{r}"), op("put", f"i{1 - r}", f"{1 - r}.o{r}"), SIGNAL, WAIT]],
            in_place=False,
        ),
        [2048] * 2,
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_small_plans_send_what_they_should_and_are_right_in_two_orders(name: str, written: Write) -> None:
    """The bytes that each GPU sends, of 4,096: an all-reduce of two in one step exchanges whole arrays, in
    two steps halves twice; all others send half."""
    document, sent = PLANS[name]
    path = written(document)
    schedule = made(path, 2, 4096, "int32")
    moved = schedule.is_transfer
    assert np.bincount(schedule.src[moved], schedule.size[moved], 2).tolist() == sent
    assert right(path, 2, 4096, 1) and right(path, 2, 4096, 2)
    assert Msccl(path).kind == name.split(",")[0]


def test_a_custom_plan_runs_unchecked_and_a_note_tells(written: Write) -> None:
    send = [[op("put", "i0", "1.o0"), SIGNAL]]
    path = written(plan("custom", (1, 1, 0), send, [[WAIT]], in_place=False))
    assert "custom collective" in Msccl(path).notes(ring(2), range(2))[0]
    assert made(path, 2).size.tolist() == [4096]


@pytest.mark.parametrize("gpu", range(4))
@pytest.mark.parametrize("number", [0, 1, 5, 6])
def test_the_example_needs_each_of_its_signals_and_waits(gpu: int, number: int, written: Write) -> None:
    document = json.loads(EXAMPLE.read_text())
    del document["gpus"][gpu]["threadblocks"][0]["ops"][number]
    with pytest.raises(ExperimentError, match=r"waits for ever, for a signal|never waits for this signal"):
        made(written(document), 4)


BOTH = [[SIGNAL, WAIT]]
AT = "gpus[0].threadblocks[0].ops"
REFUSED: dict[str, tuple[object, str]] = {
    "this is not JSON (Expecting": ('{"name": "p",\n "gpus": ]}', "line 2, column 10"),
    "it lacks 'gpus'": ({}, "the plan"),
    "it lacks 'inplace'": ({"gpus": [{}], "collective": "allreduce"}, "the plan"),
    "gpus is empty": ({"gpus": []}, "the plan"),
    "7 in gpus is not an object": ({"gpus": [7]}, "the plan"),
    "gpus 7 is not a list": ({"gpus": 7}, "the plan"),
    "collective 'sendrecv' is not supported; there are allreduce": (
        plan("sendrecv", (1, 1, 0), [], []),
        "the plan",
    ),
    'an all-to-all with "inplace": true': (plan("alltoall", (2, 2, 0), [], []), "the plan"),
    "its buffers have none or more than 1048576 chunks": (plan("allreduce", (0, 0, 0), [], []), "the plan"),
    "3 chunks do not give each of 2 GPUs as many": (plan("allgather", (1, 3, 0), [], []), "gpus[0]"),
    "input_chunks 2 does not fit all-gather of 2 GPUs with 2": (
        plan("allgather", (2, 2, 0), [], []),
        "gpus[0]",
    ),
    "operation glres adds up or copies data in NVLink switches": (
        plan("allreduce", (1, 1, 0), [[op("glres")]], []),
        f"{AT}[0]",
    ),
    "operation 'send' is not supported; there are barrier": (
        plan("allreduce", (1, 1, 0), [[op("send")]], []),
        f"{AT}[0]",
    ),
    "chunks 1 to 2 of buffer i of GPU 1, which has 2": (
        plan("allreduce", (2, 2, 0), [[op("put", "i0:2", "1.i1:2")]], []),
        f"{AT}[0].dst_buff[0]",
    ),
    "chunks 0 to 0 of buffer s of GPU 0, which has 0": (
        plan("allreduce", (1, 1, 0), [[op("copy", "s0", "i0")]], []),
        f"{AT}[0].src_buff[0]",
    ),
    "put has parts of 1 and of 2 chunks": (
        plan("allreduce", (2, 2, 0), [[op("put", "i0", "1.i0:2")]], []),
        f"{AT}[0]",
    ),
    "copy has 2 sources and 1 destinations": (
        plan("allreduce", (2, 2, 1), [[op("copy", "i0 i1", "s0")]], []),
        f"{AT}[0]",
    ),
    "it lacks 'src_buff'": (plan("allreduce", (1, 1, 0), [[op("copy")]], []), f"{AT}[0]"),
    "channel_ids 1 is not below 1, the number of memory channels of this block": (
        plan("allreduce", (1, 1, 0), [[meet("signal", 1)]], []),
        f"{AT}[0]",
    ),
    "signal names a channel or semaphore twice": (
        plan("allreduce", (1, 1, 0), [[meet("signal", 0, 0)]], []),
        f"{AT}[0]",
    ),
    "signal names no channel": (
        plan("allreduce", (1, 1, 0), [[op("signal", channel_type="memory")]], []),
        f"{AT}[0]",
    ),
    "semaphore_ids 0 is not below 0": (
        plan("allreduce", (1, 1, 0), [[op("sem_acquire", semaphore_ids=[0])]], []),
        f"{AT}[0]",
    ),
    "channel_type 'switch' is not supported": (
        plan("allreduce", (1, 1, 0), [[op("signal", channel_ids=[0], channel_type="switch")]], []),
        f"{AT}[0]",
    ),
    "GPU 1 never waits for this signal of GPU 0": (
        plan("allreduce", (1, 1, 0), [[op("nop"), SIGNAL]], []),
        f"{AT}[1] (signal)",
    ),
    "GPU 0 waits for ever, for a signal of GPU 1": (
        plan("allreduce", (1, 1, 0), [[WAIT, SIGNAL]], [[WAIT, SIGNAL]]),
        f"{AT}[0] (wait)",
    ),
    "GPU 0 waits for ever, for a release of semaphore 0": (
        plan("allreduce", (1, 1, 0), [[op("sem_acquire", semaphore_ids=[0])]], [], semaphores=(0,)),
        f"{AT}[0] (sem_acquire)",
    ),
    "GPU 0 waits for ever, for 2 thread blocks at barrier 3": (
        plan("allreduce", (1, 1, 0), [[op("barrier", barrier_id=3, num_threadblocks=2)]], []),
        f"{AT}[0] (barrier)",
    ),
    "GPU 0 waits for ever, for packets that are never written": (
        plan("allreduce", (1, 1, 1), [[op("upkt", "s0", "i0")]], []),
        f"{AT}[0] (upkt)",
    ),
    "it touches memory that gpus[0].threadblocks[0].ops[0] (put) touches too": (
        plan("allreduce", (1, 1, 1), [[op("put", "i0", "1.s0"), SIGNAL]], [[op("re", "i0 s0", "i0"), WAIT]]),
        "gpus[1].threadblocks[0].ops[0] (re)",
    ),
    "source and destination overlap": (
        plan("allreduce", (3, 3, 0), [[op("copy", "i0:2", "i1:2")]], []),
        f"{AT}[0] (copy)",
    ),
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_cannot_be_carried_out_is_refused_with_its_place(says: str, written: Write) -> None:
    document, place = REFUSED[says]
    path = written(document)
    with pytest.raises(ExperimentError) as caught:
        made(path, 2)
    assert str(caught.value).startswith(f"{path}, {place}: ")
    assert says in str(caught.value)


def test_a_plan_that_leaves_a_wrong_result_is_refused(written: Write) -> None:
    with pytest.raises(ExperimentError, match="chunk 0 of the result of GPU 0 is not what"):
        made(written(plan("allreduce", (1, 1, 0), BOTH, BOTH)), 2)
    document = json.loads(EXAMPLE.read_text())
    reduce = document["gpus"][2]["threadblocks"][0]["ops"][3]
    del reduce["src_buff"][3]
    with pytest.raises(ExperimentError, match="chunk 2 of the result of GPU 0 is not what"):
        made(written(document), 4)


def test_a_plan_for_other_ranks_is_refused() -> None:
    with pytest.raises(ExperimentError, match="for 4 GPUs and there are 2 ranks"):
        made(str(EXAMPLE), 2)


@settings(max_examples=150)
@given(data=st.data())
def test_damaged_plans_are_refused_or_ordered(data: st.DataObject) -> None:
    """Whatever numbers stand in the file: our own refusal, or moves that each wait for earlier ones."""
    text = EXAMPLE.read_text()
    spots = [i for i, c in enumerate(text) if c.isdigit()]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.sampled_from(spots))
        text = text[:at] + data.draw(st.sampled_from("0123456789")) + text[at + 1 :]
    try:
        found = parse_plan(text.encode(), "damaged.json")
        flow = plan_flow(found, found.memory(apart=False))
    except ExperimentError:
        return
    for i, move in enumerate(flow.moves):
        assert all(before < i for before in move.after)
        assert max(*move.to, *move.chunks) < flow.memory
