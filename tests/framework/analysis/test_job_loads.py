"""What jobs put on links, by hand on two domains and two rails."""

from __future__ import annotations

import numpy as np

from railweave.framework import api
from railweave.framework.analysis.job_loads import received_loads
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.traffic import PairBytes
from tests.fakes.tori import with_down


def received(*rows: tuple[int, int, float]) -> PairBytes:
    src, dst, wire_bytes = zip(*rows, strict=True)
    return PairBytes(np.array(src), np.array(dst), np.array(wire_bytes))


def loads(fabric: Fabric, parts: tuple[PairBytes, ...]) -> dict[str, float]:
    router = api.installed()["router"]["shortest"]
    cut = with_down(fabric, [link for link in range(fabric.n_links) if fabric.link_name(link) == "g0.0->r0"])
    routes = [router.routes(fabric, health) for health in (HealthSnapshot.healthy(fabric), cut)]
    carried = received_loads(fabric, parts, [(0.0, routes[0]), (1.0, routes[1])])
    return {fabric.link_name(link): float(carried[link]) for link in np.flatnonzero(carried)}


def test_what_arrived_counts_on_the_routes_of_its_time() -> None:
    """From g0.0 to g1.0 over rail 0, and once its cable is down by g0.1 and rail 1."""
    fabric = api.topology("rail-only", domains=2, rails=2)
    parts = (received((0, 2, 100.0)), received((0, 2, 10.0), (2, 0, 1.0)))
    before = {"g0.0->r0": 100.0, "r0->g1.0": 100.0}
    there = dict.fromkeys(("g0.0->d0", "d0->g0.1", "g0.1->r1", "r1->g1.1", "g1.1->d1", "d1->g1.0"), 10.0)
    assert loads(fabric, parts[:2]) == before | there | {"g1.0->r0": 1.0, "r0->g0.0": 1.0}
    earlier = (received((0, 2, 5.0)), *parts)
    assert loads(fabric, earlier)["g0.0->r0"] == 105.0, "with more counts than routes the first hold longer"


def test_what_was_added_since() -> None:
    before = received((0, 2, 100.0), (2, 0, 5.0))
    after = received((0, 2, 130.0), (1, 3, 7.0), (2, 0, 5.0))
    assert after.since(before) == received((0, 2, 30.0), (1, 3, 7.0), (2, 0, 0.0))
