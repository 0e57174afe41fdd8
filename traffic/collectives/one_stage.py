"""All-gather by one all-to-all on an optical ring."""

from __future__ import annotations

from railweave.traffic.collectives.optical import OpticalAllGather


class OneStage(OpticalAllGather):
    """Every rank sends its item to every other on a lightpath of its own: ceil(N^2 / 8w) steps for even N.

    Source: Lemma 1 and Table I of arXiv 2211.15119.
    """

    summary = "every pair of a ring has a lightpath of its own, in as few steps as wavelengths allow"
    algorithm = "one-stage"
