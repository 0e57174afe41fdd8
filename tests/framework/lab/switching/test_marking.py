"""Marks at the egress of real interfaces."""

from __future__ import annotations

import pytest

from railweave.framework.lab.switching.marking import marking_links
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.torus import Torus
from tests.framework.lab.inside import inside

PACKETS = 400


@pytest.mark.lab
def test_data_is_marked_by_the_length_of_its_queue_and_counted() -> None:
    """At half the ramp a quarter of the packets (pmax 0.5), within five standard deviations; more ports than
    one nftables chain holds. Acknowledgements and what is not capable of ECN are left alone."""
    found = inside("marks", 300, PACKETS)
    for queue, data, acks, deaf, *idle, counted, counted_idle in found["rows"]:
        share = 1.0 if queue >= 50_000 else max(0.0, 0.5 * (queue - 10_000) / 40_000)
        rounded_up = -(-share * 8 // 1) / 8
        assert abs(data - PACKETS * rounded_up) <= 5 * (PACKETS * rounded_up * (1 - rounded_up)) ** 0.5
        assert (acks, deaf, idle, counted, counted_idle) == (0, 0, [0, 0, 0], data, 0)
    assert found["silent"]


def test_hosts_mark_nothing_unless_they_are_the_switches() -> None:
    rails = RailOnly().build({"domains": 2, "rails": 2})
    assert marking_links(rails).tolist() == (rails.link_src >= 4).tolist() and marking_links(rails).any()
    assert marking_links(Torus().build({"shape": "4x4"})).all()
