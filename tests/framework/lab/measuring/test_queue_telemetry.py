"""Queue telemetry against a queue whose length and rate are known."""

from __future__ import annotations

from statistics import median

import pytest

from tests.framework.lab.inside import inside


@pytest.mark.lab
def test_a_draining_queue_shows_its_length_its_bytes_and_its_rate() -> None:
    """Five drains. A descheduled machine delays a sample, which then shows fewer packets, or a link, which
    then reads slower, or the clock's reading behind a sample, which makes one rate too high and the next too
    low. So counts obey their limits in every drain, and rates in the median."""
    packets, size, rate = 60, 1000, 2e6
    drains = inside("drains", packets, size, rate, 5)
    for drain in drains:
        assert drain["sent_packets"] in (packets - 1, packets)
        assert drain["sent_bytes"] == drain["sent_packets"] * size
        assert not drain["idle_has_rate"]
        assert drain["first_queue_packets"] <= packets - 1  # the token bucket lets one packet go at once
    # more have gone before the first sample: one every 4 ms, which is soon 10 where other work is under way
    assert median(drain["first_queue_packets"] for drain in drains) >= packets - 15, drains
    readings = [reading for drain in drains for reading in drain["rates"]]
    assert rate * 7 / 8 <= median(readings) <= rate * 9 / 8, readings
    # eight whole packets in the time of seven, and a tenth for late clocks
    assert median(max(drain["rates"]) for drain in drains) <= rate * 8 / 7 * 1.1, drains
