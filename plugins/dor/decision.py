"""Why one pair goes the way it does on a torus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import RouteError
from railweave.framework.model import Fabric, HealthSnapshot, Path, RouteTable
from railweave.plugins.dor.displacement import Displacements
from railweave.plugins.dor.lattice import AXES, Lattice, letters
from railweave.plugins.dor.paths import batch_of, dimension_ways


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice for one pair and what it was made of.

    `order` of the axes, as ZXY; `displacement` signed hops along x, y, z; `ties` what decided where both ways
    were equally short; `blocked` the links of the path by rule that are down; `path` None when cut off.
    """

    src: int
    dst: int
    order: str
    displacement: tuple[int, ...]
    ties: tuple[str, ...]
    blocked: tuple[str, ...]
    why: str
    path: Path | None


def signed(displacement: tuple[int, ...]) -> str:
    """`x +2, y 0, z -1`."""
    return ", ".join(
        f"{AXES[axis]} {f'{hops:+d}' if hops else '0'}" for axis, hops in enumerate(displacement)
    )


def check_pair(fabric: Fabric, src: int, dst: int) -> None:
    """Raises RouteError for a GPU that is not there."""
    for gpu in (src, dst):
        if not 0 <= gpu < fabric.n_gpus:
            raise RouteError(f"there is no GPU {gpu}; this {fabric.kind} has 0..{fabric.n_gpus - 1}.")


def explained(
    fabric: Fabric,
    health: HealthSnapshot,
    lattice: Lattice,
    order: tuple[int, ...],
    table: RouteTable,
    src: int,
    dst: int,
) -> Decision:
    """The dimension-order decision behind `table`."""
    check_pair(fabric, src, dst)
    a, b = np.array([src]), np.array([dst])
    displacements = Displacements(lattice)
    vector = tuple(int(v[0]) for v in displacements.of(a, b))
    by_rule = batch_of(lattice.rings, a, b, dimension_ways(lattice, displacements, order, a, b)).links
    blocked = tuple(fabric.link_name(int(link)) for link in by_rule[health.down[by_rule]])
    paths = table.path(src, dst) if src != dst else ()
    if src == dst:
        why = "same GPU"
    elif blocked:
        why = f"cut off: the path by rule crosses {', '.join(blocked)}, which is down"
    else:
        why = f"{letters(order)}: the longest axis first, the shorter way round each"
    return Decision(
        src, dst, letters(order), vector, ties(lattice, displacements, src, dst), blocked, why,
        paths[0] if paths else None,
    )  # fmt: skip


def ties(lattice: Lattice, displacements: Displacements, src: int, dst: int) -> tuple[str, ...]:
    """What decided for this pair where two ways are equally short, as words."""
    a, b = np.array([src]), np.array([dst])
    if not bool(displacements.tied(a, b)[0]):
        return ()
    here, there = lattice.coordinates[:, src], lattice.coordinates[:, dst]
    if not lattice.is_plain:
        turn = int(here.sum())
        return (f"equally short displacements: by the sum of the source's coordinates, {turn}",)
    return tuple(
        f"{AXES[axis]}: half way round {length}, source at {AXES[axis]} = {here[axis]}, so "
        + ("up (even)" if here[axis] % 2 == 0 else "down (odd)")
        for axis, length in enumerate(lattice.shape)
        if 2 * ((there[axis] - here[axis]) % length) == length
    )
