"""Reading Chakra traces: by protobuf's own bytes, by bytes of ours, and everything that is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError
from railweave.traffic.workloads.chakra_file import LARGEST_FILE, parse, read
from railweave.traffic.workloads.chakra_order import ordered
from railweave.traffic.workloads.chakra_wire import WireError, fields, signed, varint, zigzag
from tests.traffic.workloads import chakra_traces as make
from tests.traffic.workloads.chakra_traces import COLL, COMP, METADATA, SEND, attribute, field, message, node

FIXTURES = Path(__file__).with_name("fixtures")


def test_numbers_are_those_of_the_encoding_guide() -> None:
    """150 and -2 as protobuf.dev has them; zigzag pairs from its table."""
    assert varint(b"\x96\x01", 0, 2) == (150, 2)
    assert signed(varint(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 0, 10)[0]) == -2
    pairs = ((0, 0), (1, -1), (2, 1), (3, -2), (0xFFFFFFFE, 0x7FFFFFFF), (0xFFFFFFFF, -0x80000000))
    assert all(zigzag(encoded) == number for encoded, number in pairs)
    assert [(f.number, f.value) for f in fields(b"\x08\x96\x01", 0, 3)] == [(1, 150)]


def test_a_trace_that_protobuf_wrote() -> None:
    """fixtures/two_ranks was serialized by protobuf 7.36 from the messages of Chakra's et_def.proto:
    attributes of every integer type, fields that we pass over, packed dependencies, groups as PyTorch writes
    them."""
    trace = read(str(FIXTURES / "two_ranks"))
    first, second = trace.ranks
    assert [(n.id, n.name, n.type, n.deps) for n in first] == [
        (0, "## process_group:init ##", 1, ()),
        (300, "matmul", 4, (0,)),
        (301, "all-gather", 7, (0, 300)),
        (302, "envoyé", 5, (301,)),
    ]
    assert second[3].name == "reçu"
    assert first[2].attributes["comm_size"] == 4096 and first[2].attributes["pg_name"] == "7"
    assert first[2].attributes["involved_dim"] is None and first[1].attributes == {}
    sent = {"comm_src": 0, "comm_dst": 1, "comm_size": 1 << 20, "comm_tag": 5, "f32": -2, "f64": 9}
    assert first[3].attributes == second[3].attributes == sent
    operations = [one.operation for one in ordered(trace)]
    assert [(o.kind, o.members, o.size) for o in operations] == [
        ("all-gather", (1, 0), 4096),
        ("send-recv", (0, 1), 1 << 20),
    ]


def test_our_writer_makes_the_fixture() -> None:
    ranks = make.pipeline(4, 2, 4, 1 << 20, 1 << 22)
    for rank, nodes in enumerate(ranks):
        kept = (FIXTURES / "pipeline_8" / f"pipeline.{rank}.et").read_bytes()
        assert kept == METADATA + b"".join(map(message, nodes))


@pytest.mark.parametrize(
    "kind", [make.INT32, make.INT64, make.UINT32, make.UINT64, make.SINT64, make.FIXED32, make.SFIXED64]
)
def test_every_integer_type_will_do(kind: int) -> None:
    (found,) = parse(METADATA + message(node(1, SEND, comm_size=(kind, 70000))), "x")
    assert found.bytes() == 70000


def test_dependencies_may_be_packed_or_not() -> None:
    loose = field(3, COMP) + field(5, 0) + field(1, 9) + field(4, 0) + field(5, 7)
    seven = message(field(1, 7) + field(3, COMP))
    found = parse(METADATA + message(node(0, COMP)) + seven + message(loose), "x")
    assert found[2].deps == (0, 7)


def test_metadata_may_be_empty_or_of_the_older_schema() -> None:
    for first in (b"\0", message(field(1, attribute("schema", "1.0.2-chakra.0.0.4"))), METADATA):
        assert len(parse(first + message(node(0, COMP)), "x")) == 1


BODY = METADATA + message(node(1, COMP, name="a"))
REFUSED = {
    "x is empty": b"",
    "x is compressed. Unpack it with gunzip": b"\x1f\x8b\x08",
    "byte 1: this is not a complete Chakra trace: the first message is a node": message(node(1, COMP)),
    "byte 16: this is not a complete Chakra trace: a message of 7 bytes reaches beyond": BODY + b"\x07ab",
    "it ends within a number": BODY + b"\x80",
    "a number is longer than 10 bytes": BODY + b"\xff" * 20,
    "a field has the number 0": METADATA + message(b"\x00\x01"),
    "a field is of wire type 3": METADATA + message(b"\x0b"),
    "a field of 9 bytes reaches beyond the end of its message": METADATA + message(b"\x12\x09a"),
    "field 1 is of wire type 2, not 0": METADATA + message(field(1, "id")),
    "field 2 is not UTF-8": METADATA + message(field(2, b"\xff")),
    "x, node 1 (b): node 1 (a) has the same id": BODY + message(node(1, COMP, name="b")),
    "x, node 2 (b): it depends on node 3, which is not in the file": BODY
    + message(node(2, COMP, [3], name="b")),
    "x, node 2 (b): it depends on node 5, which": BODY + message(node(2, COMP, ctrl=[5], name="b")),
    "x, node 2 (unnamed): MEM_LOAD_NODE is not supported; there are METADATA_NODE, COMP_NODE": BODY
    + message(node(2, 2)),
    "x, node 2 (unnamed): MEM_STORE_NODE is not": BODY + message(node(2, 3)),
    "x, node 2 (w?n): STORAGE_NODE is not": BODY + message(node(2, 8, name="w\nn")),
    "x, node 2 (unnamed): node type 77 is not": BODY + message(node(2, 77)),
    "x, node 0 (unnamed): INVALID_NODE is not": BODY + b"\0",
}


@pytest.mark.parametrize("says", REFUSED)
def test_files_that_are_refused(says: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        parse(REFUSED[says], "x")
    assert says in str(caught.value)


def test_directories(tmp_path: Path) -> None:
    def says(path: Path) -> str:
        with pytest.raises(ExperimentError) as caught:
            read(str(path))
        return str(caught.value)

    empty, two = tmp_path / "empty", tmp_path / "two"
    empty.mkdir()
    assert "has no Chakra trace: one file <prefix>.<rank>.et" in says(empty)
    assert "cannot be read: No such file or directory" in says(tmp_path / "none" / "trace")
    assert "cannot be read: Not a directory" in says(_touch(tmp_path / "file") / "trace")
    assert "embedded null " in says(tmp_path / "a\0b" / "c")
    make.written(two, make.data_parallel(2, [64]), "a")
    make.written(two, make.data_parallel(3, [64]), "b.1")
    assert f"has the traces a, b.1. Give one of them: chakra:{two / 'a'}" in says(two)
    assert [len(read(str(two / prefix)).ranks) for prefix in ("a", "b.1")] == [2, 3]
    (two / "a.0.et").rename(two / "a.5.et")
    assert f"{two / 'a'}.0.et is missing: there are 2 files, up to rank 5" in says(two / "a")
    _touch(two / "a.01.et")
    assert "has a.01.et and a.1.et: both are rank 1" in says(two / "a")
    (empty / "t.0.et").mkdir()
    assert "t.0.et cannot be read: Is a directory" in says(empty)


def _touch(path: Path) -> Path:
    path.write_bytes(b"")
    return path


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_garbage_is_refused_and_nothing_else(data: bytes) -> None:
    for head in (b"", METADATA, BODY, BODY + bytes([len(data) & 0x7F])):
        try:
            parse(head + data, "x")
        except ExperimentError as error:
            assert str(error).startswith("x")
    try:
        list(fields(data, 0, len(data)))
    except WireError as error:
        assert 0 <= error.at <= len(data)


def test_every_truncation_is_refused_or_a_shorter_trace() -> None:
    """A file cut between two nodes cannot be told from a shorter one; cut anywhere else, it is refused."""
    nodes = make.data_parallel(2, [64, 128])[0]
    whole = METADATA + b"".join(map(message, nodes))
    ends = {len(METADATA) + sum(len(message(n)) for n in nodes[:k]) for k in range(len(nodes) + 1)}
    for cut in range(len(whole)):
        if cut in ends:
            assert len(parse(whole[:cut], "x")) < len(nodes)
        else:
            with pytest.raises(ExperimentError):
                parse(whole[:cut], "x")


def test_a_file_too_large(tmp_path: Path) -> None:
    with (tmp_path / "t.0.et").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(
        ExperimentError, match=rf"has more than {LARGEST_FILE} bytes\. Trace fewer iterations"
    ):
        read(str(tmp_path))


def test_only_communication_is_looked_into() -> None:
    """The attributes of a computation whose duration is known are passed over, whatever they hold."""
    found = parse(METADATA + message(node(1, COMP, micros=5) + field(10, b"\xff\xff")), "x")
    assert found[0].attributes == {}
    with pytest.raises(ExperimentError, match="it ends within a number"):
        parse(METADATA + message(node(1, COLL) + field(10, b"\xff\xff")), "x")
