"""Schedules carried out in memory, in random orders, against plain arithmetic; bytes against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup, PacketFormat, Schedule
from railweave.topologies.rail_only import RailOnly
from railweave.traffic.collectives.all_to_all import HierarchicalAllToAll
from railweave.traffic.collectives.hierarchical import HierarchicalAllReduce
from railweave.traffic.collectives.rings import RingAllReduce
from tests.fakes.transfers import transfer_of
from tests.traffic.random_execution import execute

HIERARCHICAL, RING = HierarchicalAllReduce(), RingAllReduce()
DTYPES = {"float32": 4, "float16": 2, "int32": 4, "int8": 1}


def rails(domains: int, n_rails: int) -> Fabric:
    return RailOnly().build({"domains": domains, "rails": n_rails})


def ring_fabric(n: int, rate_bps: float) -> Fabric:
    builder = FabricBuilder("ring", [NodeGroup("gpu", 0, (n,), "n")], {})
    builder.cables(np.arange(n), (np.arange(n) + 1) % n, ("+", "-"), rate_bps)
    return builder.build()


@st.composite
def cases(draw: st.DrawFn) -> tuple[Fabric, list[int], int, str, str, int]:
    fabric = rails(draw(st.integers(1, 4)), draw(st.integers(2, 4)))
    ranks = draw(st.permutations(range(fabric.n_gpus)))
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    size = draw(st.integers(0, 300))
    redop = draw(st.sampled_from(["sum", "max", "min", "prod"]))
    return fabric, list(ranks), size, dtype, redop, draw(st.integers(0, 2**20))


@settings(max_examples=60)
@given(case=cases(), ring=st.booleans())
def test_every_order_gives_what_the_arithmetic_says(
    case: tuple[Fabric, list[int], int, str, str, int], ring: bool
) -> None:
    fabric, ranks, size, dtype, redop, seed = case
    algorithm = RING if ring else HIERARCHICAL
    schedule = algorithm.schedule(fabric, ranks, size, dtype, redop).expand()
    assert schedule.size_bytes == size // DTYPES[dtype] * DTYPES[dtype]
    inputs = algorithm.inputs(schedule, seed)
    held = execute(schedule, inputs, seed)
    for rank in range(len(ranks)):
        assert np.array_equal(held[rank], algorithm.expected(schedule, inputs, rank))


@settings(max_examples=40)
@given(domains=st.integers(1, 5), n_rails=st.integers(1, 5), count=st.integers(0, 400), data=st.data())
def test_rail_phases_stay_on_their_rail_and_domain_phases_in_their_domain(
    domains: int, n_rails: int, count: int, data: st.DataObject
) -> None:
    """Rail-only paper, section 3.2: no byte leaves its rail in the rail phases."""
    if domains * n_rails < 2:
        return
    fabric = rails(domains, n_rails)
    ranks = data.draw(st.permutations(range(fabric.n_gpus)))
    schedule = HIERARCHICAL.schedule(fabric, ranks, count * 4, "float32", "sum").expand()
    where = fabric.gpu_coordinates[np.asarray(ranks)]
    for src, dst, phase in zip(schedule.src, schedule.dst, schedule.phase, strict=True):
        axis = 1 if schedule.phase_names[phase].endswith("rail") else 0
        assert where[src][axis] == where[dst][axis]


@pytest.mark.parametrize(("domains", "n_rails"), [(4, 4), (2, 8), (3, 5), (1, 4), (4, 1)])
def test_bytes_per_gpu_follow_equation_1(domains: int, n_rails: int) -> None:
    """Twice (K-1)/K of the buffer into the domain, twice (D-1)/(D K) onto the rail, for a size that
    divides."""
    size = domains * n_rails * 16
    schedule = HIERARCHICAL.schedule(
        rails(domains, n_rails), range(domains * n_rails), size, "float32", "sum"
    ).expand()
    for kind, share in (
        ("domain", 2 * (n_rails - 1) / n_rails),
        ("rail", 2 * (domains - 1) / (domains * n_rails)),
    ):
        mine = np.isin(
            schedule.phase, [i for i, name in enumerate(schedule.phase_names) if name.endswith(kind)]
        )
        sent = np.bincount(schedule.src[mine], schedule.size[mine], minlength=domains * n_rails)
        assert np.allclose(sent, share * size)


@given(n=st.integers(2, 9), count=st.integers(0, 60))
def test_ring_sends_twice_all_chunks_but_one(n: int, count: int) -> None:
    """Patarasuk and Yuan: 2 (n - 1) / n of the buffer per rank; chunks differ by at most one element."""
    schedule = RING.schedule(
        ring_fabric(n, 1e9) if n > 2 else rails(1, n), range(n), count * 4, "int32", "sum"
    ).expand()
    if count == 0:
        assert schedule.n_transfers == 0
        return
    assert schedule.n_transfers == 2 * n * (n - 1)
    sizes = schedule.size // 4
    assert int(sizes.max() - sizes.min()) <= 1
    assert int(sizes.sum()) == 2 * (n - 1) * count


def phases_overlap_for_a_rank(schedule: Schedule) -> bool:
    """Whether some rank may send in a phase before all that it sends and receives in earlier ones is
    complete."""
    before: list[set[int]] = []
    for i in range(schedule.n_transfers):
        after = set(transfer_of(schedule, i).after)
        before.append(after.union(*(before[j] for j in after)))
    for i in range(schedule.n_transfers):
        earlier = np.flatnonzero(
            (schedule.phase < schedule.phase[i])
            & ((schedule.src == schedule.src[i]) | (schedule.dst == schedule.src[i]))
        )
        if not set(earlier.tolist()) <= before[i]:
            return True
    return False


@pytest.mark.parametrize(("domains", "n_rails"), [(2, 2), (3, 4), (4, 3)])
def test_a_rank_finishes_a_phase_before_it_starts_the_next(domains: int, n_rails: int) -> None:
    n = domains * n_rails
    assert not phases_overlap_for_a_rank(
        HIERARCHICAL.schedule(rails(domains, n_rails), range(n), 4 * n, "float32", "sum").expand()
    )


@pytest.mark.parametrize(
    ("domains", "n_rails", "names"),
    [
        (1, 4, ("reduce-scatter domain", "all-gather domain")),
        (4, 1, ("reduce-scatter rail", "all-gather rail")),
        (2, 2, ("reduce-scatter domain", "reduce-scatter rail", "all-gather rail", "all-gather domain")),
    ],
)
def test_phases_that_move_nothing_are_left_out(domains: int, n_rails: int, names: tuple[str, ...]) -> None:
    schedule = HIERARCHICAL.schedule(
        rails(domains, n_rails), range(domains * n_rails), 64, "float32", "sum"
    ).expand()
    assert schedule.phase_names == names


@pytest.mark.parametrize("algorithm", [HIERARCHICAL, RING])
def test_nothing_to_do_is_an_empty_schedule(algorithm: RingAllReduce) -> None:
    assert algorithm.schedule(rails(2, 2), range(4), 3, "float32", "sum").expand().n_transfers == 0
    assert algorithm.schedule(rails(2, 2), [1], 64, "float32", "sum").expand().n_transfers == 0


def test_closed_form_is_equation_1_twice_with_headers() -> None:
    """1 MiB on 4 x 4 at 36 and 4 Mb/s, path MTU 4096, by hand: in the domain 2 x 3 messages of 64 packets, on
    the rail 2 x 3 messages of 16; 58 bytes of headers a packet and 16 of RETH a message."""
    fabric = rails(4, 4).scaled(1e-5)
    schedule = HIERARCHICAL.schedule(fabric, range(16), 1 << 20, "float32", "sum").expand()
    domain = 6 * (64 * (4096 + 58) + 16) * 8 / 36e6
    rail = 6 * (16 * (4096 + 58) + 16) * 8 / 4e6
    found = HIERARCHICAL.closed_form_s(fabric, schedule, PacketFormat(4096))
    assert found == pytest.approx(domain + rail, rel=1e-12)


def test_latencies_count_once_for_every_step_of_a_ring() -> None:
    """By hand: on 4 x 4, 3 steps in each of two phases a level, and two links a step; an all-to-all sends all
    it has at once, one way a level."""
    still = rails(4, 4).scaled(1e-5)
    far = replace(still, latency_s=np.where(still.link_kind == still.kinds.index("r"), 0.05, 0.001))
    for algorithm, by_hand in (
        (HIERARCHICAL, 12 * 0.05 + 12 * 0.001),
        (HierarchicalAllToAll(), 2 * 0.05 + 2 * 0.001),
    ):
        schedule = algorithm.schedule(still, range(16), 1 << 16, "float32", "sum").expand()
        times = [algorithm.closed_form_s(fabric, schedule, PacketFormat(4096)) for fabric in (still, far)]
        assert times[1] - times[0] == pytest.approx(by_hand)


def test_closed_form_approaches_case_r_o2() -> None:
    """rail-only.md, R-O2: AGtime(1e9, 8, 4, 300e9, 25e9) = 0.00666667 s, twice; headers add 58 in 4096."""
    fabric = RailOnly().build({"domains": 4, "rails": 8, "domain_rate": 300e9 * 8, "rail_rate": 25e9 * 8})
    schedule = HIERARCHICAL.schedule(fabric, range(32), 1 << 30, "int8", "max").expand()
    found = HIERARCHICAL.closed_form_s(fabric, schedule, PacketFormat(4096))
    assert found == pytest.approx(2 * 0.00666667 * (1 << 30) / 1e9 * (4096 + 58) / 4096, rel=1e-5)


def test_slowest_links_set_the_closed_form() -> None:
    fabric = rails(2, 2)
    slow = fabric.capacity_bps.copy()
    slow[int(np.flatnonzero(fabric.link_kind == fabric.kinds.index("r"))[0])] /= 5
    hurt = Fabric(**{**{f: getattr(fabric, f) for f in fabric.__dataclass_fields__}, "capacity_bps": slow})
    packet = PacketFormat(1024)
    schedule = HIERARCHICAL.schedule(fabric, range(4), 1 << 16, "float32", "sum").expand()
    healthy, degraded = (HIERARCHICAL.closed_form_s(f, schedule, packet) for f in (fabric, hurt))
    assert healthy is not None
    assert degraded is not None
    rail_part = 2 * packet.wire_bytes(1 << 14) * 8 / 400e9
    assert degraded - healthy == pytest.approx(4 * rail_part)


def test_ring_has_a_closed_form_on_rings_alone() -> None:
    fabric = ring_fabric(5, 1e6)
    schedule = RING.schedule(fabric, range(5), 5 * 4096, "float32", "sum").expand()
    assert RING.closed_form_s(fabric, schedule, PacketFormat(4096)) == pytest.approx(
        8 * (4096 + 74) * 8 / 1e6
    )
    assert RING.closed_form_s(rails(2, 2), schedule, PacketFormat(4096)) is None


def test_bus_bandwidth_factor_is_that_of_nccl_tests() -> None:
    """nccl-tests doc/PERFORMANCE.md: all-reduce 2 (n - 1) / n; 16 ranks: 1.875."""
    assert RING.busbw_factor(16) == HIERARCHICAL.busbw_factor(16) == 1.875
    assert RING.busbw_factor(1) == 0


def test_other_fabrics_and_parts_of_rails_are_refused() -> None:
    with pytest.raises(UnsupportedFabricError, match="ring-all-reduce"):
        HIERARCHICAL.schedule(ring_fabric(4, 1e9), range(4), 64, "float32", "sum").expand()
    with pytest.raises(ExperimentError, match="not the GPU where they meet"):
        HIERARCHICAL.schedule(rails(2, 2), range(3), 64, "float32", "sum").expand()
