"""How broken pairs share the links that are left: against the rule that takes the first path of each, against
every other choice of a pair, and moved with the fault."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.model import Fabric, HealthSnapshot, all_pairs
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.routing.batches import all_paths, same_paths
from railweave.framework.routing.dependencies import channel_cycle
from railweave.framework.routing.loads import all_to_all_loads
from railweave.framework.routing.torus.lattice import Lattice
from railweave.framework.routing.torus.legs import Displacements, batch_of, dimension_order, marked_before
from railweave.framework.routing.torus.wild_first import WildFirst, choices, default_sequence, order_around
from railweave.plugins.wfr.router import WildFirstRouting
from tests.fakes.tori import ocs_down, torus, twisted, with_down

SHAPES = ((4, 4, 4), (4, 4, 8), (4, 8, 8), (8, 8, 8))


def search_of(fabric: Fabric, health: HealthSnapshot, order: tuple[int, ...] | None = None) -> WildFirst:
    lattice = Lattice.of(fabric, health, "wfr")
    around = order_around(dimension_order(lattice.shape), lattice.links_down(health.down))
    dead = marked_before(lattice.rings, health.down)
    return WildFirst(lattice, Displacements(lattice), default_sequence(order or around), dead)


def first_path_loads(fabric: Fabric, health: HealthSnapshot) -> tuple[Float, int]:
    """Loads and pairs cut off where each broken pair takes the first path by hops, wild hops and signs."""
    search = search_of(fabric, health)
    src, dst = all_pairs(fabric.n_gpus)
    legs = search.dimension_order(src, dst)
    broken = legs.crosses(search.dead_before)
    load = np.bincount(
        batch_of(search.lattice.rings, src, dst, legs, ~broken).links, minlength=fabric.n_links
    )
    src, dst = src[broken], dst[broken]
    ranks, paths = [], []
    for signs in choices(search.sequence):
        legs = search.candidate(signs, src, dst)
        fits = np.all(search.fits(signs, legs), axis=0)
        ranks.append(np.where(fits, legs.length() * 10 + sum(map(abs, signs)), np.iinfo(np.int64).max))
        paths.append(legs)
    best, cut = np.argmin(ranks, axis=0), np.min(ranks, axis=0) == np.iinfo(np.int64).max
    for number, legs in enumerate(paths):
        batch = batch_of(search.lattice.rings, src, dst, legs, (best == number) & ~cut)
        load += np.bincount(batch.links, minlength=fabric.n_links)
    return load, int(cut.sum())


def healthy_most(shape: tuple[int, ...]) -> float:
    """n k / 8 on the links of the longest axis (half cut of the torus)."""
    return float(np.prod(shape)) * max(shape) / 8


@pytest.mark.parametrize("axis", ["X", "Y", "Z"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_ocs_costs_less_than_a_seventh(shape: tuple[int, ...], axis: str) -> None:
    """0.85 of the healthy throughput and 0.9 of what the first path of each pair keeps, in all twelve."""
    fabric = torus(*shape)
    health = ocs_down(fabric, f"{axis}:0,0")
    loads = all_to_all_loads(fabric, WildFirstRouting().routes(fabric, health))
    kept = healthy_most(shape) / loads.load.max()
    assert kept >= 0.85 and not len(loads.unreachable)
    first, cut = first_path_loads(fabric, health)
    assert kept >= 0.9 * healthy_most(shape) / first.max() and not cut


@st.composite
def damaged_tori(draw: st.DrawFn) -> tuple[Fabric, HealthSnapshot]:
    fabric = torus(*draw(st.lists(st.integers(2, 5), min_size=1, max_size=3)))
    down = draw(st.lists(st.integers(0, fabric.n_links - 1), min_size=1, max_size=8, unique=True))
    return fabric, with_down(fabric, down)


@given(damaged_tori())
@settings(max_examples=40)
def test_it_never_loads_a_link_more_than_first_paths_do(case: tuple[Fabric, HealthSnapshot]) -> None:
    """Pairs cut off count first: a table that serves more of them may load more."""
    fabric, health = case
    loads = all_to_all_loads(fabric, WildFirstRouting().routes(fabric, health))
    first, cut = first_path_loads(fabric, health)
    assert (len(loads.unreachable), loads.load.max()) <= (cut, first.max())


@pytest.mark.parametrize("fabric", [torus(4, 4, 4), torus(5, 4), torus(3, 6, 2), twisted(4, 4, 8)])
def test_no_pair_gains_by_another_choice(fabric: Fabric) -> None:
    """One direction of a cable down: no two sources are alike, so every pair is tried by itself."""
    health = with_down(fabric, [7])
    router = WildFirstRouting()
    table = router.routes(fabric, health)
    sequence = str(router.explain(fabric, health, 0, 1, fabric.node_name).facts["sequence"])
    order = tuple("XYZ".index(axis) for axis in sequence if axis.isupper())
    search, load = search_of(fabric, health, order), all_to_all_loads(fabric, table).load
    src, dst = all_pairs(fabric.n_gpus)
    broken = search.dimension_order(src, dst).crosses(search.dead_before)
    batch = table.paths(src[broken], dst[broken])
    for i, (a, b) in enumerate(zip(src[broken], dst[broken], strict=True)):
        (path,) = batch.paths(i)
        now = sorted(load[list(path.links)], reverse=True)
        for signs in choices(search.sequence):
            legs = search.candidate(signs, np.array([a]), np.array([b]))
            if legs.length()[0] == len(path.links) and np.all(search.fits(signs, legs)):
                links = batch_of(search.lattice.rings, np.array([a]), np.array([b]), legs).links
                joined = [load[link] + (link not in path.links) for link in links.tolist()]
                assert sorted(joined, reverse=True) >= now


def moved_by(fabric: Fabric, steps: tuple[int, ...]) -> Int64:
    """(n,): where each GPU of a plain torus comes to lie."""
    shape = fabric.groups[0].shape
    places = (fabric.gpu_coordinates + np.array(steps)) % np.array(shape)
    moved: Int64 = np.ravel_multi_index(tuple(places.T), shape)
    return moved


@pytest.mark.parametrize(
    ("fabric", "steps"),
    [(torus(4, 4, 8), (2, 2, 6)), (torus(8, 4, 4), (4, 0, 2)), (torus(5, 4), (3, 2)), (torus(3, 5), (2, 1))],
)
def test_a_fault_moved_is_the_same_answer_moved(fabric: Fabric, steps: tuple[int, ...]) -> None:
    """By steps that keep the ties: even ones on axes of even length, any on others. Two cables of different
    axes, so that nothing repeats; solved afresh, and by a router that knows the other place."""
    moved = moved_by(fabric, steps)
    ends = {
        (int(a), int(b)): i for i, (a, b) in enumerate(zip(fabric.link_src, fabric.link_dst, strict=True))
    }
    down = [0, 3, fabric.n_links // 2 + 1]
    there = [ends[int(moved[fabric.link_src[i]]), int(moved[fabric.link_dst[i]])] for i in down]
    router = WildFirstRouting()
    here = all_paths(router.routes(fabric, with_down(fabric, down)))
    for one in (router, WildFirstRouting()):
        batch = one.routes(fabric, with_down(fabric, there)).paths(moved[here.src], moved[here.dst])
        assert np.array_equal(batch.hop_start, here.hop_start)
        assert np.array_equal(fabric.link_dst[batch.links], moved[fabric.link_dst[here.links]])


def test_the_sources_of_one_cube_stand_for_all() -> None:
    """With an OCS down the period is a cube of 4x4x4: one cube on, a pair has the same path one cube on."""
    fabric = torus(8, 8, 8)
    table = WildFirstRouting().routes(fabric, ocs_down(fabric, "Y:1,2"))
    moved, batch = moved_by(fabric, (4, 0, 4)), all_paths(table)
    other = table.paths(moved[batch.src], moved[batch.dst])
    assert np.array_equal(moved[fabric.link_dst[batch.links]], fabric.link_dst[other.links])


@pytest.mark.parametrize(
    ("fabric", "down"),
    [
        (torus(4, 4, 4), "X:0,0"), (torus(4, 4, 4), [0, 1, 130, 131]), (torus(8, 8, 8), "Z:0,0"),
        (torus(6, 6, 6), [2, 3]), (torus(6, 6, 6), [0, 500, 900]),
    ],
)  # fmt: skip
def test_no_channels_wait_in_a_cycle(fabric: Fabric, down: str | list[int]) -> None:
    health = ocs_down(fabric, down) if isinstance(down, str) else with_down(fabric, down)
    assert channel_cycle(fabric, WildFirstRouting().routes(fabric, health)) is None


def test_equal_faults_give_equal_paths_whatever_was_asked_before() -> None:
    """The twisted torus of equal shape has links of equal numbers that lead elsewhere."""
    fabric, other = torus(4, 4, 8), twisted(4, 4, 8)
    health, used = ocs_down(fabric, "Z:1,2"), WildFirstRouting()
    used.routes(other, ocs_down(other, "Z:1,2"))
    used.routes(fabric, with_down(fabric, [5, 9]))
    before = all_paths(used.routes(fabric, health))
    for router in (used, WildFirstRouting()):
        assert same_paths(before, all_paths(router.routes(fabric, health))).all()
