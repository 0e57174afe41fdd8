"""Domains of unequal size, by brute force: any places may lack a GPU, any links be down."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.model import Fabric, HealthSnapshot, all_pairs
from railweave.framework.routing.damping import path_scores
from railweave.plugins.hscore.router import HScore
from railweave.plugins.spray.router import Spray
from tests.fakes.small_fabrics import rails_with
from tests.fakes.sound_tables import check_table
from tests.plugins.hscore.test_reference import EPS, TWENTIETHS, Literal

Make = Callable[..., HealthSnapshot]
Case = tuple[Fabric, list[float], list[float], list[int], float, bool]
PLACES = [(d, r) for d in range(4) for r in range(4)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Two GPUs or more, in any order."""
    fabric = rails_with(draw(st.lists(st.sampled_from(PLACES), min_size=2, max_size=14, unique=True)))
    domains, rails = (group.size for group in fabric.groups[1:])
    h_d = draw(st.lists(TWENTIETHS, min_size=domains, max_size=domains))
    h_r = draw(st.lists(TWENTIETHS, min_size=rails, max_size=rails))
    down = draw(st.lists(st.integers(0, fabric.n_links - 1), max_size=6))
    return fabric, h_d, h_r, down, draw(st.sampled_from([1.0, 1.25])), draw(st.booleans())


def hops_left(fabric: Fabric, literal: Literal) -> dict[int, dict[int, int]]:
    """Links of a shortest path over what lives, from each node to each that it reaches."""
    graph = nx.DiGraph([ends for ends, (_, alive) in literal.links.items() if alive])
    graph.add_nodes_from(fabric.node_ids)
    ids = fabric.node_ids
    return {
        ids[a]: {ids[b]: hops for b, hops in lengths.items()}
        for a, lengths in nx.all_pairs_shortest_path_length(graph)
    }


@given(cases())
@settings(max_examples=40)
def test_pairs_go_as_the_literal_rules_say_or_else_by_the_shortest_path(health: Make, case: Case) -> None:
    fabric, h_d, h_r, down, margin, detour = case
    snapshot = health(fabric, h_d, h_r, down, margin=margin)
    literal, router = Literal(fabric, snapshot, detour), HScore(detour)
    left, table = hops_left(fabric, literal), router.routes(fabric, snapshot)
    batch = table.paths(*all_pairs(fabric.n_gpus))
    check_table(fabric, table, snapshot, allow_unreachable=True)
    score = path_scores(fabric, batch, snapshot)
    for i, (a, b) in enumerate(zip(batch.src.tolist(), batch.dst.tolist(), strict=True)):
        links = next((path.links for path in batch.paths(i)), None)
        by_rule = literal.path(a, b)
        if by_rule is None:
            assert (links and len(links)) == left[a].get(b), (a, b)
        else:
            assert links == by_rule, (a, b)
        facts = router.explain(fabric, snapshot, a, b, fabric.node_name).facts
        assert (facts["kind"] == "longer") == (links is not None and by_rule is None)
        assert facts["score"] == pytest.approx(score[batch.pair_start[i]] if links else 0)


def threshold(literal: Literal, src: int, dst: int) -> float:
    """m of a pair in two domains: by both direct paths, or where the one by rule is dead, by those that
    live."""
    (d1, g1), (d2, g2) = literal.fabric.coordinates(src), literal.fabric.coordinates(dst)
    one, two, m = f"g{d1}.{g1}", f"g{d2}.{g2}", literal.threshold(src, dst)
    if g1 == g2:
        return m if not literal.detour or literal.walk(one, f"r{g1}", two) else 0.0
    rd = literal.gamma(d1, g1), literal.walk(one, f"r{g1}", f"g{d2}.{g1}", f"d{d2}", two)
    dr = literal.gamma(d2, g2), literal.walk(one, f"d{d1}", f"g{d1}.{g2}", f"r{g2}", two)
    rule = rd if rd[0] > dr[0] + EPS else dr
    return m if rule[1] else max((gamma for gamma, path in (rd, dr) if path), default=0.0)


@given(cases())
@settings(max_examples=40)
def test_packets_are_sprayed_over_the_better_rails_that_join_the_pair(health: Make, case: Case) -> None:
    """By a plain scan of the strict window; where it is empty, the path is that of `hscore`. A pair whose
    direct path is dead compares with those of its direct paths that live."""
    fabric, h_d, h_r, down, margin, detour = case
    snapshot = health(fabric, h_d, h_r, down, margin=margin)
    literal, table = (
        Literal(fabric, snapshot, detour),
        Spray(same_rail_detour=detour).routes(fabric, snapshot),
    )
    pairs = all_pairs(fabric.n_gpus)
    one, many = HScore(detour).routes(fabric, snapshot).paths(*pairs), table.paths(*pairs)
    check_table(fabric, table, snapshot, allow_unreachable=True)
    for i, (a, b) in enumerate(zip(*(ends.tolist() for ends in pairs), strict=True)):
        better = []
        if fabric.coordinates(a)[0] != fabric.coordinates(b)[0]:
            m = threshold(literal, a, b)
            window = [x for x, h in enumerate(h_r) if m * margin + EPS < h <= m + 1 + EPS]
            over = literal.over(a, b)
            better = [path for x in window if (path := over.get(x))]
        assert [path.links for path in many.paths(i)] == (better or [path.links for path in one.paths(i)])
        assert len({path.weight for path in many.paths(i)}) < 2
