"""Shaped links against what a shaped link is: the rate, and the one packet that a token bucket gives away."""

from __future__ import annotations

import pytest

from tests.framework.lab.inside import inside

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("packets", [8, 32])
def test_a_train_takes_its_packet_times_less_one(packets: int) -> None:
    """A real link takes n packet times; a token bucket lets the first packet go at once, so n - 1. The bucket's
    50 microseconds move that by a few hundredths. A busy machine makes trains late, never early: the quickest of
    some tells."""
    found = inside("trains", packets, 1000, 2e6, 9)["packet_times"]
    assert packets - 1.1 <= min(found) <= packets - 0.5, found


def test_a_rate_that_is_not_the_one_asked_fails_the_run() -> None:
    assert "shaped to 5e+06 bit/s, asked were 4e+06" in inside("unshaped_is_refused")["error"]


def test_every_link_of_a_fabric_has_its_rate_and_its_port() -> None:
    found = inside("bring_up", 2, 2)
    assert len(found["rates"]) == 16
    for asked, in_force in found["rates"].values():
        assert abs(asked - in_force) <= 8  # the kernel keeps whole bytes per second
    degraded = [in_force for _, in_force in found["rates"].values() if in_force < 1e6]
    assert degraded == [0.8e6] * 4  # one rail of two GPUs, both directions, at 20 % of 4 Mb/s
    ports = dict(found["ports"])
    # port 1 of a NIC is its host, 2 its domain, 3 its rail; on a domain switch ports follow the GPUs
    assert [ports[f"g1.0-eth{p}"] for p in (1, 2, 3)] == [1, 2, 3]
    assert [ports[f"d1-eth{p}"] for p in (1, 2)] == [1, 2]
    assert found["send_buffer"] > 212992  # the kernel's default
    refused = found["refused"]
    assert "'at=0s duplicate link:g0.0->r0 rate=1%': this kernel cannot duplicate packets" in refused
    assert "Leave the fault out" in refused
