"""The capacities of a fabric's links, and a bound with the cut that gives it."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float, Int64

BETTER = 1 + 1e-9
"""A bound replaces another only if it is larger by more than rounding errors."""


@dataclass(frozen=True, slots=True)
class CutBound:
    """A lower bound in seconds and the cut that gives it, in words."""

    seconds: float
    cut: str

    def or_larger(self, other: Self) -> Self:
        return other if other.seconds > self.seconds * BETTER else self


NOTHING = CutBound(0.0, "none")


@dataclass(frozen=True, eq=False)
class Wires:
    """What links pass in T seconds: `rate` (n_links,) x T bits and `free` (n_links,) bits; a dead link passes
    nothing.

    `ranks`: the GPUs that take part, in their order. `reversed`: links lead from their destination to their
    source.
    """

    fabric: Fabric
    rate: Float
    free: Float
    ranks: Int64
    reversed: bool = False

    @cached_property
    def src(self) -> Int64:
        return np.asarray(self.fabric.link_dst if self.reversed else self.fabric.link_src, np.int64)

    @cached_property
    def dst(self) -> Int64:
        return np.asarray(self.fabric.link_src if self.reversed else self.fabric.link_dst, np.int64)

    def reverse(self) -> Self:
        """The same fabric with every link reversed."""
        return replace(self, reversed=not self.reversed)

    def out(self, inside: Bool) -> Bool:
        """(n_links,): the links out of the nodes `inside` (n_nodes,)."""
        return np.asarray(inside[self.src] & ~inside[self.dst], np.bool_)

    def leaving(self, inside: Bool) -> tuple[float, float]:
        """(rate, free bits) of the links out of the nodes `inside` (n_nodes,)."""
        out = self.out(inside)
        return float(self.rate[out].sum()), float(self.free[out].sum())

    def cut(self, bits: float, inside: Bool) -> CutBound:
        """The time that `bits` need to leave the nodes `inside`."""
        return CutBound(float(seconds(bits, *self.leaving(inside))), self.words(inside))

    def words(self, inside: Bool) -> str:
        """The cut, named by the side with fewer ranks."""
        within = inside[self.ranks]
        mine, others = self.ranks[within], self.ranks[~within]
        chosen = mine if len(mine) <= len(others) else others
        direction = "out of" if (chosen is mine) is not self.reversed else "into"
        names = [self.fabric.node_name(int(gpu)) for gpu in chosen[:4]]
        if len(chosen) == 1:
            return f"{direction} {names[0]}"
        return f"{direction} the {len(chosen)} GPUs {', '.join(names)}{', ...' if len(chosen) > 4 else ''}"


def seconds(bits: Float | float, rate: Float | float, free: Float | float) -> Float:
    """The time that `bits` take over links of `rate` bit/s together, `free` of them at once; of every cut."""
    left = np.maximum(bits - free, 0.0)
    late = np.where(left > 0, np.inf, 0.0)
    return np.divide(left, rate, out=late, where=(rate > 0) & (left > 0))
