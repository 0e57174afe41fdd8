"""An estimator as somebody else writes it: which links explain what senders lose on their paths."""

from __future__ import annotations

import numpy as np

from railweave.framework.hookspecs import hookimpl
from railweave.framework.parameters import Parameter


class ByPath:
    """The link whose paths together lose the largest share of their packets is blamed for all of that; then
    the next one, by the other paths. A blamed link scores a half."""

    summary = "links that explain the losses of paths, the worst first"
    parameters = (
        Parameter("usual", 5e-3, "ratio", "loss that nobody is blamed for", minimum=0),
        Parameter("least", 8, "count", "lost packets before a link is blamed", minimum=1),
    )
    wants_paths = True
    needs = ("paths",)

    def __init__(self, usual=5e-3, least=8):
        self.usual, self.least = usual, least

    def configured(self, options):
        return ByPath(float(options["usual"]), int(options["least"]))

    def scores(self, fabric, state, packet):
        paths, (known, lost, _) = state.paths.paths, state.paths.packets.copy()
        scores = state.up.astype(float)
        for _ in range(fabric.n_links):
            sums = [np.bincount(paths.links, each[paths.hop_path], fabric.n_links) for each in (known, lost)]
            share = np.where(sums[1] >= self.least, sums[1] / np.maximum(sums[0], 1.0), 0.0)
            worst = int(np.argmax(share))
            if share[worst] <= self.usual:
                break
            scores[worst] *= 0.5
            crossing = paths.hop_path[paths.links == worst]
            known[crossing] = lost[crossing] = 0.0
        return scores


@hookimpl
def register_estimators(register):
    register("by-path", ByPath())
