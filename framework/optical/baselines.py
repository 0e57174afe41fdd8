"""All-gathers between neighbours: ring, and neighbor-exchange. Source: Table I of arXiv 2211.15119."""

import numpy as np

from railweave.framework.optical.closed_forms import check_ring, neighbor_exchange_steps
from railweave.framework.optical.plan import LightpathPlan


def ring_plan(nodes: int, wavelengths: int) -> LightpathPlan:
    """N - 1 steps up the ring on wavelength 0: each node forwards what it received in the step before."""
    check_ring(nodes, wavelengths)
    step, src = (x.ravel() for x in np.mgrid[: nodes - 1, :nodes])
    none = np.zeros(len(step), np.int64)
    table = np.stack((step, src, (src + 1) % nodes, (src - step) % nodes, none + 1, none, none))
    return LightpathPlan.of_table("ring", nodes, wavelengths, [("ring", nodes - 1)], table)


def neighbor_exchange_plan(nodes: int, wavelengths: int) -> LightpathPlan:
    """N / 2 steps on wavelength 0: neighbours swap, with the one on either side in turn.

    First they swap their own items, then each sends the two it received last (in the second step its own and
    the one it received). Raises FabricError for odd N.
    """
    check_ring(nodes, wavelengths)
    n_steps = neighbor_exchange_steps(nodes)
    node = np.arange(nodes)
    latest = node[:, None]
    parts = []
    for step in range(n_steps):
        # Even nodes swap upwards in even steps and downwards in odd ones; odd nodes the reverse.
        up = (node + step) % 2 == 0
        other = np.where(up, node + 1, node - 1) % nodes
        width = latest.shape[1]
        rows = (np.full(nodes, step), node, other, up, np.zeros(nodes, np.int64))
        begin, src, dst, upwards, none = (np.repeat(column, width) for column in rows)
        parts.append(np.stack((begin, src, dst, latest.ravel(), upwards, none, none)))
        latest = np.concatenate((node[:, None], latest[other]), axis=1) if step == 0 else latest[other]
    table = np.concatenate(parts, axis=1).astype(np.int64)
    return LightpathPlan.of_table("neighbor-exchange", nodes, wavelengths, [("swap", n_steps)], table)
