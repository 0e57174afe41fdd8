"""The arrays against a slow, literal reading of the source, pair by pair, and the theorem by brute force."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.model import Fabric, HealthSnapshot, all_pairs
from railweave.framework.routing.batches import take
from railweave.framework.routing.rails.choice import by_rule
from railweave.framework.routing.rails.links import DR, DRD, RD
from railweave.framework.routing.rails.scores import Scores, ratio
from railweave.plugins.hscore.router import HScore
from tests.plugins.decisions import decided

Build = Callable[[int, int], Fabric]
Make = Callable[..., HealthSnapshot]
EPS = 1e-12
TWENTIETHS = st.integers(0, 20).map(lambda n: n / 20)


class Literal:
    """The rules in words, one pair at a time, on names of nodes."""

    def __init__(self, fabric: Fabric, health: HealthSnapshot, detour: bool) -> None:
        self.fabric, self.detour, self.margin = fabric, detour, health.margin
        self.h = {name: float(health.element_score[node]) for name, node in fabric.node_ids.items()}
        self.links = {}
        for link in range(fabric.n_links):
            a, b = fabric.link_name(link).split("->")
            alive = not health.down[link] and self.h[a] > 0 and self.h[b] > 0
            self.links[a, b] = (link, alive)

    def walk(self, *names: str) -> tuple[int, ...] | None:
        hops = [self.links.get(hop, (-1, False)) for hop in pairwise(names)]  # none at a missing GPU
        return tuple(link for link, _ in hops) if all(alive for _, alive in hops) else None

    def gamma(self, d: int, g: int) -> float:
        return self.h[f"r{g}"] / self.h[f"d{d}"] if self.h[f"d{d}"] else float("inf")

    def path(self, src: int, dst: int) -> tuple[int, ...] | None:
        (d1, g1), (d2, g2) = self.fabric.coordinates(src), self.fabric.coordinates(dst)
        one, two, h = f"g{d1}.{g1}", f"g{d2}.{g2}", self.h
        if d1 == d2:
            return self.walk(one, f"d{d1}", two) or self.through(src, dst)
        drd, m = self.over(src, dst), self.threshold(src, dst)
        if g1 == g2:
            direct = [(h[f"r{g1}"], self.walk(one, f"r{g1}", two))]
        else:
            gamma1, gamma2 = self.gamma(d1, g1), self.gamma(d2, g2)
            rd = (h[f"r{g1}"] * h[f"d{d2}"], self.walk(one, f"r{g1}", f"g{d2}.{g1}", f"d{d2}", two))
            dr = (h[f"d{d1}"] * h[f"r{g2}"], self.walk(one, f"d{d1}", f"g{d1}.{g2}", f"r{g2}", two))
            direct = [rd, dr] if gamma1 > gamma2 + EPS else [dr, rd]
        fits = [x for x in drd if h[f"r{x}"] > m * self.margin + EPS and drd[x]]
        if fits:
            return drd[min(fits, key=lambda x: (h[f"r{x}"], x))]
        if direct[0][1]:
            return direct[0][1]
        left = direct + [(h[f"d{d1}"] * h[f"r{x}"] * h[f"d{d2}"], drd[x]) for x in sorted(drd)]
        whole = [(score, path) for score, path in left if path]
        best = max((score for score, _ in whole), default=0.0)
        return next((path for score, path in whole if score >= best - EPS), None) or self.through(src, dst)

    def over(self, src: int, dst: int) -> dict[int, tuple[int, ...] | None]:
        """The drd-path over every rail but the pair's own, of pairs in two domains."""
        (d1, g1), (d2, g2) = self.fabric.coordinates(src), self.fabric.coordinates(dst)
        return {
            x: self.walk(
                f"g{d1}.{g1}", f"d{d1}", f"g{d1}.{x}", f"r{x}", f"g{d2}.{x}", f"d{d2}", f"g{d2}.{g2}"
            )
            for x in range(self.fabric.groups[2].size)
            if x not in (g1, g2)
        }

    def threshold(self, src: int, dst: int) -> float:
        """m, for pairs in two domains."""
        (d1, g1), (d2, g2) = self.fabric.coordinates(src), self.fabric.coordinates(dst)
        if g1 != g2:
            return max(self.gamma(d1, g1), self.gamma(d2, g2))
        both = self.h[f"d{d1}"] * self.h[f"d{d2}"]
        return self.h[f"r{g1}"] / both if both and self.detour else float("inf")

    def through(self, src: int, dst: int) -> tuple[int, ...] | None:
        """Ours: over both rails and the best other domain, where nothing of the source's lives."""
        (d1, g1), (d2, g2) = self.fabric.coordinates(src), self.fabric.coordinates(dst)
        if g1 == g2:
            return None
        one, two = f"g{d1}.{g1}", f"g{d2}.{g2}"
        others = [x for x in range(self.fabric.groups[1].size) if x not in (d1, d2)]
        for x in sorted(others, key=lambda x: (-self.h[f"d{x}"], x)):
            path = self.walk(one, f"r{g1}", f"g{x}.{g1}", f"d{x}", f"g{x}.{g2}", f"r{g2}", two)
            if path:
                return path
        return None


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, list[float], list[float], list[int], float, bool]:
    domains, rails = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    if domains * rails == 1:
        rails = 2
    h_d = draw(st.lists(TWENTIETHS, min_size=domains, max_size=domains))
    h_r = draw(st.lists(TWENTIETHS, min_size=rails, max_size=rails))
    down = draw(st.lists(st.integers(0, 4 * domains * rails - 1), max_size=8))
    return domains, rails, h_d, h_r, down, draw(st.sampled_from([1.0, 1.25])), draw(st.booleans())


@given(cases())
@settings(max_examples=150)
def test_every_pair_goes_as_the_literal_rules_say(
    rail_only: Build,
    health: Make,
    case: tuple[int, int, list[float], list[float], list[int], float, bool],
) -> None:
    domains, rails, h_d, h_r, down, margin, detour = case
    fabric = rail_only(domains, rails)
    snapshot = health(fabric, h_d, h_r, down, margin=margin)
    literal, router = Literal(fabric, snapshot, detour), HScore(detour)
    src, dst = all_pairs(fabric.n_gpus)
    table = router.routes(fabric, snapshot)
    batch = table.paths(src, dst)
    one_by_one = take(table.paths(src[::-1], dst[::-1]), np.arange(len(src))[::-1])
    assert one_by_one == batch, "whole sources are laid out by other means than pairs in any order"
    for i, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        links = next((path.links for path in batch.paths(i)), None)
        assert links == literal.path(a, b), (a, b)
    decision = decided(router, fabric, snapshot, int(src[0]), int(dst[0]))
    assert (decision.path.links if decision.path else None) == literal.path(int(src[0]), int(dst[0]))


@given(st.lists(TWENTIETHS, min_size=2, max_size=8), TWENTIETHS, TWENTIETHS, st.sampled_from([1.0, 1.25]))
def test_the_best_fit_is_the_lowest_rail_above_the_bar(
    rail_only: Build, health: Make, h_r: list[float], h_d1: float, h_d2: float, margin: float
) -> None:
    fabric = rail_only(2, len(h_r))
    decision = decided(HScore(), fabric, health(fabric, [h_d1, h_d2], h_r, margin=margin), 0, len(h_r) + 1)
    above = [(h, rail) for rail, h in enumerate(h_r) if h > decision.m * margin + 1e-12]
    fit = min(above)[1] if above else None
    if decision.kind == "drd":
        assert decision.rail == fit
    else:
        assert fit is None


def test_remote_rail_theorem_is_an_equivalence() -> None:
    """10^5 grid points of (H(d1), H(d2), H(g1), H(g2), H(x)): drd exactly where it beats rd and dr, and the
    better of those elsewhere, by multiplying the scores out."""
    grid = np.arange(1, 11) / 10
    domain = np.tile(grid, 2)
    first, second = (a.ravel() for a in np.meshgrid(np.arange(10), np.arange(10, 20)))
    for h_g1, h_g2, h_x in product(grid, repeat=3):
        rail = np.array([h_g1, h_g2, h_x])
        order = np.lexsort((np.arange(3), rail))
        gamma = ratio(rail[None, :], domain[:, None]).ravel()
        none, interface = np.zeros(0, bool), np.stack((np.repeat(domain, 3), np.tile(rail, len(domain))))
        scores = Scores(domain, rail, order, rail[order], gamma, 1.0, none, none, interface)
        kind, via = by_rule(scores, first * 3, second * 3 + 1, True)
        rd, dr, drd = h_g1 * domain[second], domain[first] * h_g2, domain[first] * h_x * domain[second]
        assert np.array_equal(kind == DRD, drd > np.maximum(rd, dr) + 1e-12)
        assert np.array_equal(via == 2, kind == DRD)
        direct = kind != DRD
        assert np.array_equal(kind[direct] == RD, (rd > dr + 1e-12)[direct])
        assert np.array_equal(kind[direct] == DR, (rd <= dr + 1e-12)[direct])


def test_a_large_fabric_agrees_with_the_literal_rules_on_a_sample(rail_only: Build, health: Make) -> None:
    rng = np.random.default_rng(7)
    fabric = rail_only(16, 16)
    down = rng.choice(fabric.n_links, 40, replace=False)
    snapshot = health(fabric, rng.integers(8, 21, 16) / 20, rng.integers(1, 21, 16) / 20, down)
    src, dst = all_pairs(fabric.n_gpus)
    batch = HScore().routes(fabric, snapshot).paths(src, dst)
    literal = Literal(fabric, snapshot, True)
    for i in rng.choice(len(src), 1500, replace=False):
        links = next((path.links for path in batch.paths(int(i))), None)
        assert links == literal.path(int(src[i]), int(dst[i]))


def test_around_damage_in_blocks(rail_only: Build, health: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = rail_only(4, 4)
    snapshot = health(fabric, down=range(0, fabric.n_links, 5))
    pairs = all_pairs(fabric.n_gpus)
    at_once = HScore().routes(fabric, snapshot).paths(*pairs)
    monkeypatch.setattr("railweave.framework.routing.rails.choice.DAMAGE_CELLS", 12)
    assert HScore().routes(fabric, snapshot).paths(*pairs) == at_once
