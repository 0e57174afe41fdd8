"""In which order the packets of a pair take its paths."""

from array import array
from collections.abc import Sequence
from functools import lru_cache

BLOCK = 256
"""Packets that are ordered at a time."""
AHEAD = 1e-9
"""Packets by which rounding may make a path seem ahead of its share."""


class PathOrder:
    """`order`: which path each packet takes, as far as `reach` has asked. After any n packets path i has got
    n x `weights`[i] of them, give or take one.

    Of the paths that are not ahead of their share, each packet takes the one whose next is due first: WF2Q
    with packets of one size (Bennett and Zhang, INFOCOM 1996). Of equal ones that is each in turn.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        total = sum(weights)
        self._every = [total / weight for weight in weights]
        """Packets of the pair for each packet of a path."""
        self._next = [0.0] * len(weights)
        """After how many packets of the pair each path may take its next one, which is due `_every` later."""
        self.order = array("H")

    def reach(self, count: int) -> None:
        """Make `order` hold `count` packets or more."""
        order, every, begins = self.order, self._every, self._next
        if len(order) < count and len({*every}) == 1:
            order.extend(array("H", range(len(every))) * (1 + (count + BLOCK - len(order)) // len(every)))
        while len(order) < count:
            for sent in range(len(order), len(order) + BLOCK):
                may = (i for i, begin in enumerate(begins) if begin <= sent + AHEAD)
                path = min(may, key=lambda i: begins[i] + every[i])
                begins[path] += every[path]
                order.append(path)


@lru_cache(maxsize=1024)
def turns_of(weights: tuple[float, ...]) -> PathOrder:
    """Those of all pairs with these weights: each follows them from the first packet."""
    return PathOrder(weights)
