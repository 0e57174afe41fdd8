"""Why one pair goes the way it does under wild-first routing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.framework.model import Fabric, HealthSnapshot, Path, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.plugins.dor.decision import check_pair, ties
from railweave.plugins.dor.lattice import AXES
from railweave.plugins.dor.paths import Ways, batch_of
from railweave.plugins.wfr.search import Signs, WildFirst


@dataclass(frozen=True, slots=True)
class Candidate:
    """One choice of wild hops: `wild` as in "z+ y-" or "none", its hops, and `verdict`: live, or what is wrong."""

    wild: str
    hops: int
    verdict: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice for one pair and what it was made of.

    `sequence` as zyXYZ; `wild` the wild hops taken, as "z+ y-" or "none"; `displacement` signed hops along x, y, z
    of the dimension-order path from the source; `ties` what decided there; `blocked` its links that are down;
    `candidates` what was compared, empty where that path lives; `path` None when cut off.
    """

    src: int
    dst: int
    sequence: str
    wild: str
    displacement: tuple[int, ...]
    ties: tuple[str, ...]
    blocked: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    why: str
    path: Path | None


def explained(
    fabric: Fabric, health: HealthSnapshot, search: WildFirst, table: RouteTable, src: int, dst: int
) -> Decision:
    """The wild-first decision behind `table`."""
    check_pair(fabric, src, dst)
    a, b = np.array([src]), np.array([dst])
    vector = tuple(int(v[0]) for v in search.displacements.of(a, b))
    blocked = _dead(fabric, health, search, a, b, search.dimension_order(a, b))
    candidates: tuple[Candidate, ...] = ()
    wild = "none"
    if blocked:
        candidates = tuple(_candidate(fabric, health, search, a, b, signs) for signs in search.choices)
        choice = int(search.best(a, b)[0][0])
        wild = candidates[choice].wild if choice >= 0 else "none"
        if choice >= 0:
            why = (
                f"{', '.join(blocked)} down: of {sum(c.verdict == 'live' for c in candidates)} live paths by "
                f"{search.sequence} the one with the fewest hops, then wild hops, then signs in the order none, +, -"
            )
        else:
            why = f"cut off: {', '.join(blocked)} down, and no path by {search.sequence} goes around"
    else:
        why = "same GPU" if src == dst else f"the dimension-order path of {search.sequence} lives"
    paths = table.path(src, dst) if src != dst else ()
    return Decision(
        src, dst, str(search.sequence), wild, vector, ties(search.lattice, search.displacements, src, dst),
        blocked, candidates, why, paths[0] if paths else None,
    )  # fmt: skip


def _candidate(
    fabric: Fabric, health: HealthSnapshot, search: WildFirst, src: Int64, dst: Int64, signs: Signs
) -> Candidate:
    ways = search.candidate(signs, src, dst)
    live, whole = search.fits(signs, ways)
    verdict = "live"
    if not live[0]:
        verdict = f"crosses {', '.join(_dead(fabric, health, search, src, dst, ways))}, which is down"
    elif not whole[0]:
        verdict = "comes back to a node it has left"
    wild = " ".join(
        f"{AXES[axis]}{'+' if sign > 0 else '-'}"
        for axis, sign in zip(search.sequence.wild, signs, strict=True)
        if sign
    )
    return Candidate(wild or "none", int(ways.length()[0]), verdict)


def _dead(
    fabric: Fabric, health: HealthSnapshot, search: WildFirst, src: Int64, dst: Int64, ways: Ways
) -> tuple[str, ...]:
    links = batch_of(search.lattice.rings, src, dst, ways).links
    return tuple(fabric.link_name(int(link)) for link in links[health.down[links]])
