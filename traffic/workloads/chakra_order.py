"""The order of a trace: what every operation waits for, and how far behind the start it stands."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from railweave.framework.errors import ExperimentError
from railweave.traffic.workloads.chakra_file import Node, Trace
from railweave.traffic.workloads.chakra_match import SEND_RECV, Operation, match

MOST_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Ordered:
    """Operations that carry something, in an order that their dependencies allow. `level`: operations one after
    another before it; `after`: for each member, those of its own operations that must be complete before it sends,
    as places in the list."""

    operation: Operation
    level: int
    after: tuple[tuple[int, ...], ...]


def ordered(trace: Trace) -> list[Ordered]:
    """What the trace sends. Raises ExperimentError for circles, and for what has no match."""
    ranks = [issue_order(nodes) for nodes in trace.ranks]
    operations = match(ranks)
    graph = _Graph(ranks, operations)
    walk = graph.walk()
    levels = graph.levels(walk)
    entries = _entries(graph, walk)
    position = {v: i for i, v in enumerate(walk)}
    order = sorted((i for i, o in enumerate(operations) if o.carries), key=lambda i: (levels[i], position[i]))
    place = {i: at for at, i in enumerate(order)}
    return [
        Ordered(
            operations[i], levels[i], tuple(tuple(sorted(place[j] for j in entry)) for entry in entries[i])
        )
        for i in order
    ]


def issue_order(nodes: Sequence[Node]) -> list[Node]:
    """A rank's nodes by ascending id, but each behind what it depends on."""
    by_id = {node.id: node for node in nodes}
    over: dict[int, bool] = {}
    found = []
    for start in sorted(by_id):
        stack = [] if start in over else [(start, iter(sorted(by_id[start].deps)))]
        while stack:
            here, rest = stack[-1]
            over.setdefault(here, False)
            for dep in rest:
                if dep not in over:
                    stack.append((dep, iter(sorted(by_id[dep].deps))))
                    break
                if not over[dep]:
                    path = [number for number, _ in stack]
                    raise _circle([by_id[number] for number in path[path.index(dep) :]])
            else:
                over[here] = True
                found.append(by_id[here])
                stack.pop()
    return found


class _Graph:
    """The nodes of all ranks, a collective's nodes as one. The vertex of an operation has its number; of a message
    that is the sender's node, and the receiver's follows it."""

    def __init__(self, ranks: Sequence[Sequence[Node]], operations: Sequence[Operation]) -> None:
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
        found = {self.vertex[rank][dep] for rank, node in self.cells[vertex] for dep in node.deps}
        if vertex in self.received:
            found.add(self.received[vertex])
        return sorted(found)

    def carries(self, vertex: int) -> bool:
        return vertex < len(self.operations) and self.operations[vertex].carries

    def walk(self) -> list[int]:
        """All vertices, each behind those before it. Raises ExperimentError with a circle if there is one."""
        waits = [len(before) for before in self.before]
        behind: list[list[int]] = [[] for _ in waits]
        for vertex, before in enumerate(self.before):
            for other in before:
                behind[other].append(vertex)
        ready = deque(vertex for vertex, count in enumerate(waits) if count == 0)
        found = []
        while ready:
            vertex = ready.popleft()
            found.append(vertex)
            for other in behind[vertex]:
                waits[other] -= 1
                if waits[other] == 0:
                    ready.append(other)
        if len(found) < len(waits):
            at = next(vertex for vertex, count in enumerate(waits) if count)
            path: list[int] = []
            while at not in path:
                path.append(at)
                at = next(other for other in self.before[at] if waits[other])
            raise _circle([self.cells[vertex][0][1] for vertex in path[path.index(at) :]])
        return found

    def levels(self, walk: Sequence[int]) -> list[int]:
        """For every vertex, how many operations stand before it on the longest way to it."""
        found = [0] * len(walk)
        for vertex in walk:
            found[vertex] = max((found[v] + self.carries(v) for v in self.before[vertex]), default=0)
        return found


class _Frontier:
    """The operations of one rank, and which of them lie behind which others."""

    def __init__(self) -> None:
        self._bit: dict[int, int] = {}
        self._behind: dict[int, int] = {}

    def merged(self, parts: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        """What must be complete for all of `parts` to be: without what others of them imply."""
        distinct = {part for part in parts if part}
        if len(distinct) < 2:
            return next(iter(distinct), ())
        every = sorted(set().union(*distinct))
        implied = 0
        for operation in every:
            implied |= self._behind[operation]
        return tuple(operation for operation in every if not implied >> self._bit[operation] & 1)

    def passed(self, operation: int, entry: tuple[int, ...], *, held_up: bool) -> tuple[int, ...]:
        """What must be complete once the rank is over `operation`, which it came to over `entry`."""
        self._bit[operation] = len(self._bit)
        behind = 0
        for other in entry if held_up else ():
            behind |= self._behind[other] | 1 << self._bit[other]
        self._behind[operation] = behind
        return (operation,) if held_up else (*entry, operation)


def _entries(graph: _Graph, walk: Sequence[int]) -> dict[int, list[tuple[int, ...]]]:
    """For every operation and member, which operations must be complete before it sends."""
    frontiers = [_Frontier() for _ in graph.vertex]
    done: list[dict[int, tuple[int, ...]]] = [{} for _ in graph.vertex]
    found: dict[int, list[tuple[int, ...]]] = {}
    for vertex in walk:
        operation = graph.received.get(vertex, vertex)
        for member, (rank, node) in enumerate(graph.cells[vertex]):
            entry = frontiers[rank].merged(done[rank][dep] for dep in node.deps)
            done[rank][node.id] = entry
            if not graph.carries(operation):
                continue
            receives = vertex in graph.received
            found.setdefault(operation, []).append(() if receives else entry)
            held_up = not receives and graph.operations[operation].holds_up(member)
            done[rank][node.id] = frontiers[rank].passed(operation, entry, held_up=held_up)
    return found


def _circle(nodes: Sequence[Node]) -> ExperimentError:
    shown = ", ".join(f"{node.file}, {node.called}" for node in nodes[:MOST_SHOWN])
    more = f" and {len(nodes) - MOST_SHOWN} more" if len(nodes) > MOST_SHOWN else ""
    return nodes[0].refuse(f"it waits for itself, in the circle of {shown}{more}. Mend the trace.")
