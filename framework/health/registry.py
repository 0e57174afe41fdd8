"""Rails kept sorted by h-score, so that a best fit is one binary search."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import Literal

from railweave.framework.errors import HealthError
from railweave.framework.model.health import EQUAL_WITHIN

Window = Literal["strict", "blog"]


def h_score(value: float, of: str) -> float:
    """`value` held in 0..1; HealthError if it is not a number.

    A measured rate can lie a hair above the declared one, so an overshoot is noise and not an error.
    """
    if not isfinite(value):
        raise HealthError(f"{of}: score {value} is not a number. An h-score lies in 0..1; 0 is down.")
    return min(max(value, 0.0), 1.0)


class SortedRails:
    """Rails in the order (H, id) and the lookups on them; what a registry and its copies share.

    Source: "rail-only connections, Part 2" (Cisco Outshift, 2024): best fit and spray window. Scores within
    `EQUAL_WITHIN` of a bar are equal to it, so a tie does not depend on the float noise of a ratio.
    """

    def __init__(self, keys: Sequence[float], rails: Sequence[int], version: int) -> None:
        self._keys, self._rails, self._version = list(keys), list(rails), version

    @property
    def version(self) -> int:
        return self._version

    @property
    def order(self) -> tuple[int, ...]:
        """Rail ids, worst first; rails of equal score by id."""
        return tuple(self._rails)

    @property
    def ordered_scores(self) -> tuple[float, ...]:
        """The scores in the same order."""
        return tuple(self._keys)

    def __len__(self) -> int:
        return len(self._rails)

    def best_fit(self, m: float, margin: float = 1.0) -> int | None:
        """The lowest rail with H strictly above m x margin (not the best rail), or None.

        At most floor(log2 K) + 1 comparisons of scores.
        """
        at = bisect_right(self._keys, m * margin + EQUAL_WITHIN)
        return self._rails[at] if at < len(self._rails) else None

    def window(self, m: float, delta: float, mode: Window = "strict") -> tuple[int, ...]:
        """The rails to spray over, worst first: H in (m, m + delta] (strict) or [m - delta, m + delta] (blog).

        The source writes the second, which also takes in rails that are no better than rd and dr.
        """
        if not delta >= 0:
            raise HealthError(f"spray window of delta {delta}: it must be 0 or more.")
        if mode not in ("strict", "blog"):
            raise HealthError(f"spray window {mode!r}: it is one of strict, blog.")
        if mode == "strict":
            low = bisect_right(self._keys, m + EQUAL_WITHIN)
        else:
            low = bisect_left(self._keys, m - delta - EQUAL_WITHIN)
        return tuple(self._rails[low : bisect_right(self._keys, m + delta + EQUAL_WITHIN, low)])


class RegistryCopy(SortedRails):
    """What a domain or GPU holds of the registry. It answers from its own version until replaced."""

    def check(self, registry_version: int) -> None:
        """Raise HealthError, naming both versions, unless this copy is the registry's present state."""
        if self._version != registry_version:
            raise HealthError(
                f"rail registry copy of version {self._version} is out of date: the registry is at version "
                f"{registry_version}. Take a new copy before routing by it."
            )


class RailRegistry(SortedRails):
    """The sorted rails of a fabric; sorted once when made, then kept so by every update.

    `scores` by rail id. `order`, where it is known already, must be the ids by (H, id).
    """

    def __init__(
        self, scores: Sequence[float], *, order: Sequence[int] | None = None, version: int = 0
    ) -> None:
        self._scores = [h_score(score, f"rail {rail}") for rail, score in enumerate(scores)]
        if order is None:
            rails = sorted(range(len(scores)), key=self._key)
        else:
            rails = [int(rail) for rail in order]
            if sorted(rails) != list(range(len(scores))):
                raise HealthError(f"rail order {rails}: it does not name each of {len(scores)} rails once.")
            for before, after in pairwise(rails):
                if self._key(before) > self._key(after):
                    raise HealthError(f"rail order {rails}: rail {after} must stand before rail {before}.")
        super().__init__([self._scores[rail] for rail in rails], rails, version)

    def _key(self, rail: int) -> tuple[float, int]:
        return self._scores[rail], rail

    def score(self, rail: int) -> float:
        return self._scores[self._known(rail)]

    def update(self, rail: int, score: float) -> int:
        """Take one rail out and put it back where its new score belongs; the version after it.

        An unchanged score changes nothing, so no copy goes stale for it.
        """
        old, new = self._scores[self._known(rail)], h_score(score, f"rail {rail}")
        if new == old:
            return self._version
        at = self._place(rail, old)
        del self._keys[at], self._rails[at]
        at = self._place(rail, new)
        self._keys.insert(at, new)
        self._rails.insert(at, rail)
        self._scores[rail] = new
        self._version += 1
        return self._version

    def copy(self) -> RegistryCopy:
        """The present state for a domain or GPU, marked with its version."""
        return RegistryCopy(self._keys, self._rails, self._version)

    def _place(self, rail: int, score: float) -> int:
        """Where (score, rail) stands or would stand: among equal scores the ids ascend."""
        low = bisect_left(self._keys, score)
        return bisect_left(self._rails, rail, low, bisect_right(self._keys, score, low))

    def _known(self, rail: int) -> int:
        if not 0 <= rail < len(self._scores):
            raise HealthError(f"there is no rail {rail}; the registry holds 0..{len(self._scores) - 1}.")
        return rail
