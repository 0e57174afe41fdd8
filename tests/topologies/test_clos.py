"""Clos fabrics: sizes and paths in closed form, the cases that they contain, what cannot be wired."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.framework.analysis.topology_metrics import metrics
from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric
from railweave.framework.routing.equal_cost import ShortestPaths
from railweave.topologies.clos import Clos
from railweave.topologies.fat_tree import FatTree


def build(**options: object) -> Fabric:
    return Clos().build(options)  # type: ignore[arg-type]


def paths(fabric: Fabric, src: int, dst: int) -> int:
    down = np.zeros(fabric.n_links, bool)
    batch = ShortestPaths(fabric, down, 4096).batch(np.array([src]), np.array([dst]))
    return len(batch.weight)


@pytest.mark.parametrize("planes", [1, 2, 8])
@pytest.mark.parametrize("dual", [False, True])
def test_two_tiers_in_closed_form(planes: int, dual: bool) -> None:
    """A path over each T1 switch of each plane, from either ToR of a pair to either; within a pair of ToRs
    one over each. Half of the GPUs' rate crosses the middle."""
    fabric = build(servers=8, gpus=4, t0=8, t1=4, planes=planes, dual_tor=dual)
    legs = 1 + dual
    assert [group.size for group in fabric.groups] == [32, 8 * planes, 4 * planes]
    assert fabric.n_links == 2 * planes * (32 * legs + 8 * 4)
    assert paths(fabric, 0, 31) == planes * 4 * legs * legs
    assert paths(fabric, 0, 1) == planes * legs
    host = fabric.link_src < fabric.n_gpus
    rate = np.bincount(fabric.link_src[host], fabric.capacity_bps[host])
    assert rate == pytest.approx(np.full(32, 400e9))
    assert metrics(fabric).bisection.capacity_bps == pytest.approx(16 * 400e9)


def test_oversubscription_divides_what_goes_up() -> None:
    for over in (1.0, 3.0):
        fabric = build(tiers=3, pods=2, servers=4, gpus=4, t0=4, t1=2, t2=4, oversubscription=over)
        below, above, top = (
            fabric.capacity_bps[[fabric.kinds[kind] == name for kind in fabric.link_kind]].sum()
            for name in ("host", "t0", "t1")
        )
        assert below == pytest.approx(over * above) and above == pytest.approx(over * top)


def test_three_tiers_of_equal_switches_are_a_fat_tree() -> None:
    """Of k = 4: four pods, two T0 and two T1 each, four T2: the same graph, rates and paths."""
    clos = build(tiers=3, pods=4, servers=2, gpus=2, t0=2, t1=2, t2=4)
    tree = FatTree().build({"k": 4})
    assert [group.size for group in clos.groups] == [group.size for group in tree.groups]
    ends = [sorted(zip(f.link_src, f.link_dst, f.capacity_bps, strict=True)) for f in (clos, tree)]
    assert ends[0] == ends[1]
    assert paths(clos, 0, 15) == paths(tree, 0, 15) == 4


def test_rails_join_the_same_gpu_of_all_servers() -> None:
    fabric = build(servers=8, gpus=4, t0=8, t1=2, rail_optimised=True)
    first = fabric.groups[1].first
    leaf = {int(fabric.link_src[i]): int(fabric.link_dst[i]) - first for i in range(0, 64, 2)}
    for server in range(8):
        for gpu in range(4):
            assert leaf[server * 4 + gpu] == server // 4 * 4 + gpu
    assert paths(fabric, 0, 4) == 1 and paths(fabric, 0, 1) == 2


def test_planes_share_nothing() -> None:
    fabric = build(servers=4, gpus=2, t0=2, t1=2, planes=3)
    switches = np.maximum(fabric.link_src, fabric.link_dst)
    plane_of = {
        group.first + i: int(place[0])
        for group in fabric.groups[1:]
        for i, place in enumerate(group.all_coordinates)
    }
    between = (fabric.link_src >= fabric.n_gpus) & (fabric.link_dst >= fabric.n_gpus)
    for a, b in zip(fabric.link_src[between].tolist(), fabric.link_dst[between].tolist(), strict=True):
        assert plane_of[a] == plane_of[b]
    assert {plane_of[int(s)] for s in switches} == {0, 1, 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t0": 3, "dual_tor": True}, "even number"),
        ({"t0": 6, "rail_optimised": True}, "multiple of 4"),
        ({"t0": 5}, "16 GPUs of a pod cannot be dealt out"),
        ({"pods": 2}, "tiers = 3"),
        ({"tiers": 3, "pods": 2, "t1": 3, "t2": 4}, "multiple of 3"),
    ],
)
def test_what_cannot_be_wired_evenly_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(FabricError, match=message):
        build(**options)
