"""Watches a lab without traffic: the scores that are published, and whether a route changes."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from railweave.framework.lab.tasks.run import LabSession, lab_task
from railweave.framework.model.events import RunEvent
from railweave.framework.routing.reroute import element_name


class Lowest:
    """The lowest score published of every link and element, and how many links were measured at all."""

    def __init__(self, session: LabSession) -> None:
        self._monitor, self._fabric = session.monitor, session.plan.fabric
        self._links, self._elements = np.ones(self._fabric.n_links), np.ones(self._fabric.n_nodes)

    def sample(self) -> None:
        now = self._monitor.snapshot
        self._links = np.minimum(self._links, now.link_score)
        self._elements = np.minimum(self._elements, now.element_score)

    def figures(self) -> dict[str, Any]:
        """`elements`: lowest score by name; `link`, `link_score`: the lowest link; `measured`: how many links
        have shown a service rate."""
        fabric, now = self._fabric, self._monitor.snapshot
        nodes = np.unique(fabric.link_element[fabric.link_element >= 0])
        worst = int(np.argmin(self._links))
        return {
            "elements": {element_name(fabric, int(n)): float(self._elements[n]) for n in nodes},
            "link": fabric.link_name(worst),
            "link_score": float(self._links[worst]),
            "measured": int(np.isfinite(self._monitor.links.service_bps).sum()),
            "links": fabric.n_links,
            "published": now.version,
        }


def watch(session: LabSession, seconds: float) -> dict[str, Any]:
    """Hold a lab for `seconds` without traffic; faults of the plan happen at their times."""
    session.start()
    lowest, before, clock = Lowest(session), session.engine.cpu_s(), session.engine.clock
    while clock.now_s() < seconds:
        lowest.sample()
        session.step(seconds)
    lowest.sample()
    used = {name: (now - before[name]) / seconds for name, now in session.engine.cpu_s().items()}
    reroutes = [asdict(reroute) for reroute in session.recorder.reroutes]
    return {"seconds": seconds, **lowest.figures(), "cpu": used, "reroutes": reroutes}


def task(message: Mapping[str, Any], emit: Callable[[RunEvent], None]) -> dict[str, Any]:
    """Watch the idle fabric of `message["document"]` for `message["seconds"]`."""
    with lab_task(message, emit) as session:
        return watch(session, message["seconds"])
