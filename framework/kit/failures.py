"""Health to check a router with: random scores, single failures; and which pairs those leave unreachable."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import publish
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool, Int64

EACH = 400_000
"""Pairs times failures checked on one fabric; on larger ones, some failures of each kind are sampled."""

FEW = 4
"""How many of each sort then."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A single failure: `link g0.0->r1 down`."""

    name: str
    health: HealthSnapshot


def scored(fabric: Fabric, seed: int) -> HealthSnapshot:
    """Nothing down; every link or switch with a score of 0.05 to 1, drawn by `seed`."""
    drawn = np.random.default_rng(seed).integers(1, 21, fabric.n_nodes + fabric.n_links) / 20
    own = fabric.link_element < 0
    raw = np.where(own, drawn[fabric.n_nodes :], drawn[fabric.link_element])
    return _published(fabric, raw, np.ones(fabric.n_links, bool))


def failures(fabric: Fabric) -> Iterator[Failure]:
    """Each link down alone, each cable, each switch, each GPU's NIC switch; on large fabrics some of each."""
    sorts = [
        [(f"link {fabric.link_name(i)}", np.array([i])) for i in _some(fabric, np.arange(fabric.n_links))],
        [
            (f"cable {fabric.link_name(i)}", np.array([i, i + 1]))
            for i in _some(fabric, np.arange(0, fabric.n_links, 2))
        ],
        [
            (f"{_what(fabric, i)} {fabric.node_name(i)}", touching(fabric, i))
            for nodes in (np.arange(fabric.n_gpus, fabric.n_nodes), np.arange(fabric.n_gpus))
            for i in _some(fabric, nodes)
        ],
    ]
    for name, links in (item for sort in sorts for item in sort):
        up = np.ones(fabric.n_links, bool)
        up[links] = False
        yield Failure(f"{name} down", _published(fabric, up.astype(np.float64), up))


def touching(fabric: Fabric, node: int) -> Int64:
    return np.flatnonzero((fabric.link_src == node) | (fabric.link_dst == node))


def unusable(fabric: Fabric, health: HealthSnapshot) -> Bool:
    """(n_links,): down, or a direction that carries nothing."""
    return np.asarray(health.down | ~fabric.usable, np.bool_)


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


def _published(fabric: Fabric, raw: np.ndarray[tuple[int], np.dtype[np.float64]], up: Bool) -> HealthSnapshot:
    options = HealthOptions()
    before = HealthSnapshot.healthy(fabric, margin=options.margin)
    return publish(fabric, before, raw, up, t_s=1.0, options=options) or before


def _what(fabric: Fabric, node: int) -> str:
    return "NIC switch of" if node < fabric.n_gpus else "switch"


def _some(fabric: Fabric, ids: Int64) -> list[int]:
    if fabric.n_gpus * (fabric.n_gpus - 1) * fabric.n_links <= EACH:
        return [int(i) for i in ids]
    return sorted({int(ids[i]) for i in np.linspace(0, len(ids) - 1, FEW).astype(int)}) if len(ids) else []
