"""Which shard runs which switch: whole HB domains (or slabs) together, shared switches where most neighbours
are."""

import os

import numpy as np

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Int64

PORTS_PER_SHARD = 40
"""An ovs-vswitchd is one loop over its ports; with fewer ports than this a second daemon gains nothing."""


def shard_count(fabric: Fabric, cores: int | None = None) -> int:
    """As many shards as cores, but at most one per PORTS_PER_SHARD ports; at least one."""
    ports = fabric.n_links + fabric.n_gpus
    available = len(os.sched_getaffinity(0)) if cores is None else cores
    return max(1, min(available, ports // PORTS_PER_SHARD, fabric.groups[0].shape[0]))


def place(fabric: Fabric, shards: int) -> Int64:
    """(n_nodes,): the shard of every node.

    GPUs are divided along their first axis (HB domains, torus slabs) into runs of equal length. Every other
    node goes to the shard of most of its neighbours; ties go to the shard with the fewest links so far.
    """
    shard = np.full(fabric.n_nodes, -1, np.int64)
    first_axis = fabric.gpu_coordinates[:, 0].astype(np.int64)
    shard[: fabric.n_gpus] = first_axis * shards // fabric.groups[0].shape[0]
    load = np.bincount(shard[fabric.link_src[fabric.link_src < fabric.n_gpus]], minlength=shards)
    for node in range(fabric.n_gpus, fabric.n_nodes):
        neighbours = shard[fabric.link_dst[fabric.out_links(node)]]
        votes = np.bincount(neighbours[neighbours >= 0], minlength=shards)
        best = np.flatnonzero(votes == votes.max())
        shard[node] = best[np.argmin(load[best])]
        load[shard[node]] += len(neighbours)
    return shard
