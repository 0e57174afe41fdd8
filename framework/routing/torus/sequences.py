"""Wild-first sequences: which axes get a wild hop, in which order, and which faults that avoids."""

from collections.abc import Sequence as Many
from dataclasses import dataclass

from railweave.framework.errors import ExperimentError
from railweave.framework.routing.torus.lattice import AXES


@dataclass(frozen=True, slots=True)
class Sequence:
    """At most one wild hop along each axis of `wild`, then dimension order along `order`.

    Written as the source does, wild hops in lower case: `zyXYZ`. Source: Zu et al., NSDI'24.
    """

    wild: tuple[int, ...]
    order: tuple[int, ...]

    def __str__(self) -> str:
        return "".join(AXES[axis] for axis in self.wild) + "".join(AXES[axis].upper() for axis in self.order)

    @property
    def is_ordered(self) -> bool:
        """Whether the wild hops come in the reverse of the dimension order (order rule)."""
        return self.wild == tuple(axis for axis in reversed(self.order) if axis in self.wild)


def parse_sequence(text: str) -> Sequence:
    """The sequence written as `text`. Raises ExperimentError for anything else; does not check the order
    rule."""
    wild = [c for c in text if c.islower()]
    order = [c.lower() for c in text if c.isupper()]
    if (
        not text.isalpha()
        or not text.startswith("".join(wild))
        or not set(order) >= set(wild)
        or not set(order) <= set(AXES)
        or len(set(wild)) != len(wild)
        or len(set(order)) != len(order)
    ):
        raise ExperimentError(
            f"sequence {text!r}: write the wild hops in lower case, then every axis once in upper case, "
            f"such as "
            "zyXYZ: one hop along z and one along y at most, then X, Y, Z."
        )
    return Sequence(tuple(map(AXES.index, wild)), tuple(map(AXES.index, order)))


def default_sequence(order: Many[int]) -> Sequence:
    """The source's sequence for a dimension order: wild hops along all axes but the first, in reverse."""
    return Sequence(tuple(reversed(order[1:])), tuple(order))


def order_around(healthy: Many[int], dead_links: Many[int]) -> tuple[int, ...]:
    """The dimension order to use when axis a has `dead_links[a]` dead links.

    A fault on the last axis cannot be avoided, so the axis with the fewest dead links goes last; among equals
    the one that is last when all is well. The others keep their order.
    """
    last = min(reversed(healthy), key=lambda axis: dead_links[axis])
    return (*(axis for axis in healthy if axis != last), last)
