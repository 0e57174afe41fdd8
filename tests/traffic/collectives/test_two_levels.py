"""Hierarchical all-gather, reduce-scatter and all-to-all, and the pipelined all-reduce: the rail-only paper's
figures, bytes per link against its equations, times against a simulation of every pair's wire."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.hookspecs import Collective
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.model.capabilities import why_unserved
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.ring import Ring
from railweave.topologies.torus import Torus
from railweave.traffic.collectives.all_to_all import HierarchicalAllToAll
from railweave.traffic.collectives.hierarchical import (
    HierarchicalAllGather,
    HierarchicalReduceScatter,
    PipelinedAllReduce,
)
from tests.fakes.cut_bounds import cut_bound_s
from tests.fakes.transfers import transfer_of
from tests.traffic.collectives.link_queues import seconds

PACKET = PacketFormat(4096)
GATHER, SCATTER, TO_ALL = HierarchicalAllGather(), HierarchicalReduceScatter(), HierarchicalAllToAll()
PIPELINED = PipelinedAllReduce()
EVERY: tuple[Collective, ...] = (GATHER, SCATTER, TO_ALL, HierarchicalAllToAll(pipelined=True), PIPELINED)
SHAPES = [(4, 4), (2, 8), (8, 2), (3, 5), (1, 4), (4, 1)]


def rails(domains: int, n_rails: int, cf: float = 450e9, cs: float = 50e9) -> Fabric:
    """Rates in bytes/s."""
    return RailOnly().build(
        {"domains": domains, "rails": n_rails, "domain_rate": 8 * cf, "rail_rate": 8 * cs}
    )


def planned(algorithm: Collective, fabric: Fabric, size: int, dtype: str = "int8") -> Schedule:
    return algorithm.schedule(fabric, range(fabric.n_gpus), size, dtype, "max").expand()


def simulated_s(fabric: Fabric, schedule: Schedule) -> float:
    where = fabric.gpu_coordinates
    rate = {kind: fabric.capacity_bps[fabric.link_kind == fabric.kinds.index(kind)].min() for kind in "dr"}
    return seconds(schedule, lambda a, b: float(rate["d" if where[a][0] == where[b][0] else "r"]), PACKET)


@settings(max_examples=50)
@given(
    which=st.integers(0, len(EVERY) - 1),
    domains=st.integers(1, 4),
    n_rails=st.integers(1, 4),
    size=st.integers(0, 5000),
    data=st.data(),
)
def test_no_byte_leaves_its_rail_in_rail_phases_nor_its_domain_in_the_others(
    which: int, domains: int, n_rails: int, size: int, data: st.DataObject
) -> None:
    """Rail-only paper, section 3.2."""
    if domains * n_rails < 2:
        return
    fabric = rails(domains, n_rails)
    ranks = data.draw(st.permutations(range(fabric.n_gpus)))
    schedule = EVERY[which].schedule(fabric, ranks, size, "int8", "sum").expand()
    where = fabric.gpu_coordinates[np.asarray(ranks)]
    for src, dst, phase in zip(schedule.src, schedule.dst, schedule.phase, strict=True):
        axis = {"rail": 1, "domain": 0}[schedule.phase_names[phase].split()[-1]]
        assert where[src][axis] == where[dst][axis]


@pytest.mark.parametrize(("d", "k"), SHAPES)
@pytest.mark.parametrize(
    ("algorithm", "domain_share", "rail_share"),
    [
        (GATHER, lambda d, k: (k - 1) / k, lambda d, k: (d - 1) / (d * k)),
        (SCATTER, lambda d, k: (k - 1) / k, lambda d, k: (d - 1) / (d * k)),
        (TO_ALL, lambda d, k: (k - 1) / k, lambda d, k: (d - 1) / d),
        (PIPELINED, lambda d, k: 2 * (k - 1) / k, lambda d, k: 2 * (d - 1) / (d * k)),
    ],
)
def test_bytes_of_every_gpu_on_each_level(
    algorithm: Collective, domain_share, rail_share, d: int, k: int
) -> None:  # type: ignore[no-untyped-def]
    """Equation 1: (x-1)D/x and (y-1)D/(xy); equation 21: y(x-1) and x(y-1) slices of xy; both ways alike."""
    n = d * k
    size = n * 640
    schedule = planned(algorithm, rails(d, k), size)
    for level, share in (("domain", domain_share(d, k)), ("rail", rail_share(d, k))):
        mine = np.isin(schedule.phase, [i for i, p in enumerate(schedule.phase_names) if p.endswith(level)])
        for end in (schedule.src, schedule.dst):
            assert np.allclose(np.bincount(end[mine], schedule.size[mine], n), share * size)


def test_every_slice_is_delivered_once_and_passed_on_at_most_once() -> None:
    """rail-only.md 4.3.4: each pair's slice once; off-rail and off-domain pairs by one GPU in between."""
    schedule = planned(TO_ALL, rails(3, 4), 12 * 16)
    final = schedule.dst_offset < 12 * 16
    arrivals = list(zip(schedule.dst[final].tolist(), schedule.dst_offset[final].tolist(), strict=True))
    assert len(set(arrivals)) == len(arrivals) == 12 * 11
    assert int((~final).sum()) == 12 * 2 * 3  # to each GPU of the domain, for 2 other domains


def test_cases_r_o2_and_r_o3_of_the_rail_only_paper() -> None:
    """AGtime(1e9, 8, 4, 300e9, 25e9) = 0.00666667 s; all-to-all with D = 1e6 a pair = 0.00105333 s; whole
    packets of 4096 with 58 bytes of headers, 16 once a message."""
    fabric = rails(4, 8, 300e9, 25e9)
    for algorithm, size, expected in (
        (GATHER, 1 << 30, 0.00666667 * 1.073741824),
        (SCATTER, 1 << 30, 0.00666667 * 1.073741824),
    ):
        found = algorithm.closed_form_s(fabric, planned(algorithm, fabric, size), PACKET)
        assert found == pytest.approx(expected * (4096 + 58) / 4096, rel=1e-5)
    to_all = TO_ALL.closed_form_s(fabric, planned(TO_ALL, fabric, 32_000_000), PACKET)
    headers = -(-1_000_000 // 4096) * 58 + 16
    assert to_all == pytest.approx(0.00105333 * (1 + headers / 1_000_000), rel=1e-5)


@pytest.mark.parametrize(("d", "k"), SHAPES)
@pytest.mark.parametrize("algorithm", [GATHER, SCATTER])
def test_closed_forms_are_what_the_wires_take(algorithm: Collective, d: int, k: int) -> None:
    fabric = rails(d, k)
    schedule = planned(algorithm, fabric, 1 << 20)
    formula = algorithm.closed_form_s(fabric, schedule, PACKET)
    assert simulated_s(fabric, schedule) == pytest.approx(formula)


@pytest.mark.parametrize("chunks", [1, 2, 3, 8])
@pytest.mark.parametrize("cf", [450e9, 100e9, 25e9])
@pytest.mark.parametrize(("d", "k"), SHAPES)
def test_pipelined_closed_form_is_what_the_wires_take(d: int, k: int, cf: float, chunks: int) -> None:
    """Within 6 %: where both levels are about as busy they hold each other up a little; 2 chunks in busy
    domains may hide more than the formula has it."""
    fabric, algorithm = rails(d, k, cf), PipelinedAllReduce(chunks)
    schedule = planned(algorithm, fabric, 3 << 20)
    formula = algorithm.closed_form_s(fabric, schedule, PACKET)
    assert formula is not None
    assert formula * (0.999 if chunks != 2 else 0.86) <= simulated_s(fabric, schedule) <= formula * 1.06


def test_pipelining_comes_within_a_tenth_of_the_limit() -> None:
    """4 x 4 at 9:1: unpipelined 9/13 = 0.69 of it; with 8 chunks 9/(9 + 4/8) = 0.947."""
    fabric = rails(4, 4)
    bound = cut_bound_s(fabric, "all-reduce", 1 << 20, PACKET)
    ratios = [bound / simulated_s(fabric, planned(PipelinedAllReduce(c), fabric, 1 << 20)) for c in (1, 8)]
    assert ratios == pytest.approx([9 / 13, 9 / 9.5], abs=2e-3)


def test_pipelined_all_to_all_waits_for_each_slice_alone() -> None:
    schedule = planned(HierarchicalAllToAll(pipelined=True), rails(4, 4), 16 * 16)
    first = schedule.phase == 0
    for i in np.flatnonzero(~first):
        t = transfer_of(schedule, int(i))
        staged = t.src_offset >= 2 * 16 * 16
        assert len(t.after) == staged
        assert all(transfer_of(schedule, j).dst_offset == t.src_offset for j in t.after)
    assert not any(transfer_of(schedule, int(i)).after for i in np.flatnonzero(first))


@pytest.mark.parametrize("algorithm", EVERY[:3])
def test_a_rank_finishes_its_first_phase_before_it_starts_the_second(algorithm: Collective) -> None:
    schedule = planned(algorithm, rails(3, 4), 12 * 16)
    before: list[set[int]] = []
    for i in range(schedule.n_transfers):
        after = set(transfer_of(schedule, i).after)
        before.append(after.union(*(before[j] for j in after)))
        own = (schedule.src == schedule.src[i]) | (schedule.dst == schedule.src[i])
        assert set(np.flatnonzero(own & (schedule.phase < schedule.phase[i])).tolist()) <= before[i]


@pytest.mark.parametrize("algorithm", EVERY)
def test_what_cannot_be_planned_is_refused_with_the_mend(algorithm: Collective) -> None:
    torus = Torus().build({"shape": "2x2"})
    with pytest.raises(UnsupportedFabricError, match=r"not torus\. Use `--collective (ring|direct)-"):
        algorithm.schedule(torus, range(4), 64, "int8", "sum").expand()
    with pytest.raises(ExperimentError, match=r"not the GPU where they meet.*or use `(ring|direct)-"):
        algorithm.schedule(rails(2, 2), range(3), 64, "int8", "sum").expand()
    assert algorithm.closed_form_s(torus, planned(GATHER, rails(2, 2), 640), PACKET) is None


@pytest.mark.parametrize("algorithm", EVERY)
def test_a_fabric_with_domains_and_rails_by_another_name_is_served(algorithm: Collective) -> None:
    """The schedule is that of the same fabric as rail-only; formulas are known for our own kinds alone."""
    fabric = rails(2, 3)
    stranger = replace(fabric, kind="dual-plane")
    assert not why_unserved(algorithm, stranger)
    assert planned(algorithm, stranger, 1 << 12) == planned(algorithm, fabric, 1 << 12)
    assert algorithm.closed_form_s(stranger, planned(algorithm, stranger, 1 << 12), PacketFormat()) is None
    assert "lacks domains" in why_unserved(algorithm, Ring().build({"nodes": 4}))
