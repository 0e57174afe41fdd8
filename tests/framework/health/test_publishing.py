"""Steps, hysteresis, aggregation and versions of published scores; numbers by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import aggregate, publish, settle, slow_links
from railweave.framework.model import Fabric, FabricBuilder, HealthSnapshot, NodeGroup

OPTIONS = HealthOptions()


def start(fabric: Fabric) -> HealthSnapshot:
    return HealthSnapshot.healthy(fabric, margin=OPTIONS.margin)


def told(
    fabric: Fabric, previous: HealthSnapshot, scores: dict[int, float], down: tuple[int, ...] = ()
) -> HealthSnapshot | None:
    raw, up = np.ones(fabric.n_links), np.ones(fabric.n_links, bool)
    for link, score in scores.items():
        raw[link] = score
    up[list(down)] = False
    return publish(fabric, previous, raw, up, t_s=1.5, options=OPTIONS)


def test_nothing_new_is_not_published(fabric: Fabric) -> None:
    assert told(fabric, start(fabric), {}) is None
    assert told(fabric, start(fabric), {0: 0.96, 1: 0.951}) is None


def test_a_change_is_published_in_steps(fabric: Fabric) -> None:
    """Steps of 0.05; below 0.8, of 0.01."""
    news = told(fabric, start(fabric), {12: 0.2137})
    assert news is not None
    assert (news.version, news.t_s, news.margin) == (1, 1.5, 1.25)
    assert news.link_score[12] == 0.21
    assert np.delete(news.link_score, 12).tolist() == [1.0] * 23
    assert told(fabric, news, {12: 0.2149}) is None
    again = told(fabric, news, {12: 0.23})
    assert again is not None and again.version == 2 and again.link_score[12] == 0.23
    assert told(fabric, start(fabric), {12: 0.955}) is None
    healthy = told(fabric, start(fabric), {12: 0.89})
    assert healthy is not None and healthy.link_score[12] == 0.9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_what_is_published_lies_on_the_grid_and_within_a_step(raws: list[float]) -> None:
    """To a hundredth below 0.8: an element whose links average 0.46 does not stand at 0.5 because it came
    there first."""
    published = np.array([1.0])
    for raw in raws:
        published = settle(published, np.array([raw]), 0.05)
        steps = 20 if published[0] > 0.8 + 1e-9 else 100
        assert abs(published[0] * steps - round(published[0] * steps)) < 1e-9
        assert abs(published[0] - raw) < (0.05 if raw >= 0.8 else 0.01) + 1e-9
        assert (published[0] > 0) == (raw > 0)


def test_noise_around_a_rounding_edge_does_not_toggle() -> None:
    """0.875 is the edge between 0.85 and 0.9:
    noise of +-0.02 around it moves the published score once at most."""
    rng = np.random.default_rng(3)
    published, changes = np.array([1.0]), 0
    for raw in 0.875 + rng.uniform(-0.02, 0.02, 500):
        before = published
        published = settle(before, np.array([raw]), 0.05)
        changes += int(before[0] != published[0])
    assert changes == 1


def test_a_score_of_095_comes_back_to_1() -> None:
    assert settle(np.array([0.95]), np.array([1.0]), 0.05).tolist() == [1.0]


def test_zero_means_cut_off_and_nothing_else() -> None:
    """A link at 0.1 % of its rate still carries; 0 and its end are told however small the step."""
    assert settle(np.array([1.0]), np.array([0.001]), 0.05).tolist() == [0.01]
    assert settle(np.array([0.01]), np.array([0.0]), 0.1).tolist() == [0.0]
    assert settle(np.array([0.0]), np.array([0.001]), 0.1).tolist() == [0.02]


def test_down_counts_at_once(fabric: Fabric) -> None:
    news = told(fabric, start(fabric), {}, down=(12,))
    assert news is not None
    assert np.flatnonzero(news.down).tolist() == [12]
    assert news.link_score[12] == 0
    # rail 0 has 4 links of one rate, one of them down: 3/4
    assert news.element_score[fabric.node_ids["r0"]] == 0.75
    assert told(fabric, news, {}, down=(12,)) is None
    back = told(fabric, news, {})
    assert back is not None and not back.down.any() and back.link_score[12] == 1


def test_a_rail_that_is_down_scores_0_and_stands_first(fabric: Fabric) -> None:
    rail = fabric.node_ids["r1"]
    news = told(fabric, start(fabric), {}, down=tuple(int(x) for x in fabric.element_links(rail)))
    assert news is not None
    assert news.element_score[rail] == 0
    assert news.rail_order.tolist() == [1, 0, 2]


def test_rails_stay_in_order(fabric: Fabric) -> None:
    snapshot = start(fabric)
    rng = np.random.default_rng(5)
    rails = slice(fabric.node_ids["r0"], fabric.node_ids["r2"] + 1)
    for _ in range(50):
        raw = rng.uniform(0, 1, fabric.n_links)
        news = publish(fabric, snapshot, raw, raw > 0.1, t_s=0.0, options=OPTIONS)
        assert news is not None and news.version == snapshot.version + 1
        scores = news.element_score[rails]
        assert news.rail_order.tolist() == sorted(range(3), key=lambda r: (scores[r], r))
        snapshot = news


def test_aggregate_mean_weighs_by_capacity_and_min_takes_the_worst() -> None:
    groups = [
        NodeGroup("gpu", 0, (2,), "g"),
        NodeGroup("rail", 2, (1,), "r"),
        NodeGroup("spine", 3, (1,), "s"),
    ]
    builder = FabricBuilder("test", groups, {})
    builder.cables([0], [2], "r", 1e6, element=[2])
    builder.cables([1], [2], "r", 3e6, element=[2])
    builder.cables([2], [3], "spine", 1e6)
    fabric = builder.build()
    scores = np.array([0.2, 0.6, 1.0, 0.8, 0.1, 0.1])
    # (0.2 + 0.6 + 3 x 1.0 + 3 x 0.8) / 8 by hand; GPUs and the spine, which has no links of its own, 1
    assert aggregate(fabric, scores, "mean") == pytest.approx([1, 1, 6.2 / 8, 1])
    assert aggregate(fabric, scores, "min").tolist() == [1, 1, 0.2, 1]
    known = np.array([True, False, False, True, True, True])  # (0.2 + 3 x 0.8) / 4
    assert aggregate(fabric, scores, "mean", known) == pytest.approx([1, 1, 2.6 / 4, 1])


def test_elements_are_made_from_raw_scores(fabric: Fabric) -> None:
    """Two links at 0.951, still published as 1, and two at 0.76: their rail is at 0.8555, so 0.85. From the
    published 1, 1, 0.75, 0.75 it would be 0.875."""
    rail = fabric.node_ids["r2"]
    scores = zip(fabric.element_links(rail).tolist(), (0.951, 0.951, 0.76, 0.76), strict=True)
    news = told(fabric, start(fabric), dict(scores))
    assert news is not None and news.element_score[rail] == 0.85


def test_a_link_that_lets_nothing_pass_is_down(fabric: Fabric) -> None:
    """Whether it has a carrier or not; and it is back as soon as something passes."""
    lost = told(fabric, start(fabric), {12: 0.0})
    assert lost is not None and lost.link_score[12] == 0 and lost.down[12]
    assert told(fabric, lost, {12: 0.0}, down=(12,)) is None
    back = told(fabric, lost, {12: 0.02})
    assert back is not None and not back.down.any() and back.link_score[12] == 0.02


def test_overshoot_is_noise(fabric: Fabric) -> None:
    assert told(fabric, start(fabric), {12: 1.07}) is None


def test_one_step_is_slow_if_packets_were_lost(fabric: Fabric) -> None:
    """(1 - 0.01) / (1 + 6 x 0.01) = 0.934, a step below 1; 0.5 % make 0.966, and rates are measured with
    noise."""
    raw, up, loss = np.ones(fabric.n_links), np.ones(fabric.n_links, bool), np.zeros(fabric.n_links)
    raw[[2, 3, 4, 5]], loss[[2, 3, 6]] = [0.94, 0.94, 0.94, 0.89], [0.01, 0.005, 0.005]
    news = publish(fabric, start(fabric), raw, up, loss=loss, t_s=1.5, options=OPTIONS)
    assert news is not None and news.link_score[[2, 3, 4, 5, 6]].tolist() == [0.95, 0.95, 0.95, 0.9, 1.0]
    assert np.flatnonzero(slow_links(news, OPTIONS.step)).tolist() == [2, 5]
