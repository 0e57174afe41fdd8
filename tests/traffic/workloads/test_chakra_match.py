"""What belongs together in a trace, in which order, and everything without a match; all refused by file and
node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError
from railweave.topologies.ring import Ring
from railweave.traffic.workloads.chakra import Chakra
from railweave.traffic.workloads.chakra_file import Node, Trace, parse
from railweave.traffic.workloads.chakra_order import issue_order, ordered
from railweave.traffic.workloads.chakra_traffic import TracedTraffic
from tests.traffic.workloads import chakra_traces as make
from tests.traffic.workloads.chakra_traces import COLL, COMP, METADATA, RECV, SEND, field, message, node

Ranks = Sequence[Sequence[bytes]]


def trace(ranks: Ranks) -> Trace:
    files = [METADATA + b"".join(map(message, nodes)) for nodes in ranks]
    return Trace("t", tuple(parse(data, f"t.{rank}.et") for rank, data in enumerate(files)))


def reduces(number: int = 1, size: make.Value = 64, kind: make.Value = 0, **given: make.Value) -> bytes:
    return node(number, COLL, name="sum", comm_type=kind, comm_size=size, **given)


def send(
    number: int = 1, dst: int = 1, size: int = 64, after: Sequence[int] = (), **given: make.Value
) -> bytes:
    return node(number, SEND, after, name="give", comm_dst=dst, comm_size=size, **given)


def receive(number: int = 1, src: int = 0, after: Sequence[int] = (), **given: make.Value) -> bytes:
    return node(number, RECV, after, name="take", comm_src=src, **given)


def defines(text: str) -> bytes:
    return node(8, 1, name="init", inputs=text)


REFUSED: dict[str, Ranks] = {
    # messages
    "t.0.et, node 1 (give): this message is never received: rank 0 sends 1 to rank 1 with comm_tag 0": [
        [send()],
        [],
    ],
    "t.0.et, node 2 (give): this message is never received: rank 0 sends 2": [[send(), send(2)], [receive()]],
    "t.1.et, node 1 (take): this message is never sent: rank 0 sends 0": [[], [receive()]],
    "with comm_tag 7, and 0 are received": [[send(comm_tag=7)], [receive(comm_tag=6)]],
    "t.1.et, node 1 (take): it receives 32 bytes where t.0.et, node 1 (give) sends 64": [
        [send()],
        [receive(comm_size=32)],
    ],
    "t.0.et, node 1 (give): comm_src is 1 in the trace of rank 0": [[send(comm_src=1)], [receive()]],
    "t.1.et, node 1 (take): comm_dst is 0 in the trace of rank 1": [[send()], [receive(comm_dst=0)]],
    "t.0.et, node 1 (give): comm_dst 2 is no other rank; there are 0 to 1": [[send(dst=2)], []],
    "t.0.et, node 1 (give): comm_dst 0 is no other rank": [[send(dst=0)], []],
    "COMM_SEND_NODE lacks the attribute comm_dst": [[node(1, SEND, comm_size=1)], []],
    "COMM_RECV_NODE lacks the attribute comm_src": [[node(1, RECV, comm_size=1)], []],
    "COMM_SEND_NODE lacks the attribute comm_size": [[node(1, SEND, comm_dst=1)], [receive()]],
    "comm_size is an integer, 0 or more, not -1": [[send(size=-1)], [receive()]],
    "comm_dst is an integer, 0 or more, not 'b'": [[node(1, SEND, comm_dst="b", comm_size=1)], []],
    "comm_dst is an integer, 0 or more, not of another type": [
        [node(1, SEND, comm_dst=True, comm_size=1)],
        [],
    ],
    "comm_size 1125899906842625 is more than 1125899906842624 bytes": [
        [send(size=(1 << 50) + 1)],
        [receive()],
    ],
    # collectives
    "t.0.et, node 1 (sum): it is collective 1 of the group of all (ranks 0, 1), and rank 1 has 0 of them": [
        [reduces()],
        [],
    ],
    "t.1.et, node 2 (sum): it is collective 2 of group 'a' (ranks 0, 1), and rank 0 has 1": [
        [reduces(pg_name="a")],
        [reduces(pg_name="a"), reduces(2, pg_name="a")],
    ],
    "t.1.et, node 1 (sum): its comm_size is 32 and that of t.0.et, node 1 (sum) is 64": [
        [reduces()],
        [reduces(size=32)],
    ],
    "t.1.et, node 1 (sum): its kind is all-gather and that of t.0.et, node 1 (sum) is all-reduce": [
        [reduces()],
        [reduces(kind=2)],
    ],
    "its comm_src is 1 and that of t.0.et, node 1 (sum) is 0": [
        [reduces(kind=5)],
        [reduces(kind=5, comm_src=1)],
    ],
    "comm_src 5, its root, is not in the group of all of ranks 0, 1": [[reduces(kind=5, comm_src=5)]] * 2,
    "t.0.et, node 1 (sum): REDUCE is not supported; there are ALL_REDUCE, ALL_GATHER": [[reduces(kind=1)]]
    * 2,
    "GATHER is not supported": [[reduces(kind=3)]] * 2,
    "SCATTER is not supported": [[reduces(kind=4)]] * 2,
    "REDUCE_SCATTER_BLOCK is not supported": [[reduces(kind=8)]] * 2,
    "comm_type 10 is not supported": [[reduces(kind=10)]] * 2,
    "COMM_COLL_NODE lacks the attribute comm_type": [[node(1, COLL, comm_size=1)]] * 2,
    "COMM_COLL_NODE lacks the attribute comm_size": [[node(1, COLL, comm_type=0)]] * 2,
    "pg_name is neither a text nor a whole number": [[reduces(pg_name=True)]] * 2,
    # groups
    "t.1.et, node 1 (sum): rank 1 is not in group 'a' of ranks 0": [
        [reduces(pg_name="a"), defines(make.groups({"a": [0]}))],
        [reduces(pg_name="a"), defines(make.groups({"a": [0]}))],
    ],
    "t.0.et, node 8 (init): group 'a' has ranks 0, 2; each is one of 0 to 1": [
        [reduces(), defines(make.groups({"a": [0, 2]}))]
    ]
    * 2,
    "group 'a' has ranks 1, 1; each is one of 0 to 1, once": [
        [reduces(), defines(make.groups({"a": [1, 1]}))]
    ]
    * 2,
    "t.0.et, node 8 (init): its process groups are not a JSON list": [[reduces(), defines('[{"pg_name": }]')]]
    * 2,
    "are not a JSON list of {pg_name, ranks}. Fix": [[reduces(), defines('[{"pg_name": "a", "ranks": 3}]')]]
    * 2,
    "not a JSON list of {pg_name, ranks}": [[reduces(), defines('[{"pg_name": "a", "ranks": [true]}]')]] * 2,
    # order
    "t.0.et, node 1 (a): it waits for itself, in the cycle of t.0.et, node 1 (a), t.0.et, node 2 (b). Fix": [
        [node(1, COMP, [2], name="a"), node(2, COMP, [1], name="b")],
        [],
    ],
    "t.1.et, node 3 (a): it waits for itself, in the cycle of t.1.et, node 3 (a). Fix": [
        [],
        [node(3, COMP, ctrl=[3], name="a")],
    ],
    "t.0.et, node 2 (give): it waits for itself, in the cycle of": [
        [receive(1, src=1), send(2, after=[1])],
        [receive(1), send(2, dst=0, after=[1])],
    ],
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_does_not_fit_is_refused(says: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        ordered(trace(REFUSED[says]))
    assert says in str(caught.value)
    assert re.match(r"t\.\d\.et, node \d+ \(\w+\): ", str(caught.value))


def test_a_collective_that_two_ranks_need_in_turns_is_a_cycle() -> None:
    """Rank 0 has group a before b, rank 1 the other way round, both by their dependencies."""
    ranks = [
        [reduces(1, pg_name=first), node(2, COLL, [1], comm_type=0, comm_size=64, pg_name=second)]
        for first, second in (("a", "b"), ("b", "a"))
    ]
    with pytest.raises(ExperimentError, match="it waits for itself, in the cycle of"):
        ordered(trace(ranks))


def test_a_cycle_of_many_names_six() -> None:
    ring = [node(i, COMP, [(i + 1) % 9], name="x") for i in range(9)]
    with pytest.raises(ExperimentError, match=r"node 5 \(x\) and 3 more\. Fix"):
        ordered(trace([ring]))


def issued(nodes: Sequence[bytes]) -> list[int]:
    return [found.id for found in issue_order(trace([nodes]).ranks[0])]


def test_nodes_are_issued_by_their_ids_and_dependencies_first() -> None:
    assert issued([node(3, COMP), node(1, COMP), node(2, COMP)]) == [1, 2, 3]
    assert issued([node(1, COMP, [7]), node(2, COMP), node(7, COMP)]) == [7, 1, 2]
    assert issued([node(5, COMP, [6, 3]), node(6, COMP, [3]), node(3, COMP)]) == [3, 6, 5]
    assert len(issued([node(i, COMP, [i + 1] if i < 5000 else []) for i in range(1, 5001)])) == 5000


def test_collectives_match_by_order_not_by_number() -> None:
    """Rank 1 numbers its nodes in its own way, and has them in any order in its file."""
    ranks = [[reduces(1, 64), reduces(2, 128)], [reduces(40, 128), node(9, COMP), reduces(30, 64)]]
    found = [one.operation for one in ordered(trace(ranks))]
    assert [(o.size, [n.id for n in o.nodes]) for o in found] == [(64, [1, 30]), (128, [2, 40])]


def test_messages_match_by_tag_and_then_by_order() -> None:
    ranks = [
        [send(1, size=10, comm_tag=1), send(2, size=20, comm_tag=2), send(3, size=30, comm_tag=1)],
        [receive(1, comm_tag=2), receive(2, comm_tag=1), receive(3, comm_tag=1)],
    ]
    found = [one.operation for one in ordered(trace(ranks))]
    assert {o.size: o.nodes[1].id for o in found} == {10: 2, 20: 1, 30: 3}


def test_what_is_implied_is_not_waited_for_again() -> None:
    """A chain 1, 2, 3: operation 3 waits for 2 alone, though its node names 1 too; a receive holds nothing
    up, so what stands before it is waited for beside it."""
    chain = [
        reduces(1),
        node(2, COLL, [1], comm_type=0, comm_size=64),
        node(3, COLL, [1, 2], comm_type=0, comm_size=64),
    ]
    assert [one.after for one in ordered(trace([chain] * 2))] == [((), ()), ((0,), (0,)), ((1,), (1,))]
    ranks = [
        [send(1), send(2, after=[1])],
        [receive(1), receive(2, after=[1]), send(3, dst=0, after=[2])],
    ]
    ranks[0].append(receive(3, src=1))
    found = ordered(trace(ranks))
    assert [one.after for one in found] == [((), ()), ((0,), ()), ((0, 1), ())]
    assert [one.level for one in found] == [0, 1, 2]


def test_groups_of_one_and_of_no_bytes_carry_nothing_but_pass_on() -> None:
    alone = node(2, COLL, [1], comm_type=0, comm_size=64, pg_name="me")
    empty = node(3, COLL, [2], comm_type=0, comm_size=0)
    ranks = [[reduces(1), alone, empty, node(4, COLL, [3], comm_type=0, comm_size=64)]]
    ranks.append([reduces(1), empty.replace(b"*\x01\x02", b"*\x01\x01"), ranks[0][3]])
    found = ordered(trace(ranks))
    assert [one.operation.size for one in found] == [64, 64]
    assert found[1].after == ((0,), (0,))


@settings(max_examples=300)
@given(data=st.data())
def test_damaged_traces_are_refused_or_carried_out(data: st.DataObject) -> None:
    """Whatever stands in the files: our own refusal, or a schedule that only waits for what is before it."""
    ranks = data.draw(st.sampled_from([DAMAGED_PIPELINE, DAMAGED_GROUPS]))
    files = [bytearray(METADATA + b"".join(map(message, nodes))) for nodes in ranks]
    for _ in range(data.draw(st.integers(1, 4))):
        file = data.draw(st.sampled_from(files))
        at = data.draw(st.integers(0, len(file) - 1))
        file[at] = data.draw(st.integers(0, 255))
    try:
        nodes: list[tuple[Node, ...]] = [parse(bytes(file), f"t.{i}.et") for i, file in enumerate(files)]
        found = ordered(Trace("t", tuple(nodes)))
        assert all(before < i for i, one in enumerate(found) for waits in one.after for before in waits)
        if found:
            fabric = Ring().build({"nodes": len(files)})
            traffic = TracedTraffic(fabric, range(len(files)), "int8", "sum", two_levels=True)
            traffic.schedule(found, 1 << 12, 0.25).expand()
    except ExperimentError as error:
        assert len(str(error)) > 20


DAMAGED_PIPELINE = make.pipeline(2, 2, 1, 256, 64)
DAMAGED_GROUPS = [
    [
        defines(make.groups({"0": [], "3": [2, 0]})),
        reduces(1),
        *([reduces(2, kind=2, pg_name="3")] if r != 1 else []),
        node(4, COLL, [1], comm_type=5, comm_size=70, comm_src=1),
        node(5, COLL, comm_type=9),
    ]
    for r in range(3)
]


@settings(max_examples=150)
@given(
    st.lists(
        st.lists(
            st.builds(
                lambda number, kind, after, size, peer: node(
                    number, kind, after, comm_type=size % 10, comm_size=size, comm_src=peer, comm_dst=1 - peer
                ),
                st.integers(0, 5),
                st.sampled_from([COMP, SEND, RECV, COLL]),
                st.lists(st.integers(0, 5), max_size=2),
                st.integers(0, 9),
                st.integers(0, 1),
            ),
            max_size=4,
        ),
        min_size=2,
        max_size=2,
    )
)
def test_wild_graphs_are_refused_or_ordered(ranks: list[list[bytes]]) -> None:
    try:
        found = ordered(trace(ranks))
    except ExperimentError:
        return
    assert all(before < i for i, one in enumerate(found) for waits in one.after for before in waits)


def test_a_name_never_breaks_a_line(tmp_path: Path) -> None:
    ranks = [[field(1, 1) + field(2, "two\nlines" + "x" * 500) + field(3, COLL)], []]
    with pytest.raises(ExperimentError) as caught:
        Chakra(make.written(tmp_path, ranks)).schedule(
            Ring().build({"nodes": 2}), [0, 1], 64, "int8", "sum"
        ).expand()
    assert "node 1 (two?lines" in str(caught.value) and len(str(caught.value).split("(")[1]) < 200
