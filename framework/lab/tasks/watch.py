"""Watches a lab without traffic: the scores that are published, and whether a route changes."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from railweave.framework.lab.tasks.run import LabSession, lab_task
from railweave.framework.model.events import RunEvent
from railweave.framework.model.names import element_name


def watch(session: LabSession, seconds: float) -> dict[str, Any]:
    """Hold a lab for `seconds` without traffic; faults of the plan happen at their times.

    `elements`: the lowest score that was published of each, by name; `link`, `link_score`: of the lowest
    link; `measured`: how many links have shown a service rate; `cpu`: cores in use.
    """
    session.start()
    fabric, monitor, before = session.plan.fabric, session.monitor, session.engine.cpu_s()
    links, elements = np.ones(fabric.n_links), np.ones(fabric.n_nodes)
    while True:
        links = np.minimum(links, monitor.snapshot.link_score)
        elements = np.minimum(elements, monitor.snapshot.element_score)
        if session.engine.clock.now_s() >= seconds:
            break
        session.step(seconds)
    nodes = np.unique(fabric.link_element[fabric.link_element >= 0])
    worst = int(np.argmin(links))
    return {
        "seconds": seconds,
        "elements": {element_name(fabric, int(node)): float(elements[node]) for node in nodes},
        "link": fabric.link_name(worst),
        "link_score": float(links[worst]),
        "measured": int(np.isfinite(monitor.links.service_bps).sum()),
        "links": fabric.n_links,
        "published": monitor.snapshot.version,
        "cpu": {part: (now - before[part]) / seconds for part, now in session.engine.cpu_s().items()},
        "reroutes": [asdict(reroute) for reroute in session.recorder.reroutes],
    }


def task(message: Mapping[str, Any], emit: Callable[[RunEvent], None]) -> dict[str, Any]:
    """Watch the idle fabric of `message["document"]` for `message["seconds"]`."""
    with lab_task(message, emit) as session:
        return watch(session, message["seconds"])
