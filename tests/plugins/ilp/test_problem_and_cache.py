"""Translations of faults, and solutions kept on disk."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from railweave.framework.errors import FabricError, MachineError, RouteError
from railweave.framework.hookspecs import ExplainingRouter
from railweave.framework.model import Fabric, HealthSnapshot, all_pairs
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Value, resolve
from railweave.framework.routing.torus.lattice import Lattice
from railweave.plugins.ilp.problem import Problem
from railweave.plugins.ilp.router import OptimisedRouting
from railweave.plugins.ilp.solution import Cache, default_folder
from tests.fakes.sound_tables import check_table
from tests.fakes.tori import ocs_down, torus, twisted, with_down


def made(**given: object) -> OptimisedRouting:
    return OptimisedRouting().configured(resolve("ilp", OptimisedRouting.parameters, given))


def paths(
    fabric: Fabric, table_of: HealthSnapshot, router: OptimisedRouting
) -> dict[tuple[int, int], list[int]]:
    batch = router.routes(fabric, table_of).paths(*all_pairs(fabric.n_gpus))
    return {
        (int(batch.src[i]), int(batch.dst[i])): [
            int(batch.src[i]),
            *map(int, fabric.link_dst[list(path.links)]),
        ]
        for i in range(len(batch.src))
        for path in batch.paths(i)
    }


def test_an_ocs_has_the_period_of_a_cube_and_one_place() -> None:
    fabric = torus(4, 4, 8)
    lattice = Lattice.of(fabric, HealthSnapshot.healthy(fabric), "ilp")
    found = [Problem.of(lattice, ocs_down(fabric, f"X:{y},{z}").down) for y in range(4) for z in range(4)]
    assert {len(s.representatives) for s in found} == {64}
    assert all(np.array_equal(s.fault, found[0].fault) for s in found)
    other = Problem.of(lattice, ocs_down(fabric, "Y:0,0").down)
    assert not np.array_equal(other.fault, found[0].fault)
    assert len(Problem.of(lattice, with_down(fabric, [5]).down).representatives) == 128
    assert len(Problem.of(lattice, HealthSnapshot.healthy(fabric).down).representatives) == 1


@pytest.mark.parametrize("fabric", [torus(4, 3, 2), twisted(4, 4, 8)])
def test_translations_are_those_of_the_wires(fabric: Fabric) -> None:
    """Moving both ends of every link along any translation gives links again."""
    lattice = Lattice.of(fabric, HealthSnapshot.healthy(fabric), "ilp")
    everyone = np.arange(fabric.n_gpus)
    wires = set(zip(fabric.link_src.tolist(), fabric.link_dst.tolist(), strict=True))
    for by in range(0, fabric.n_gpus, 7):
        shift: Int64 = lattice.translated(everyone, np.full(fabric.n_gpus, by))
        assert sorted(shift) == list(everyone)
        assert {(int(shift[a]), int(shift[b])) for a, b in wires} == wires
        assert np.array_equal(lattice.offset(np.full(fabric.n_gpus, by), shift), everyone)


def test_another_position_of_the_ocs_is_the_same_answer_moved(tmp_path: Path) -> None:
    """Both solved afresh, then the second from the first one's file: all three agree up to translation."""
    fabric = torus(4, 4, 4)
    here, there = ocs_down(fabric, "X:0,0"), ocs_down(fabric, "X:2,3")
    direct = paths(fabric, there, made(cache="off"))
    first = paths(fabric, here, made(cache=str(tmp_path)))
    assert len(list(tmp_path.iterdir())) == 1
    assert paths(fabric, there, made(cache=str(tmp_path))) == direct
    assert len(list(tmp_path.iterdir())) == 1

    def shift(node: int) -> int:
        x, y, z = fabric.coordinates(node)
        return (x * 4 + (y + 2) % 4) * 4 + (z + 3) % 4

    assert {(shift(a), shift(b)): [shift(v) for v in path] for (a, b), path in first.items()} == direct


def test_off_writes_nothing_and_on_goes_to_the_user_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = torus(4, 4)
    healthy = HealthSnapshot.healthy(fabric)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "railweave" / "ilp"
    made(cache="off").routes(fabric, healthy)
    assert not list(tmp_path.iterdir())
    fresh = made().solution(fabric, healthy)
    (file,) = default_folder().iterdir()
    assert file.suffix == ".npz"
    assert made().solution(fabric, healthy) == fresh  # the seconds too: it was read, not solved
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "railweave" / "ilp"


@pytest.mark.parametrize("damage", [b"", b"not a zip", None])
def test_a_damaged_file_is_solved_again_and_replaced(tmp_path: Path, damage: bytes | None) -> None:
    fabric = torus(4, 4)
    healthy = HealthSnapshot.healthy(fabric)
    fresh = made(cache=str(tmp_path)).solution(fabric, healthy)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-200] if damage is None else damage)
    again = made(cache=str(tmp_path)).solution(fabric, healthy)
    assert replace(again, seconds=0.0, cpu_seconds=0.0) == replace(fresh, seconds=0.0, cpu_seconds=0.0)
    assert Cache(tmp_path).load(made().problem(fabric, healthy).key) == again


def test_a_file_of_another_problem_is_not_taken(tmp_path: Path) -> None:
    fabric, cache = torus(4, 4), Cache(tmp_path)
    found = made(cache="off").solution(fabric, HealthSnapshot.healthy(fabric))
    cache.store("one", found)
    cache.path("one").rename(cache.path("two"))
    assert cache.load("two") is None and cache.load("one") is None


def test_an_answer_that_the_time_limit_cut_short_is_not_kept(tmp_path: Path) -> None:
    """It would be that of a busy machine, also for those that ask on an idle one."""
    fabric = torus(4, 4)
    healthy = HealthSnapshot.healthy(fabric)
    cut = OptimisedRouting(Cache(tmp_path), limit_s=0.0)
    assert not cut.solution(fabric, healthy).complete and not list(tmp_path.iterdir())
    assert "cut short" in cut.solution(fabric, healthy).report
    check_table(fabric, cut.routes(fabric, healthy), healthy)
    whole = made(cache=str(tmp_path)).solution(fabric, healthy)
    assert whole.complete and "cut short" not in whole.report and len(list(tmp_path.iterdir())) == 1
    assert OptimisedRouting(Cache(tmp_path), limit_s=0.0).solution(fabric, healthy) == whole


def test_a_folder_that_cannot_be_written_costs_no_routes(tmp_path: Path) -> None:
    fabric = torus(4, 4)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.warns(RuntimeWarning, match="not kept in .*cache=off"):
        assert made(cache=str(blocked / "below")).solution(fabric, HealthSnapshot.healthy(fabric)).proven


def test_the_solver_prints_nothing() -> None:
    """In a process of its own: HiGHS prints its licence once in each. JSON goes to the same place."""
    code = "from railweave.framework.routing.highs import highs, one_thread\none_thread(highs()).run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_whoever_used_the_solver_before_with_other_threads_costs_no_proof() -> None:
    """All solvers of a process share their threads; HiGHS refuses to run with another number of them."""
    core = pytest.importorskip("highspy")
    for threads in (2, 3):
        core.Highs.resetGlobalScheduler(True)
        other = core.Highs()
        other.setOptionValue("output_flag", False)
        other.setOptionValue("threads", threads)
        other.addVar(0.0, 1.0)
        assert other.run() == core.HighsStatus.kOk
        fabric = torus(4, 4, 4)
        assert made(cache="off").solution(fabric, ocs_down(fabric, "X:0,0")).proven


def test_without_the_solver_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = torus(4, 4)
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(MachineError, match=r"railweave\[ilp\].*--router wfr"):
        made(cache="off").routes(fabric, HealthSnapshot.healthy(fabric))


def test_links_of_different_rates_are_refused() -> None:
    fabric = torus(4, 4)
    rates: dict[str, Value] = {}
    slow = replace(fabric, capacity_bps=np.where(np.arange(fabric.n_links) == 0, 1e9, 2e9), params=rates)
    with pytest.raises(FabricError, match="differ in rate"):
        made(cache="off").routes(slow, HealthSnapshot.healthy(slow))


def test_it_explains_a_pair() -> None:
    """8x8x8's X:0,0 in small: 3 -> 0 along x at y = z = 0 takes a hop aside and back."""
    fabric = torus(4, 4, 4)
    router, health = made(cache="off"), ocs_down(fabric, "X:0,0")
    assert isinstance(router, ExplainingRouter)
    names = fabric.node_ids
    found = router.explain(fabric, health, names["g3.0.0"], names["g0.0.0"], fabric.node_name)
    assert found.facts["sequence"] == "zyXYZ" and found.facts["busiest_link"] == 34
    (path,) = router.routes(fabric, health).path(names["g3.0.0"], names["g0.0.0"])
    assert len(path.links) == 3
    assert "proven optimal" in found.why
    with pytest.raises(RouteError, match="no GPU 64"):
        router.explain(fabric, health, 0, 64, fabric.node_name)
