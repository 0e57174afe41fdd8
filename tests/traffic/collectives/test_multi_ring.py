"""Multi-ring all-reduce: which links it uses when, and that it reaches the torus' physical limit."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.topologies.ring import Ring
from railweave.topologies.torus import Torus
from railweave.traffic.collectives.multi_ring import MultiRingAllReduce
from tests.fakes.cut_bounds import cut_bound_s
from tests.traffic.collectives.link_queues import seconds

PACKET = PacketFormat(4096)
MULTI = MultiRingAllReduce()


def torus(shape: str) -> Fabric:
    return Torus().build({"shape": shape, "link_rate": 8e6})


def planned(fabric: Fabric, size: int) -> Schedule:
    return MULTI.schedule(fabric, range(fabric.n_gpus), size, "int8", "sum").expand()


@pytest.mark.parametrize("shape", ["3", "5", "3x3", "3x4", "4x4", "3x3x3", "3x4x5"])
def test_every_transfer_is_one_hop_and_parts_never_share_a_link_in_a_phase(shape: str) -> None:
    """Of a k-long axis in a phase, every link carries k - 1 messages, the steps of one ring."""
    fabric = torus(shape)
    lengths = fabric.groups[0].shape
    schedule = planned(fabric, fabric.n_gpus * 6 * 4)
    links = {
        (int(a), int(b)): i for i, (a, b) in enumerate(zip(fabric.link_src, fabric.link_dst, strict=True))
    }
    assert len(schedule.phase_names) == 2 * len(lengths)
    for phase in range(len(schedule.phase_names)):
        mine = np.flatnonzero(schedule.phase == phase)
        used = Counter(links[int(schedule.src[i]), int(schedule.dst[i])] for i in mine)
        assert len(used) == fabric.n_links
        for link, messages in used.items():
            axis = "xyz".index(fabric.kinds[fabric.link_kind[link]][0])
            assert messages == lengths[axis] - 1


@pytest.mark.parametrize("shape", ["4", "4x4", "3x3", "4x4x4"])
def test_it_reaches_the_physical_limit_on_equal_axes(shape: str) -> None:
    """S (n - 1)/(d n B), with one link for every neighbour; 64 KiB a message at least, so headers hardly
    differ."""
    fabric = torus(shape)
    n, axes = fabric.n_gpus, len(fabric.groups[0].shape)
    size = 2 * axes * n * (1 << 12)
    schedule = planned(fabric, size)
    limit = size * (n - 1) / (axes * n * 1e6)
    formula = MULTI.closed_form_s(fabric, schedule, PACKET)
    assert formula == pytest.approx(limit * (4096 + 58) / 4096, rel=4e-3)
    assert seconds(schedule, lambda a, b: 8e6, PACKET) == pytest.approx(formula)
    assert cut_bound_s(fabric, "all-reduce", size, PACKET) / formula > 0.99


@pytest.mark.parametrize(("shape", "low"), [("3x4", 0.85), ("4x8", 0.7), ("4x4x8", 0.6), ("2x4", 0.5)])
def test_unequal_axes_stay_near_the_limit(shape: str, low: float) -> None:
    """Parts run into each other there, so there is no closed form; a single ring would have 1/d."""
    fabric = torus(shape)
    size = fabric.n_gpus << 15
    schedule = planned(fabric, size)
    assert MULTI.closed_form_s(fabric, schedule, PACKET) is None
    assert cut_bound_s(fabric, "all-reduce", size, PACKET) / seconds(schedule, lambda a, b: 8e6, PACKET) > low


@pytest.mark.parametrize("shape", ["3x4", "2x2x2", "3x3x3"])
def test_bytes_of_every_gpu(shape: str) -> None:
    """2 (n - 1)/n of the buffer out of and into every GPU, whatever the shape."""
    fabric = torus(shape)
    n = fabric.n_gpus
    schedule = planned(fabric, 6 * n * 12)
    for end in (schedule.src, schedule.dst):
        assert set(np.bincount(end, schedule.size, n)) == {2 * (n - 1) / n * schedule.size_bytes}


@pytest.mark.parametrize(("directions", "share"), [(2, 1), (1, 2)])
def test_rings_have_one_axis(directions: int, share: int) -> None:
    """S (n - 1)/(nB), double on a one-way ring."""
    fabric = Ring().build({"nodes": 8, "rate": 8e6, "directions": directions})
    schedule = planned(fabric, 16 << 15)
    ahead = (schedule.dst - schedule.src) % 8
    assert set(ahead.tolist()) == ({1, 7} if directions == 2 else {1})
    limit = (16 << 15) * 7 / (8 * 1e6) * share
    assert MULTI.closed_form_s(fabric, schedule, PACKET) == pytest.approx(limit * 4154 / 4096, rel=1e-3)
    assert seconds(schedule, lambda a, b: 8e6, PACKET) == pytest.approx(
        MULTI.closed_form_s(fabric, schedule, PACKET)
    )


def test_latency_counts_once_a_step() -> None:
    still, far = torus("3x3"), Torus().build({"shape": "3x3", "link_rate": 8e6, "link_latency": 0.5})
    times = [MULTI.closed_form_s(f, planned(f, 4096), PACKET) for f in (still, far)]
    assert times[0] is not None and times[1] is not None
    assert times[1] - times[0] == pytest.approx(8 * 0.5)


def test_refusals() -> None:
    with pytest.raises(ExperimentError, match=r"needs all of its 4 GPUs, not 3\. Use `ring-all-reduce`"):
        MULTI.schedule(torus("2x2"), [0, 1, 2], 64, "int8", "sum").expand()
