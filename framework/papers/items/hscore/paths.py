"""Items about single paths: scores, h-ratios, best fit, spray, and rail-optimised fabrics."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import floor, log2

import numpy as np

from railweave.framework.analysis.assumed_health import assumed_health
from railweave.framework.analysis.explain import ExplainedPair, explained_path
from railweave.framework.drawing.plots import Axis, Curve, curves
from railweave.framework.experiment.fault_targets import find_link
from railweave.framework.model import Fabric, HealthSnapshot, Path
from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.pictures import marked
from railweave.framework.papers.items.workbench import FROM_ONE, Workbench, scored
from railweave.framework.routing.rails.links import RailLinks
from railweave.framework.routing.rails.scores import Scores

ROUTER = "hscore"


DOMAINS, RAILS = (1.0, 0.8), (0.4, 0.5, 0.7, 0.9, 0.64)
"""h-scores of an example with a routable rail, from (1, 1) to (2, 2)."""


SRC, DST = "1,1", "2,2"


def pair_of(
    workbench: Workbench,
    domains: Sequence[float],
    rails: Sequence[float],
    src: str = SRC,
    dst: str = DST,
    **keys: object,
) -> tuple[Fabric, ExplainedPair]:
    """The rail-only fabric of these scores, and what the router does with a pair."""
    fabric = workbench.fabric("rail-only", domains=len(domains), rails=len(rails))
    scores = scored(fabric, domain=domains, rail=rails)
    return fabric, workbench.explained(fabric, (src, dst), scores, **{"router": ROUTER, **keys})


def scores_of(
    domains: Sequence[float], rails: Sequence[float], src: str, dst: str
) -> tuple[float, float, float, float]:
    """H(d1), H(g1), H(d2), H(g2)."""
    (d1, g1), (d2, g2) = ([int(part) - 1 for part in end.split(",")] for end in (src, dst))
    return domains[d1], rails[g1], domains[d2], rails[g2]


def best_fit(domains: Sequence[float], rails: Sequence[float], src: str, dst: str) -> int | None:
    """The source's rule: of the rails with H > max(gamma1, gamma2) the lowest, from 1; None without one."""
    hd1, hg1, hd2, hg2 = scores_of(domains, rails, src, dst)
    above = [(score, rail) for rail, score in enumerate(rails, 1) if score > max(hg1 / hd1, hg2 / hd2)]
    return min(above)[1] if above else None


def number(fact: object) -> float:
    """A fact of the router that is a number."""
    assert isinstance(fact, float | int), fact
    return float(fact)


def h01(
    workbench: Workbench,
    *,
    domains: Sequence[float] = DOMAINS,
    rails: Sequence[float] = RAILS,
    src: str = SRC,
    dst: str = DST,
) -> Claims:
    """Scores of the rd-, dr- and chosen path as products of the scores of domains and rails crossed."""
    _, pair = pair_of(workbench, domains, rails, src, dst)
    hd1, hg1, hd2, hg2 = scores_of(domains, rails, src, dst)
    via = best_fit(domains, rails, src, dst)
    best = hd1 * rails[via - 1] * hd2 if via else max(hg1 * hd2, hd1 * hg2)
    return Claims(
        (
            Claim("rd-path, H(g1) H(d2)", hg1 * hd2, number(pair.facts["score_rd"])),
            Claim("dr-path, H(d1) H(g2)", hd1 * hg2, number(pair.facts["score_dr"])),
            Claim("path taken, product of its elements", best, pair.paths[0].score),
        )
    )


def h02(
    workbench: Workbench,
    *,
    domains: Sequence[float] = (1.0, 0.8),
    rails: Sequence[float] = (0.4, 0.5),
    src: str = SRC,
    dst: str = DST,
) -> Claims:
    """The h-ratios of both ends, and which interface the source sends on where no remote rail serves."""
    _, pair = pair_of(workbench, domains, rails, src, dst)
    hd1, hg1, hd2, hg2 = scores_of(domains, rails, src, dst)
    return Claims(
        (
            Claim("gamma(G1) = H(g1) / H(d1)", hg1 / hd1, number(pair.facts["gamma_src"])),
            Claim("gamma(G2) = H(g2) / H(d2)", hg2 / hd2, number(pair.facts["gamma_dst"])),
            Claim("rd iff gamma(G1) > gamma(G2)", "rd" if hg1 / hd1 > hg2 / hd2 else "dr",
                   str(pair.facts["kind"])),
        )
    )  # fmt: skip


def h03(
    workbench: Workbench, *, domains: Sequence[float] = DOMAINS, rails: Sequence[float] = RAILS
) -> Claims:
    """Pairs of one domain and pairs of one rail."""
    _, inside = pair_of(workbench, domains, rails, "1,1", "1,2")
    _, along = pair_of(workbench, domains, rails, "1,1", "2,1", same_rail_detour="false")
    return Claims(
        (
            Claim("same domain, kind", None, str(inside.facts["kind"])),
            Claim("same domain, score", None, inside.paths[0].score),
            Claim("same rail, kind", None, str(along.facts["kind"])),
            Claim("same rail, score", None, along.paths[0].score),
        )
    )


def h04(
    workbench: Workbench,
    *,
    domains: Sequence[float] = DOMAINS,
    rails: Sequence[float] = RAILS,
    src: str = SRC,
    dst: str = DST,
) -> Claims:
    """The path of a pair over a remote rail: the switches that it crosses, and its picture."""
    fabric, pair = pair_of(workbench, domains, rails, src, dst)
    links = [find_link(fabric, hop.link) for hop in pair.paths[0].hops]
    crossed = [fabric.node_kind(int(fabric.link_dst[link])) for link in links[::2]]
    taken = f"from {pair.src} to {pair.dst}: {pair.facts['kind']}-path"
    return Claims(
        (
            Claim("kind of path", "drd", str(pair.facts["kind"])),
            Claim("switches crossed", "domain, rail, domain", ", ".join(crossed)),
        ),
        marked(fabric, links, taken),
    )


def h07(
    workbench: Workbench,
    *,
    domains: Sequence[float] = DOMAINS,
    rails: Sequence[float] = RAILS,
    src: str = SRC,
    dst: str = DST,
) -> Claims:
    """The rail that best fit takes from the sorted registry, and the comparisons of its binary search."""
    fabric, pair = pair_of(workbench, domains, rails, src, dst)
    snapshot = assumed_health(fabric, scored(fabric, domain=domains, rail=rails))
    scores = Scores.of(fabric, snapshot, RailLinks.of(fabric, ROUTER))
    hd1, hg1, hd2, hg2 = scores_of(domains, rails, src, dst)
    compared: list[float] = []

    def key(score: float) -> float:
        compared.append(score)
        return score

    m = max(hg1 / hd1, hg2 / hd2)
    bisect_right(scores.ordered.tolist(), float(scores.bars(np.array([m]))[0]), key=key)
    rule = best_fit(domains, rails, src, dst)
    names = [str(rail + 1) for rail in scores.order.tolist()]
    drawn = [
        Curve("H of the rails, ascending", [*map(float, range(len(names)))], scores.ordered.tolist()),
        Curve("m = max(gamma1, gamma2)", [0.0, float(len(names) - 1)], [m, m]),
    ]
    return Claims(
        (
            Claim("lowest rail above m", f"rail {rule}" if rule else "none",
                   str(pair.facts.get("remote_rail", "none"))),
            Claim("registry in order of H", True, all(a <= b for a, b in pairwise(scores.ordered))),
            Claim("comparisons of a look-up", floor(log2(len(rails))) + 1, len(compared), bound="<="),
        ),
        curves("the registry and the bar", Axis("rail, by h-score", names), Axis("h-score"), drawn),
    )  # fmt: skip


def h09(
    workbench: Workbench,
    *,
    domains: Sequence[float] = DOMAINS,
    rails: Sequence[float] = RAILS,
    delta: float = 0.1,
    window: str = "blog",
) -> Claims:
    """The rails that packets of a pair are sprayed over, and how even their shares are."""
    _, pair = pair_of(workbench, domains, rails, router="spray", window=window, delta=delta)
    hd1, hg1, hd2, hg2 = scores_of(domains, rails, SRC, DST)
    m = max(hg1 / hd1, hg2 / hd2)
    ranked = sorted((score, rail) for rail, score in enumerate(rails, 1))
    inside = [f"rail {rail}" for score, rail in ranked if m - delta <= score <= m + delta]
    rails_taken = pair.facts["window"]
    assert isinstance(rails_taken, Sequence)
    shares = [path.weight for path in pair.paths]
    return Claims(
        (
            Claim("rails in [m - delta, m + delta]", ", ".join(inside) or "none",
                   ", ".join(map(str, rails_taken)) or "none"),
            Claim("largest less smallest share of the packets", 0, max(shares) - min(shares)),
        )
    )  # fmt: skip


def h10(
    workbench: Workbench,
    *,
    domain: float = 0.9,
    source_rail: float = 0.6,
    target_rail: float = 0.8,
    spine: float = 0.7,
) -> Claims:
    """The scores of a pair on two rails of a rail-only and of a rail-optimised fabric; which is better."""
    small = {"domains": 2, "rails": 2}
    kinds = {"domain": (domain, 1.0), "rail": (source_rail, target_rail)}
    only = workbench.fabric("rail-only", **small)
    optimised = workbench.fabric("rail-optimised", **small, spines=1)
    inside = path_score(only, assumed_health(only, scored(only, **kinds)),
                        ("g0.0->d0", "d0->g0.1", "g0.1->r1", "r1->g1.1"))  # fmt: skip
    over = path_score(optimised, assumed_health(optimised, scored(optimised, **kinds, spine=(spine,))),
                      ("g0.0->r0", "r0->s0", "s0->r1", "r1->g1.1"))  # fmt: skip
    gamma = source_rail / domain
    return Claims(
        (
            Claim("rail-only, H(d1) H(g2)", domain * target_rail, inside),
            Claim("rail-optimised, H(g1) H(S) H(g2)", source_rail * spine * target_rail, over),
            Claim("rail-only is better iff gamma(G1) < 1 / H(S)", gamma < 1 / spine, inside > over),
        )
    )


def path_score(fabric: Fabric, snapshot: HealthSnapshot, names: Sequence[str]) -> float:
    """The score of the path over the links of these names."""
    links = tuple(find_link(fabric, name) for name in names)
    return explained_path(fabric, snapshot, Path(links), FROM_ONE).score
