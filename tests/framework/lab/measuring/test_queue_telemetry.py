"""Queue telemetry against a queue whose length and rate are known."""

from __future__ import annotations

from statistics import median

import pytest

from tests.framework.lab.inside import inside


@pytest.mark.lab
def test_a_draining_queue_shows_its_length_its_bytes_and_its_rate() -> None:
    """Five drains. A descheduled machine delays a sample, which then shows fewer packets, or a link, which
    then reads slower; neither ever errs upwards. So every drain obeys the upper limits, and the median the
    lower ones."""
    packets, size, rate = 60, 1000, 2e6
    drains = inside("drains", packets, size, rate, 5)
    for drain in drains:
        assert drain["sent_packets"] in (packets - 1, packets)
        assert drain["sent_bytes"] == drain["sent_packets"] * size
        assert not drain["idle_has_rate"]
        assert drain["first_queue_packets"] <= packets - 1  # the token bucket lets one packet go at once
    # a few more may have gone before the first sample
    assert median(drain["first_queue_packets"] for drain in drains) >= packets - 5, drains
    readings = [reading for drain in drains for reading in drain["rates"]]
    assert max(readings) <= rate * 9 / 8  # one packet of eight is the resolution of whole packets
    assert median(readings) >= rate * 7 / 8, readings
