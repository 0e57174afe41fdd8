"""How well measured scores matched the ground truth: what was reported degraded against what was, and how
soon.

An element is degraded if it scores below the best of its kind by more than the margin, which is what routes
act on. A fault of a switch is judged by the switch's score, one of some of its links (a NIC, a cable) by
these.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float
from railweave.framework.model.events import RoutesChanged
from railweave.framework.model.names import Scores, element_name, link_title
from railweave.framework.results.figures import Accuracy

PUBLISHED_WITHIN = 0.3
"""Score above the truth up to which a slow element is seen; at most half of the way to healthy."""
ALLOWED_PACKETS, ALLOWED_S = 24, 0.25
"""Full packets that had waited, sent by a slow element's links until it has to show; seconds to publish."""
REPAIRED_WITHIN = 0.1
"""Score below the truth up to which a repaired element is seen as repaired."""
EQUAL_WITHIN = 1e-6
"""Difference up to which scores are equal: they are kept in 32 bits."""


@dataclass(frozen=True, slots=True)
class Response:
    """`visible`: whether a fault changed what is degraded. Seconds from it, None where that never came:
    `detected_s`, until that showed in the published scores; `recovered_s`, until new routes were in use that
    answer it."""

    visible: bool
    detected_s: float | None
    recovered_s: float | None


class Judged:
    """What of a fabric is judged by its score, in groups of one kind: switches with a score, and links where
    there are none or by `links`, as a fault is that is done to some links of a switch."""

    def __init__(self, fabric: Fabric, margin: float, *, links: bool = False) -> None:
        self._fabric, self._margin = fabric, margin
        scored = np.unique(fabric.link_element[fabric.link_element >= 0])
        self.by_links = links or not scored.size
        self.ids = np.arange(fabric.n_links) if self.by_links else scored
        firsts = [group.first for group in fabric.groups]
        kinds = fabric.link_kind if self.by_links else np.searchsorted(firsts, scored, side="right")
        self._groups = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]

    def of(self, link_score: Scores, element_score: Scores) -> Scores:
        """(..., J): the scores of what is judged, of (..., n_links) and (..., n_nodes)."""
        return (link_score if self.by_links else element_score)[..., self.ids]

    def degraded(self, scores: Scores) -> Bool:
        """(..., J) of scores (..., J)."""
        below = np.zeros(scores.shape, bool)
        for group in self._groups:
            best = scores[..., group].max(axis=-1, keepdims=True)
            below[..., group] = scores[..., group] * self._margin < best
        return below

    def names(self, which: Bool) -> set[str]:
        """The names of what `which` (J,) selects, as reroutes give them as their reason; a link moves the
        score of its switch as well."""
        fabric, ids = self._fabric, [int(i) for i in self.ids[which]]
        if not self.by_links:
            return {element_name(fabric, node) for node in ids}
        elements = {int(fabric.link_element[link]) for link in ids} - {-1}
        return {link_title(fabric, link) for link in ids} | {element_name(fabric, node) for node in elements}


def own_links(fabric: Fabric, links: NDArray[np.integer], node: int) -> bool:
    """Whether a fault is judged by the links that it is done to, not by the score of its `node` (-1:
    none)."""
    return not np.isin(fabric.link_element[links], [node]).all() or node < fabric.n_gpus


def truth_at(times: Float, changes: Sequence[tuple[float, Bool]], width: int) -> Bool:
    """(n, J): what was degraded at each time, from (time, degraded (J,)) in order; nothing before the
    first."""
    truth = np.zeros((len(times), width), bool)
    for t_s, degraded in changes:
        truth[times >= t_s] = degraded
    return truth


def accuracy(reported: Bool, true: Bool) -> Accuracy:
    """Of (n, J) against (n, J)."""
    hits, claims, facts = int((reported & true).sum()), int(reported.sum()), int(true.sum())
    return Accuracy(hits / claims if claims else None, hits / facts if facts else None)


def asked_below(truth: Scores) -> Float:
    """The score below which an element of this true score has to be published: halfway to 1, and at most 0.3
    above the truth. 0.5 for an element at 20 %, 0.75 for one at 50 %."""
    level: Float = np.minimum((1 + truth) / 2, truth + PUBLISHED_WITHIN)
    return level


def published_s(times: Float, scores: Scores, before: Scores, after: Scores, fault_s: float) -> float | None:
    """Seconds from a fault until the published score of the first element that it changed agreed with the
    truth: below `asked_below` where the truth fell, at most REPAIRED_WITHIN under it where it rose. None
    where that never came or nothing changed.

    `scores` (n, J) as published at `times` (n,); `before`, `after` (J,): the true scores.
    """
    fell, changed = after < before, np.abs(after - before) > EQUAL_WITHIN
    agrees = np.where(fell, scores < asked_below(after), scores >= after - REPAIRED_WITHIN - EQUAL_WITHIN)
    when = np.flatnonzero((agrees & changed).any(axis=1) & (times >= fault_s))
    return float(times[when[0]]) - fault_s if when.size else None


def allowance_s(
    times: Float, waited_bytes: Scores, packet_bytes: float, fault_s: float, until_s: float
) -> float | None:
    """Seconds from a fault until it has to be published; None where less waited before `until_s`.

    `waited_bytes` (n,): what its links sent in the intervals that end at `times` (n,), of packets that had
    waited; of the interval in which it happened nothing counts.
    """
    first, end = int(np.searchsorted(times, fault_s)) + 1, int(np.searchsorted(times, until_s))
    total = np.cumsum(waited_bytes[first:end], dtype=float)
    enough = int(np.searchsorted(total, ALLOWED_PACKETS * packet_bytes))
    return float(times[first + enough]) - fault_s + ALLOWED_S if enough < len(total) else None


def response(
    judged: Judged,
    times: Float,
    reported: Bool,
    before: Bool,
    after: Bool,
    reroutes: Sequence[RoutesChanged],
    fault_s: float,
) -> Response:
    """How a fault at `fault_s` was seen and answered.

    `reported` (n, J) at `times` (n,); `before`, `after` (J,): the ground truth just before the fault and from
    then on. It is detected when the first of what it changed is reported as it is now, or when a reroute
    names one as its reason, as scores may move routes before they reach the margin. The first reroute from
    then on answers it.
    """
    changed = before != after
    names = judged.names(changed)
    agrees = (reported[:, changed] == after[changed]).any(axis=1) & (times >= fault_s)
    seen = [float(times[np.argmax(agrees)])] if agrees.any() else []
    later = [reroute for reroute in reroutes if reroute.t_s >= fault_s]
    seen += [r.t_s for r in later if names & {part.rsplit(" ", 3)[0] for part in r.why.split(", ")}][:1]
    if not seen:
        return Response(bool(changed.any()), None, None)
    return Response(
        True, min(seen) - fault_s, next((r.t_s - fault_s for r in later if r.t_s >= min(seen)), None)
    )
