"""What users call the parts of a fabric, and which of their scores moved."""

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model.arrays import Bool
from railweave.framework.model.fabric import Fabric
from railweave.framework.model.health import EQUAL_WITHIN, HealthSnapshot

Scores = NDArray[np.floating]


def element_name(fabric: Fabric, node: int) -> str:
    """`rail:1`, `domain:0`: how users name a switch's score.

    >>> fabric = rw.topology("rail-only", domains=2, rails=2)
    >>> element_name(fabric, fabric.group("rail").first + 1)
    'rail:1'
    """
    return f"{fabric.node_kind(node)}:{'.'.join(map(str, fabric.coordinates(node)))}"


def link_title(fabric: Fabric, link: int) -> str:
    """`g0.1->r1 (nic:0.1)`: a link, and the NIC whose cable it is, if it is one.

    >>> fabric = rw.topology("rail-only", domains=2, rails=2)
    >>> link_title(fabric, 0), link_title(fabric, 8)
    ('g0.0->d0', 'g0.0->r0 (nic:0.0)')
    """
    nic = nic_of(fabric, link)
    return f"{fabric.link_name(link)} ({nic})" if nic else fabric.link_name(link)


def nic_of(fabric: Fabric, link: int) -> str | None:
    """`nic:0.1`, if the link is of the cable between a GPU and a rail.

    >>> fabric = rw.topology("rail-only", domains=2, rails=2)
    >>> nic_of(fabric, 8)
    'nic:0.0'
    """
    ends = int(fabric.link_src[link]), int(fabric.link_dst[link])
    rails, gpu = fabric.group("rail"), min(ends)
    if rails is None or gpu >= fabric.n_gpus or not 0 <= max(ends) - rails.first < rails.size:
        return None
    return f"nic:{'.'.join(map(str, fabric.coordinates(gpu)))}"


def weak_links(fabric: Fabric, link_score: Scores, element_score: Scores, margin: float) -> Bool:
    """(n_links,): links that score below their switch by more than the margin.

    >>> fabric = rw.topology("rail-only", domains=2, rails=2)
    >>> healthy = HealthSnapshot.healthy(fabric)
    >>> scores = np.append(0.5, healthy.link_score[1:])
    >>> np.flatnonzero(weak_links(fabric, scores, healthy.element_score, margin=1.1))
    array([0])
    """
    weak: Bool = (fabric.link_element >= 0) & (
        link_score * margin < element_score[fabric.link_element] - EQUAL_WITHIN
    )
    return weak


def score_changes(
    fabric: Fabric, before: HealthSnapshot, now: HealthSnapshot
) -> dict[str, tuple[float, float]]:
    """(old, new) of every rail, domain or spine whose score moved, of links that belong to none, and of links
    that are or were weak.

    >>> fabric = rw.topology("rail-only", domains=2, rails=2)
    >>> healthy = HealthSnapshot.healthy(fabric)
    >>> element_score = np.append(healthy.element_score[:-1], 0.5)
    >>> score_changes(fabric, healthy, dataclasses.replace(healthy, element_score=element_score))
    {'rail:1': (1.0, 0.5)}
    """
    nodes = np.flatnonzero(before.element_score != now.element_score)
    elements = {
        element_name(fabric, int(n)): (float(before.element_score[n]), float(now.element_score[n]))
        for n in nodes
    }
    if np.array_equal(before.link_score, now.link_score):
        return elements
    alone = fabric.link_element < 0
    for health in (before, now):
        alone |= weak_links(fabric, health.link_score, health.element_score, health.margin)
    return elements | link_changes(fabric, before, now, alone)


def link_changes(
    fabric: Fabric, before: HealthSnapshot, now: HealthSnapshot, which: Bool | None = None
) -> dict[str, tuple[float, float]]:
    """(old, new) of every link whose score moved; of those `which` (n_links,) says.

    >>> fabric = rw.topology("rail-only", domains=2, rails=2)
    >>> healthy = HealthSnapshot.healthy(fabric)
    >>> link_score = np.append(0.5, healthy.link_score[1:])
    >>> link_changes(fabric, healthy, dataclasses.replace(healthy, link_score=link_score))
    {'g0.0->d0': (1.0, 0.5)}
    """
    moved = before.link_score != now.link_score
    return {
        link_title(fabric, int(link)): (float(before.link_score[link]), float(now.link_score[link]))
        for link in np.flatnonzero(moved if which is None else moved & which)
    }
