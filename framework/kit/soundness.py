"""What is wrong with a route table, as violations that name pair and path."""

from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import RailweaveError, RouteError
from railweave.framework.kit.failures import shortest_paths, unusable
from railweave.framework.kit.report import Violation
from railweave.framework.model import Fabric, HealthSnapshot, Path, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.routing.batches import batches, pair_chunks
from railweave.framework.routing.checks import check_batch, check_table

MOST_ASKED = 20_000
"""Pairs tried one by one to locate the wrong one."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Pairs without a path. `wrongly`: those that the fabric connects; `violation` names the first."""

    pairs: int
    wrongly: int
    violation: Violation | None


def unsound(where: str, fabric: Fabric, table: RouteTable, health: HealthSnapshot) -> Violation | None:
    """The first path that no packet could follow; pairs without a path are ignored here."""
    try:
        check_table(fabric, table, health, allow_unreachable=True)
    except RailweaveError as error:
        return _located(where, fabric, table, health, error)
    idle = ~fabric.usable
    if idle.any():
        for batch in batches(table):
            hop = np.flatnonzero(idle[batch.links])
            if hop.size:
                path = int(batch.hop_path[hop[0]])
                pair = int(batch.path_pair[path])
                src, dst = int(batch.src[pair]), int(batch.dst[pair])
                links = tuple(batch.links[batch.hop_start[path] : batch.hop_start[path + 1]].tolist())
                name = fabric.link_name(int(batch.links[hop[0]]))
                return Violation(
                    where, f"link {name} is not usable: it carries nothing",
                    pair_text(fabric, src, dst), path_text(fabric, src, links),
                )  # fmt: skip
    return None


def cut_off(where: str, fabric: Fabric, health: HealthSnapshot, cut: Int64) -> Cut:
    """Compare pairs (M, 2) that a table leaves without a path with what breadth-first search reaches."""
    dead, wrongly = unusable(fabric, health), 0
    first: Violation | None = None
    for source in np.unique(cut[:, 0]).tolist():
        paths = shortest_paths(fabric, dead, source)
        for target in cut[cut[:, 0] == source, 1].tolist():
            if target not in paths:
                continue
            wrongly += 1
            if first is None:
                first = Violation(
                    where, "no path, though there is one:", pair_text(fabric, source, target),
                    path_text(fabric, source, paths[target]),
                )  # fmt: skip
    return Cut(len(cut), wrongly, first)


def pair_text(fabric: Fabric, src: int, dst: int) -> str:
    return f"{fabric.node_name(src)} -> {fabric.node_name(dst)}"


def path_text(fabric: Fabric, src: int, links: tuple[int, ...]) -> str:
    """`g0.0 -> r0 -> g1.0`; links by name where they do not join."""
    nodes = [src]
    for link in links:
        if not 0 <= link < fabric.n_links or fabric.link_src[link] != nodes[-1]:
            known = (fabric.link_name(i) if 0 <= i < fabric.n_links else f"link {i}" for i in links)
            return ", ".join(known)
        nodes.append(int(fabric.link_dst[link]))
    return " -> ".join(fabric.node_name(node) for node in nodes)


def paths_text(fabric: Fabric, src: int, paths: tuple[Path, ...]) -> str:
    """Several paths of a pair with their weights."""
    if not paths:
        return "none"
    if len(paths) == 1:
        return path_text(fabric, src, paths[0].links)
    return "; ".join(f"{path.weight:g} over {path_text(fabric, src, path.links)}" for path in paths)


def _located(
    where: str, fabric: Fabric, table: RouteTable, health: HealthSnapshot, error: RailweaveError
) -> Violation:
    """The violation for `error`, with the first pair that shows it by itself, if one does."""
    src, dst = next(pair_chunks(fabric.n_gpus, MOST_ASKED))
    for a, b in zip(src.tolist(), dst.tolist(), strict=True):
        try:
            batch = table.paths(np.array([a]), np.array([b]))
            check_batch(fabric, table.router, batch, health)
        except RouteError as alone:
            try:
                path = paths_text(fabric, a, table.path(a, b))
            except (RailweaveError, IndexError):
                path = ""
            why = str(alone).removeprefix(f"router {table.router}: ")
            return Violation(where, why, pair_text(fabric, a, b), path)
        except RailweaveError as alone:
            return Violation(where, str(alone), pair_text(fabric, a, b))
    return Violation(where, str(error))
