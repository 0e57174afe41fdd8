"""Deadlock-freedom with the classes of the source's reading: two for dimension order, one for wild hops."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.framework.model import Fabric, HealthSnapshot, all_pairs
from railweave.framework.model.arrays import Int64
from railweave.framework.routing.dependencies import channel_cycle, dependency_edges, find_cycle
from railweave.framework.routing.torus.lattice import Lattice
from railweave.framework.routing.torus.legs import Displacements, Legs, batch_of, marked_before
from railweave.framework.routing.torus.wild_first import WildFirst, choices, parse_sequence
from railweave.plugins.wfr.router import WildFirstRouting
from tests.fakes.tori import ocs_down, torus, twisted, with_down


@pytest.mark.parametrize("ocs", ["X:0,0", "Y:1,3", "Z:2,2"])
@pytest.mark.parametrize("fabric", [torus(4, 4, 4), torus(4, 4, 8), twisted(4, 4, 8)])
def test_no_cycle_with_an_ocs_down(fabric: Fabric, ocs: str) -> None:
    assert channel_cycle(fabric, WildFirstRouting().routes(fabric, ocs_down(fabric, ocs))) is None


@pytest.mark.parametrize("links", [[0, 1], [200, 201, 700, 701], list(range(0, 60, 7))])
def test_no_cycle_on_6x6x6_with_cables_down(links: list[int]) -> None:
    fabric = torus(6, 6, 6)
    assert channel_cycle(fabric, WildFirstRouting().routes(fabric, with_down(fabric, links))) is None


def all_candidates(fabric: Fabric, text: str, wild_channel: int) -> Int64:
    """The dependencies when any pair may take any choice of wild hops."""
    lattice = Lattice.of(fabric, HealthSnapshot.healthy(fabric), "wfr")
    dead = marked_before(lattice.rings, HealthSnapshot.healthy(fabric).down)
    search = WildFirst(lattice, Displacements(lattice), parse_sequence(text), dead)
    src, dst = all_pairs(fabric.n_gpus)
    edges = []
    for signs in choices(search.sequence):
        legs = search.candidate(signs, src, dst)
        channels = [wild_channel] * len(signs) + legs.channel[len(signs) :]
        batch = batch_of(lattice.rings, src, dst, Legs(legs.first, legs.hops, channels))
        edges.append(dependency_edges(fabric, batch))
    return np.unique(np.concatenate(edges), axis=0)


@pytest.mark.parametrize("text", ["xyZYX", "zyXYZ", "yxZXY"])
@pytest.mark.parametrize("shape", [(4, 4, 4), (6, 6, 6)])
def test_a_class_of_their_own_keeps_any_wild_hops_safe(shape: tuple[int, ...], text: str) -> None:
    assert find_cycle(all_candidates(torus(*shape), text, 2)) is None


@pytest.mark.parametrize("text", ["xyZYX", "yxZYX"])
@pytest.mark.parametrize("wild_channel", [0, 1])
def test_sharing_a_class_with_dimension_order_is_not_safe(text: str, wild_channel: int) -> None:
    """What the reference found on 6x6x6 for simple assignments of two classes."""
    assert find_cycle(all_candidates(torus(6, 6, 6), text, wild_channel)) is not None
