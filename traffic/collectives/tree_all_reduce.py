"""All-reduce up and down two binary trees at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Self

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.all_reduce import AllReduce, check_ranks, element_count
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.plan import Bounds, Plan, chunk_bounds
from railweave.traffic.collectives.trees import children_of, depths_of, double_binary_tree

CHUNKS = 8


class TreeAllReduce(AllReduce):
    """Each of NCCL's two binary trees reduces half of the buffer to its root and hands the result down again, in
    chunks that follow one another.

    Ranks are the nodes of the trees; NCCL has servers there, and a chain of GPUs inside each. Source: as trees.py.
    """

    summary = "double binary tree (NCCL's), half of the buffer on each, in chunks; any fabric"
    parameters: tuple[Parameter, ...] = (
        Parameter("chunks", CHUNKS, "count", "parts of each tree's half that follow one another", minimum=1, maximum=4096),
    )  # fmt: skip

    def __init__(self, chunks: int = CHUNKS) -> None:
        self._chunks = chunks

    def configured(self, options: Mapping[str, Value]) -> Self:
        return type(self)(int(options["chunks"]))

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        check_ranks(fabric, ranks)
        count = element_count(size_bytes, dtype, redop)
        n = len(ranks)
        plan = Plan(n, dtype_of(dtype).itemsize)
        if count and n > 1:
            halves = chunk_bounds(0, count, 2)
            for name in ("reduce", "broadcast"):
                plan.phase(name)
            for tree, parents in enumerate(double_binary_tree(n)):
                length = halves[tree + 1] - halves[tree]
                if length:
                    _plan(plan, parents, chunk_bounds(halves[tree], length, min(self._chunks, length)))
        return plan.schedule("tree-all-reduce", count, dtype, redop)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """None: which links two ranks of a tree share with others is for the routes to say."""
        return None


def _plan(plan: Plan, parents: list[int], bounds: Bounds) -> None:
    """Every chunk up the tree and down; in time slots, so that no chunk's way up waits behind another's way down."""
    children, depths = children_of(parents), depths_of(parents)
    deepest = max(depths)
    by_depth = sorted((rank for rank in range(len(parents)) if parents[rank] >= 0), key=depths.__getitem__)
    for chunk, (first, last) in enumerate(pairwise(bounds)):
        up: dict[int, int] = {}
        down: dict[int, int] = {}
        plan.phase("reduce")
        for rank in reversed(by_depth):
            plan.at(chunk + deepest - depths[rank])
            came = [up[child] for child in children[rank]]
            up[rank] = plan.add(rank, parents[rank], first, last, reduce=True, after=came)
        plan.phase("broadcast")
        for rank in by_depth:
            plan.at(chunk + deepest + depths[rank])
            above = parents[rank]
            came = [down[above]] if above in down else [up[child] for child in children[above]]
            down[rank] = plan.add(above, rank, first, last, reduce=False, after=came)
