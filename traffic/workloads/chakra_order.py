"""The order of a trace: which operations every operation waits for, and how many come before it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
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
    placed: dict[int, bool] = {}
    order = []
    for start in sorted(by_id):
        stack = [] if start in placed else [(start, iter(sorted(by_id[start].deps)))]
        while stack:
            current, remaining = stack[-1]
            placed.setdefault(current, False)
            for dep in remaining:
                if dep not in placed:
                    stack.append((dep, iter(sorted(by_id[dep].deps))))
                    break
                if not placed[dep]:
                    path = [number for number, _ in stack]
                    raise _cycle([by_id[number] for number in path[path.index(dep) :]])
            else:
                placed[current] = True
                order.append(by_id[current])
                stack.pop()
    return order


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


class _Frontier:
    """The operations of one rank, and which of them imply which others."""

    def __init__(self) -> None:
        self._bit: dict[int, int] = {}
        self._implies: dict[int, int] = {}

    def merged(self, parts: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        """The operations that must be complete for all of `parts` to be, without those that others imply."""
        distinct = {part for part in parts if part}
        if len(distinct) < 2:
            return next(iter(distinct), ())
        every = sorted(set().union(*distinct))
        implied = reduce(or_, map(self._implies.__getitem__, every))
        return tuple(operation for operation in every if not implied >> self._bit[operation] & 1)

    def passed(self, operation: int, entry: tuple[int, ...], *, blocks: bool) -> tuple[int, ...]:
        """The operations that must be complete for the rank to be past `operation`, which it reached after
        `entry`."""
        self._bit[operation] = len(self._bit)
        implied = (self._implies[other] | 1 << self._bit[other] for other in entry if blocks)
        self._implies[operation] = reduce(or_, implied, 0)
        return (operation,) if blocks else (*entry, operation)


def _entries(graph: _Graph, walk: Sequence[int]) -> dict[int, list[tuple[int, ...]]]:
    """For every operation and member, the operations that must be complete before it sends."""
    frontiers = [_Frontier() for _ in graph.vertex]
    done: list[dict[int, tuple[int, ...]]] = [{} for _ in graph.vertex]
    entries: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for vertex in walk:
        operation = graph.received.get(vertex, vertex)
        for member, (rank, node) in enumerate(graph.cells[vertex]):
            entry = frontiers[rank].merged(done[rank][dep] for dep in node.deps)
            done[rank][node.id] = entry
            if graph.acts(operation):
                receives = vertex in graph.received
                entries[operation].append(() if receives else entry)
                blocks = not receives and graph.operations[operation].blocks(member)
                done[rank][node.id] = frontiers[rank].passed(operation, entry, blocks=blocks)
    return entries


def _cycle(nodes: Sequence[Node]) -> ExperimentError:
    shown = ", ".join(f"{node.file}, {node.called}" for node in nodes[:MOST_SHOWN])
    more = f" and {len(nodes) - MOST_SHOWN} more" if len(nodes) > MOST_SHOWN else ""
    return nodes[0].refuse(f"it waits for itself, in the cycle of {shown}{more}. Fix the trace.")
