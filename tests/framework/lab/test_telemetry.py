"""Telemetry against a queue whose length and rate are known."""

from __future__ import annotations

import pytest

from tests.framework.lab.inside import inside


@pytest.mark.lab
def test_a_draining_queue_shows_its_length_its_bytes_and_its_rate() -> None:
    packets, size, rate = 60, 1000, 2e6
    drains = inside("drains", packets, size, rate, 5)
    for found in drains:
        assert found["sent_packets"] == packets - 1 or found["sent_packets"] == packets
        assert found["sent_bytes"] == found["sent_packets"] * size
        assert not found["idle_has_rate"]
    # What a machine held up does to a look or to a link is no reading of the link; not every drain is disturbed.
    # One packet goes at once (token bucket); a few more may before the first look.
    assert any(packets - 5 <= found["first_queue_packets"] <= packets - 1 for found in drains)
    # one packet of eight is as fine as a count of whole packets can be
    assert any(
        found["rates"] and all(abs(r - rate) <= rate / 8 for r in found["rates"]) for found in drains
    ), [found["rates"] for found in drains]
