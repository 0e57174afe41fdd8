"""Writes flows as SimCCL does: the ring all-reduce and the all-to-all of NCCL, in the columns of v2.30."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

HEADER = (
    "collective,op,data_size,algorithm,protocol,channel_id,flow_id,src,dest,flow_size,chunk_id,chunk_count,"
    "conn_type,parent_flow_ids,prev_flow_ids"
)
Flow = tuple[str, int, int, int, int, int, Sequence[int]]
"""Collective, channel, id, src, dest, bytes, parents."""


def ring_all_reduce(name: str, ranks: Sequence[int], size: int, channels: int, first: int = 0) -> list[Flow]:
    """2 (n - 1) steps of size / n / channels; channel c goes round the ranks turned by c. A flow's parent is
    what its sender received in the step before. Flow ids count from `first`."""
    flows: list[Flow] = []
    n, number = len(ranks), first
    for channel in range(channels):
        ring = [*ranks[channel:], *ranks[:channel]]
        last: dict[int, int] = {}
        for _ in range(2 * (n - 1)):
            here: dict[int, int] = {}
            for i, rank in enumerate(ring):
                to = ring[(i + 1) % n]
                parents = [last[rank]] if last else []
                flows.append((name, channel, number, rank, to, size // n // channels, parents))
                here[to] = number
                number += 1
            last = here
    return flows


def all_to_all(name: str, n: int, size: int, first: int = 0) -> list[Flow]:
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    return [(name, 0, first + k, i, j, size // n, []) for k, (i, j) in enumerate(pairs)]


def written(path: Path, flows: Iterable[Flow], header: str = HEADER) -> str:
    """The file, its rows by collective, sender, channel and id, as dumpDetailedFlowModels leaves them."""
    flows = list(flows)
    names = list(dict.fromkeys(flow[0] for flow in flows))
    rows = []
    for name, channel, number, src, dest, size, parents in sorted(
        flows, key=lambda f: (names.index(f[0]), f[3], f[1], f[2])
    ):
        waits = ";".join(map(str, parents))
        row = {
            "collective": name, "op": 0, "data_size": 1, "algorithm": 1, "protocol": 0, "channel_id": channel,
            "flow_id": number, "src": src, "dest": dest, "flow_size": size, "chunk_id": 0, "chunk_count": 1,
            "conn_type": "RING", "parent_flow_ids": waits, "prev_flow_ids": (src - 1) % 4,
        }  # fmt: skip
        rows.append(",".join(str(row[column]) for column in header.split(",")))
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)
