"""What every router must do: each pair reached, no loop, only live links, equal input equal output.

Routers are found as the packages of railweave.plugins that have a plugin module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module, util
from pkgutil import iter_modules

import numpy as np
import pytest

import railweave.plugins
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, all_pairs
from railweave.framework.model.capabilities import MEANINGS, why_unserved
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers
from railweave.topologies.fat_tree import FatTree
from railweave.topologies.rail_optimised import RailOptimised
from railweave.topologies.ring import Ring
from railweave.topologies.torus import Torus, TwistedTorus
from tests.fakes.small_fabrics import rails_with, unequal
from tests.fakes.sound_tables import check_table


def routers() -> Iterator[tuple[str, Router]]:
    names = [
        f"railweave.plugins.{found.name}.plugin"
        for found in iter_modules(railweave.plugins.__path__)
        if found.ispkg and not found.name.startswith("_")
    ]
    modules = [(name, import_module(name)) for name in names if util.find_spec(name)]
    for name, router in Registers(modules)["router"].items():
        yield name, router.configured(resolve(name, router.parameters, {}))


ROUTERS = dict(routers())
NO_RAIL_IN_COMMON = rails_with([(0, 0), (0, 1), (1, 2), (1, 3), (2, 1), (2, 2)])
"""From g0.0 to g1.3 and back over domain 2: five switches."""
Build = Callable[[int, int], Fabric]
Make = Callable[..., HealthSnapshot]


def served(router: Router, rail_only: Build, torus: Build) -> list[Fabric]:
    fabrics = [rail_only(4, 4), rail_only(1, 3), rail_only(3, 1), rail_only(2, 5), torus(4, 3), torus(2, 2)]
    fabrics += [
        Torus().build({"shape": "4x3x2"}), Torus().build({"shape": "6"}),
        RailOptimised().build({"domains": 2, "rails": 3}), Ring().build({"nodes": 7, "wavelengths": 2}),
        unequal(4, 2, 2), unequal(1, 3), NO_RAIL_IN_COMMON, FatTree().build({"k": 4}),
    ]  # fmt: skip
    return [f for f in fabrics if not why_unserved(router, f)]


def snapshots(fabric: Fabric, make: Make) -> Iterator[HealthSnapshot]:
    """Healthy, then scores at random where there are domains and rails, then a few links down at random: some
    pairs may be cut off."""
    rng, groups = np.random.default_rng(fabric.n_links), (fabric.group("domain"), fabric.group("rail"))
    yield HealthSnapshot.healthy(fabric)
    for n_down in (*(0, 0) * any(groups), 1, 2, fabric.n_links // 6):
        scores = [rng.integers(1, 21, group.size) / 20 if group else None for group in groups]
        yield make(fabric, *scores, down=rng.choice(fabric.n_links, n_down, replace=False), margin=1.25)


def check(fabric: Fabric, health: HealthSnapshot, batch: PathBatch) -> None:
    assert len(batch.pair_start) == len(batch.src) + 1
    for pair in range(len(batch.src)):
        paths = batch.paths(pair)
        if not health.down.any():
            assert paths, f"no path {batch.src[pair]}->{batch.dst[pair]}"
        if paths:
            assert sum(path.weight for path in paths) == pytest.approx(1)
        for path in paths:
            nodes = [int(batch.src[pair])]
            for link in path.links:
                assert fabric.link_src[link] == nodes[-1] and not health.down[link]
                nodes.append(int(fabric.link_dst[link]))
            assert nodes[-1] == batch.dst[pair]
            assert len(set(nodes)) == len(nodes)


@pytest.mark.parametrize("name", ROUTERS)
def test_paths_are_whole_live_and_loop_free(name: str, rail_only: Build, torus: Build, health: Make) -> None:
    router = ROUTERS[name]
    for fabric in served(router, rail_only, torus):
        for snapshot in snapshots(fabric, health):
            table = router.routes(fabric, snapshot)
            assert (table.router, table.version, table.n_gpus) == (name, snapshot.version, fabric.n_gpus)
            check(fabric, snapshot, table.paths(*all_pairs(fabric.n_gpus)))
            check_table(fabric, table, snapshot, allow_unreachable=bool(snapshot.down.any()))


TWISTED = TwistedTorus().build({"shape": "4x4x8"})


@pytest.mark.parametrize("name", [n for n, router in ROUTERS.items() if not why_unserved(router, TWISTED)])
def test_paths_on_a_twisted_torus(name: str, health: Make) -> None:
    """Too many pairs for the plain check of every path; the vectorised one alone."""
    router = ROUTERS[name]
    for snapshot in snapshots(TWISTED, health):
        table = router.routes(TWISTED, snapshot)
        report = check_table(TWISTED, table, snapshot, allow_unreachable=bool(snapshot.down.any()))
        assert report.pairs == 128 * 127


@pytest.mark.parametrize("name", ROUTERS)
def test_equal_input_equal_output(name: str, rail_only: Build, torus: Build, health: Make) -> None:
    router = ROUTERS[name]
    for fabric in served(router, rail_only, torus):
        pairs = all_pairs(fabric.n_gpus)
        for snapshot in snapshots(fabric, health):
            table = router.routes(fabric, snapshot)
            assert table.paths(*pairs) == table.paths(*pairs) == router.routes(fabric, snapshot).paths(*pairs)


@pytest.mark.parametrize("name", ROUTERS)
def test_an_answer_does_not_depend_on_what_else_is_asked(
    name: str, rail_only: Build, torus: Build, health: Make
) -> None:
    router = ROUTERS[name]
    for fabric in served(router, rail_only, torus):
        *_, damaged = snapshots(fabric, health)
        table = router.routes(fabric, damaged)
        src, dst = all_pairs(fabric.n_gpus)
        whole = table.paths(src, dst)
        for pair in range(0, len(src), 7):
            assert table.path(int(src[pair]), int(dst[pair])) == whole.paths(pair)
        turned = table.paths(src[::-1], dst[::-1])
        assert all(turned.paths(i) == whole.paths(len(src) - 1 - i) for i in range(0, len(src), 5))
        assert len(table.paths(src[:0], dst[:0]).links) == 0


@pytest.mark.parametrize("name", ROUTERS)
def test_it_says_what_it_is(name: str) -> None:
    assert ROUTERS[name].summary and set(ROUTERS[name].requires) <= set(MEANINGS)
