"""Rails joined by spines: a pair's own rails first, then the best of all spines, by brute force."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.health import rails_by_score
from railweave.framework.routing.batches import all_paths
from railweave.framework.routing.rails import spines
from railweave.plugins.hscore.router import HScore
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.rail_optimised import RailOptimised

Draw = np.random.Generator


def both(domains: int, rails: int, spines: int) -> tuple[Fabric, Fabric]:
    """With spines and without; what both have has the same ids."""
    shape = {"domains": domains, "rails": rails}
    return RailOptimised().build({**shape, "spines": spines}), RailOnly().build(shape)


def health_of(fabric: Fabric, element: np.ndarray, down: np.ndarray, margin: float) -> HealthSnapshot:
    link, node = down[: fabric.n_links], element[: fabric.n_nodes]
    return HealthSnapshot(1, 0.0, np.where(link, 0.0, 1.0), node, link, rails_by_score(fabric, node), margin)


def route(fabric: Fabric, health: HealthSnapshot, src: int, dst: int) -> list[str]:
    """The nodes of the pair's path; empty where there is none."""
    paths = HScore().routes(fabric, health).path(src, dst)
    return (
        [fabric.node_name(int(n)) for link in paths[0].links for n in (fabric.link_dst[link],)]
        if paths
        else []
    )


def score(fabric: Fabric, health: HealthSnapshot, nodes: list[str]) -> float:
    """The product of the scores of the switches, each once (the source's H(rd), H(dr), H(drd))."""
    ids = fabric.node_ids
    return float(np.prod([health.element_score[ids[name]] for name in nodes if name[0] != "g"]))


def over(fabric: Fabric, health: HealthSnapshot, src: int, spine: int, dst: int) -> list[str]:
    """The nodes of the path over a spine; empty where one of its links is down."""
    at = [fabric.gpu_coordinates[gpu][1] for gpu in (src, dst)]
    nodes = [fabric.node_name(src), f"r{at[0]}", f"s{spine}", f"r{at[1]}", fabric.node_name(dst)]
    names = {fabric.link_name(link): link for link in range(fabric.n_links)}
    links = [names[f"{a}->{b}"] for a, b in pairwise(nodes)]
    return [] if health.down[links].any() else nodes[1:]


def test_the_best_spine_is_taken_where_it_beats_the_pairs_own_rails() -> None:
    taken = sum(taken_right(seed) for seed in range(24))
    assert taken > 50


def taken_right(seed: int) -> int:
    """How many pairs of a drawn fabric take a spine, where all take what they should."""
    draw = np.random.default_rng(seed)
    joined, isolated = both(*(int(draw.integers(2, 4)) for _ in range(2)), int(draw.integers(1, 4)))
    element = np.where(
        np.arange(joined.n_nodes) < joined.n_gpus, 1.0, draw.choice([0.1, 0.4, 0.7, 1.0], joined.n_nodes)
    )
    down = np.repeat(draw.random(joined.n_links // 2) < 0.1, 2)
    margin = float(draw.choice([1.0, 1.25]))
    health, without = (health_of(fabric, element, down, margin) for fabric in (joined, isolated))
    n_spines, taken = joined.groups[3].size, 0
    for src, dst in np.argwhere(~np.eye(joined.n_gpus, dtype=bool)).tolist():
        own, here = route(isolated, without, src, dst), route(joined, health, src, dst)
        of_others = len(own) == 6 and own[0][0] == "r"  # over both rails and another domain
        had = score(isolated, without, own) if own and not of_others else 0.0
        ways = [over(joined, health, src, spine, dst) for spine in range(n_spines)]
        same_rail = joined.gpu_coordinates[src][1] == joined.gpu_coordinates[dst][1]
        best = 0.0 if same_rail else max(score(joined, health, way) if way else 0.0 for way in ways)
        if best > had * margin + 1e-9:
            assert score(joined, health, here) == pytest.approx(best) and here in ways
            taken += 1
        else:
            assert here == own
    return taken


def test_spines_are_ranked_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    joined, _ = both(3, 4, 3)
    draw = np.random.default_rng(5)
    health = health_of(
        joined, draw.choice([0.1, 0.7, 1.0], joined.n_nodes), draw.random(joined.n_links) < 0.1, 1.0
    )
    together = all_paths(HScore().routes(joined, health))
    assert (np.diff(together.hop_start) == 4).any()
    for most in (1, 7):
        monkeypatch.setattr(spines, "MOST_CHOICES", most)
        assert all_paths(HScore().routes(joined, health)) == together


def test_spines_that_are_as_good_share_the_pairs() -> None:
    """Of the GPUs of a domain whose switch is down every pair has a spine; no spine of 4 has twice its share
    of 56 pairs."""
    joined, _ = both(2, 8, 4)
    element = np.ones(joined.n_nodes)
    element[joined.n_gpus] = 0.0
    health = health_of(joined, element, np.zeros(joined.n_links, bool), 1.25)
    pairs = np.argwhere(~np.eye(8, dtype=bool)).tolist()
    used = Counter(route(joined, health, src, dst)[1] for src, dst in pairs)
    assert set(used) == {"s0", "s1", "s2", "s3"} and max(used.values()) < 2 * 56 / 4


def test_explained() -> None:
    joined, _ = both(2, 2, 2)
    element = np.ones(joined.n_nodes)
    element[joined.node_ids["d0"]], element[joined.node_ids["s0"]] = 0.1, 0.5
    health = health_of(joined, element, np.zeros(joined.n_links, bool), 1.25)
    told = HScore().explain(
        joined, health, *(joined.node_ids[gpu] for gpu in ("g0.0", "g0.1")), joined.node_name
    )
    assert told.why == "the best spine, s1: it beats the pair's own rails"
    assert told.facts == {"kind": "spine", "spine": "s1", "score": 1.0, "score_own": 0.1, "margin": 1.25}
