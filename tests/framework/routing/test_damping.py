"""Scores by the source's own cases, and the rule for leaving a route, pair by pair."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.model import Fabric, HealthSnapshot, Path, PathBatch, RouteTable
from railweave.framework.routing.batches import all_paths, same_paths, table_from_batch, take
from railweave.framework.routing.damping import (
    broken_pairs,
    leaving,
    pair_scores,
    path_scores,
)
from railweave.framework.routing.decision import Arrangement
from tests.fakes.random_routes import FABRICS, random_table
from tests.fakes.small_fabrics import link_between, rail_only, rail_path, table_of


def scored(
    fabric: Fabric, elements: dict[str, float], links: dict[int, float] | None = None
) -> HealthSnapshot:
    health = HealthSnapshot.healthy(fabric)
    element, link = health.element_score.copy(), health.link_score.copy()
    for name, score in elements.items():
        element[fabric.node_ids[name]] = score
    for number, score in (links or {}).items():
        link[number] = score
    return replace(health, element_score=element, link_score=link)


def with_down(health: HealthSnapshot, *links: int) -> HealthSnapshot:
    down = health.down.copy()
    down[list(links)] = True
    return replace(health, down=down)


def test_scores_of_the_source_s_setup_a() -> None:
    """The cases of best fit of Cisco Outshift, h-score routing, part 2, counted from 0: Hd = 1.0, 0.8; Hr =
    .4 .5 .7 .9 .64; (1,1) -> (2,2): rd 0.32, dr 0.5, over rail 5 0.512, over rail 4 0.72."""
    fabric = rail_only(2, 5)
    names = {"domain0": 1.0, "domain1": 0.8} | {
        f"rail{i}": h for i, h in enumerate((0.4, 0.5, 0.7, 0.9, 0.64))
    }
    health = scored(fabric, names)
    table = table_of(
        fabric,
        lambda src, dst: [Path(rail_path(fabric, src, dst, by).links, 0.25) for by in ("rd", "dr", 4, 3)],
    )
    batch = table.paths(np.array([0]), np.array([6]))
    assert path_scores(fabric, batch, health) == pytest.approx([0.32, 0.5, 0.512, 0.72], abs=1e-15)
    assert pair_scores(fabric, batch, health) == pytest.approx([(0.32 + 0.5 + 0.512 + 0.72) / 4])


@settings(max_examples=30)
@given(st.sampled_from(sorted(FABRICS)), st.integers(0, 2**32))
def test_scores_against_a_plain_loop(kind: str, seed: int) -> None:
    fabric, rng = FABRICS[kind](), random.Random(seed)
    batch = all_paths(random_table(fabric, rng))
    score = HealthSnapshot(
        0,
        0.0,
        np.array([rng.random() for _ in range(fabric.n_links)]),
        np.array([rng.random() for _ in range(fabric.n_nodes)]),
        np.array([rng.random() < 0.1 for _ in range(fabric.n_links)]),
        np.empty(0),
    )
    found = pair_scores(fabric, batch, score)
    for i in range(len(batch.src)):
        mean = 0.0
        for path in batch.paths(i):
            elements = {int(fabric.link_element[link]) for link in path.links} - {-1}
            lone = [link for link in path.links if fabric.link_element[link] < 0]
            product = 1.0
            for e in elements:
                links = [link for link in path.links if fabric.link_element[link] == e]
                product *= min(score.element_score[e], *(score.link_score[link] for link in links))
            product *= math.prod(score.link_score[link] for link in lone)
            mean += 0.0 if any(score.down[link] for link in path.links) else product * path.weight
        assert found[i] == pytest.approx(mean, abs=1e-12)


NEVER = -math.inf


def decided(
    fabric: Fabric, old: RouteTable, new: RouteTable, health: HealthSnapshot, changed_at: float = NEVER
) -> tuple[RouteTable, np.ndarray]:
    """At t = 10 s, margin 1.25, dwell 2 s."""
    n = fabric.n_gpus
    return by_definition(fabric, old, new, health, np.full((n, n), changed_at), 10.0, 1.25)


def damped(
    fabric: Fabric,
    before: PathBatch,
    after: PathBatch,
    health: HealthSnapshot,
    times: np.ndarray,
    now_s: float,
    margin: float,
) -> tuple[PathBatch, np.ndarray]:
    """The paths in use then, and which pairs have left theirs; dwell 2 s."""
    differs = ~same_paths(before, after)
    moved = leaving(fabric, before, after, differs, health, now_s - times >= 2.0, margin)
    mixed = Arrangement.mixed([before], [after], [differs], [moved], [np.ones_like(moved)])
    assert np.array_equal(mixed.moved[0], moved)
    return mixed.blocks[0], moved


def by_definition(
    fabric: Fabric,
    old: RouteTable,
    new: RouteTable,
    health: HealthSnapshot,
    changed_at: np.ndarray,
    now_s: float,
    margin: float,
) -> tuple[RouteTable, np.ndarray]:
    """`damped` for every pair, with its times and its answer as (n, n) matrices [src, dst]."""
    before, after = all_paths(old), all_paths(new)
    times = changed_at[before.src, before.dst]
    chosen, moved = damped(fabric, before, after, health, times, now_s, margin)
    matrix = np.zeros((fabric.n_gpus, fabric.n_gpus), bool)
    matrix[before.src, before.dst] = moved
    return table_from_batch(new.router, new.version, fabric.n_gpus, chosen), matrix


@pytest.mark.parametrize(
    ("rail", "changed_at", "leaves"),
    [
        (0.81, NEVER, False),  # dr scores 0.81, rd 1: 1.23 times better is not enough
        (0.80, NEVER, True),  # 1.25 times is
        (0.20, NEVER, True),
        (0.20, 8.5, False),  # it changed 1.5 s ago
        (0.20, 8.0, True),  # it changed 2 s ago
    ],
)
def test_a_route_is_left_for_one_better_by_a_margin_after_a_dwell_time(
    rail: float, changed_at: float, leaves: bool
) -> None:
    fabric = rail_only(2, 2)
    old, new = (
        table_of(fabric, lambda src, dst, by=by: [rail_path(fabric, src, dst, by)], version=v)
        for v, by in enumerate(("dr", "rd"))
    )
    health = scored(fabric, {"rail1": rail})
    table, changed = decided(fabric, old, new, health, changed_at)
    assert (table.router, table.version) == ("test", 1)
    # dr crosses the rail of the destination: rail 1 for 0 -> 3 and 2 -> 1; 1 -> 2 leaves rail 0 for rail 1
    assert changed[0, 3] == changed[2, 1] == leaves
    assert not changed[1, 2]
    assert changed.sum() == 2 * leaves
    assert table.path(0, 3) == (new if leaves else old).path(0, 3)
    assert table.path(1, 2) == old.path(1, 2)


@pytest.mark.parametrize(
    ("rail", "changed_at", "leaves"),
    [
        (0.89, NEVER, False),  # the detour scores 1: 0.89 is more than the square root of 1.25 below
        (0.90, NEVER, True),  # this is not, and four links shorter
        (1.00, NEVER, True),
        (1.00, 8.5, False),  # it changed 1.5 s ago
    ],
)
def test_a_detour_is_left_when_the_direct_way_is_as_good(
    rail: float, changed_at: float, leaves: bool
) -> None:
    fabric = rail_only(2, 2)
    # from g0.0 to g1.0 over rail 1: domain, g0.1, rail, g1.1, domain
    old = table_of(
        fabric,
        lambda src, dst: [
            rail_path(fabric, src, dst, 1) if (src, dst) == (0, 2) else rail_path(fabric, src, dst)
        ],
    )
    new = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst)], version=1)
    assert len(old.path(0, 2)[0].links) == 6
    table, changed = decided(fabric, old, new, scored(fabric, {"rail0": rail}), changed_at)
    assert changed[0, 2] == leaves and changed.sum() == leaves
    assert table.path(0, 2) == (new if leaves else old).path(0, 2)


def test_a_broken_route_is_left_at_once_even_for_a_poor_one() -> None:
    fabric = rail_only(2, 2)
    old = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst)])
    new = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst, "rd")], version=1)
    health = with_down(scored(fabric, {"rail0": 0.01}), link_between(fabric, 1, 7))
    table, changed = decided(fabric, old, new, health, 9.99)
    assert np.argwhere(changed).tolist() == [[0, 3]]
    assert table.path(0, 3) == new.path(0, 3)
    assert broken_pairs(all_paths(old), health).sum() == 2  # 0 -> 3 and 1 -> 3 leave g0.1 over its rail


def test_pairs_that_are_cut_off_and_come_back() -> None:
    fabric = rail_only(2, 2)
    whole = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst)])
    without = table_of(fabric, lambda src, dst: [] if src == 0 else [rail_path(fabric, src, dst)])
    healthy = HealthSnapshot.healthy(fabric)
    table, changed = decided(fabric, whole, without, healthy)
    assert not changed.any()  # the old paths are as good as ever
    assert table.path(0, 3) == whole.path(0, 3)
    down = with_down(healthy, link_between(fabric, 0, 4))
    table, changed = decided(fabric, whole, without, down, 9.99)
    assert np.argwhere(changed).tolist() == [[0, 1], [0, 3]]
    table, changed = decided(fabric, without, whole, healthy, 9.99)
    assert np.argwhere(changed).tolist() == [[0, 1], [0, 2], [0, 3]]
    assert table.path(0, 3) == whole.path(0, 3)


@settings(max_examples=30)
@given(st.sampled_from(sorted(FABRICS)), st.integers(0, 2**32))
def test_each_pair_by_the_rule(kind: str, seed: int) -> None:
    """The merged table against the decision made pair by pair,
    on random tables and scores in steps of 0.05."""
    fabric, rng = FABRICS[kind](), random.Random(seed)
    old = random_table(fabric, rng)
    new = random_table(fabric, rng, old=old, change=0.6, version=1)
    n = fabric.n_gpus
    health = HealthSnapshot(
        1,
        5.0,
        np.array([rng.randrange(1, 21) / 20 for _ in range(fabric.n_links)]),
        np.array([rng.randrange(1, 21) / 20 for _ in range(fabric.n_nodes)]),
        np.array([rng.random() < 0.05 for _ in range(fabric.n_links)]),
        np.empty(0),
    )
    times = np.array([[rng.choice([NEVER, 1.0, 4.0]) for _ in range(n)] for _ in range(n)])
    table, changed = by_definition(fabric, old, new, health, times, 5.0, 1.1)
    for src in range(n):
        for dst in range(n):
            if src == dst:
                assert not changed[src, dst]
                continue
            pair = (np.array([src]), np.array([dst]))
            before, after = (float(pair_scores(fabric, t.paths(*pair), health)[0]) for t in (old, new))
            broken = not old.path(src, dst) or any(
                health.down[link] for p in old.path(src, dst) for link in p.links
            )
            rested = 5.0 - times[src, dst] >= 2.0
            hops = [sum(len(p.links) * p.weight for p in t.path(src, dst)) for t in (old, new)]
            shorter = 0 < hops[1] < hops[0] - 1e-12 and after * math.sqrt(1.1) >= before - 1e-12
            leaves = broken or ((after >= 1.1 * before - 1e-12 or shorter) and rested)
            different = [p.links for p in old.path(src, dst)] != [p.links for p in new.path(src, dst)]
            assert changed[src, dst] == (different and leaves)
            assert table.path(src, dst) == (new if leaves or not different else old).path(src, dst)
    before, after = all_paths(old), all_paths(table)
    assert np.array_equal(~same_paths(before, after), changed[before.src, before.dst])


def test_channels_of_one_table_only_are_kept() -> None:
    fabric = rail_only(2, 2)
    plain = table_of(fabric, lambda src, dst: [rail_path(fabric, src, dst)])
    with_channels = table_of(
        fabric,
        lambda src, dst: [
            replace(path, vc=tuple(1 for _ in path.links)) for path in [rail_path(fabric, src, dst, "rd")]
        ],
    )
    health = with_down(HealthSnapshot.healthy(fabric), link_between(fabric, 1, 7))
    table, changed = decided(fabric, plain, with_channels, health, 9.99)
    assert changed.sum() == 1
    assert table.path(0, 3)[0].vc == (1, 1, 1, 1)
    assert table.path(2, 1)[0].vc == (0, 0, 0, 0)


def test_lookup_by_any_pairs_in_any_order() -> None:
    fabric = FABRICS["torus 3x3"]()
    table = random_table(fabric, random.Random(2))
    again = table_from_batch("again", 5, 9, all_paths(table))
    src, dst = np.array([8, 0, 8, 3]), np.array([1, 1, 1, 5])
    assert again.paths(src, dst) == table.paths(src, dst)


@settings(max_examples=30)
@given(st.sampled_from(sorted(FABRICS)), st.integers(0, 2**32), st.data())
def test_some_pairs_are_damped_as_among_all(kind: str, seed: int, data: st.DataObject) -> None:
    """What is decided for a pair does not depend on which other pairs are in use."""
    fabric, rng = FABRICS[kind](), random.Random(seed)
    old = random_table(fabric, rng)
    new = random_table(fabric, rng, old=old, change=0.6, version=1)
    rails = {name: rng.randrange(1, 21) / 20 for name in fabric.node_ids if not name.startswith("g")}
    health = scored(fabric, rails, {link: rng.randrange(1, 21) / 20 for link in range(fabric.n_links)})
    before, after = all_paths(old), all_paths(new)
    times = np.array([rng.choice([NEVER, 1.0, 4.0]) for _ in before.src])
    chosen, moved = damped(fabric, before, after, health, times, 5.0, 1.1)
    rows = np.array(data.draw(st.lists(st.integers(0, len(times) - 1), unique=True, min_size=1)))
    part, leaves = damped(fabric, take(before, rows), take(after, rows), health, times[rows], 5.0, 1.1)
    assert part == take(chosen, rows)
    assert np.array_equal(leaves, moved[rows])
