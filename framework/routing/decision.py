"""Which of several arrangements of the routes the traffic had better take: what is under way, the router's
answer, or its answer as if slow links were down."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from railweave.framework.model import PathBatch
from railweave.framework.model.arrays import Bool, Float
from railweave.framework.routing.batches import replaced, same_paths, take
from railweave.framework.routing.forecast import SAME_TIME, Forecast, Prospects, gain

TIME_MARGIN = 1.05
"""How many times sooner the demand must end for routes to be left by a router's own answer to scores; they
are published in steps of a hundredth, which is a twentieth of a score of 0.2."""
CUT_MARGIN = 1.01
"""The same, where what is left is cut: a slow link must never be worse than one that is down, and scores come
down to what they are step by step."""
Gained = Callable[[Float, Float], float]
"""How many times sooner jobs end: before (J,), after (J,)."""
HARMLESS = 1.03
"""No job may end later by more than this because another one gains."""


@dataclass(frozen=True, eq=False, slots=True)
class Arrangement:
    """Paths for all pairs in use, in blocks, and which of them (P,) leave their present ones for it."""

    blocks: list[PathBatch]
    moved: list[Bool]

    @property
    def moves(self) -> bool:
        return any(moved.any() for moved in self.moved)

    def weighs_like(self, other: "Arrangement") -> bool:
        """Whether shares are the same, path by path, in two arrangements of the same paths."""
        pairs = zip(self.blocks, other.blocks, strict=True)
        return all(a is b or np.array_equal(a.weight, b.weight) for a, b in pairs)

    @classmethod
    def whole(cls, old: Sequence[PathBatch], new: Sequence[PathBatch]) -> "Arrangement":
        """All pairs as in `new`."""
        return cls(list(new), [~same_paths(a, b) for a, b in zip(old, new, strict=True)])

    @classmethod
    def mixed(
        cls,
        old: Sequence[PathBatch],
        new: Sequence[PathBatch],
        differ: Sequence[Bool],
        may: Sequence[Bool],
        weigh: Sequence[Bool],
    ) -> "Arrangement":
        """The pairs that `may` as in `new`, all others as in `old`; but those that do not `differ` in links
        and that `weigh` take the new answer, whose weights may."""
        blocks, moved = [], []
        for before, after, differs, allowed, weighs in zip(old, new, differ, may, weigh, strict=True):
            stays = np.flatnonzero(~allowed & (differs | ~weighs))
            blocks.append(replaced(after, stays, take(before, stays)) if stays.size else after)
            moved.append(differs & allowed)
        return cls(blocks, moved)

    def with_more(
        self, old: Sequence[PathBatch], new: Sequence[PathBatch], may: Sequence[Bool]
    ) -> "Arrangement":
        """As `mixed` on top of this one, which it is itself where nothing changes. `old`: the present paths,
        by which moves are told."""
        changed = [allowed & ~same_paths(a, b) for allowed, a, b in zip(may, self.blocks, new, strict=True)]
        if not any(rows.any() for rows in changed):
            return self
        blocks = [
            replaced(have, np.flatnonzero(rows), take(then, np.flatnonzero(rows)))
            for have, then, rows in zip(self.blocks, new, changed, strict=True)
        ]
        return Arrangement(blocks, [~same_paths(a, b) for a, b in zip(old, blocks, strict=True)])


@dataclass(frozen=True, eq=False, slots=True)
class Offer:
    """An arrangement that is taken if the demand then ends `factor` times sooner; 1: if it ends no later."""

    arrangement: Arrangement
    factor: float


def best(base: Arrangement, offers: Iterable[Offer], forecast: Forecast, prospects: Prospects) -> Arrangement:
    """The offer that pays most, or `base`. Of equal ones the first.

    Branch and bound: offers are simulated in the order of what a bound of their time promises, and none that
    promises less than another one pays, or no more than an equal one before it. One job's time on what it may
    leave need not be known where a bound of it says enough: links of many scores share no symmetry, so it is
    dear to simulate, and which offer is best does not depend on it.
    """
    choices = list(offers)
    base_s, bound = forecast.least(base.blocks, prospects), True
    if choices and len(base_s) > 1:
        base_s, bound = forecast.seconds(base.blocks, prospects), False
    least_s = (forecast.least(offer.arrangement.blocks, prospects) for offer in choices)
    promised = [_most(base_s, ends_s) / offer.factor for offer, ends_s in zip(choices, least_s, strict=True)]
    paying, most, first = dict[int, float](), 1.0, len(choices)
    for number in np.argsort([-promises for promises in promised], kind="stable").tolist():
        offer = choices[number]
        for seconds, gained in ((forecast.least, _most), (forecast.seconds, gain)):
            ends_s = seconds(offer.arrangement.blocks, prospects)
            pays = _pays(base_s, ends_s, gained) / offer.factor
            if bound and not paying and pays < most:
                base_s, bound = forecast.seconds(base.blocks, prospects), False
                pays = _pays(base_s, ends_s, gained) / offer.factor
            if pays < (most * (1 - SAME_TIME) if number < first else most / (1 - SAME_TIME)):
                break
        else:
            paying[number], most = pays, max(most, pays)
            first = min(other for other, gains in paying.items() if gains >= most * (1 - SAME_TIME))
    return choices[first].arrangement if paying else base


def _pays(base_s: Float, ends_s: Float, gained: Gained) -> float:
    """What is gained; 0 where a job is harmed."""
    return 0.0 if (ends_s > HARMLESS * base_s).any() else gained(base_s, ends_s)


def _most(before_s: Float, least_s: Float) -> float:
    """What may be gained, if jobs end no sooner than that: no more than by the job that gains most, as
    jobs that gain nothing do not count."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.where(before_s == least_s, 1.0, before_s / least_s).max(initial=0.0))
