"""Imported algorithms: two files of our own, small ones made here, and everything that is refused, with its
line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import from_document, load_plan
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.registry import load_plugins as registers
from railweave.framework.runs.runner import run
from railweave.topologies.ring import Ring
from railweave.traffic.collectives.msccl import Msccl
from railweave.traffic.collectives.msccl_file import Algorithm, parse
from railweave.traffic.collectives.msccl_flow import flow_of
from railweave.traffic.collectives.rings import RingAllReduce
from railweave.traffic.rocev2.buffers import RankBuffers
from tests.traffic.collectives.link_queues import seconds
from tests.traffic.memory_fabric import Harm, MemoryFabric, count_wrong
from tests.traffic.random_execution import COMBINE, execute

FILES = Path(__file__).with_name("algorithms")
RING, DOUBLING = (str(FILES / f"{name}.xml") for name in ("ring_all_reduce_8", "doubling_all_gather_4"))
EXCHANGE, PACKED, HALVES = (
    str(FILES / f"{name}.xml") for name in ("exchange_then_add_2", "packed_all_to_all_2", "swap_halves_2")
)
WIDTH = {"float32": 4, "float16": 2, "int32": 4, "int8": 1}


def ring(n: int) -> Fabric:
    return Ring().build({"nodes": n})


def step(
    s: int, kind: str, src: str = "i0", dst: str = "i0", cnt: int = 1, needs: tuple[int, int] = (-1, -1)
) -> str:
    return (
        f'<step s="{s}" type="{kind}" srcbuf="{src[0]}" srcoff="{src[1:]}" '
        f'dstbuf="{dst[0]}" dstoff="{dst[1:]}" '
        f'cnt="{cnt}" depid="{needs[0]}" deps="{needs[1]}"/>'
    )


def block(number: int, send: int, recv: int, *steps: str, chan: int = 0) -> list[str]:
    return [f'<tb id="{number}" send="{send}" recv="{recv}" chan="{chan}">', *steps, "</tb>"]


def algorithm(coll: str, chunks: int, *gpus: list[str], scratch: int = 0) -> str:
    """The file, an element a line, of one GPU for each list of lines; line 1 is <algo>, line 2 the first
    <gpu>."""
    lines = [f'<algo name="small" coll="{coll}" nchunksperloop="{chunks}" ngpus="{len(gpus)}">']
    for number, inside in enumerate(gpus):
        lines += [f'<gpu id="{number}" s_chunks="{scratch}">', *inside, "</gpu>"]
    return "\n".join([*lines, "</algo>"])


def two(coll: str, chunks: int, steps: Callable[[int], list[str]], scratch: int = 0) -> str:
    """Two GPUs with one block each, made by rank."""
    return algorithm(coll, chunks, *(block(0, 1 - r, 1 - r, *steps(r)) for r in range(2)), scratch=scratch)


SWAP_BY_SCRATCH = two(
    "allreduce", 1, lambda r: [step(0, "s"), step(1, "r", dst="s0"), step(2, "nop")], scratch=1
)
SCATTER = two(
    "reduce_scatter",
    4,
    lambda r: [step(0, "s", f"i{2 - 2 * r}", cnt=2), step(1, "rrc", f"i{2 * r}", "o0", 2)],
)
TO_ALL = two("alltoall", 2, lambda r: [step(0, "s", f"i{1 - r}"), step(1, "r", dst=f"o{1 - r}")])


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "algorithm.xml"
        path.write_text(text)
        return str(path)

    return write


def carried_out(schedule: Schedule, what: Msccl, seed: int) -> bool:
    inputs = what.inputs(schedule, seed)
    width = WIDTH[schedule.dtype]
    memory = [np.zeros(schedule.buffer_bytes // width, schedule.dtype) for _ in inputs]
    for held, first in zip(memory, inputs, strict=True):
        held[: len(first)] = first
    after = execute(schedule, memory, seed)
    expected = [what.expected(schedule, inputs, rank) for rank in range(schedule.n_ranks)]
    assert all(len(e) == schedule.size_bytes // width for e in expected) or what.kind == "reduce-scatter"
    return all(np.array_equal(a[: len(e)], e) for a, e in zip(after, expected, strict=True))


@settings(max_examples=60)
@given(
    file=st.sampled_from([RING, DOUBLING]),
    dtype=st.sampled_from(sorted(WIDTH)),
    redop=st.sampled_from(sorted(COMBINE)),
    size=st.integers(0, 700),
    seed=st.integers(0, 2**20),
)
def test_every_order_of_our_files_gives_what_the_arithmetic_says(
    file: str, dtype: str, redop: str, size: int, seed: int
) -> None:
    what = Msccl(file)
    n = 8 if file == RING else 4
    schedule = what.schedule(ring(n), range(n), size, dtype, redop).expand()
    whole = 8 * WIDTH[dtype] if file == RING else 4 * 16
    assert schedule.size_bytes == size // whole * whole
    assert carried_out(schedule, what, seed)


def test_ring_file_is_our_own_ring() -> None:
    """The same bytes between the same ranks in as many steps as RingAllReduce: 14 of an eighth."""
    fabric, packet = ring(8), PacketFormat(1024)
    imported = Msccl(RING).schedule(fabric, range(8), 8 << 12, "int8", "sum").expand()
    own = RingAllReduce().schedule(fabric, range(8), 8 << 12, "int8", "sum").expand()
    assert imported.n_transfers == own.n_transfers == 8 * 14
    for field in ("src", "dst", "size", "reduce"):
        assert sorted(getattr(imported, field).tolist()) == sorted(getattr(own, field).tolist())
    times = [seconds(s, lambda a, b: 8e6, packet) for s in (imported, own)]
    assert times[0] == times[1] == pytest.approx(14 * packet.wire_bytes(1 << 12) / 1e6)
    assert (Msccl(RING).kind, Msccl(RING).busbw_factor(8)) == ("all-reduce", 1.75)


def test_doubling_file_sends_one_shard_then_two() -> None:
    schedule = Msccl(DOUBLING).schedule(ring(4), range(4), 4 << 10, "int8", "sum").expand()
    assert schedule.size.tolist() == [1 << 10] * 4 + [2 << 10] * 4
    assert schedule.phase_names == ("doubling of 4",)
    sends = {(int(a), int(b)) for a, b in zip(schedule.src, schedule.dst, strict=True)}
    assert sends == {(r, r ^ d) for r in range(4) for d in (1, 2)}
    assert Msccl(DOUBLING).kind == "all-gather"
    assert Msccl(DOUBLING).closed_form_s(ring(4), schedule, PacketFormat()) is None


@pytest.mark.parametrize(("text", "kind"), [(SCATTER, "reduce-scatter"), (TO_ALL, "all-to-all")])
@pytest.mark.parametrize("size", [0, 31, 32, 1000])
def test_the_other_kinds(written: Callable[[str], str], text: str, kind: str, size: int) -> None:
    what = Msccl(written(text))
    schedule = what.schedule(ring(2), range(2), size, "float16", "prod").expand()
    assert what.kind == kind
    assert schedule.size_bytes == size // 32 * 32
    assert all(carried_out(schedule, what, seed) for seed in range(20))


def all_pairs(n: int) -> str:
    """All-gather by everyone to everyone, a thread block for each peer."""
    return algorithm(
        "allgather",
        n,
        *(
            [
                line
                for peer in range(n)
                if peer != r
                for line in block(peer, peer, peer, step(0, "s", "i0"), step(1, "r", "i0", f"o{peer}"))
            ]
            for r in range(n)
        ),
    )


def test_blocks_need_no_order_among_them(written: Callable[[str], str]) -> None:
    what = Msccl(written(all_pairs(5)))
    schedule = what.schedule(ring(5), range(5), 80, "int8", "sum").expand()
    assert schedule.n_transfers == 20
    assert len(schedule.after) == 0
    assert carried_out(schedule, what, 3)


@pytest.mark.parametrize("kind", ["allreduce", "reduce_scatter"])
def test_scratch_chunks_are_no_part_of_the_array(written: Callable[[str], str], kind: str) -> None:
    text = Path(RING).read_text().replace('s_chunks="0"', 's_chunks="3"') if kind == "allreduce" else SCATTER
    what = Msccl(written(text.replace('s_chunks="0"', 's_chunks="3"')))
    n = 8 if kind == "allreduce" else 2
    schedule = what.schedule(ring(n), range(n), 640, "int32", "sum").expand()
    assert {len(array) * 4 for array in what.inputs(schedule, 1)} == {schedule.size_bytes}
    assert carried_out(schedule, what, 1)


def test_a_scratch_chunk_is_used_again_only_when_it_was_read(written: Callable[[str], str]) -> None:
    """All-to-all of 3 where 0 and 2 reach each other through one scratch chunk of 1, one after the other."""
    text = algorithm(
        "alltoall",
        3,
        [
            *block(0, 1, -1, step(0, "s", "i2")),
            *block(1, 1, 1, step(0, "s", "i1"), step(1, "r", dst="o1"), chan=1),
            *block(2, -1, 1, step(0, "r", dst="o2")),
        ],
        [
            *block(0, 2, 0, step(0, "rcs", "s0", "s0")),
            *block(1, 0, 2, step(0, "rcs", "s0", "s0", needs=(0, 0))),
            *block(2, 0, 0, step(0, "s", "i0"), step(1, "r", dst="o0"), chan=1),
            *block(3, 2, 2, step(0, "s", "i2"), step(1, "r", dst="o2"), chan=1),
        ],
        [
            *block(0, -1, 1, step(0, "r", dst="o0")),
            *block(1, 1, -1, step(0, "s", "i0")),
            *block(2, 1, 1, step(0, "s", "i1"), step(1, "r", dst="o1"), chan=1),
        ],
        scratch=1,
    )
    what = Msccl(written(text))
    schedule = what.schedule(ring(3), range(3), 48, "int8", "sum").expand()
    assert schedule.n_transfers == 8
    assert all(carried_out(schedule, what, seed) for seed in range(40))


def test_ranks_need_not_be_in_the_order_of_gpus() -> None:
    what = Msccl(DOUBLING)
    schedule = what.schedule(ring(6), [5, 0, 3, 2], 640, "int32", "sum").expand()
    assert carried_out(schedule, what, 1)


def staged_exchange(n: int) -> str:
    """An all-reduce by exchanging what has been added up with ever more distant GPUs, all in one chunk: legal
    in MSCCL, whose messages wait in a FIFO until they are received."""
    ranks = range(n)
    return algorithm(
        "ALL_REDUCE",
        1,
        *(
            [
                line
                for i in range(n.bit_length() - 1)
                for line in block(
                    i,
                    r ^ 1 << i,
                    r ^ 1 << i,
                    step(0, "s", needs=(i - 1, 1) if i else (-1, -1)),
                    step(1, "rrc"),
                )
            ]
            for r in ranks
        ),
    )


OUT_OF_PLACE = two(
    "all_gather",
    2,
    lambda r: [
        step(0, "cpy", "i0", f"o{r}"),
        step(1, "cpy", "i0", f"o{1 - r}"),
        step(2, "s", "i0"),
        step(3, "r", "i0", f"o{1 - r}"),
    ],
)
"""Right with input and output in place or apart."""
APART = two(
    "allreduce",
    1,
    lambda r: [
        step(0, "cpy", "i0", "s0"),
        step(1, "s", "i0"),
        step(2, "r", "i0", "o0"),
        step(3, "re", "i0", "o0"),
    ],
    scratch=1,
)
"""Adds its input to what came, and so needs both: wrong in place."""
FORWARDED_SUM = two(
    "reduce_scatter",
    2,
    lambda r: [step(0, "s", f"i{1 - r}"), step(1, "rrc", f"i{r}", "o0"), step(2, "cpy", "o0", f"i{r}")],
)
FROM_ONE = algorithm(
    "Broadcast",
    2,
    block(0, -1, 1, step(0, "r", cnt=2)),
    [*block(0, 0, -1, step(0, "s", cnt=2)), *block(1, 2, -1, step(0, "s", cnt=2))],
    block(0, -1, 1, step(0, "r", cnt=2)),
)
UNALTERED_SOURCE = algorithm(
    "allreduce",
    1,
    [
        *block(0, 1, -1, step(0, "s")),
        *block(1, 1, -1, step(0, "s"), chan=1),
        *block(2, -1, 2, step(0, "r")),
    ],
    [
        *block(0, 2, 0, step(0, "rrs")),
        *block(1, -1, 0, step(0, "r", dst="s0"), chan=1),
        *block(2, -1, 2, step(0, "r", dst="s1"), chan=1),
        *block(
            3,
            -1,
            -1,
            step(0, "nop", needs=(0, 0)),
            step(1, "re", "s0", needs=(1, 0)),
            step(2, "re", "s1", needs=(2, 0)),
        ),
    ],
    [
        *block(0, 1, -1, step(0, "s"), chan=1),
        *block(1, -1, 1, step(0, "rrc", needs=(0, 0))),
        *block(2, 0, -1, step(0, "s", needs=(1, 0))),
    ],
    scratch=2,
)
"""GPU 1 passes a sum on by rrs, and then adds the others to its own number, which rrs left as it was."""


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(
    ("text", "kind", "n"),
    [
        (EXCHANGE, "all-reduce", 2),
        (PACKED, "all-to-all", 2),
        (HALVES, "reduce-scatter", 2),
        (staged_exchange(8), "all-reduce", 8),
        (OUT_OF_PLACE, "all-gather", 2),
        (APART, "all-reduce", 2),
        (FORWARDED_SUM, "reduce-scatter", 2),
        (FROM_ONE, "broadcast", 3),
        (UNALTERED_SOURCE, "all-reduce", 3),
    ],
)
def test_local_steps_and_every_name_of_an_operation(
    written: Callable[[str], str], text: str, kind: str, n: int, dtype: str
) -> None:
    what = Msccl(text if text.endswith(".xml") else written(text))
    schedule = what.schedule(ring(n), range(n), 1 << 10, dtype, "sum")
    assert what.kind == kind and what.notes(ring(n), range(n)) == ()
    assert schedule.size_bytes == 1 << 10 if n == 2 else schedule.size_bytes > 1000
    assert all(carried_out(schedule.expand(), what, seed) for seed in range(20))
    buffers = RankBuffers(schedule.expand())
    inputs = what.inputs(schedule, 1)
    buffers.fill(inputs)
    MemoryFabric(n, harm=Harm(loss=0.03), seed=1).run(schedule.expand(), buffers)
    assert count_wrong(what, buffers, inputs) == 0


@pytest.mark.parametrize(
    ("path", "sent"), [(EXCHANGE, [2 << 20, 2 << 20]), (PACKED, [1 << 20] * 2), (HALVES, [1 << 20] * 2)]
)
def test_local_steps_send_nothing(path: str, sent: list[int]) -> None:
    """By hand from the files, of 2 MiB in two chunks: both cross, or one; so that 8 MiB over two GPUs at
    450 GB/s take 18.91 or 9.45 us with headers of 58 + 4096 bytes."""
    schedule = Msccl(path).schedule(ring(2), range(2), 2 << 20, "float32", "sum")
    assert schedule.pairs()[2].tolist() == sent
    assert schedule.transfers.n_entries == schedule.n_transfers
    plan = load_plan(
        None,
        {
            "engine": "fluid",
            "topology.domains": 1,
            "topology.rails": 2,
            "size": 8 << 20,
            "collective": f"msccl:{path}",
            "iterations": 1,
            "fault": "none",
        },
        registers(),
    )
    result = run(plan, registers())
    crossed = sent[0] / (2 << 20) * (8 << 20) * 4154 / 4096
    assert result.rows[-1].time_us * result.fabric.rate_scale == pytest.approx(crossed / 450e3, rel=1e-3)


def test_custom_collectives_run_unchecked_and_say_so(written: Callable[[str], str]) -> None:
    """To the next GPU, through its scratch, as in `alltonext` of msccl-tools: nobody knows what is right."""
    text = algorithm(
        "custom",
        1,
        block(0, 1, -1, step(0, "s", "i0")),
        block(0, 2, 0, step(0, "rcs", "i0", "s0"), step(1, "cpy", "s0", "o0")),
        block(0, -1, 1, step(0, "r", "s0", "o0")),
        scratch=1,
    )
    what = Msccl(written(text))
    assert what.kind == "custom" and what.busbw_factor(3) == 1.0
    assert (
        "custom collective, so whether the algorithm is right is not checked"
        in what.notes(ring(3), range(3))[0]
    )
    schedule = what.schedule(ring(3), range(3), 64, "float32", "sum")
    assert schedule.size_bytes == 64 and schedule.n_transfers == 2
    inputs = what.inputs(schedule, 1)
    memory = execute(schedule.expand(), inputs, 1)
    for rank in range(3):
        assert np.array_equal(memory[rank], what.expected(schedule, inputs, rank))
    assert np.array_equal(memory[2][:16], inputs[0][16:32])  # its output is the input of GPU 0


REFUSED = {
    "step type 'ra' is not supported": (two("allreduce", 1, lambda r: [step(0, "s"), step(1, "ra")]), 5),
    "srcbuf 'x' is no buffer": (two("allreduce", 1, lambda r: [step(0, "s", "x0")]), 4),
    "chunks 1 to 2 of buffer i of GPU 0, which has 2": (
        two("allreduce", 2, lambda r: [step(0, "s", "i1", cnt=2)]),
        4,
    ),
    "coll 'scatter' is not supported; there are allreduce": (algorithm("scatter", 1, [], []), 1),
    "<gpu> has 2 chunks in a buffer, and nchunksperloop is 1": (
        algorithm("custom", 1, [], []).replace('id="0"', 'id="0" o_chunks="2"'),
        2,
    ),
    "nchunksperloop 3 does not give each of 2": (algorithm("allgather", 3, [], []), 1),
    "<gpu> id 1 appears twice": (algorithm("allreduce", 1, [], []).replace('id="0"', 'id="1"'), 4),
    "has ngpus 2 but no <gpu> 1": (
        '<algo name="x" coll="allreduce" nchunksperloop="1" ngpus="2">\n<gpu id="0"/>\n</algo>',
        3,
    ),
    "<copy> is not supported": (algorithm("allreduce", 1, ["<copy/>"], []), 3),
    "<step> belongs in <tb>, not in <gpu>": (algorithm("allreduce", 1, [step(0, "nop")], []), 3),
    "<gpu> belongs in <algo>, not at the top": ('<gpu id="0"/>', 1),
    "this is not XML": ("<algo", 1),
    "a document type does not belong": ('<!DOCTYPE algo [<!ENTITY a "b">]>\n<algo/>', 1),
    "<algo> lacks coll": ('<algo name="x" nchunksperloop="1" ngpus="2"/>', 1),
    "ngpus 'two' of <algo> is not a whole number": (
        '<algo coll="allreduce" nchunksperloop="1" ngpus="two"/>',
        1,
    ),
    "step s 1 follows -1": (two("allreduce", 1, lambda r: [step(1, "s")]), 4),
    "type s needs a peer, and the <tb> has send -1": (
        algorithm("allreduce", 1, block(0, -1, 1, step(0, "s")), []),
        4,
    ),
    "send 2 is no other GPU": (algorithm("allreduce", 1, block(0, 2, -1), []), 3),
    "waits for ever, for a message from GPU 1": (two("allreduce", 1, lambda r: [step(0, "r")]), 4),
    "waits for ever, for step 0 of tb 0": (two("allreduce", 1, lambda r: [step(0, "s", needs=(0, 0))]), 4),
    "depid 7 deps 0 is no step of GPU 0": (two("allreduce", 1, lambda r: [step(0, "s", needs=(7, 0))]), 4),
    "GPU 1 never receives what GPU 0 sends on channel 0": (
        algorithm("allreduce", 1, block(0, 1, -1, step(0, "s")), []),
        4,
    ),
    "it receives 1 chunks where line 4 sends 2": (
        algorithm("allreduce", 2, block(0, 1, -1, step(0, "s", cnt=2)), block(0, -1, 0, step(0, "r"))),
        9,
    ),
    "src and dst of rrc overlap": (
        two("allreduce", 3, lambda r: [step(0, "s", "i0", cnt=2), step(1, "rrc", "i0", "i1", 2)]),
        11,
    ),
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_cannot_be_carried_out_is_refused_with_its_line(
    written: Callable[[str], str], says: str
) -> None:
    text, line = REFUSED[says]
    path = written(text)
    with pytest.raises(ExperimentError) as caught:
        Msccl(path).schedule(ring(2), range(2), 64, "int8", "sum").expand()
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{path}, line {line}: ")


@pytest.mark.parametrize(
    "text",
    [
        SWAP_BY_SCRATCH,
        algorithm("allreduce", 1, [], []),
        two("allgather", 2, lambda r: [step(0, "s"), step(1, "r", dst="o0")]),
    ],
)
def test_an_algorithm_with_a_wrong_result_is_refused(written: Callable[[str], str], text: str) -> None:
    with pytest.raises(ExperimentError, match=r"chunk \d of the result of GPU \d is not what an all-"):
        Msccl(written(text)).schedule(ring(2), range(2), 64, "int8", "sum").expand()


def test_a_step_that_is_left_out_of_the_ring_is_noticed(written: Callable[[str], str]) -> None:
    text = Path(RING).read_text().replace('type="rrcs"', 'type="rcs"', 1)
    with pytest.raises(ExperimentError, match="is not what an all-reduce gives"):
        Msccl(written(text)).schedule(ring(8), range(8), 640, "int8", "sum").expand()


def test_chunks_far_apart_that_are_swapped_are_noticed(written: Callable[[str], str]) -> None:
    """The inputs of a collective repeat after 4,099 elements, and with them whole chunks."""
    swap = [step(2, "cpy", "i0", "s0"), step(3, "cpy", "i4099", "i0"), step(4, "cpy", "s0", "i4099")]
    exchange = [step(0, "s", cnt=4100), step(1, "rrc", cnt=4100)]
    right, wrong = (
        Msccl(written(two("allreduce", 4100, lambda _, steps=steps: steps, scratch=1)))
        for steps in (exchange, exchange + swap)
    )
    assert right.schedule(ring(2), range(2), 1 << 14, "int8", "sum").n_transfers == 2
    with pytest.raises(ExperimentError, match="chunk 0 of the result of GPU 0 is not what an all-reduce"):
        wrong.schedule(ring(2), range(2), 1 << 14, "int8", "sum")


def test_other_refusals(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"msccl needs a file: --collective msccl:FILE"):
        Msccl().schedule(ring(2), range(2), 64, "int8", "sum").expand()
    with pytest.raises(ExperimentError, match="cannot be read: No such file"):
        Msccl(str(tmp_path / "none.xml")).schedule(ring(2), range(2), 64, "int8", "sum").expand()
    with pytest.raises(ExperimentError, match="for 8 GPUs and there are 4 ranks"):
        Msccl(RING).schedule(ring(4), range(4), 64, "int8", "sum").expand()


@settings(max_examples=200)
@given(data=st.data())
def test_damaged_files_are_refused_or_right(data: st.DataObject) -> None:
    """Whatever numbers stand in the file: our own refusal, or moves that any order carries out rightly."""
    text = Path(DOUBLING).read_text()
    spots = [i for i, c in enumerate(text) if c.isdigit()]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.sampled_from(spots))
        text = text[:at] + data.draw(st.sampled_from("0123456789")) + text[at + 1 :]
    try:
        found: Algorithm = parse(text.encode(), "damaged.xml")
        flows = [flow_of(found, found.memory(apart=staged), staged=staged) for staged in (False, True)]
    except ExperimentError:
        return
    assert flows[1] is not None
    for flow in filter(None, flows):
        for i, move in enumerate(flow.moves):
            assert all(before < i for before in move.after)
            assert len(move.to) == len(move.chunks)
            assert max(*move.to, *move.chunks) < flow.memory


def test_a_name_with_a_colon_brings_the_file(tmp_path: Path) -> None:
    """`--collective msccl:FILE`, in a file too, and in the document that goes to the lab."""
    asked = {"topology": "ring", "topology.nodes": 8, "router": "shortest", "size": 8192, "fault": "none"}
    known = registers()
    plan = load_plan(None, {**asked, "collective": f"msccl:{RING}"}, known)
    assert (plan.experiment.collective.name, plan.collective.kind) == ("msccl", "all-reduce")
    assert dict(plan.experiment.collective.options) == {"file": RING}
    assert plan.schedule.n_transfers == 112
    assert from_document(plan.document(), known).schedule == plan.schedule
    path = tmp_path / "experiment.yaml"
    path.write_text(f"collective: msccl:{RING}\n")
    assert load_plan(path, asked, known).schedule == plan.schedule


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({"collective": "msccl:none.xml"}, "none.xml cannot be read"),
        ({"collective": "msccl"}, "msccl needs a file"),
        ({"collective": "all-reduce:x"}, "all-reduce has no option 'file'"),
        (
            {"collective": "msccl:a", "collective.file": "b"},
            "names the file 'a' after the colon and 'b' as an option",
        ),
    ],
)
def test_a_name_with_a_colon_that_does_not_fit_is_refused(over: dict[str, object], says: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        load_plan(None, over, registers())
    assert says in str(caught.value)
