"""Shaped links against what a shaped link is: the rate, and the one packet that a token bucket lets go
early."""

from __future__ import annotations

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.lab.switching import shaping
from tests.framework.lab.inside import inside


@pytest.mark.parametrize("rate_bps", [7.0, 3.6e21])
def test_a_rate_that_cannot_be_shaped_to_is_refused_with_the_limits(rate_bps: float) -> None:
    with pytest.raises(
        ExperimentError, match=r"link a->b would be .* takes 8b/s to 600Tb/s. Change `rate_scale`"
    ):
        shaping.check_rate("a->b", rate_bps)
    shaping.check_rate("a->b", 4e6)


@pytest.mark.quiet
@pytest.mark.lab
@pytest.mark.parametrize("packets", [8, 32])
def test_a_train_takes_its_packet_times_less_one(packets: int) -> None:
    """A real link takes n packet times; a token bucket lets the first packet go at once, so n - 1. The
    bucket's 50 microseconds move that by a few hundredths. A busy machine makes trains late, never early, so
    the least of nine is the link's own."""
    found = inside("trains", packets, 1000, 2e6, 9)["packet_times"]
    assert packets - 1.1 <= min(found) <= packets - 0.5, found


@pytest.mark.lab
def test_packets_are_served_by_bands_at_more_ports_than_one_nftables_chain_holds() -> None:
    """16 x 16 GPUs on one processor: more than 1,000 ports in a namespace. The kernel allows 255 devices a
    chain. The short end of a message is data, which keeps its place; trains are served last."""
    scene = inside("packets_in_bands", 600)
    assert scene["reason"] == ""
    for arrived in scene["arrived"]:
        # the first long packet goes at once, the second may be on its way to the driver
        first = next(place for place, size in enumerate(arrived) if size < 4000)
        assert 1 <= first <= 2 and arrived[first : first + 2] == [90, 80], scene
        assert arrived[first + 2 :] == [4000] * (5 - first) + [100, 3000], scene


@pytest.mark.lab
def test_a_rate_of_many_digits_is_in_force_although_tc_prints_four() -> None:
    assert inside("odd_rates_are_accepted") == [1232, 4938e3, 1234e6]


@pytest.mark.lab
def test_a_rate_that_is_not_the_one_asked_fails_the_run() -> None:
    assert "a is shaped to 5e+06 bit/s instead of 4e+06" in inside("unshaped_is_refused")["error"]


@pytest.mark.lab
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
