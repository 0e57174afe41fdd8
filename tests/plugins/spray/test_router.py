"""Packet spray: the source's cases H-O4 to H-O7, windows by a plain scan as second method,
the theorem as a check."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError, HealthError, RouteError
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, all_pairs
from railweave.framework.parameters import resolve
from railweave.framework.routing.damping import path_scores
from railweave.framework.routing.entropy import entropy_table, path_classes
from railweave.plugins.hscore.router import HScore
from railweave.plugins.spray import router as module
from railweave.plugins.spray.router import Spray, Window
from railweave.topologies.rail_only import RailOnly
from tests.fakes.sound_tables import check_table
from tests.fakes.tori import torus
from tests.plugins.decisions import SprayDecision, spray_decided

Build = Callable[[int, int], Fabric]
Make = Callable[..., HealthSnapshot]

SETUP_A = ([1.0, 0.8], [0.4, 0.5, 0.7, 0.9, 0.64])
"""The source's, which counts rails from 1; we from 0."""


def spray(**options: object) -> Spray:
    return Spray().configured(resolve("spray", Spray.parameters, options))


def decide(
    fabric: Fabric, snapshot: HealthSnapshot, pair: tuple[str, str], **options: object
) -> SprayDecision:
    ids = fabric.node_ids
    return spray_decided(spray(**options), fabric, snapshot, ids[pair[0]], ids[pair[1]])


def nodes(fabric: Fabric, batch: PathBatch, pair: int) -> list[list[str]]:
    """The nodes passed after the source, of every path."""
    return [
        [fabric.node_name(int(fabric.link_dst[link])) for link in path.links] for path in batch.paths(pair)
    ]


@pytest.mark.parametrize("window", ["strict", "blog"])
def test_h_o4_h_o5_the_windows_of_setup_a(rail_only: Build, health: Make, window: str) -> None:
    """Rails 5 and 3 of the source, by score; evenly, half each."""
    fabric = rail_only(2, 5)
    decision = decide(fabric, health(fabric, *SETUP_A), ("g0.0", "g1.1"), delta=0.1, window=window)
    assert decision.m == pytest.approx(0.625) and decision.window == (4, 2)
    assert [(s.kind, s.rail) for s in decision.sprayed] == [("drd", 2), ("drd", 4)]
    assert [s.score for s in decision.sprayed] == pytest.approx([0.56, 0.512])
    assert [s.path.weight for s in decision.sprayed] == [0.5, 0.5]
    assert decision.why == f"{window} window, delta 0.1: evenly over 2 rails"


def test_delta_1_takes_every_better_rail(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 5)
    decision = decide(fabric, health(fabric, *SETUP_A), ("g0.0", "g1.1"))
    assert [s.rail for s in decision.sprayed] == [2, 3, 4]


def test_the_published_window_takes_in_worse_rails_and_the_own_ones(rail_only: Build, health: Make) -> None:
    """m = 0.625, delta 0.25: H in 0.375..0.875 holds rails 0 (the source's own: rd), 1 (the other's: dr),
    4, 2."""
    fabric = rail_only(2, 5)
    snapshot = health(fabric, *SETUP_A)
    decision = decide(fabric, snapshot, ("g0.0", "g1.1"), delta=0.25, window="blog")
    assert decision.window == (0, 1, 4, 2)
    assert [(s.kind, s.rail) for s in decision.sprayed] == [
        ("rd", None), ("dr", None), ("drd", 2), ("drd", 4),
    ]  # fmt: skip
    table = spray(delta=0.25, window="blog").routes(fabric, snapshot)
    batch = table.paths(np.array([0]), np.array([6]))
    assert nodes(fabric, batch, 0)[:2] == [["r0", "g1.0", "d1", "g1.1"], ["d0", "g0.1", "r1", "g1.1"]]


@pytest.mark.parametrize(
    ("domain", "rail", "kind", "score"),
    [([0.5, 0.9], [0.6, 0.3, 1.0], "rd", 0.54), ([0.5, 0.5], [0.5, 0.5, 0.5], "dr", 0.25)],
)
def test_h_o6_h_o7_an_empty_window_falls_back_to_one_path(
    rail_only: Build, health: Make, domain: list[float], rail: list[float], kind: str, score: float
) -> None:
    fabric = rail_only(2, 3)
    decision = decide(fabric, health(fabric, domain, rail), ("g0.0", "g1.1"))
    assert decision.window == ()
    assert [(s.kind, s.rail) for s in decision.sprayed] == [(kind, None)]
    assert decision.sprayed[0].score == pytest.approx(score)
    assert decision.why == f"no rail in the strict window, delta 1: the {kind}-path by h-scores"


def test_an_empty_narrow_window_falls_back_to_best_fit(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 5)
    decision = decide(fabric, health(fabric, *SETUP_A), ("g0.0", "g1.1"), delta=0.01)
    assert decision.window == () and [s.rail for s in decision.sprayed] == [4]


def test_same_rail_pairs_spray_too_unless_told_not_to(rail_only: Build, health: Make) -> None:
    """Rail 1 at 20 %: the bar is 0.2, the three others beat it."""
    fabric = rail_only(4, 4)
    snapshot = health(fabric, rail=[1, 0.2, 1, 1])
    decision = decide(fabric, snapshot, ("g0.1", "g2.1"))
    assert decision.m == pytest.approx(0.2)
    assert [s.rail for s in decision.sprayed] == [0, 2, 3]
    assert [s.path.weight for s in decision.sprayed] == pytest.approx([1 / 3] * 3)
    stay = decide(fabric, snapshot, ("g0.1", "g2.1"), same_rail_detour=False)
    assert [s.kind for s in stay.sprayed] == ["r"]
    own = decide(fabric, snapshot, ("g0.1", "g2.1"), window="blog", delta=0)
    assert [(s.kind, s.rail) for s in own.sprayed] == [("r", None)]


def test_healthy_fabrics_are_not_sprayed(rail_only: Build) -> None:
    fabric = rail_only(4, 4)
    healthy = HealthSnapshot.healthy(fabric)
    pairs = all_pairs(16)
    assert Spray().routes(fabric, healthy).paths(*pairs) == HScore().routes(fabric, healthy).paths(*pairs)


SCORE = st.integers(1, 20).map(lambda x: x / 20)


@given(
    st.lists(SCORE, min_size=3, max_size=3),
    st.lists(SCORE, min_size=5, max_size=5),
    st.sampled_from([0.0, 0.05, 0.1, 0.3, 1.0]),
    st.sampled_from(["strict", "blog"]),
)
@settings(max_examples=40)
def test_rails_are_those_that_a_plain_scan_finds(
    domain: list[float], rail: list[float], delta: float, window: Window
) -> None:
    """Every pair of a 3 x 5: rails of the window, equal shares, better than rd and dr where strict."""
    fabric = RailOnly().build({"domains": 3, "rails": 5})
    snapshot = scores(fabric, domain, rail)
    batch = Spray(delta, window).routes(fabric, snapshot).paths(*all_pairs(15))
    value = path_scores(fabric, batch, snapshot)
    for i in range(len(batch.src)):
        (d1, g1), (d2, g2) = divmod(int(batch.src[i]), 5), divmod(int(batch.dst[i]), 5)
        paths = batch.paths(i)
        if d1 == d2:
            assert nodes(fabric, batch, i) == [[f"d{d1}", f"g{d2}.{g2}"]]
            continue
        m = rail[g1] / (domain[d1] * domain[d2])
        if g1 != g2:
            m = max(rail[g1] / domain[d1], rail[g2] / domain[d2])
        low = m + 1e-12 if window == "strict" else m - delta - 2e-12
        expected = [x for x, h in enumerate(rail) if low < h <= m + delta + 1e-12]
        crossed = [next(int(n[1:]) for n in path if n[0] == "r") for path in nodes(fabric, batch, i)]
        assert (sorted(crossed) == expected) if expected else (len(paths) == 1)
        assert [path.weight for path in paths] == [1 / len(paths)] * len(paths)
        if expected and window == "strict":
            direct = rail[g1] if g1 == g2 else max(rail[g1] * domain[d2], domain[d1] * rail[g2])
            assert (value[batch.pair_start[i] : batch.pair_start[i + 1]] > direct).all()


def scores(fabric: Fabric, domain: list[float], rail: list[float]) -> HealthSnapshot:
    elements = np.ones(fabric.n_nodes)
    elements[fabric.n_gpus :] = [*domain, *rail]
    order = np.lexsort((np.arange(len(rail)), rail))
    return HealthSnapshot(1, 0.0, np.ones(fabric.n_links), elements, np.zeros(fabric.n_links, bool), order)


def test_a_margin_raises_the_strict_bar_only(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 5)
    snapshot = health(fabric, *SETUP_A, margin=1.25)
    assert decide(fabric, snapshot, ("g0.0", "g1.1")).window == (3,)
    assert decide(fabric, snapshot, ("g0.0", "g1.1"), delta=0.1, window="blog").window == (4, 2)


def test_dead_links_drop_out_of_the_window(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 4)
    for down, rails in (
        (["g0.2->r2"], [0, 3]), (["r2->g1.2", "g1.0->d1"], [3]), (["g0.0->r0", "g0.2->r2", "d0->g0.3"], []),
    ):  # fmt: skip
        snapshot = health(fabric, rail=[1, 0.2, 1, 1], down=down)
        decision = decide(fabric, snapshot, ("g0.1", "g1.1"))
        if rails:
            assert [s.rail for s in decision.sprayed] == rails
            assert f"dead links keep it from {3 - len(rails)} of 3 rails" in decision.why
        else:
            assert [s.kind for s in decision.sprayed] == ["r"]
        check_table(fabric, Spray().routes(fabric, snapshot), snapshot, allow_unreachable=True)
    alone = health(fabric, down=["g0.1->r1", "g0.1->d0"])
    assert decide(fabric, alone, ("g0.1", "g1.1")).why.startswith("unreachable")


def test_a_rail_of_score_0_is_never_sprayed_over(rail_only: Build, health: Make) -> None:
    fabric = rail_only(2, 4)
    snapshot = health(fabric, rail=[0.0, 0.2, 1, 1])
    decision = decide(fabric, snapshot, ("g0.1", "g1.1"), window="blog")
    assert decision.window[0] == 0 and [(s.kind, s.rail) for s in decision.sprayed] == [
        ("r", None), ("drd", 2), ("drd", 3),
    ]  # fmt: skip


def test_three_rails_get_packets_that_differ_by_one_at_most(rail_only: Build, health: Make) -> None:
    """The sender cycles through the published entropies: count rails over any first packets."""
    fabric = rail_only(4, 4)
    batch = Spray().routes(fabric, health(fabric, rail=[1, 0.2, 1, 1])).paths(*all_pairs(16))
    classes = path_classes(fabric, batch)
    table = entropy_table(fabric, 1, batch, classes)
    sizes = np.diff(table.start)
    assert set(sizes.tolist()) == {1, 3}
    for i in np.flatnonzero(sizes == 3):
        ports = table.udp_src[table.start[i] : table.start[i + 1]]
        sent = [ports[k % 3] for k in range(20)]
        for n in range(1, 21):
            counts = [sent[:n].count(port) for port in ports]
            assert max(counts) - min(counts) <= 1


def test_blocks_of_paths_change_nothing(
    rail_only: Build, health: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = rail_only(4, 5)
    snapshot = health(fabric, [1, 0.9, 0.8, 0.7], SETUP_A[1], down=["g0.2->r2", "d3->g3.1"])
    at_once = Spray().routes(fabric, snapshot).paths(*all_pairs(20))
    monkeypatch.setattr(module, "BLOCK", 7)
    assert Spray().routes(fabric, snapshot).paths(*all_pairs(20)) == at_once


def test_what_it_refuses(rail_only: Build) -> None:
    with pytest.raises(HealthError):
        Spray().routes(torus(4, 4), HealthSnapshot.healthy(rail_only(2, 2)))
    with pytest.raises(RouteError, match="there is no GPU 4"):
        Spray().explain(rail_only(2, 2), HealthSnapshot.healthy(rail_only(2, 2)), 0, 4, str)
    for options in ({"delta": -0.1}, {"delta": "nan"}, {"window": "wide"}, {"paths": 0}, {"paths": 10**6}):
        with pytest.raises(ExperimentError):
            spray(**options)
