"""Tables broken on purpose in each way, and sound ones."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from railweave.framework.errors import RouteError
from railweave.framework.model import Fabric, HealthSnapshot, Path, PathBatch, RouteTable, all_pairs
from railweave.framework.routing import table_checks
from railweave.framework.routing.batches import all_paths, table_from_batch
from tests.fakes.random_routes import FABRICS, random_table
from tests.fakes.small_fabrics import link_between, rail_only, rail_path, ring, table_of
from tests.fakes.sound_tables import check_table


@pytest.fixture
def fabric() -> Fabric:
    return rail_only(2, 2)


def with_path(fabric: Fabric, *paths: Path) -> RouteTable:
    """dr everywhere, but these paths from g0.0 (0) to g1.1 (3)."""
    return table_of(
        fabric, lambda src, dst: list(paths) if (src, dst) == (0, 3) else [rail_path(fabric, src, dst)]
    )


def links(fabric: Fabric, *nodes: int) -> tuple[int, ...]:
    return tuple(link_between(fabric, a, b) for a, b in pairwise(nodes))


@pytest.mark.parametrize("kind", sorted(FABRICS))
def test_sound_tables_pass_and_are_counted(kind: str) -> None:
    fabric = FABRICS[kind]()
    table = random_table(fabric, random.Random(1), cut=0.0)
    report = check_table(fabric, table, HealthSnapshot.healthy(fabric))
    batch = all_paths(table)
    n = fabric.n_gpus
    assert (report.pairs, report.paths, report.hops) == (n * (n - 1), len(batch.weight), len(batch.links))
    assert report.longest == max(len(p.links) for i in range(len(batch.src)) for p in batch.paths(i))
    assert report.unreachable.shape == (0, 2)


def test_some_pairs_only(fabric: Fabric) -> None:
    """Nodes 4, 5 are the domains and 6, 7 the rails; the bad path is not asked for."""
    table = with_path(fabric, Path(()))
    report = check_table(fabric, table, HealthSnapshot.healthy(fabric), (np.array([0, 2]), np.array([1, 3])))
    assert (report.pairs, report.hops, report.longest) == (2, 4, 2)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ((1, 7, 3), "does not leave the source"),
        ((0, 4, 1), "does not reach the destination"),
        ((0, 4, 0, 4, 1, 7, 3), "a loop"),
        ((0, 6, 2, 5, 3, 5, 3), "a loop"),
        ((0, 4, 1, 4, 1, 7, 3), "a loop"),
    ],
)
def test_a_path_that_goes_wrong_is_named(fabric: Fabric, nodes: tuple[int, ...], why: str) -> None:
    table = with_path(fabric, Path(links(fabric, *nodes)))
    with pytest.raises(RouteError, match=rf"router test: path 0 of g0\.0 -> g1\.1 .*->.*{why}"):
        check_table(fabric, table, HealthSnapshot.healthy(fabric))


def test_links_that_do_not_join(fabric: Fabric) -> None:
    table = with_path(fabric, Path((*links(fabric, 0, 4), *links(fabric, 1, 7, 3))))
    with pytest.raises(RouteError, match=r"at link g0\.1->rail1: the link does not begin where"):
        check_table(fabric, table, HealthSnapshot.healthy(fabric))


@pytest.mark.parametrize("link", [-1, 10_000])
def test_a_link_that_is_not_there(fabric: Fabric, link: int) -> None:
    table = with_path(fabric, Path((link,)))
    with pytest.raises(RouteError, match=rf"at link {link}: the fabric has no such link"):
        check_table(fabric, table, HealthSnapshot.healthy(fabric))


def test_a_path_without_links(fabric: Fabric) -> None:
    with pytest.raises(RouteError, match="no path at all"):
        check_table(fabric, with_path(fabric, Path(())), HealthSnapshot.healthy(fabric))


def test_a_dead_link_is_found_in_the_second_path(fabric: Fabric) -> None:
    table = with_path(
        fabric, Path(links(fabric, 0, 4, 1, 7, 3), 0.5), Path(links(fabric, 0, 6, 2, 5, 3), 0.5)
    )
    down = np.zeros(fabric.n_links, bool)
    down[link_between(fabric, 2, 5)] = True
    health = replace(HealthSnapshot.healthy(fabric), down=down)
    with pytest.raises(RouteError, match=r"path 1 of g0\.0 -> g1\.1 .* g1\.0->domain1: the link is down"):
        check_table(fabric, table, health, (np.array([0]), np.array([3])))


@pytest.mark.parametrize(("weights", "why"), [((0.5, 0.4), "sum to 0.9"), ((1.5, -0.5), "not positive")])
def test_weights(fabric: Fabric, weights: tuple[float, float], why: str) -> None:
    ways = (links(fabric, 0, 4, 1, 7, 3), links(fabric, 0, 6, 2, 5, 3))
    table = with_path(fabric, *(Path(w, x) for w, x in zip(ways, weights, strict=True)))
    with pytest.raises(RouteError, match=why):
        check_table(fabric, table, HealthSnapshot.healthy(fabric))


def test_cut_pairs_are_listed_and_no_error(fabric: Fabric) -> None:
    down = np.zeros(fabric.n_links, bool)
    down[link_between(fabric, 0, 4)] = True
    health = replace(HealthSnapshot.healthy(fabric), down=down)
    table = table_of(fabric, lambda src, dst: [] if src == 0 and dst != 2 else [rail_path(fabric, src, dst)])
    wanted = [[0, 1], [0, 3]]
    assert check_table(fabric, table, health, allow_unreachable=True).unreachable.tolist() == wanted
    assert table_checks.check_table(fabric, table, health).tolist() == wanted


def test_ranges_that_fall_are_refused(fabric: Fabric) -> None:
    batch = all_paths(with_path(fabric, rail_path(fabric, 0, 3)))
    bad = batch.hop_start.copy()
    bad[1], bad[2] = bad[2], bad[1]
    broken = PathBatch(batch.src, batch.dst, batch.pair_start, batch.weight, bad, batch.links)
    table = RouteTable("bad", 0, fabric.n_gpus, lambda src, dst: broken)
    with pytest.raises(RouteError, match="hop_start"):
        check_table(fabric, table, HealthSnapshot.healthy(fabric))


def test_an_answer_for_other_pairs_is_refused(fabric: Fabric) -> None:
    batch = all_paths(with_path(fabric, rail_path(fabric, 0, 3)))
    table = RouteTable("bad", 0, fabric.n_gpus, lambda src, dst: batch)
    with pytest.raises(RouteError, match="other pairs"):
        check_table(fabric, table, HealthSnapshot.healthy(fabric), all_pairs(4)[::-1])


def test_a_gpu_may_be_passed_through() -> None:
    """On a ring there is no other way."""
    fabric = ring(4)
    table = table_of(
        fabric, lambda src, dst: [Path(tuple(2 * ((src + i) % 4) for i in range((dst - src) % 4)))]
    )
    assert check_table(fabric, table, HealthSnapshot.healthy(fabric)).longest == 3


def test_a_table_does_not_answer_for_pairs_it_does_not_hold(fabric: Fabric) -> None:
    batch = with_path(fabric, rail_path(fabric, 0, 3)).paths(np.array([0]), np.array([3]))
    with pytest.raises(RouteError, match="0 -> 1"):
        table_from_batch("small", 0, 4, batch).path(0, 1)
