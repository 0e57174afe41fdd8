"""Random sound route tables on small fabrics: any simple path will do, and one to three of them per pair."""

from __future__ import annotations

import random
from collections.abc import Callable

from railweave.framework.model import Fabric, Path, RouteTable
from tests.fakes.small_fabrics import rail_only, ring, table_of, torus, unequal

FABRICS: dict[str, Callable[[], Fabric]] = {
    "rail-only 2x3": lambda: rail_only(2, 3),
    "rail-only 3x3": lambda: rail_only(3, 3),
    "ring 5": lambda: ring(5),
    "ring 4 with 2 wavelengths": lambda: ring(4, 2),
    "torus 3x3": lambda: torus(3, 3),
    "domains of 3, 1 and 2": lambda: unequal(3, 1, 2),
}


def random_path(
    fabric: Fabric, src: int, dst: int, rng: random.Random, wander: float = 0.3
) -> tuple[int, ...]:
    """A simple path from src to dst: a depth-first walk that mostly goes nearer, sometimes anywhere."""
    distance = _distances(fabric, dst)
    stack: list[tuple[int, tuple[int, ...], frozenset[int]]] = [(src, (), frozenset([src]))]
    while stack:
        node, links, met = stack.pop()
        if node == dst:
            return links
        onward = [int(link) for link in fabric.out_links(node) if int(fabric.link_dst[link]) not in met]
        rng.shuffle(onward)
        if rng.random() > wander:
            onward.sort(key=lambda link: -distance[int(fabric.link_dst[link])])
        for link in onward:
            there = int(fabric.link_dst[link])
            stack.append((there, (*links, link), met | {there}))
    raise AssertionError("the fabric is not connected")


def random_table(
    fabric: Fabric,
    rng: random.Random,
    *,
    old: RouteTable | None = None,
    change: float = 1.0,
    cut: float = 0.05,
    several: float = 0.3,
    version: int = 0,
) -> RouteTable:
    """A table in which a share `change` of the pairs differs from `old`, a share `cut` of these has no path
    and a share `several` more than one."""

    def paths(src: int, dst: int) -> list[Path]:
        if old is not None and rng.random() >= change:
            return list(old.path(src, dst))
        if rng.random() < cut:
            return []
        count = rng.choice([2, 3]) if rng.random() < several else 1
        found = sorted({random_path(fabric, src, dst, rng) for _ in range(count)})
        rng.shuffle(found)
        return [Path(links, 1 / len(found)) for links in found]

    return table_of(fabric, paths, name="random", version=version)


def _distances(fabric: Fabric, dst: int) -> dict[int, int]:
    distance, layer = {dst: 0}, [dst]
    while layer:
        found = []
        for node in layer:
            for link in fabric.out_links(node).tolist():
                there = int(fabric.link_dst[link])
                if there not in distance:
                    distance[there] = distance[node] + 1
                    found.append(there)
        layer = found
    return distance
