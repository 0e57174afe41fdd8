"""How well measured scores told the truth: what was called sick against what was, and how soon.

Sick is what routes act on: worse than the best of its kind by more than the margin. Switches with a score are
judged, and on fabrics without them the links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Over all looks and all that is judged: `precision`, the share of what was called sick that was; `recall`,
    the share of what was sick that was called so. None where nothing was called sick, or nothing was."""

    precision: float | None
    recall: float | None


class Judged:
    """What of a fabric is judged by its score, in groups of one kind."""

    def __init__(self, fabric: Fabric, margin: float) -> None:
        self._margin = margin
        scored = np.unique(fabric.link_element[fabric.link_element >= 0])
        self.by_links = not scored.size
        self.ids = np.arange(fabric.n_links) if self.by_links else scored
        kinds = fabric.link_kind if self.by_links else self._kinds(fabric)[scored]
        self._groups = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]

    @staticmethod
    def _kinds(fabric: Fabric) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        kinds = np.zeros(fabric.n_nodes, np.int64)
        for i, group in enumerate(fabric.groups):
            kinds[group.first : group.first + group.size] = i
        return kinds

    def of(self, link_score: Float, element_score: Float) -> Float:
        """(J,): the scores of what is judged, of (n_links,) and (n_nodes,)."""
        return (link_score if self.by_links else element_score)[self.ids]

    def sick(self, scores: Float) -> Bool:
        """(..., J) of scores (..., J)."""
        found = np.zeros(scores.shape, bool)
        for group in self._groups:
            best = scores[..., group].max(axis=-1, keepdims=True)
            found[..., group] = scores[..., group] * self._margin < best
        return found


def truth_at(times: Float, changes: Sequence[tuple[float, Bool]], width: int) -> Bool:
    """(n, J): what was sick at each time, from (time, sick (J,)) in order; nothing before the first."""
    found = np.zeros((len(times), width), bool)
    for t_s, sick in changes:
        found[times >= t_s] = sick
    return found


def accuracy(called: Bool, true: Bool) -> Accuracy:
    """Of (n, J) against (n, J)."""
    both, claims, facts = int((called & true).sum()), int(called.sum()), int(true.sum())
    return Accuracy(both / claims if claims else None, both / facts if facts else None)


def detection_s(times: Float, called: Bool, before: Bool, after: Bool, struck_s: float) -> float | None:
    """Seconds from a fault at `struck_s` until all it made sick was called so, and all it cured no more.

    `before`, `after` (J,): what was sick just before and from then on. None if that never came, or if the fault
    changed nothing that is judged.
    """
    changed = before != after
    if not changed.any():
        return None
    agrees = (called[:, changed] == after[changed]).all(axis=1) & (times >= struck_s)
    return float(times[np.argmax(agrees)] - struck_s) if agrees.any() else None
