"""A lab without traffic, watched: what is published of links that only wait, and whether a route moves."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from railweave.framework.channel import Channel
from railweave.framework.control import element_name
from railweave.framework.experiment import from_document
from railweave.framework.lab.conductor import Conductor
from railweave.framework.registry import load


class Lowest:
    """The lowest score published of every link and element, and which links were ever measured at all."""

    def __init__(self, conductor: Conductor) -> None:
        self._monitor, self._fabric = conductor.monitor, conductor.plan.fabric
        self._links, self._elements = np.ones(self._fabric.n_links), np.ones(self._fabric.n_nodes)

    def look(self) -> None:
        now = self._monitor.snapshot
        self._links = np.minimum(self._links, now.link_score)
        self._elements = np.minimum(self._elements, now.element_score)

    def found(self) -> dict[str, Any]:
        """`elements`: lowest score by name; `link`, `link_score`: the lowest link; `measured`: how many links have
        shown a service rate."""
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


def watch(conductor: Conductor, seconds: float) -> dict[str, Any]:
    """`seconds` of a lab that is up, without traffic; faults of the plan happen at their times."""
    conductor.start_clock()
    lowest, before, end = Lowest(conductor), conductor.cpu_s(), time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        lowest.look()
        conductor.step(left)
    lowest.look()
    used = {name: (now - before[name]) / seconds for name, now in conductor.cpu_s().items()}
    return {"seconds": seconds, **lowest.found(), "cpu": used, "reroutes": conductor.notebook.reroutes}


def task(message: Mapping[str, Any], channel: Channel) -> None:
    """The fabric of `message["document"]`, idle for `message["seconds"]`."""
    registers = load()
    conductor = Conductor(from_document(message["document"], registers), registers, channel.send)
    try:
        conductor.bring_up()
        found = watch(conductor, message["seconds"])
    finally:
        conductor.down()
    channel.send({"kind": "result", "findings": found})
