"""Health to check a router with: random scores, single failures; and what is wrong with its table under it,
as broken rules that name pair and path."""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

import numpy as np

from railweave.framework.errors import RailweaveError
from railweave.framework.experiment.fault_targets import touching
from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import publish
from railweave.framework.kit.check_report import Broken
from railweave.framework.model import Fabric, HealthSnapshot, Path, RouteTable
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.routing.batches import pair_chunks
from railweave.framework.routing.table_checks import check_batch, check_table

ASKED = 25_000
"""Pairs times failures of a kind that are checked on a fabric: on small ones every failure, on larger ones
some."""

FEW = 4
"""Failures of a kind that are checked at least."""

MOST_ASKED = 20_000
"""Pairs at most that are tried one by one to find the first wrong one."""

SHOWN = 8
"""Paths of a pair that are written out."""


def scored(fabric: Fabric, seed: int) -> HealthSnapshot:
    """Nothing down; every link or switch with a score of 0.05 to 1, drawn by `seed`."""
    drawn = np.random.default_rng(seed).integers(1, 21, fabric.n_nodes + fabric.n_links) / 20
    without_element = fabric.link_element < 0
    raw = np.where(without_element, drawn[fabric.n_nodes :], drawn[fabric.link_element])
    return _published(fabric, raw, np.ones(fabric.n_links, bool))


def failures(fabric: Fabric) -> Iterator[tuple[str, HealthSnapshot]]:
    """Each link down alone, each cable, each switch, each GPU's NIC switch; on large fabrics some of each.

    Each by name, such as `link g0.0->r1 down`.
    """
    link, node = fabric.link_name, fabric.node_name
    links, nodes = np.arange(fabric.n_links), np.arange(fabric.n_nodes)
    gpus, switches = nodes[: fabric.n_gpus], nodes[fabric.n_gpus :]
    for name, down in chain(
        ((f"link {link(i)}", np.array([i])) for i in _some(fabric, links)),
        ((f"cable {link(i)}", np.array([i, i + 1])) for i in _some(fabric, links[::2])),
        ((f"switch {node(i)}", touching(fabric, i)) for i in _some(fabric, switches)),
        ((f"NIC switch of {node(i)}", touching(fabric, i)) for i in _some(fabric, gpus)),
    ):
        up = np.isin(links, down, invert=True)
        yield f"{name} down", _published(fabric, up.astype(np.float64), up)


def _published(fabric: Fabric, raw: Float, up: Bool) -> HealthSnapshot:
    options = HealthOptions()
    before = HealthSnapshot.healthy(fabric, margin=options.margin)
    return publish(fabric, before, raw, up, t_s=1.0, options=options) or before


def _some(fabric: Fabric, ids: Int64) -> list[int]:
    most = max(FEW, ASKED // (fabric.n_gpus * (fabric.n_gpus - 1)))
    spread = np.linspace(0, len(ids) - 1, min(len(ids), most)).astype(int)
    return list(map(int, ids[spread]))


def check_paths(fabric: Fabric, table: RouteTable, health: HealthSnapshot) -> Int64:
    """The pairs (M, 2) without a path. Raises Broken for the first path that no packet could follow, with the
    first pair that shows it by itself, if one does."""
    try:
        return check_table(fabric, table, health)
    except RailweaveError as error:
        src, dst = next(pair_chunks(fabric.n_gpus, MOST_ASKED))
        for a, b in zip(src.tolist(), dst.tolist(), strict=True):
            try:
                check_batch(fabric, table.router, table.paths(np.array([a]), np.array([b])), health)
            except RailweaveError as alone:
                why, path = str(alone).removeprefix(f"router {table.router}: "), ""
                with suppress(RailweaveError, IndexError):
                    path = paths_text(fabric, a, table.path(a, b))
                raise Broken(why, pair_text(fabric, a, b), path) from error
        raise


def connected(fabric: Fabric, health: HealthSnapshot, pairs: Int64) -> list[tuple[int, int, tuple[int, ...]]]:
    """Those of the pairs (M, 2) that a breadth-first search connects, by source, each with its path."""
    dead, joined = health.down | ~fabric.usable, []
    for source in np.unique(pairs[:, 0]).tolist():
        paths = shortest_paths(fabric, dead, source)
        targets = pairs[pairs[:, 0] == source, 1].tolist()
        joined += [(source, target, paths[target]) for target in targets if target in paths]
    return joined


def no_path(fabric: Fabric, src: int, dst: int, links: tuple[int, ...]) -> Broken:
    """The rule that a pair without a path breaks where these links join it."""
    return Broken("no path, though there is one:", pair_text(fabric, src, dst), path_text(fabric, src, links))


def shortest_paths(fabric: Fabric, dead: Bool, source: int) -> dict[int, tuple[int, ...]]:
    """A path of fewest links to every node that the source reaches over live links, itself included.

    A plain breadth-first search that shares no code with the routers it checks.
    """
    paths: dict[int, tuple[int, ...]] = {source: ()}
    waiting = deque([source])
    while waiting:
        node = waiting.popleft()
        for link in fabric.out_links(node).tolist():
            end = int(fabric.link_dst[link])
            if not dead[link] and end not in paths:
                paths[end] = (*paths[node], link)
                waiting.append(end)
    return paths


def pair_text(fabric: Fabric, src: int, dst: int) -> str:
    return f"{fabric.node_name(src)} -> {fabric.node_name(dst)}"


def path_text(fabric: Fabric, src: int, links: tuple[int, ...]) -> str:
    """`g0.0 -> r0 -> g1.0`; links by name where they do not join."""
    nodes = [src]
    for link in links:
        if not 0 <= link < fabric.n_links or fabric.link_src[link] != nodes[-1]:
            return ", ".join(fabric.link_name(i) if 0 <= i < fabric.n_links else f"link {i}" for i in links)
        nodes.append(int(fabric.link_dst[link]))
    return " -> ".join(map(fabric.node_name, nodes))


def paths_text(fabric: Fabric, src: int, paths: tuple[Path, ...]) -> str:
    """Several paths of a pair with their weights; the first ones of many."""
    texts = [path_text(fabric, src, path.links) for path in paths[:SHOWN]]
    if len(paths) > 1:
        texts = [f"{path.weight:g} over {text}" for path, text in zip(paths, texts, strict=False)]
    rest = [f"and {len(paths) - SHOWN} more"] if len(paths) > SHOWN else []
    return "; ".join(texts + rest) or "none"
