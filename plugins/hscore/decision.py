"""Why one pair takes the path it does."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from railweave.framework.model import Path
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.routing.rails.choice import direct, score_of
from railweave.framework.routing.rails.links import DR, DRD, KINDS, NONE, RD, RDR, D, R, RailLinks, whole
from railweave.framework.routing.rails.scores import Scores


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice for one pair and what it was made of.

    `kind` one of none, d, r, rd, dr, drd, rdr; `rail` the remote rail of a drd-path; `score` the product of
    the element scores crossed, 0 when unreachable. `gamma_src`, `gamma_dst` the h-ratios; `m` the threshold
    of the Remote Rail Theorem (+inf where no remote rail is considered), `bar` = m x margin; `routable` the
    rails above the bar, worst first; `direct_scores` what the pair's paths without a remote rail score; `why`
    the rule that decided; `path` the links, None when unreachable.
    """

    src: int
    dst: int
    kind: str
    rail: int | None
    score: float
    gamma_src: float
    gamma_dst: float
    m: float
    bar: float
    routable: tuple[int, ...]
    direct_scores: tuple[tuple[str, float], ...]
    why: str
    path: Path | None


def explained(
    links: RailLinks,
    scores: Scores,
    pair: tuple[int, int],
    chosen: tuple[int, int],
    detour: bool,
    rail_name: Callable[[int], str] = "rail {}".format,
) -> Decision:
    """The decision behind `chosen` = (kind, via) for `pair` = (src, dst); `rail_name` is how `why` calls a
    rail."""
    src, dst = np.array([pair[0]]), np.array([pair[1]])
    kind, via = np.array([chosen[0]]), np.array([chosen[1]])
    m = float(scores.thresholds(src, dst, detour)[0])
    bar = m * scores.margin
    routable = tuple(int(rail) for rail in scores.order[scores.ordered > bar + EQUAL_WITHIN])
    rule = int(direct(scores, src, dst)[0])
    options = (DR, RD) if rule in (DR, RD) else (rule,)
    direct_scores = tuple(
        (KINDS[k], float(score_of(scores, src, dst, np.array([k]), via)[0])) for k in options if k != NONE
    )
    hops = links.hops(src, dst, kind, via)[0]
    path = Path(tuple(int(link) for link in hops if link >= 0)) if chosen[0] != NONE else None
    return Decision(
        src=pair[0],
        dst=pair[1],
        kind=KINDS[chosen[0]],
        rail=chosen[1] if chosen[0] == DRD else None,
        score=float(score_of(scores, src, dst, kind, via)[0]),
        gamma_src=float(scores.gamma[pair[0]]),
        gamma_dst=float(scores.gamma[pair[1]]),
        m=m,
        bar=bar,
        routable=routable,
        direct_scores=direct_scores,
        why=_why(links, scores, pair, chosen, routable, rule, rail_name),
        path=path,
    )


def _why(
    links: RailLinks,
    scores: Scores,
    pair: tuple[int, int],
    chosen: tuple[int, int],
    routable: tuple[int, ...],
    rule: int,
    rail_name: Callable[[int], str],
) -> str:
    kind, via = chosen
    src, dst = np.array([pair[0]]), np.array([pair[1]])
    if kind == NONE:
        return (
            "same GPU"
            if pair[0] == pair[1]
            else "unreachable: every path crosses a dead link or a score of 0"
        )
    if kind == DRD and via in routable:
        skipped = routable[: routable.index(via)]
        return f"best fit: the lowest usable rail above the bar, {rail_name(via)}" + (
            f"; dead links keep it from {', '.join(map(rail_name, skipped))}" if skipped else ""
        )
    if kind == RDR:
        return f"dead links leave none of the d, r, rd, dr and drd-paths: over both rails and domain {via}"
    if kind == rule:
        none = "no rail above the bar" if not routable else "dead links keep it from every rail above the bar"
        if kind == D:
            return "same domain"
        if kind == R:
            return f"same rail: {none}"
        return f"{none}: gamma_src {'>' if kind == RD else '<='} gamma_dst"
    blocked = not whole(links.hops(src, dst, np.array([rule]), np.array([-1])), scores.dead)[0]
    assert blocked, "a path other than the rule's was chosen although the rule's is whole"
    return f"the {KINDS[rule]}-path by rule crosses a dead link: the best score of what is left"
