"""Which kinds of links routes leave idle although equal ones next to them carry traffic."""

from collections.abc import Iterable

import numpy as np

from railweave.framework.model import Fabric, PathBatch


def idle_kinds(fabric: Fabric, blocks: Iterable[PathBatch]) -> list[str]:
    """A sentence for each kind of links of which more than half carry nothing, while another link of a node
    does that leads to a switch as they do, at the same rate."""
    used = np.zeros(fabric.n_links, bool)
    for paths in blocks:
        used[paths.links] = True
    to_switch = fabric.usable & (fabric.link_dst >= fabric.n_gpus)
    group = np.searchsorted([g.first for g in fabric.groups], fabric.link_dst, "right")
    siblings = np.stack((fabric.link_src, fabric.link_kind, group), axis=1)
    _, number = np.unique(np.column_stack((siblings, fabric.capacity_bps)), axis=0, return_inverse=True)
    number = number.ravel()
    carries = np.bincount(number, used & to_switch) > 0
    idle = to_switch & ~used & carries[number]
    sentences = []
    for i, kind in enumerate(fabric.kinds):
        of_kind = to_switch & (fabric.link_kind == i)
        count, left = int(of_kind.sum()), int((~used & of_kind).sum())
        if 2 * left > count and (idle & of_kind).any():
            example = fabric.link_name(int(np.flatnonzero(idle & of_kind)[0]))
            sentences.append(
                f"{left} of {count} links of kind {kind} to switches carry nothing, such as {example}, while "
                "equal ones next to them do"
            )
    return sentences
