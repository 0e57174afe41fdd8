"""Which path each pair takes over rails, for arrays of pairs: the source's rules, then what is left around
damage."""

from collections.abc import Callable

import numpy as np

from railweave.framework.hookspecs import NodeName
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.routing.rails.links import DR, DRD, NONE, RD, RDR, D, R, RailLinks, whole
from railweave.framework.routing.rails.scores import Scores, is_full

DAMAGE_CELLS = 1 << 21
"""Pairs x rails worked on at a time around damage; bounds the memory."""


NO_BAR = "no remote rail is considered"
"""What stands for m where a pair's path never takes a remote rail."""


def rail_names(fabric: Fabric, name: NodeName) -> Callable[[int], str]:
    """How the reader calls rail 0, 1, ..."""
    rails = fabric.group("rail")
    first = rails.first if rails else 0
    return lambda rail: name(first + rail)


def reroutes(fabric: Fabric) -> tuple[str, ...]:
    """The promise `reroutes`, where there is another rail and another domain to go over, or
    `unequal.py` finds the shortest path."""
    domain, rail = fabric.group("domain"), fabric.group("rail")
    another = domain and rail and min(domain.size, rail.size) > 1
    return ("reroutes",) if another or not is_full(fabric) else ()


def choose(links: RailLinks, scores: Scores, src: Int64, dst: Int64, detour: bool) -> tuple[Int64, Int64]:
    """(kind, via) of every pair: by the source's rules, and where that path crosses a dead or weak link, by
    what the pair's own interfaces score."""
    kind, via = by_rule(scores, src, dst, detour)
    if scores.avoided.any():
        broken = np.flatnonzero(~whole(links.hops(src, dst, kind, via), scores.avoided))
        kind[broken], via[broken] = around_damage(links, scores, src[broken], dst[broken], detour)
    return kind, via


def by_rule(scores: Scores, src: Int64, dst: Int64, detour: bool) -> tuple[Int64, Int64]:
    """(kind, via) of every pair as if no link were dead; `via` is the rail of a drd-path, else -1.

    Same GPU: nothing. Same domain: d. Same rail: r, or drd over the best fit with `detour`. Otherwise drd
    over the best fit, the first rail in (H, id) order strictly above the bar; without one, rd iff gamma of
    the source exceeds gamma of the destination, else dr. Source: "rail-only connections, Part 2", section on
    remote rails.
    """
    kind = direct(scores, src, dst)
    at = np.maximum(scores.level.take(src), scores.level.take(dst))
    same_rail = np.flatnonzero(kind == R)
    at[same_rail] = (
        scores.at_or_below(scores.thresholds(src[same_rail], dst[same_rail], detour))
        if detour
        else len(scores.rail)
    )
    at[kind <= D] = len(scores.rail)
    via = np.append(scores.order, -1).take(at)
    kind[via >= 0] = DRD
    return kind, via


def direct(scores: Scores, src: Int64, dst: Int64) -> Int64:
    """The kind of path without a remote rail."""
    kind = np.where(scores.gamma.take(src) > scores.gamma.take(dst) + EQUAL_WITHIN, RD, DR)
    kind[scores.rail_of.take(src) == scores.rail_of.take(dst)] = R
    kind[scores.domain_of.take(src) == scores.domain_of.take(dst)] = D
    kind[src == dst] = NONE
    return kind


def score_of(scores: Scores, src: Int64, dst: Int64, kind: Int64 | int, via: Int64 | int) -> Float:
    """(P, ...): the product of what the paths get of the switches they cross, each the lower of both
    interfaces; 0 for no path. `src`, `dst`, `kind` and `via` of shapes that fit together."""
    rails, (d, r) = len(scores.rail), scores.interface
    (d1, g1), (d2, g2) = np.divmod(src, rails), np.divmod(dst, rails)
    over = np.maximum(via, 0)

    def crossed(interface: Float, enter: Int64, leave: Int64) -> Float:
        return np.minimum(interface.take(enter, mode="clip"), interface.take(leave, mode="clip"))

    at_dst, at_src = d2 * rails + g1, d1 * rails + g2  # where rd- and dr-paths turn
    up, down = d1 * rails + over, d2 * rails + over  # where drd-paths do
    into, out = over * rails + g1, over * rails + g2  # where rdr-paths do
    return np.choose(
        kind,
        [
            np.zeros(np.broadcast(src, dst, via).shape),
            crossed(d, src, dst),
            crossed(r, src, dst),
            crossed(r, src, at_dst) * crossed(d, at_dst, dst),
            crossed(d, src, at_src) * crossed(r, at_src, dst),
            crossed(d, src, up) * crossed(r, up, down) * crossed(d, down, dst),
            crossed(r, src, into) * crossed(d, into, out) * crossed(r, out, dst),
        ],
    )


def over_rails(scores: Scores, src: Int64, dst: Int64) -> Float:
    """(P, K): the score of each pair's path over each rail: its drd-path; its rd-, dr- or r-path over a rail
    of its own."""
    rails = np.arange(len(scores.rail))
    at_src, at_dst = (gpu[:, None] % len(rails) == rails for gpu in (src, dst))
    kind = np.select([at_src & at_dst, at_src, at_dst], [R, RD, DR], DRD)
    return score_of(scores, src[:, None], dst[:, None], kind, rails)


def around_damage(
    links: RailLinks, scores: Scores, src: Int64, dst: Int64, detour: bool
) -> tuple[Int64, Int64]:
    """(kind, via) of pairs whose path by rule crosses a dead or weak link.

    The best fit among the rails that this pair can use and whose path beats the direct ones by the margin;
    else the direct path by rule; else the best score of all that is left, ties to the shorter path, then to
    the lower rail. Where none of the source's paths lives: over the pair's own rails and the best other
    domain (rdr). NONE when nothing is left.
    """
    kind, via = np.empty(len(src), np.int64), np.empty(len(src), np.int64)
    block = max(1, DAMAGE_CELLS // (links.rails + links.domains))
    for start in range(0, len(src), block):
        part = slice(start, start + block)
        kind[part], via[part] = _around(links, scores, src[part], dst[part], detour)
    return kind, via


def _around(links: RailLinks, scores: Scores, src: Int64, dst: Int64, detour: bool) -> tuple[Int64, Int64]:
    rows, drd = np.arange(len(src)), _usable_over(links, scores.dead, src, dst, DRD)
    rule = direct(scores, src, dst)
    turns = (rule == RD) | (rule == DR)
    by_rail, by_domain = (score_of(scores, src, dst, np.full(len(src), k), -1) for k in (RD, DR))
    rule = np.where(turns, np.where(by_rail > by_domain + EQUAL_WITHIN, RD, DR), rule)
    other = np.select([rule == RD, rule == DR], [DR, RD], NONE)
    usable = np.stack([_usable(links, scores.dead, src, dst, k) for k in (rule, other)], axis=1)
    direct_score = np.stack([score_of(scores, src, dst, k, -1) for k in (rule, other)], axis=1)
    drd_score = score_of(scores, src[:, None], dst[:, None], DRD, np.arange(links.rails))
    considered = turns | ((rule == R) & detour)
    bar = direct_score.max(axis=1) * scores.margin + EQUAL_WITHIN
    routable = drd & considered[:, None] & (drd_score > bar[:, None])
    in_order = routable[:, scores.order]
    best_fit = scores.order[in_order.argmax(axis=1)]
    left = np.concatenate((np.where(usable, direct_score, -1.0), np.where(drd, drd_score, -1.0)), axis=1)
    first = (left >= left.max(axis=1, keepdims=True) - EQUAL_WITHIN).argmax(axis=1)
    domains = np.where(_usable_over(links, scores.dead, src, dst, RDR), scores.domain, -1.0)

    conditions = [
        routable.any(axis=1),
        usable[:, 0],
        (left[rows, first] < 0) & (domains.max(axis=1) >= 0),
        left[rows, first] < 0,
        first >= 2,
    ]
    kind = np.select(conditions, [DRD, rule, RDR, NONE, DRD], other)
    return kind, np.select(conditions, [best_fit, -1, domains.argmax(axis=1), -1, first - 2], -1)


def _usable(links: RailLinks, dead: Bool, src: Int64, dst: Int64, kind: Int64) -> Bool:
    """(P,): whether every link of that direct path lives; False where kind is NONE."""
    hops = links.hops(src, dst, kind, np.full(len(src), -1))
    return np.asarray((kind != NONE) & whole(hops, dead), np.bool_)


def _usable_over(links: RailLinks, dead: Bool, src: Int64, dst: Int64, kind: int) -> Bool:
    """(P, K) for DRD, (P, D) for RDR: whether each pair's path over each rail, or domain, lives.

    False for the rails (domains) of the pair itself, and for pairs of one domain (rail).
    """
    alive, shape = ~dead, (links.domains, links.rails)
    to_rail = (alive[links.d_down] & alive[links.r_up]).reshape(shape)
    to_domain = (alive[links.r_down] & alive[links.d_up]).reshape(shape)
    (d1, g1), (d2, g2) = np.divmod(src, links.rails), np.divmod(dst, links.rails)
    if kind == DRD:
        ends = alive[links.d_up[src]] & alive[links.d_down[dst]] & (d1 != d2)
        usable: Bool = ends[:, None] & to_rail[d1] & to_domain[d2]
        own_numbers = g1, g2
    else:
        ends = alive[links.r_up[src]] & alive[links.r_down[dst]] & (g1 != g2)
        usable = ends[:, None] & to_domain.T[g1] & to_rail.T[g2]
        own_numbers = d1, d2
    for ruled_out in own_numbers:
        usable[np.arange(len(src)), ruled_out] = False
    return usable
