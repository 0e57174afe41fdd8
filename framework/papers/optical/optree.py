"""OpTree as real lightpaths: stages, subsets, uneven groups, and a wavelength for every item.

Source: Dai et al., arXiv 2211.15119. The source does not define uneven groups; here groups differ by one node
at most, the larger ones first, and a node without a counterpart in a smaller group sends to that group's last
node. So before each stage every group holds each item exactly once, and after the last stage every node holds
every item.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.papers.optical.arcs import (
    every_item,
    interval_load,
    line_slots,
    regular_slots,
    ring_exchange,
)
from railweave.framework.papers.optical.closed_forms import arity_for, check_ring, deepest, ring_wavelengths
from railweave.framework.papers.optical.lightpath_plan import LightpathPlan


@dataclass(frozen=True, eq=False)
class Exchange:
    """One stage's ordered pairs (P,): `src`, `dst`, the number of their group among `group`, the subgroups
    `src_part` and `dst_part` they belong to, and `position` of the sender in its subgroup.

    Each group splits into as many subgroups as the arity (or as it has nodes); nodes of equal position are a
    subset whose members send each other everything they hold.
    """

    src: Int64
    dst: Int64
    group: Int64
    src_part: Int64
    dst_part: Int64
    position: Int64


def exchanges(nodes: int, arity: int) -> Iterator[Exchange]:
    """The stages of a tree of `arity` 2 or more, from the whole ring down to groups of one."""
    check_ring(nodes)
    node = np.arange(nodes)
    first, size = np.zeros(nodes, np.int64), np.full(nodes, nodes)
    while size.max() > 1:
        fan = np.minimum(arity, size)
        base, extra = size // fan, size % fan
        in_larger = extra * (base + 1)
        offset = node - first
        part = np.where(
            offset < in_larger, offset // (base + 1), extra + np.maximum(offset - in_larger, 0) // base
        )
        part_first = first + part * base + np.minimum(part, extra)
        position = node - part_first

        src, other = every_item(fan)
        apart = other != part[src]
        src, other = src[apart], other[apart]
        other_first = first[src] + other * base[src] + np.minimum(other, extra[src])
        other_size = base[src] + (other < extra[src])
        dst = other_first + np.minimum(position[src], other_size - 1)
        yield Exchange(src, dst, first[src], part[src], other, position[src])
        first, size = part_first, base + (part < extra)


def wavelengths_needed(nodes: int, arity: int) -> tuple[int, ...]:
    """Wavelengths that each stage of `optree_plan` needs per direction, without building its lightpaths."""
    if arity >= nodes:
        return (ring_wavelengths(nodes),)
    held_items = np.ones(nodes, np.int64)
    needs: list[int] = []
    for stage in exchanges(nodes, arity):
        if not needs:
            up, colour = _ring_colours(stage)
            needs.append(max(int(colour[chosen].max(initial=-1)) + 1 for chosen in (up, ~up)))
        else:
            low, high = np.minimum(stage.src, stage.dst), np.maximum(stage.src, stage.dst)
            up, items = stage.dst > stage.src, held_items[stage.src]
            loads = (interval_load(low[c], high[c], items[c], nodes) for c in (up, ~up))
            needs.append(max(int(load.max()) for load in loads))
        held_items = held_items + np.bincount(stage.dst, held_items[stage.src], nodes).astype(np.int64)
    return tuple(needs)


def integer_steps(nodes: int, wavelengths: int, arity: int) -> tuple[int, ...]:
    """Steps of each stage of `optree_plan`: ceil(wavelengths needed / w) each."""
    return tuple(-(-need // wavelengths) for need in wavelengths_needed(nodes, arity))


def best_depth(nodes: int, wavelengths: int) -> int:
    """The depth whose real schedule takes the fewest steps; the least such depth.

    Theorem 2's optimum holds for real-valued arities: rounding them up may cost more than choosing a
    neighbouring depth.
    """
    arities = [arity_for(nodes, depth) for depth in range(1, deepest(nodes) + 1)]
    totals = [sum(integer_steps(nodes, wavelengths, arity)) for arity in arities]
    return totals.index(min(totals)) + 1


def optree_plan(nodes: int, wavelengths: int, arity: int, *, algorithm: str = "optree") -> LightpathPlan:
    """The lightpaths of an m-ary tree: stage 1 round the ring, later ones inside each group's segment.

    Each stage takes ceil(wavelengths it needs / w) steps. With one stage (arity = nodes) it is the one-stage
    all-to-all.
    """
    check_ring(nodes, wavelengths)
    held_start, held_items = np.arange(nodes + 1), np.arange(nodes)
    tables: list[Int64] = []
    stages: list[tuple[str, int]] = []
    for stage in exchanges(nodes, arity):
        count = np.diff(held_start)[stage.src]
        if not stages:
            up, colour = _ring_colours(stage)
            step, wavelength, spread = regular_slots(up.astype(np.int64), colour, count, wavelengths)
        else:
            up = stage.dst > stage.src
            step, wavelength, spread = line_slots(stage.group, stage.src, stage.dst, count, wavelengths)
        row_pair, nth = every_item(count)
        item = held_items[held_start[stage.src[row_pair]] + nth]
        begin = sum(n_steps for _, n_steps in stages)
        src, dst = stage.src[row_pair], stage.dst[row_pair]
        tables.append(np.stack((begin + step, src, dst, item, up[row_pair], wavelength, spread)))
        stages.append((f"stage {len(stages) + 1}", int(step.max()) + 1))
        owner = np.concatenate((np.repeat(np.arange(nodes), np.diff(held_start)), dst))
        order = np.argsort(owner, kind="stable")
        held_items = np.concatenate((held_items, item))[order]
        held_start = np.searchsorted(owner[order], np.arange(nodes + 1))
    return LightpathPlan.of_table(algorithm, nodes, wavelengths, stages, np.concatenate(tables, axis=1))


def _ring_colours(stage: Exchange) -> tuple[Bool, Int64]:
    """(up, colour) of the first stage's pairs: a ring all-to-all per position, each with its own colours.

    One in two pairs of opposite points goes up; every second position is mirrored, so a pair left over goes
    up in one position and down in the next.
    """
    points = int(stage.dst_part.max()) + 1
    arcs = ring_exchange(points)
    goes_up = np.zeros((points, points), bool)
    colour = np.zeros((points, points), np.int32)
    goes_up[arcs.src, arcs.dst], colour[arcs.src, arcs.dst] = arcs.up, arcs.colour
    n_up, n_down = (int(arcs.colour[chosen].max(initial=-1)) + 1 for chosen in (arcs.up, ~arcs.up))
    mirrored = stage.position % 2 == 1
    a = np.where(mirrored, stage.dst_part, stage.src_part)
    b = np.where(mirrored, stage.src_part, stage.dst_part)
    up = goes_up[a, b] ^ mirrored
    before, half = (stage.position + 1) // 2, stage.position // 2
    below = np.where(up, before * n_up + half * n_down, before * n_down + half * n_up)
    pair_colour = (below + colour[a, b]).astype(np.int64)
    for chosen in (up, ~up):  # a position that not every group has may leave colours unused
        pair_colour[chosen] = np.unique(pair_colour[chosen], return_inverse=True)[1]
    return up, pair_colour
