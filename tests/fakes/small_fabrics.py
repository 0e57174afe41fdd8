"""Fabrics and route tables small enough to check every packet, built without the project's plugins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from railweave.framework.model import Fabric, FabricBuilder, NodeGroup, Path, PathBatch, RouteTable, all_pairs
from railweave.framework.routing.batches import table_from_batch

GBPS = 1e9


def rail_only(domains: int, rails: int) -> Fabric:
    """GPUs g<d>.<r>, one switch per domain and per rail."""
    n = domains * rails
    groups = (
        NodeGroup("gpu", 0, (domains, rails), "g"),
        NodeGroup("domain", n, (domains,), "domain"),
        NodeGroup("rail", n + domains, (rails,), "rail"),
    )
    builder = FabricBuilder("rail-only", groups, {"domains": domains, "rails": rails})
    d, r = np.divmod(np.arange(n), rails)
    builder.cables(np.arange(n), n + d, "d", 3600 * GBPS, element=n + d)
    builder.cables(np.arange(n), n + domains + r, "r", 400 * GBPS, element=n + domains + r)
    return builder.build()


def unequal(*sizes: int) -> Fabric:
    """HB domains of these sizes; GPU (d, r) on domain d and rail r."""
    return rails_with([(d, r) for d, size in enumerate(sizes) for r in range(size)])


def rails_with(places: Sequence[tuple[int, int]]) -> Fabric:
    """GPUs at these places (domain, rail), in this order; switches for domains and rails up to the last."""
    n, (domain, rail) = len(places), np.array(places).T
    domains, rails = int(domain.max()) + 1, int(rail.max()) + 1
    groups = [
        NodeGroup.at("gpu", 0, places, "g"),
        NodeGroup("domain", n, (domains,), "d"),
        NodeGroup("rail", n + domains, (rails,), "r"),
    ]
    builder = FabricBuilder("file", groups, {})
    builder.cables(np.arange(n), n + domain, "d", 3600 * GBPS, element=n + domain)
    builder.cables(np.arange(n), n + domains + rail, "r", 400 * GBPS, element=n + domains + rail)
    return builder.build()


def ring(nodes: int, wavelengths: int = 1) -> Fabric:
    """GPUs in a ring, one parallel cable per wavelength."""
    builder = FabricBuilder("ring", (NodeGroup("gpu", 0, (nodes,), "g"),), {"nodes": nodes})
    here = np.arange(nodes)
    for wavelength in range(wavelengths):
        builder.cables(here, (here + 1) % nodes, ("+", "-"), 100 * GBPS, wavelength=wavelength)
    return builder.build()


def torus(*shape: int) -> Fabric:
    """GPUs on a torus; every length 3 or more."""
    n = int(np.prod(shape))
    builder = FabricBuilder("torus", (NodeGroup("gpu", 0, shape, "g"),), {"shape": shape})
    where = np.stack(np.unravel_index(np.arange(n), shape))
    for axis, name in zip(range(len(shape)), "xyz", strict=False):
        there = where.copy()
        there[axis] = (there[axis] + 1) % shape[axis]
        builder.cables(np.arange(n), np.ravel_multi_index(there, shape), (f"{name}+", f"{name}-"), 400 * GBPS)
    return builder.build()


def link_between(fabric: Fabric, a: int, b: int, which: int = 0) -> int:
    """The link from node a to node b; `which` of parallel ones."""
    return [int(link) for link in fabric.out_links(a) if fabric.link_dst[link] == b][which]


def table_of(
    fabric: Fabric, paths_of: Callable[[int, int], Sequence[Path]], *, name: str = "test", version: int = 0
) -> RouteTable:
    """A table from a function of (src, dst), asked once for every pair."""
    src, dst = all_pairs(fabric.n_gpus)
    return table_from_batch(
        name,
        version,
        fabric.n_gpus,
        batch_of([(int(s), int(d), tuple(paths_of(int(s), int(d)))) for s, d in zip(src, dst, strict=True)]),
    )


def batch_of(pairs: Sequence[tuple[int, int, Sequence[Path]]]) -> PathBatch:
    """A batch from plain paths."""
    paths = [path for _, _, some in pairs for path in some]
    with_channels = any(path.vc is not None for path in paths)
    return PathBatch(
        np.array([p[0] for p in pairs], np.int64),
        np.array([p[1] for p in pairs], np.int64),
        np.cumsum([0, *(len(p[2]) for p in pairs)]),
        np.array([path.weight for path in paths]),
        np.cumsum([0, *(len(path.links) for path in paths)]),
        np.array([link for path in paths for link in path.links], np.int32),
        np.array([vc for path in paths for vc in path.vc or ()], np.int32) if with_channels else None,
    )


def through(fabric: Fabric, *nodes: int) -> Path:
    """The path over these nodes, by the first of parallel links."""
    return Path(tuple(link_between(fabric, a, b) for a, b in pairwise(nodes)))


def rail_path(fabric: Fabric, src: int, dst: int, by: str | int = "dr") -> Path:
    """The path on a rail-only fabric: `d` or `r` for one hop; else `dr`, `rd`, or drd over rail `by`."""
    domains = fabric.groups[1].size
    (d1, g1), (d2, g2) = fabric.coordinates(src), fabric.coordinates(dst)
    n, rails = fabric.n_gpus, fabric.groups[2].size
    if d1 == d2:
        return through(fabric, src, n + d1, dst)
    crossed = by if isinstance(by, int) else {"dr": g2, "rd": g1}[by]
    nodes = [src]
    if crossed != g1:
        nodes += [n + d1, d1 * rails + crossed]
    nodes += [n + domains + crossed, d2 * rails + crossed]
    if crossed != g2:
        nodes += [n + d2, dst]
    return through(fabric, *nodes)


def dimension_order(fabric: Fabric, src: int, dst: int, order: Sequence[int] | None = None) -> Path:
    """The path on a torus, one axis after the other, the shorter way round; ties by parity of the source
    there."""
    shape = fabric.groups[0].shape
    here, there = list(fabric.coordinates(src)), fabric.coordinates(dst)
    nodes = [src]
    for axis in order or range(len(shape)):
        length = shape[axis]
        ahead = (there[axis] - here[axis]) % length
        up = 2 * ahead < length or (2 * ahead == length and here[axis] % 2 == 0)
        while here[axis] != there[axis]:
            here[axis] = (here[axis] + (1 if up else -1)) % length
            nodes.append(int(np.ravel_multi_index(here, shape)))
    return through(fabric, *nodes)
