"""Writes Chakra traces: the wire format by protobuf's rules, and small jobs of our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

COMP, SEND, RECV, COLL = 4, 5, 6, 7
ALL_REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER, BARRIER = 0, 2, 5, 6, 7, 9
INT32, INT64, UINT32, UINT64, SINT64, FIXED32, SFIXED64, BOOL, STRING = 7, 9, 11, 13, 17, 19, 25, 27, 29
Value = int | str | bool | tuple[int, int]
"""An attribute: int64, text or bool by its type, or (field number, value) for another integer type."""


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    low, value = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(value) if value else bytes([low])


def field(number: int, value: int | str | bytes) -> bytes:
    """A varint, or text, bytes or a message behind its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def attribute(name: str, value: Value) -> bytes:
    if isinstance(value, bool):
        return field(1, name) + field(BOOL, int(value))
    if isinstance(value, str):
        return field(1, name) + field(STRING, value)
    kind, number = value if isinstance(value, tuple) else (INT64, value)
    if kind == SINT64:
        return field(1, name) + field(kind, number << 1 ^ number >> 63)
    if kind in (FIXED32, SFIXED64):
        wide = 4 if kind == FIXED32 else 8
        tag = varint(kind << 3 | (5 if wide == 4 else 1))
        return field(1, name) + tag + number.to_bytes(wide, "little", signed=kind == SFIXED64)
    return field(1, name) + field(kind, number)


def node(
    number: int,
    kind: int,
    after: Sequence[int] = (),
    *,
    name: str = "",
    ctrl: Sequence[int] = (),
    micros: int = 0,
    inputs: str = "",
    **attributes: Value,
) -> bytes:
    """A Node; `after` are its data dependencies. As proto3 has it, a 0 or an empty text is left out."""
    parts = [field(1, number)] if number else []
    parts += [field(2, name)] if name else []
    parts += [field(3, kind)] if kind else []
    for tag, ids in ((4, ctrl), (5, after)):
        parts += [field(tag, b"".join(map(varint, ids)))] if ids else []
    parts += [field(7, micros)] if micros else []
    parts += [field(8, field(1, inputs))] if inputs else []
    parts += [field(10, attribute(key, value)) for key, value in attributes.items()]
    return b"".join(parts)


def message(body: bytes) -> bytes:
    return varint(len(body)) + body


METADATA = message(field(1, "0.0.4"))


def written(directory: Path, ranks: Sequence[Sequence[bytes]], prefix: str = "trace") -> str:
    """The directory with the nodes of every rank in a file each."""
    directory.mkdir(parents=True, exist_ok=True)
    for rank, nodes in enumerate(ranks):
        (directory / f"{prefix}.{rank}.et").write_bytes(METADATA + b"".join(map(message, nodes)))
    return str(directory)


def data_parallel(n: int, buckets: Sequence[int]) -> list[list[bytes]]:
    """A training step: forward, then backward layer by layer, each layer's gradients reduced as soon as they
    are there, then the optimizer."""
    ranks = []
    for _ in range(n):
        nodes = [node(0, COMP, name="forward", micros=900)]
        for i, size in enumerate(buckets):
            backward, reduce = 1 + 2 * i, 2 + 2 * i
            nodes.append(node(backward, COMP, [max(0, backward - 2)], name=f"backward {i}", micros=300))
            nodes.append(
                node(reduce, COLL, [backward], name=f"gradients {i}", comm_type=ALL_REDUCE, comm_size=size)
            )
        last = 1 + 2 * len(buckets)
        nodes.append(node(last, COMP, range(2, last, 2), name="optimizer", ctrl=[0]))
        ranks.append(nodes)
    return ranks


def pipeline(stages: int, copies: int, microbatches: int, size: int, gradients: int) -> list[list[bytes]]:
    """GPipe: all microbatches forward, all backward, then each stage's gradients over its `copies`. Rank is
    copy x stages + stage."""
    ranks = []
    for rank in range(copies * stages):
        steps: list[tuple[int, str, dict[str, Value]]] = []
        for word, way, first in (("forward", 1, 0), ("backward", -1, stages - 1)):
            for m in range(microbatches):
                tag = (INT32, m if way == 1 else microbatches + m)
                if rank % stages != first:
                    ends = {"comm_src": (INT32, rank - way), "comm_tag": tag, "comm_size": (UINT64, size)}
                    steps.append((RECV, f"receive {word} {m}", ends))
                steps.append((COMP, f"{word} {m}", {}))
                if rank % stages != stages - 1 - first:
                    ends = {"comm_dst": (INT32, rank + way), "comm_tag": tag, "comm_size": (INT64, size)}
                    steps.append((SEND, f"send {word} {m}", ends))
        group = f"stage{rank % stages}"
        reduced: dict[str, Value] = {"comm_type": ALL_REDUCE, "comm_size": gradients, "pg_name": group}
        steps.append((COLL, "gradients", reduced))
        ranks.append(
            [
                node(i, kind, [i - 1] if i > 1 else [], name=name, **given)
                for i, (kind, name, given) in enumerate(steps, 1)
            ]
        )
    return ranks


def groups(defined: Mapping[str, Sequence[int]]) -> str:
    """The inputs of PyTorch's process_group:init, as Chakra's converter writes them."""
    each = ", ".join(f'{{"pg_name": "{name}", "ranks": {list(ranks)}}}' for name, ranks in defined.items())
    return str([f"[{each}]"])
