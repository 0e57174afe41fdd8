"""Meter, tracker, estimator and publishing against what labs showed them: each regime recorded once."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.framework.judging.detection import Judged, allowance_s, published_s
from railweave.framework.registry import load_plugins
from tests.recordings.record import REGIMES
from tests.recordings.replay import HERE, replayed

HEALTHY, NEAR, SETTLED_PACKETS, SETTLED_S = 0.9, 0.1, 100, 0.25
STALLS = {"plain": (0.0, False), "stalls": (0.03, False), "stalls-in-time": (0.02, True)}
"""For how long the machine stands still every 0.9 s, and whether it is sampled meanwhile. A virtual machine
did for 30 ms without any steal time: links of a healthy lab had then served 0.85 of their rate over 0.2 s. It
may be another core than the one that samples: busy links then serve less, and samples come in time."""


def test_there_is_a_recording_of_each_regime() -> None:
    files = list(HERE.glob("*.npz"))
    assert {file.stem for file in files} == set(REGIMES)
    assert max(file.stat().st_size for file in files) <= 150_000


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize("name", REGIMES)
def test_nothing_healthy_is_called_slow_and_faults_are_published(name: str, stalls: str) -> None:
    """A fault in time: while its allowance lasts. As it is: to 0.1, once 100 packets have waited for its slow
    links (200 after a repair) and 0.25 s are over, and at the end."""
    seen = replayed(name, load_plugins(), *STALLS[stalls], every_s=0.9)
    links, elements = (
        np.min([np.ones(scores.shape[1]), *(getattr(true, kind) for true in seen.truth)], axis=0) == 1
        for kind, scores in (("link_score", seen.link_score), ("element_score", seen.element_score))
    )
    assert links.any() and elements.any()
    assert min(seen.link_score[:, links].min(), seen.element_score[:, elements].min()) >= HEALTHY - 1e-9
    plan, judged = seen.plan, Judged(seen.plan.fabric, seen.plan.experiment.health.margin)
    scores, before = judged.of(seen.link_score, seen.element_score), np.ones(len(judged.ids))
    ends = [*(true.t_s for true in seen.truth[1:]), np.inf][: len(seen.truth)]
    for fault, truth, until_s in zip(plan.faults, seen.truth, ends, strict=True):
        after, packet = judged.of(truth.link_score, truth.element_score), plan.packet.full_packet_bytes
        waited = seen.waited_bytes[:, fault.links].sum(axis=1)
        if fault.verb == "degrade":
            allowed_s = allowance_s(seen.t_s, waited, packet, truth.t_s, until_s)
            seconds = published_s(seen.t_s, scores, before, after, truth.t_s)
            assert allowed_s is not None and seconds is not None and seconds <= allowed_s
        enough = SETTLED_PACKETS * (2 if fault.verb == "restore" else 1)
        present = (seen.t_s > truth.t_s) & (seen.t_s <= until_s)
        enough_waited = np.cumsum(waited * present) >= enough * packet
        settled = present & enough_waited & (seen.t_s > truth.t_s + SETTLED_S) & (fault.verb != "loss")
        settled[np.flatnonzero(present)[-1]] = True
        changed = np.abs(after - before) > 1e-6
        assert changed.any()
        assert np.abs(scores[settled][:, changed] - after[changed]).max() <= NEAR + 1e-9
        before = after
