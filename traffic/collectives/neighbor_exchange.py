"""All-gather by swaps between neighbours."""

from __future__ import annotations

from railweave.traffic.collectives.optical import OpticalAllGather


class NeighborExchange(OpticalAllGather):
    """N / 2 steps on one wavelength: one item in the first, two in each later one. Even N only.

    Source: Table I of arXiv 2211.15119.
    """

    summary = "neighbours on a ring swap what they got last, in n/2 steps; even n"
    algorithm = "neighbor-exchange"
