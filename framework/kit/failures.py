"""Health to check a router with: random scores, and single failures."""

from collections.abc import Iterator
from itertools import chain

import numpy as np

from railweave.framework.experiment.fault_targets import touching
from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import publish
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Bool, Float, Int64

EACH = 400_000
"""Pairs times failures checked on one fabric; on larger ones, some failures of each kind are sampled."""

FEW = 4
"""How many of each sort then."""


def scored(fabric: Fabric, seed: int) -> HealthSnapshot:
    """Nothing down; every link or switch with a score of 0.05 to 1, drawn by `seed`."""
    drawn = np.random.default_rng(seed).integers(1, 21, fabric.n_nodes + fabric.n_links) / 20
    own = fabric.link_element < 0
    raw = np.where(own, drawn[fabric.n_nodes :], drawn[fabric.link_element])
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
    if len(ids) and fabric.n_gpus * (fabric.n_gpus - 1) * fabric.n_links > EACH:
        ids = ids[np.unique(np.linspace(0, len(ids) - 1, FEW).astype(int))]
    return list(map(int, ids))
