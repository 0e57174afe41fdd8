"""The order of a trace: which operations every operation waits for, and how many come before it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from operator import or_

from railweave.framework.errors import ExperimentError
from railweave.traffic.workloads.chakra_file import Node, Trace
from railweave.traffic.workloads.chakra_match import (
    COMPUTATION,
    SEND_RECV,
    TraceOperation,
    computations,
    match,
)

MOST_SHOWN = 6
"""Nodes of a cycle that an error lists."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """An operation that sends or computes something, in a list ordered by dependencies. `level`: the length
    of the longest chain of operations before it; `after`: for each member, those of its operations that must
    be complete before it begins, as indices into the list."""

    operation: TraceOperation
    level: int
    after: tuple[tuple[int, ...], ...]


def ordered(trace: Trace, *, compute: bool = False, flops: float = 0.0) -> list[Ordered]:
    """What the trace sends and, with `compute`, what it computes, see `computations`; a rank computes one
    thing at a time. Raises ExperimentError for dependency cycles, for nodes without a match, and for
    computations that cannot be timed."""
    ranks = [issue_order(nodes) for nodes in trace.ranks]
    operations = [*match(ranks), *(computations(ranks, flops) if compute else ())]
    graph = _Graph(ranks, operations)
    walk = graph.walk()
    levels = [0] * len(walk)  # for every vertex, the operations on the longest path to it
    for vertex in walk:
        levels[vertex] = max((levels[v] + graph.acts(v) for v in graph.before[vertex]), default=0)
    entries = _entries(graph, walk)
    order = sorted(filter(graph.acts, walk), key=levels.__getitem__)
    place = {i: at for at, i in enumerate(order)}
    result = []
    computed: dict[int, int] = {}
    for i in order:
        operation, after = operations[i], [sorted(place[j] for j in entry) for entry in entries[i]]
        if operation.kind == COMPUTATION:
            (rank,) = operation.members
            after = [sorted({*after[0], *([computed[rank]] if rank in computed else ())})]
            computed[rank] = place[i]
        result.append(Ordered(operation, levels[i], tuple(map(tuple, after))))
    return result


def issue_order(nodes: Sequence[Node]) -> list[Node]:
    """A rank's nodes by ascending id, but each after those it depends on."""
    by_id = {node.id: node for node in nodes}
    order, path, waiting = dict[int, Node](), dict[int, None](), sorted(by_id, reverse=True)
    while waiting:
        number = waiting[-1]
        missing = [dep for dep in sorted(by_id[number].deps, reverse=True) if dep not in order]
        if number in path and missing:
            cycle = list(path)
            raise _cycle([by_id[on] for on in cycle[cycle.index(number) :]])
        if missing:
            path[number] = None
            waiting += missing
        else:
            path.pop(number, None)
            order.setdefault(number, by_id[waiting.pop()])
    return list(order.values())


class _Graph:
    """The nodes of all ranks as vertices, those of a collective as one. An operation's vertex has its number;
    that of a message is the sender's node, which the receiver's follows."""

    def __init__(self, ranks: Sequence[Sequence[Node]], operations: Sequence[TraceOperation]) -> None:
        self.operations = operations
        self.cells: list[list[tuple[int, Node]]] = [[] for _ in operations]
        """(rank, node) of every vertex."""
        self.received: dict[int, int] = {}
        """The operation whose receiver a vertex is."""
        self.vertex: list[dict[int, int]] = [{} for _ in ranks]
        """For every rank, the vertex of a node's id."""
        for i, operation in enumerate(operations):
            for member, (rank, node) in enumerate(zip(operation.members, operation.nodes, strict=True)):
                if operation.kind == SEND_RECV and member:
                    self.received[self._new(rank, node)] = i
                else:
                    self.cells[i].append((rank, node))
                    self.vertex[rank][node.id] = i
        for rank, nodes in enumerate(ranks):
            for node in nodes:
                if node.id not in self.vertex[rank]:
                    self._new(rank, node)
        before = [{self.vertex[rank][dep] for rank, node in cell for dep in node.deps} for cell in self.cells]
        for vertex, message in self.received.items():
            before[vertex].add(message)
        self.before = list(map(sorted, before))

    def _new(self, rank: int, node: Node) -> int:
        self.vertex[rank][node.id] = len(self.cells)
        self.cells.append([(rank, node)])
        return len(self.cells) - 1

    def acts(self, vertex: int) -> bool:
        return vertex < len(self.operations) and self.operations[vertex].acts

    def walk(self) -> list[int]:
        """All vertices, each after those before it. Raises ExperimentError with a dependency cycle if there
        is one."""
        sorter = TopologicalSorter(dict.fromkeys(range(len(self.before)), ()))
        for vertex, before in enumerate(self.before):
            sorter.add(vertex, *before)
        try:
            return list(sorter.static_order())
        except CycleError as error:
            # every vertex is before the next one; the first one is repeated at the end
            raise _cycle([self.cells[vertex][0][1] for vertex in error.args[1][:0:-1]]) from None


def _entries(graph: _Graph, walk: Sequence[int]) -> dict[int, list[tuple[int, ...]]]:
    """For every operation and member, the operations that must be complete before it sends, without those
    that others imply."""
    implied: list[dict[int, tuple[int, int]]] = [{} for _ in graph.vertex]
    """For every rank, by operation: its own bit, and those of the operations that are complete with it."""
    done: list[dict[int, tuple[int, ...]]] = [{} for _ in graph.vertex]
    """For every rank, by node: the operations that must be complete for the rank to be past it."""
    entries: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for vertex in walk:
        operation, receives = graph.received.get(vertex, vertex), vertex in graph.received
        for member, (rank, node) in enumerate(graph.cells[vertex]):
            bits, parts = implied[rank], {part for dep in node.deps if (part := done[rank][dep])}
            entry = next(iter(parts), ())
            if len(parts) > 1:
                union = sorted(set().union(*parts))
                needless = reduce(or_, (bits[other][1] for other in union))
                entry = tuple(other for other in union if not needless & bits[other][0])
            done[rank][node.id] = entry
            if graph.acts(operation):
                entries[operation].append(() if receives else entry)
                blocks = not receives and graph.operations[operation].blocks(member)
                behind = (bits[other][0] | bits[other][1] for other in entry if blocks)
                bits[operation] = 1 << len(bits), reduce(or_, behind, 0)
                done[rank][node.id] = (operation,) if blocks else (*entry, operation)
    return entries


def _cycle(nodes: Sequence[Node]) -> ExperimentError:
    shown = ", ".join(f"{node.file}, {node.called}" for node in nodes[:MOST_SHOWN])
    rest = f" and {len(nodes) - MOST_SHOWN} more" if len(nodes) > MOST_SHOWN else ""
    return nodes[0].refuse(f"it waits for itself, in the cycle of {shown}{rest}. Fix the trace.")
