"""The checks of a plan find what is broken on purpose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railweave.framework.errors import FabricError, RouteError
from railweave.framework.papers.optical.algorithms import ALGORITHMS, plan_of
from railweave.framework.papers.optical.lightpath_plan import LightpathPlan
from tests.framework.papers.optical.oracle import cables, rows, shared
from tests.framework.papers.optical.plan_checks import check_all_gather, check_wavelengths, link_items


def small(*table: tuple[int, int, int, int, int, int]) -> LightpathPlan:
    """Rows of (step, src, dst, item, up, wavelength) on a ring of 5 with 2 wavelengths."""
    with_spread = np.array([(*row, 0) for row in table]).T
    return LightpathPlan.of_table("test", 5, 2, [("all", int(with_spread[0].max()) + 1)], with_spread)


@pytest.mark.parametrize(
    ("other", "clash"),
    [
        ((0, 1, 2, 1, 1, 0), True),
        ((0, 4, 1, 4, 1, 0), True),
        ((0, 2, 4, 2, 1, 0), False),
        ((0, 1, 2, 1, 1, 1), False),
        ((1, 1, 2, 1, 1, 0), False),
        ((0, 2, 1, 2, 0, 0), False),
        ((0, 2, 1, 2, 1, 0), True),
        ((0, 4, 0, 4, 1, 0), False),
    ],
)
def test_a_shared_wavelength_is_found(other: tuple[int, ...], clash: bool) -> None:
    """The first lightpath goes 0 -> 1 -> 2 up on wavelength 0 in step 0."""
    plan = small((0, 0, 2, 0, 1, 0), other)  # type: ignore[arg-type]
    assert bool(shared(plan)) == clash
    if clash:
        with pytest.raises(RouteError, match=r"in step 0 .* share a link on wavelength 0"):
            check_wavelengths(plan)
    else:
        check_wavelengths(plan)


def test_random_plans_are_judged_as_by_hand() -> None:
    rng = np.random.default_rng(5)
    verdicts = set()
    for _ in range(300):
        n = int(rng.integers(3, 9))
        size = int(rng.integers(1, 7))
        src = rng.integers(0, n, size)
        dst = (src + rng.integers(1, n, size)) % n
        table = np.stack(
            (
                rng.integers(0, 2, size),
                src,
                dst,
                src,
                rng.integers(0, 2, size),
                rng.integers(0, 3, size),
                src * 0,
            )
        )
        plan = LightpathPlan.of_table("random", n, 3, [("all", 2)], table)
        try:
            check_wavelengths(plan)
            clean = True
        except RouteError:
            clean = False
        assert clean == (not shared(plan))
        verdicts.add(clean)
    assert verdicts == {True, False}


def test_two_items_on_one_lightpath_are_no_clash() -> None:
    plan = small((0, 0, 1, 0, 1, 0), (0, 0, 1, 4, 1, 0))
    check_wavelengths(plan)
    assert plan.step_items.tolist() == [2] and plan.item_times == 2


def test_a_wavelength_that_is_not_there_is_found() -> None:
    with pytest.raises(RouteError, match="uses wavelength 2 of 2"):
        check_wavelengths(small((0, 0, 1, 0, 1, 2)))


def test_incomplete_gathers_are_found() -> None:
    whole = plan_of("ring", 5, 2)
    keep = np.ones(len(whole.step), bool)
    keep[7] = False
    names = ("step", "src", "dst", "item", "up", "wavelength", "spread")
    less = replace(whole, **{name: getattr(whole, name)[keep] for name in names})
    with pytest.raises(RouteError, match=r"never gets item|before it has it"):
        check_all_gather(less)
    with pytest.raises(RouteError, match="never gets item"):
        check_all_gather(small((0, 0, 1, 0, 1, 0)))
    with pytest.raises(RouteError, match="sends item 3 in step 0 before it has it"):
        check_all_gather(small((0, 0, 1, 3, 1, 0)))
    with pytest.raises(RouteError, match="node 1 gets item 0 although"):
        check_all_gather(small((0, 0, 1, 0, 1, 0), (1, 0, 1, 0, 1, 0)))
    with pytest.raises(RouteError, match="node 1 gets item 1 although"):
        check_all_gather(small((0, 0, 1, 0, 1, 0), (1, 0, 1, 1, 1, 0)))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("nodes", "wavelengths"), [(16, 0), (1, 2)])
def test_impossible_numbers_are_refused(algorithm: str, nodes: int, wavelengths: int) -> None:
    with pytest.raises(FabricError, match=f"a ring of {nodes} nodes and {wavelengths} wavelengths: it needs"):
        plan_of(algorithm, nodes, wavelengths)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("nodes", "wavelengths"), [(6, 2), (16, 2), (10, 3)])
def test_items_per_link(algorithm: str, nodes: int, wavelengths: int) -> None:
    """Counted hop by hop; rows that are spread count in equal shares."""
    plan = plan_of(algorithm, nodes, wavelengths)
    expected = np.zeros((2, nodes, wavelengths))
    for (_, src, dst, _, up, wavelength), spread in zip(rows(plan), plan.spread.tolist(), strict=True):
        for node, way in cables(nodes, src, dst, up):
            if spread:
                expected[0 if way else 1, node] += 1 / wavelengths
            else:
                expected[0 if way else 1, node, wavelength] += 1
    assert np.allclose(link_items(plan), expected)
