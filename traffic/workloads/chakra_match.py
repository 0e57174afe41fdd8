"""Matches nodes of different ranks: a send with its receive, and the members of a collective.

Sends and receives match by (source, destination, tag), collectives by their process group, each in the order
in which their ranks issue them: ascending ids, dependencies first.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from railweave.traffic.workloads.chakra_file import COLL, COLLECTIVES, COMP, METADATA, RECV, SEND, Node

SEND_RECV, BROADCAST, BARRIER, COMPUTATION = "send-recv", "broadcast", "barrier", "computation"
KINDS = {
    "ALL_REDUCE": "all-reduce",
    "ALL_GATHER": "all-gather",
    "REDUCE_SCATTER": "reduce-scatter",
    "ALL_TO_ALL": "all-to-all",
    "BROADCAST": BROADCAST,
    "BARRIER": BARRIER,
}
EVERY_RANK = ("", "0")
"""Names of the default group, unless the trace defines a group 0."""

Members = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TraceOperation:
    """A message, a collective or a computation. `members`: its ranks, for a message source and destination;
    `root`: an index into them; `size`: bytes as in comm_size; `nodes`: that of each member; `seconds`: of a
    computation."""

    kind: str
    members: Members
    root: int
    size: int
    nodes: tuple[Node, ...]
    seconds: float = 0.0

    @property
    def acts(self) -> bool:
        """Whether it sends or computes anything."""
        return self.kind in (SEND_RECV, COMPUTATION) or (
            len(self.members) > 1 and (self.size > 0 or self.kind == BARRIER)
        )

    def blocks(self, member: int) -> bool:
        """Whether the member certainly sends or computes something in it, and so cannot be past it before it
        has begun."""
        return member == self.root or self.kind not in (BROADCAST, SEND_RECV)


def match(ranks: Sequence[Sequence[Node]]) -> list[TraceOperation]:
    """All operations of the ranks, whose nodes are in issue order. Raises ExperimentError for nodes without a
    match."""
    return [*_messages(ranks), *_collectives(ranks)]


def computations(ranks: Sequence[Sequence[Node]], flops: float) -> list[TraceOperation]:
    """What ranks compute, where that takes time: the duration of a node, or, without one, its `num_ops` at
    `flops` operations per second. Raises ExperimentError where all nodes have `num_ops` alone, and `flops` is
    0."""
    nodes = [
        (rank, node) for rank, rank_nodes in enumerate(ranks) for node in rank_nodes if node.type == COMP
    ]
    timed = [
        TraceOperation(COMPUTATION, (rank,), 0, 0, (node,), seconds)
        for rank, node in nodes
        if (seconds := node.seconds or (node.whole("num_ops", 0) / flops if flops else 0.0)) > 0
    ]
    if nodes and not timed:
        _, first = next(((r, n) for r, n in nodes if n.whole("num_ops", 0)), nodes[0])
        has = "a duration, only num_ops" if first.whole("num_ops", 0) else "a duration or num_ops"
        raise first.refuse(
            f"compute=true, and no computation of the trace has {has}. Give what a GPU computes in a second, "
            "such as `--set workload.flops=400e12`, a trace with durations, or leave compute out."
        )
    return timed


def _messages(ranks: Sequence[Sequence[Node]]) -> list[TraceOperation]:
    sends: dict[tuple[int, int, int], list[Node]] = defaultdict(list)
    receives: dict[tuple[int, int, int], list[Node]] = defaultdict(list)
    for rank, node in ((rank, node) for rank, nodes in enumerate(ranks) for node in nodes):
        if node.type in (SEND, RECV):
            mine, other = ("comm_src", "comm_dst") if node.type == SEND else ("comm_dst", "comm_src")
            if node.whole(mine, rank) != rank:
                raise node.refuse(f"{mine} is {node.whole(mine)} in the trace of rank {rank}. Fix the trace.")
            peer = node.whole(other)
            if peer >= len(ranks) or peer == rank:
                raise node.refuse(f"{other} {peer} is no other rank; there are 0 to {len(ranks) - 1}.")
            if node.type == SEND:
                sends[rank, peer, node.whole("comm_tag", 0)].append(node)
            else:
                receives[peer, rank, node.whole("comm_tag", 0)].append(node)
    messages = []
    for key in dict.fromkeys([*sends, *receives]):
        src, dst, tag = key
        sent, received = sends[key], receives[key]
        if len(sent) != len(received):
            longer, verb = (sent, "received") if len(sent) > len(received) else (received, "sent")
            raise longer[min(len(sent), len(received))].refuse(
                f"this message is never {verb}: rank {src} sends {len(sent)} to rank {dst} with comm_tag "
                f"{tag}, and "
                f"{len(received)} are received there. Fix the trace."
            )
        for send, receive in zip(sent, received, strict=True):
            size = send.bytes()
            if receive.bytes(size) != size:
                raise receive.refuse(
                    f"it receives {receive.bytes()} bytes where {send.file}, {send.called} sends {size}. Fix "
                    "the trace."
                )
            messages.append(TraceOperation(SEND_RECV, (src, dst), 0, size, (send, receive)))
    return messages


def _collectives(ranks: Sequence[Sequence[Node]]) -> list[TraceOperation]:
    users: dict[str, set[int]] = defaultdict(set)
    collectives = [[(node, _group(node)) for node in nodes if node.type == COLL] for nodes in ranks]
    for rank, nodes in enumerate(collectives):
        for _, name in nodes:
            users[name].add(rank)
    issued: dict[tuple[str, Members], dict[int, list[Node]]] = defaultdict(lambda: defaultdict(list))
    for rank, nodes in enumerate(collectives):
        defined = _defined(ranks[rank], len(ranks)) if nodes else {}
        for node, name in nodes:
            if name in defined:
                members = defined[name]
            elif name in EVERY_RANK:
                name, members = "", tuple(range(len(ranks)))
            else:
                members = tuple(sorted(users[name]))
            if rank not in members:
                raise node.refuse(
                    f"rank {rank} is not in group {name!r} of ranks {_listed(members)}. Fix the trace."
                )
            issued[name, members][rank].append(node)
    return [
        _collective(name, members, place, by_rank)
        for (name, members), by_rank in issued.items()
        for place in range(max(map(len, by_rank.values())))
    ]


def _collective(
    name: str, members: Members, place: int, issued: Mapping[int, Sequence[Node]]
) -> TraceOperation:
    """Collective number `place` of a group."""
    called = f"group {name!r}" if name else "the group of all"
    nodes = [issued[rank][place] for rank in members if place < len(issued[rank])]
    first = nodes[0]
    if len(nodes) < len(members):
        absent = next(rank for rank in members if place >= len(issued[rank]))
        raise first.refuse(
            f"it is collective {place + 1} of {called} (ranks {_listed(members)}), and rank {absent} has "
            f"{len(issued[absent])} of them. Fix the trace."
        )
    kinds = [_kind(node) for node in nodes]
    sizes = [node.bytes(0 if kind == BARRIER else None) for node, kind in zip(nodes, kinds, strict=True)]
    roots = [node.whole("comm_src", members[0]) if kinds[0] == BROADCAST else members[0] for node in nodes]
    for values, field in ((kinds, "kind"), (sizes, "comm_size"), (roots, "comm_src")):
        for node, value in zip(nodes, values, strict=True):
            if value != values[0]:
                raise node.refuse(
                    f"its {field} is {value} and that of {first.file}, {first.called} is {values[0]}, but "
                    "both are "
                    f"collective {place + 1} of {called}. Fix the trace."
                )
    if roots[0] not in members:
        raise first.refuse(
            f"comm_src {roots[0]}, its root, is not in {called} of ranks {_listed(members)}. Fix it."
        )
    return TraceOperation(kinds[0], members, members.index(roots[0]), sizes[0], tuple(nodes))


def _kind(node: Node) -> str:
    number = node.whole("comm_type")
    name = COLLECTIVES[number] if number < len(COLLECTIVES) else f"comm_type {number}"
    if name not in KINDS:
        raise node.refuse(
            f"{name} is not supported; there are {', '.join(KINDS)}. Trace it as sends and receives."
        )
    return KINDS[name]


def _group(node: Node) -> str:
    """Its pg_name; empty without one."""
    name = node.attributes.get("pg_name", "")
    if name is None:
        raise node.refuse("the attribute pg_name is neither a text nor a whole number. Fix the trace.")
    return str(name)


def _defined(nodes: Sequence[Node], n_ranks: int) -> dict[str, Members]:
    """The groups that the metadata of one rank defines, as PyTorch does: a list of {pg_name, ranks}, where an
    empty list of ranks means all."""
    groups: dict[str, Members] = {}
    for node in nodes:
        if node.type != METADATA or '"pg_name"' not in node.values:
            continue
        text = node.values[node.values.find("[{") : node.values.rfind("}]") + 2]
        try:
            parsed = [(group["pg_name"], tuple(map(_rank, group["ranks"]))) for group in json.loads(text)]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise node.refuse(
                "its process groups are not a JSON list of {pg_name, ranks}. Fix the trace."
            ) from None
        for name, members in parsed:
            groups[str(name)] = members or tuple(range(n_ranks))
            if len(set(members)) < len(members) or not set(members) <= set(range(n_ranks)):
                raise node.refuse(
                    f"group {name!r} has ranks {_listed(members)}; each is one of 0 to {n_ranks - 1}, once. "
                    "Fix the trace."
                )
    return groups


def _rank(value: object) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _listed(members: Members) -> str:
    return ", ".join(map(str, members[:8])) + (", ..." if len(members) > 8 else "")
