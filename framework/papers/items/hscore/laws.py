"""Items that hold for every score: the Remote Rail Theorem, and what rdr-paths are worth."""

import numpy as np

from railweave.framework.analysis.assumed_health import assumed_health
from railweave.framework.model import all_pairs
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.papers.items.hscore.paths import ROUTER
from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.workbench import Workbench, scored
from railweave.framework.routing.rails.choice import score_of
from railweave.framework.routing.rails.links import DR, DRD, RD, RailLinks
from railweave.framework.routing.rails.scores import Scores


def drawn_scores(
    workbench: Workbench, domains: int, rails: int, seed: int
) -> tuple[RailLinks, Scores, Int64, Int64]:
    """A rail-only fabric with scores drawn evenly from (0, 1], and its pairs on two domains and two rails."""
    fabric = workbench.fabric("rail-only", domains=domains, rails=rails)
    draw = np.random.default_rng(seed)
    of_domains, of_rails = ((1 - draw.random(count)).tolist() for count in (domains, rails))
    snapshot = assumed_health(fabric, scored(fabric, domain=of_domains, rail=of_rails))
    links = RailLinks.of(fabric, ROUTER)
    src, dst = all_pairs(fabric.n_gpus)
    both = (src // rails != dst // rails) & (src % rails != dst % rails)
    return links, Scores.of(fabric, snapshot, links), src[both], dst[both]


def paths_scored(scores: Scores, src: Int64, dst: Int64, kind: int, via: Int64 | int = -1) -> Float:
    """(P,): the score of the path of this kind of every pair."""
    return score_of(scores, src, dst, np.full(len(src), kind), np.broadcast_to(via, len(src)))


def h05(
    workbench: Workbench,
    *,
    domains: int = 5,
    rails: int = 8,
    draws: int = 20,
    bar: float = 0.0,
) -> Claims:
    """The theorem with the router's own threshold m, on drawn scores. `bar` is added to m, which negates the
    premise H(x) > m where it is below 0."""
    tried = against = corollary = 0
    for seed in range(draws):
        _, scores, src, dst = drawn_scores(workbench, domains, rails, seed)
        m = scores.thresholds(src, dst, False) + bar
        direct = np.maximum(paths_scored(scores, src, dst, RD), paths_scored(scores, src, dst, DR))
        for x in range(rails):
            routable = scores.rail[x] > m + EQUAL_WITHIN
            over = paths_scored(scores, src, dst, DRD, x)
            tried += len(src)
            against += int((routable != (over > direct * (1 + EQUAL_WITHIN))).sum())
            high = np.maximum(scores.gamma[src], scores.gamma[dst]) >= 1
            corollary += int((routable & high).sum())
    return Claims(
        (
            Claim("rails for which H(x) > m and 'drd beats rd and dr' disagree", 0, against),
            Claim("routable rails where a gamma is 1 or more", 0, corollary),
            Claim("rails and pairs tried", None, tried),
        )
    )


def h06(
    workbench: Workbench, *, domains: int = 5, rails: int = 6, draws: int = 20, gamma_limit: float = 1.0
) -> Claims:
    """Whether an rdr-path over any domain ever beats the best of rd, dr and drd, by score. `gamma_limit`: the
    premise is that one of the two gammas is not above it."""
    within = beyond = tried = 0
    for seed in range(draws):
        _, scores, src, dst = drawn_scores(workbench, domains, rails, seed)
        best = np.maximum(paths_scored(scores, src, dst, RD), paths_scored(scores, src, dst, DR))
        for x in range(rails):
            best = np.maximum(best, paths_scored(scores, src, dst, DRD, x))
        premise = np.minimum(scores.gamma[src], scores.gamma[dst]) <= gamma_limit
        for x in range(domains):
            other = (src // rails != x) & (dst // rails != x)
            rdr = scores.rail[src % rails] * scores.domain[x] * scores.rail[dst % rails]
            wins = other & (rdr > best * (1 + EQUAL_WITHIN))
            tried += int(other.sum())
            within += int((wins & premise).sum())
            beyond += int((wins & ~premise).sum())
    return Claims(
        (
            Claim("rdr-paths that win, one gamma at most 1", 0, within),
            Claim("rdr-paths that win, both gammas above 1", 0, beyond),
            Claim("paths tried", None, tried),
        )
    )
