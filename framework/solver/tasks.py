"""What one job does: transfers, computations and joins, each once or several times in a row."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from railweave.framework.model.arrays import ArrayNoun, Float, Int32, Int64, readonly
from railweave.framework.model.routes import starts


@dataclass(frozen=True, eq=False)
class Tasks(ArrayNoun):
    """n entries. `pair` (n,): the pair of the network that a transfer uses, -1 for a computation or a join.

    `bits` (n,): wire bits of one repetition of a transfer; where they differ, `each_start` (n+1,) into `each`
    has those of every repetition, and an empty range for other entries. `seconds` (n,): of one repetition of
    a computation, 0 for a join. `repeat` (n,): how many times in a row. `release_s` (n,): earliest start,
    after the job's own. `after_start` (n+1,) into `after`: entries whose repetitions must all have ended
    before the first of this one starts. `chained_start` (n+1,) into `chained`: entries whose repetition r -
    `lag` must have ended before repetition r of this one starts, if r >= `lag` (n,). Left empty, these are 0,
    0, 1, 0, no entries and 1.

    Entries of one pair are served in this order, one at a time.
    """

    pair: Int32
    bits: Float
    seconds: Float = field(default_factory=lambda: np.empty(0))
    repeat: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    release_s: Float = field(default_factory=lambda: np.empty(0))
    after_start: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    after: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    chained_start: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    chained: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    lag: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    each_start: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    each: Float = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        n = len(self.pair)
        for name, value in (("seconds", 0.0), ("repeat", 1), ("release_s", 0.0), ("lag", 1)):
            if len(getattr(self, name)) == 0:
                object.__setattr__(self, name, np.full(n, value))
        for name in ("after_start", "chained_start", "each_start"):
            if len(getattr(self, name)) == 0:
                object.__setattr__(self, name, np.zeros(n + 1, np.int64))
        ArrayNoun.__post_init__(self)

    @property
    def n_tasks(self) -> int:
        return len(self.pair)

    @cached_property
    def followers(self) -> tuple[Int64, Int64]:
        """(start (n+1,), task): by task, the tasks that wait for all its repetitions."""
        return _inverse(self.after_start, self.after)

    @cached_property
    def chain_followers(self) -> tuple[Int64, Int64]:
        """(start (n+1,), task): by task, those whose repetitions wait for its repetitions."""
        return _inverse(self.chained_start, self.chained)


def _inverse(start: Int64, others: Int64) -> tuple[Int64, Int64]:
    n = len(start) - 1
    order = np.argsort(others, kind="stable")
    inverse = np.repeat(np.arange(n), np.diff(start))[order]
    return readonly(starts(np.bincount(others, minlength=n)), np.int64), readonly(inverse, np.int64)
