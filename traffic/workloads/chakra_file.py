"""Reads Chakra execution traces: one file for each rank, `<prefix>.<rank>.et`.

A file is a sequence of messages, each behind its length: GlobalMetadata, then the Nodes. Field numbers and
enums are those of MLCommons Chakra's schema/protobuf/et_def.proto (schema 0.0.4 and the storage nodes added
since). Of a node only what traffic and computation depend on is read; its shapes and other attributes are
skipped.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from railweave.framework.errors import ExperimentError
from railweave.traffic.workloads.chakra_wire import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    Field,
    WireError,
    fields,
    signed,
    signed32,
    varint,
    varints,
    zigzag,
)

NODE_TYPES = (
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
    "STORAGE_NODE",
    "BATCH_NODE",
    "CHECKPOINT_NODE",
)
METADATA, COMP, SEND, RECV, COLL = 1, 4, 5, 6, 7
"""Types of nodes (et_def.proto, NodeType)."""
SUPPORTED = frozenset({METADATA, COMP, SEND, RECV, COLL})
COMMUNICATES = frozenset({SEND, RECV, COLL})
COLLECTIVES = (
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
)
LARGEST_FILE = 64 << 20
"""Bytes of a rank's file that is read."""
LARGEST_MESSAGE = 1 << 50
"""Bytes; a larger comm_size is taken for a mistake."""
GZIP = b"\x1f\x8b"

INTEGERS: dict[int, tuple[int, Callable[[int], int]]] = {
    7: (VARINT, signed),
    9: (VARINT, signed),
    11: (VARINT, int),
    13: (VARINT, int),
    15: (VARINT, zigzag),
    17: (VARINT, zigzag),
    19: (FIXED32, int),
    21: (FIXED64, int),
    23: (FIXED32, signed32),
    25: (FIXED64, signed),
}
"""Wire type and decoder of AttributeProto's integer fields, by number."""

Attribute = int | str | None
"""An integer, a text, or None for a value of another type."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a rank's trace. `deps`: ids of control and data dependencies; `values`: those of its
    inputs' IOInfo, read for metadata nodes only; `attributes`: read for communication nodes, and for
    computations without a duration; `seconds`: its duration."""

    file: str
    id: int
    name: str
    type: int
    deps: tuple[int, ...]
    attributes: Mapping[str, Attribute]
    values: str
    seconds: float = 0.0

    @property
    def called(self) -> str:
        return f"node {self.id} ({self.name or 'unnamed'})"

    def refuse(self, why: str) -> ExperimentError:
        return ExperimentError(f"{self.file}, {self.called}: {why}")

    def whole(self, name: str, default: int | None = None) -> int:
        """An attribute that is an integer, 0 or more, of any integer type."""
        if name not in self.attributes:
            if default is None:
                raise self.refuse(f"{NODE_TYPES[self.type]} lacks the attribute {name}. Add it to the trace.")
            return default
        value = self.attributes[name]
        if not isinstance(value, int) or value < 0:
            shown = "of another type" if value is None else repr(value)
            raise self.refuse(f"the attribute {name} is an integer, 0 or more, not {shown}. Fix the trace.")
        return value

    def bytes(self, default: int | None = None) -> int:
        """Its comm_size."""
        size = self.whole("comm_size", default)
        if size > LARGEST_MESSAGE:
            raise self.refuse(f"comm_size {size} is more than {LARGEST_MESSAGE} bytes. Fix the trace.")
        return size


@dataclass(frozen=True, slots=True)
class Trace:
    """The nodes of every rank, in file order."""

    path: str
    ranks: tuple[tuple[Node, ...], ...]


def read(path: str) -> Trace:
    """The trace in a directory, or of a prefix `DIR/<prefix>`. Raises ExperimentError with the fix."""
    return Trace(path, tuple(_nodes_of(file) for file in _files(path)))


def _files(path: str) -> list[str]:
    """One file for each rank, in their order."""
    location = Path(path)
    try:
        directory, wanted = (location, None) if location.is_dir() else (location.parent, location.name)
        names = sorted(entry.name for entry in directory.iterdir())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ExperimentError(f"{path} cannot be read: {why}. Give the directory: chakra:DIR.") from None
    traces: dict[str, dict[int, str]] = {}
    for name in names:
        parts = re.fullmatch(r"(.+)\.([0-9]{1,9})\.et", name)
        if parts and wanted in (None, parts[1]):
            ranks, rank = traces.setdefault(parts[1], {}), int(parts[2])
            if rank in ranks:
                raise ExperimentError(
                    f"{path} has {ranks[rank]} and {name}: both are rank {rank}. Remove one."
                )
            ranks[rank] = name
    if not traces:
        raise ExperimentError(
            f"{path} has no Chakra trace: one file <prefix>.<rank>.et for each rank is expected. Give the "
            "directory that holds them: chakra:DIR."
        )
    if len(traces) > 1:
        raise ExperimentError(
            f"{path} has the traces {', '.join(traces)}. Give one of them: "
            f"chakra:{location / next(iter(traces))}."
        )
    ((prefix, ranks),) = traces.items()
    missing = sorted(set(range(len(ranks))) - set(ranks))
    if missing:
        raise ExperimentError(
            f"{directory / prefix}.{missing[0]}.et is missing: there are {len(ranks)} files, up to rank "
            f"{max(ranks)}. Add the file of every rank, from 0 on."
        )
    return [str(directory / ranks[rank]) for rank in range(len(ranks))]


def _nodes_of(file: str) -> tuple[Node, ...]:
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ExperimentError(f"{file} cannot be read: {error.strerror}. Fix its permissions.") from None
    return parse(data, file)


def parse(data: bytes, file: str) -> tuple[Node, ...]:
    """The nodes in these bytes; `file` is for messages. Raises ExperimentError."""
    if len(data) > LARGEST_FILE:
        raise ExperimentError(f"{file} has more than {LARGEST_FILE} bytes. Trace fewer iterations.")
    if data.startswith(GZIP):
        raise ExperimentError(f"{file} is compressed. Unpack it with gunzip.")
    nodes: dict[int, Node] = {}
    at, first = 0, True
    try:
        while at < len(data):
            began = at
            length, at = varint(data, at, len(data))
            if length > len(data) - at:
                raise WireError(began, f"a message of {length} bytes reaches beyond the end of the file")
            if not first:
                node = _node(data, at, at + length, file)
                if node.id in nodes:
                    raise node.refuse(f"{nodes[node.id].called} has the same id. Fix the trace.")
                nodes[node.id] = node
            # GlobalMetadata has texts and messages only (different ones in different versions)
            elif any(f.wire == VARINT and f.number in (1, 3) for f in fields(data, at, at + length)):
                raise WireError(at, "the first message is a node, not GlobalMetadata")
            at, first = at + length, False
    except WireError as error:
        raise ExperimentError(
            f"{file}, byte {error.at}: this is not a complete Chakra trace: {error}. Trace again, or copy "
            "the file again."
        ) from None
    if first:
        raise ExperimentError(f"{file} is empty. Trace again, or copy the file again.")
    for node in nodes.values():
        unknown = [dep for dep in node.deps if dep not in nodes]
        if unknown:
            raise node.refuse(f"it depends on node {unknown[0]}, which is not in the file. Fix the trace.")
    return tuple(nodes.values())


def _node(data: bytes, at: int, end: int, file: str) -> Node:
    number = kind = micros = 0
    name = ""
    deps = []
    attributes = []
    inputs = None
    for field in fields(data, at, end):
        match field.number:
            case 1:
                number = _expect(field, VARINT).value
            case 2:
                name = _text(data, field)
            case 3:
                kind = _expect(field, VARINT).value
            case 4 | 5 if field.wire == VARINT:
                deps.append(field.value)
            case 4 | 5:
                deps += varints(data, _expect(field, BYTES).start, field.end)
            case 7:
                micros = _expect(field, VARINT).value
            case 8:
                inputs = _expect(field, BYTES)
            case 10:
                attributes.append(_expect(field, BYTES))
    wanted = kind in COMMUNICATES or (kind == COMP and not micros)
    read = dict(_attribute(data, a.start, a.end) for a in attributes if wanted)
    values = ""
    if kind == METADATA and inputs is not None:
        for field in fields(data, inputs.start, inputs.end):
            if field.number == 1:
                values = _text(data, field)
    node = Node(file, number, _shown(name), kind, tuple(dict.fromkeys(deps)), read, values, micros / 1e6)
    if kind not in SUPPORTED:
        called = NODE_TYPES[kind] if kind < len(NODE_TYPES) else f"node type {kind}"
        supported = ", ".join(NODE_TYPES[node_type] for node_type in sorted(SUPPORTED))
        raise node.refuse(
            f"{called} is not supported; there are {supported}. Leave memory and storage out of the trace."
        )
    return node


def _attribute(data: bytes, at: int, end: int) -> tuple[str, Attribute]:
    """Name and value of an AttributeProto."""
    name = ""
    value: Attribute = None
    for field in fields(data, at, end):
        if field.number == 1:
            name = _text(data, field)
        elif field.number == 29:
            value = _text(data, field)
        elif field.number in INTEGERS:
            wire, decode = INTEGERS[field.number]
            value = decode(_expect(field, wire).value)
        elif field.number != 2:  # which is its documentation
            value = None
    return name, value


def _expect(field: Field, wire: int) -> Field:
    if field.wire != wire:
        raise WireError(field.start, f"field {field.number} is of wire type {field.wire}, not {wire}")
    return field


def _text(data: bytes, field: Field) -> str:
    _expect(field, BYTES)
    try:
        return data[field.start : field.end].decode()
    except UnicodeDecodeError:
        raise WireError(field.start, f"field {field.number} is not UTF-8") from None


def _shown(name: str) -> str:
    """A name made fit for one line of a message."""
    return "".join(c if c.isprintable() else "?" for c in name)[:120]
