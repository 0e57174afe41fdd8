"""Tori by shape, snapshots with links down, and dimension order walked step by step in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from railweave.framework.model import Fabric, HealthSnapshot
from railweave.topologies.torus import Torus, TwistedTorus


def torus(*shape: int) -> Fabric:
    return Torus().build({"shape": "x".join(map(str, shape))})


def twisted(*shape: int) -> Fabric:
    return TwistedTorus().build({"shape": "x".join(map(str, shape))})


def with_down(fabric: Fabric, links: Iterable[int], version: int = 1) -> HealthSnapshot:
    down = np.zeros(fabric.n_links, bool)
    down[list(links)] = True
    return replace(
        HealthSnapshot.healthy(fabric, version=version), down=down, link_score=np.where(down, 0.0, 1.0)
    )


def ocs_down(fabric: Fabric, name: str) -> HealthSnapshot:
    return with_down(fabric, np.flatnonzero(fabric.ocs == fabric.ocs_names.index(name)).tolist())


def walk(fabric: Fabric, node: int, steps: Sequence[tuple[int, int]]) -> list[int]:
    """The links of single steps (axis, +1 or -1) from a node, found by their kind; parallel ones: the
    lowest."""
    links = []
    for axis, sign in steps:
        kinds = {f"{'xyz'[axis]}{'+' if sign > 0 else '-'}"}
        if fabric.groups[0].shape[axis] == 2:
            kinds = {f"{'xyz'[axis]}+", f"{'xyz'[axis]}-"}
        link = min(int(x) for x in fabric.out_links(node) if fabric.kinds[fabric.link_kind[x]] in kinds)
        links.append(link)
        node = int(fabric.link_dst[link])
    return links


def dimension_order_steps(
    shape: Sequence[int], src: Sequence[int], dst: Sequence[int], order: Sequence[int]
) -> list[tuple[int, int]]:
    """Dimension order on a plain torus as the source words it: the shorter way, half way round by parity."""
    steps = []
    for axis in order:
        ahead = (dst[axis] - src[axis]) % shape[axis]
        back = shape[axis] - ahead
        up = ahead < back or (ahead == back and src[axis] % 2 == 0)
        steps += [(axis, 1)] * ahead if up else [(axis, -1)] * back
    return steps
