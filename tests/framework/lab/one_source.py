"""A small fabric with one slow rail under load, its health measured by one source."""

from __future__ import annotations

from typing import Any

import numpy as np

from railweave.framework.experiment.plan import load_plan
from railweave.framework.lab.emulated_run import lab_session
from railweave.framework.registry import load_plugins as registers

SLOW_RAIL = 1
SETTLED_S = 2.0
"""After so long, no train or chain of before the fault counts any more."""


def degraded(measure: str, feedback: bool) -> dict[str, Any]:
    """Four all-reduces over 2 x 4 GPUs; rail 1 goes to a fifth before the second.

    `ratios`: of each link of that rail, the service rates measured over the rate in force.
    """
    known = registers()
    overrides = {
        "measure": measure,
        "topology.domains": 2,
        "rate_scale": 1e-5,
        "feedback": feedback,
        "iterations": 4,
        "fault": f"at=iter:1 degrade rail:{SLOW_RAIL} to=20%",
    }
    with lab_session(load_plan(None, overrides, known), known, lambda _: None) as session:
        session.iterate()
        in_force = session.engine.lab.rates_bps
    fabric, samples = session.plan.fabric, vars(session.recorder.samples())
    after = samples["t_s"] > session.recorder.faults[0].t_s + SETTLED_S
    rails = fabric.group("rail")
    assert rails is not None
    ratios = {}
    for link in fabric.element_links(rails.first + SLOW_RAIL):
        rates = samples["service_bps"][after, link]
        if np.isfinite(rates).any():
            ratios[fabric.link_name(int(link))] = (rates[np.isfinite(rates)] / in_force[link]).tolist()
    scores = session.monitor.snapshot.element_score[rails.first : rails.first + rails.size]
    a, b = (np.flatnonzero(fabric.gpu_coordinates[:, 1] == SLOW_RAIL)[i] for i in (0, 1))
    path = session.control.table.paths(np.array([a, b]), np.array([b, a])).links
    passed = fabric.link_dst[path] - rails.first
    return {
        "ratios": ratios,
        "scores": scores.tolist(),
        "rails_taken": sorted({int(rail) for rail in passed[passed >= 0]}),
    }
