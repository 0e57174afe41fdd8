"""Impaired cables against what was asked of them: binomial counts, and packets that are numbered."""

from __future__ import annotations

from math import sqrt

import pytest

from tests.framework.lab.inside import inside

pytestmark = pytest.mark.lab

PACKETS, SIZE, RATE_BPS, BURST = 1000, 500, 4e6, 50
SHARE = 0.1
SPREAD = 5 * sqrt(PACKETS * SHARE * (1 - SHARE))
"""Five standard deviations of a binomial count: one test in two million fails by chance."""


def impaired(kind: str) -> tuple[list[int], int]:
    """The numbers that arrived, and how many packets the shaper counted meanwhile."""
    found = inside("impaired", f'"{kind}"', SHARE, PACKETS, SIZE, RATE_BPS, BURST)
    assert found["healed"] == list(range(BURST)), "restored, everything arrives once and in order"
    arrived, sent = found["arrived"], found["sent_packets"]
    # telemetry reads what went over the cable, copies included; the first packet may precede its socket
    assert found["sent_bytes"] == found["sent_packets"] * SIZE
    assert sent == pytest.approx(len(arrived), abs=2)
    # the shaper serves at its rate whatever the order: a token bucket gives each burst one packet for free
    least = (len(arrived) - PACKETS / BURST) * 8 * SIZE / RATE_BPS
    assert found["seconds"] >= 0.98 * least
    return arrived, sent


def test_doubled_packets_are_as_many_as_asked_and_no_packet_comes_three_times() -> None:
    arrived, _ = impaired("duplicate")
    assert sorted(set(arrived)) == list(range(PACKETS))
    assert max(arrived.count(number) for number in set(arrived)) == 2
    assert abs(len(arrived) - PACKETS - PACKETS * SHARE) < SPREAD


def test_overtaking_packets_come_early_and_the_others_stay_in_order() -> None:
    """A packet that overtakes goes ahead of all that wait, so in a burst the overtakers come first, in their
    order."""
    arrived, _ = impaired("reorder")
    assert sorted(arrived) == list(range(PACKETS))
    early = 0
    for first in range(0, PACKETS, BURST):
        burst = arrived[first : first + BURST]
        assert sorted(burst) == list(range(first, first + BURST))
        falls = [i for i in range(1, BURST) if burst[i] < burst[i - 1]]
        early += sum(number > min(burst[i:]) for i, number in enumerate(burst))
        assert len(falls) <= 6  # a few groups of overtakers, while the burst is still being sent
    # the last packets of a burst, and those sent while nothing waited, cannot be told from the others
    assert 0.5 * PACKETS * SHARE < early < PACKETS * SHARE + SPREAD


def test_loss_behind_a_switch_strikes_packets_and_not_batches() -> None:
    """Bursts of 32 that Open vSwitch sends as one batch: independent loss of 5 % leaves 1 - 0.95^32 = 0.806
    of the bursts incomplete; a kernel's refusal would take whole bursts, 0.05 of them."""
    bursts, burst, share = 50, 32, 0.05
    found = inside("loss_through_a_switch", share, bursts * burst, burst)
    arrived, link, measured = found["arrived"], found["link"], found["measured"]
    lost = bursts * burst - sum(arrived)
    assert abs(lost - bursts * burst * share) < 5 * sqrt(bursts * burst * share * (1 - share))
    broken = 1 - (1 - share) ** burst
    incomplete = sum(count < burst for count in arrived)
    assert abs(incomplete - bursts * broken) < 5 * sqrt(bursts * broken * (1 - broken))
    assert min(arrived) > burst / 2
    # both ends agree on what was lost, to the packet, and no other link is blamed
    assert measured[link] == lost == sum(measured)
    # a switch that was started again loses as before
    sent, lost = found["sent_after_restart"], found["lost_after_restart"]
    assert sent >= bursts * burst
    assert abs(lost - sent * share) < 5 * sqrt(sent * share * (1 - share))
