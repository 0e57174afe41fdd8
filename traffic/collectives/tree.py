"""All-reduce up and down two binary trees at once."""

from collections.abc import Sequence

from railweave.framework.model import Fabric
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.operations import AllReduce
from railweave.traffic.collectives.schedule_builder import ScheduleBuilder, Span, chunk_spans
from railweave.traffic.collectives.trees import children_of, depths_of, double_binary_tree

CHUNKS = 8


class TreeAllReduce(AllReduce):
    """Each of NCCL's two binary trees reduces half of the buffer to its root and passes the result down
    again, in chunks that follow one another.

    Ranks are the nodes of the trees; NCCL has servers there, and a chain of GPUs inside each. Source: as
    trees.py.
    """

    summary = "double binary tree (NCCL's), half of the buffer on each, in chunks; any fabric"
    name = "tree-all-reduce"
    parameters: tuple[Parameter, ...] = (
        Parameter("chunks", CHUNKS, "count", "parts of each tree's half that follow one another", 1, 4096),
    )

    def __init__(self, chunks: int = CHUNKS) -> None:
        self._chunks = chunks

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        for phase in ("reduce", "broadcast"):
            builder.phase(phase)
        halves = chunk_spans(0, count, 2)
        for parents, (first, last) in zip(double_binary_tree(len(ranks)), halves, strict=True):
            if last > first:
                _add_tree(builder, parents, chunk_spans(first, last - first, min(self._chunks, last - first)))


def _add_tree(builder: ScheduleBuilder, parents: list[int], spans: Sequence[Span]) -> None:
    """Send every chunk up the tree and down again; in time slots, so that no chunk queues on its way up
    behind another on its way down."""
    children, depths = children_of(parents), depths_of(parents)
    deepest = max(depths)
    by_depth = sorted((rank for rank, parent in enumerate(parents) if parent >= 0), key=depths.__getitem__)
    for chunk, span in enumerate(spans):
        up: dict[int, int] = {}
        down: dict[int, int] = {}
        builder.phase("reduce")
        for rank in reversed(by_depth):
            builder.slot(chunk + deepest - depths[rank])
            after = [up[child] for child in children[rank]]
            up[rank] = builder.transfer(rank, parents[rank], span, reduce=True, after=after)
        builder.phase("broadcast")
        for rank in by_depth:
            builder.slot(chunk + deepest + depths[rank])
            parent = parents[rank]
            after = [down[parent]] if parent in down else [up[child] for child in children[parent]]
            down[rank] = builder.transfer(parent, rank, span, reduce=False, after=after)
