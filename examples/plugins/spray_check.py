"""Grey links by counting packets, after SprayCheck: whatever passes is evidence, and no probe is sent.

Source: Krebs and others, "SprayCheck: Finding gray failures in adaptive routing networks", arXiv 2605.03702.
Spray gives a link packets of many pairs, so that its own count says what it loses, whichever paths they took.
A link is named if a healthy one would lose so many in less than `alpha` of all runs, all links together.

    railweave run --plugin examples/plugins/spray_check.py --estimator spray-check --router spray
"""

from math import exp, log

import numpy as np

from railweave.framework.health.loss import speed_at_loss
from railweave.framework.hookspecs import Estimator, hookimpl
from railweave.framework.parameters import Parameter

API = 1


class SprayCheck(Estimator):
    summary = "links that lose more packets than chance and congestion explain"
    needs = ("packets",)
    parameters = (
        Parameter("usual", 2e-4, "ratio", "packets that a healthy link may lose", minimum=1e-9),
        Parameter("congested", 0.05, "ratio", "marked packets of which as many may be lost", minimum=0),
        Parameter("alpha", 1e-3, "ratio", "runs in which a healthy link may be named", minimum=1e-12),
    )

    def __init__(self, usual=2e-4, congested=0.05, alpha=1e-3):
        self.usual, self.congested, self.alpha = usual, congested, alpha

    def configured(self, options):
        return SprayCheck(**{name: float(value) for name, value in options.items()})

    def scores(self, fabric, state, packet):
        sent, lost, marked = state.packets
        expected = self.usual * sent + self.congested * marked
        named = [
            k > mean and chance(k, mean) * fabric.n_links < self.alpha
            for k, mean in zip(lost.tolist(), expected.tolist(), strict=True)
        ]
        share = np.where(named, lost / np.maximum(sent, 1.0), 0.0)
        return np.where(state.up, speed_at_loss(np.minimum(share, 1.0)), 0.0)


def chance(count, mean):
    """That a Poisson variable of this mean is `count` or more, at most (Chernoff)."""
    return exp(count - mean - count * log(count / mean)) if mean > 0 else 0.0


@hookimpl
def register_estimators(register):
    register("spray-check", SprayCheck())
