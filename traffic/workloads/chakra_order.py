"""The order of a trace: which operations every operation waits for, and how many come before it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from railweave.framework.errors import ExperimentError
from railweave.traffic.workloads.chakra_file import Node, Trace
from railweave.traffic.workloads.chakra_match import SEND_RECV, TraceOperation, match

MOST_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Ordered:
    """An operation that sends something, in a list ordered by dependencies. `level`: the length of the
    longest chain of operations before it; `after`: for each member, those of its operations that must be
    complete before it sends, as indices into the list."""

    operation: TraceOperation
    level: int
    after: tuple[tuple[int, ...], ...]


def ordered(trace: Trace) -> list[Ordered]:
    """What the trace sends. Raises ExperimentError for dependency cycles, and for nodes without a match."""
    ranks = [issue_order(nodes) for nodes in trace.ranks]
    operations = match(ranks)
    graph = _Graph(ranks, operations)
    walk = graph.walk()
    levels = graph.levels(walk)
    entries = _entries(graph, walk)
    position = {vertex: i for i, vertex in enumerate(walk)}
    order = sorted((i for i, o in enumerate(operations) if o.sends), key=lambda i: (levels[i], position[i]))
    place = {i: at for at, i in enumerate(order)}
    return [
        Ordered(
            operations[i], levels[i], tuple(tuple(sorted(place[j] for j in entry)) for entry in entries[i])
        )
        for i in order
    ]


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
        self.before = [self._before(v) for v in range(len(self.cells))]

    def _new(self, rank: int, node: Node) -> int:
        self.cells.append([(rank, node)])
        self.vertex[rank][node.id] = len(self.cells) - 1
        return len(self.cells) - 1

    def _before(self, vertex: int) -> list[int]:
        before = {self.vertex[rank][dep] for rank, node in self.cells[vertex] for dep in node.deps}
        if vertex in self.received:
            before.add(self.received[vertex])
        return sorted(before)

    def sends(self, vertex: int) -> bool:
        return vertex < len(self.operations) and self.operations[vertex].sends

    def walk(self) -> list[int]:
        """All vertices, each after those before it. Raises ExperimentError with a dependency cycle if there
        is one."""
        sorter = TopologicalSorter(dict.fromkeys(range(len(self.before)), ()))
        for vertex, before in enumerate(self.before):
            sorter.add(vertex, *before)
        try:
            return list(sorter.static_order())
        except (
            CycleError
        ) as error:  # every vertex is before the next one; the first one is repeated at the end
            raise _cycle([self.cells[vertex][0][1] for vertex in error.args[1][:0:-1]]) from None

    def levels(self, walk: Sequence[int]) -> list[int]:
        """For every vertex, the operations on the longest path to it."""
        levels = [0] * len(walk)
        for vertex in walk:
            levels[vertex] = max((levels[v] + self.sends(v) for v in self.before[vertex]), default=0)
        return levels


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
        implied = 0
        for operation in every:
            implied |= self._implies[operation]
        return tuple(operation for operation in every if not implied >> self._bit[operation] & 1)

    def passed(self, operation: int, entry: tuple[int, ...], *, blocks: bool) -> tuple[int, ...]:
        """The operations that must be complete for the rank to be past `operation`, which it reached after
        `entry`."""
        self._bit[operation] = len(self._bit)
        implied = 0
        for other in entry if blocks else ():
            implied |= self._implies[other] | 1 << self._bit[other]
        self._implies[operation] = implied
        return (operation,) if blocks else (*entry, operation)


def _entries(graph: _Graph, walk: Sequence[int]) -> dict[int, list[tuple[int, ...]]]:
    """For every operation and member, the operations that must be complete before it sends."""
    frontiers = [_Frontier() for _ in graph.vertex]
    done: list[dict[int, tuple[int, ...]]] = [{} for _ in graph.vertex]
    entries: dict[int, list[tuple[int, ...]]] = {}
    for vertex in walk:
        operation = graph.received.get(vertex, vertex)
        for member, (rank, node) in enumerate(graph.cells[vertex]):
            entry = frontiers[rank].merged(done[rank][dep] for dep in node.deps)
            done[rank][node.id] = entry
            if not graph.sends(operation):
                continue
            receives = vertex in graph.received
            entries.setdefault(operation, []).append(() if receives else entry)
            blocks = not receives and graph.operations[operation].blocks(member)
            done[rank][node.id] = frontiers[rank].passed(operation, entry, blocks=blocks)
    return entries


def _cycle(nodes: Sequence[Node]) -> ExperimentError:
    shown = ", ".join(f"{node.file}, {node.called}" for node in nodes[:MOST_SHOWN])
    more = f" and {len(nodes) - MOST_SHOWN} more" if len(nodes) > MOST_SHOWN else ""
    return nodes[0].refuse(f"it waits for itself, in the cycle of {shown}{more}. Fix the trace.")
