"""Standing still and being slow, told apart on links whose every departure is known."""

import numpy as np
import pytest

from railweave.framework.lab.measuring.queue_counters import QueueCounters
from railweave.framework.lab.measuring.standstills import OF_TIME, STOPPED_S, Standstills

LINE_BPS, PACKET, END_S, EVENT_S = 8e6, 4154.0, 3.0, 1.0
LINE_PACKET_S = PACKET * 8 / LINE_BPS


def still_s(left: np.ndarray, times: np.ndarray, speed: float = 1.0) -> np.ndarray:
    """Until each sample after the first, of a link at full load, from which packets leave at these times."""
    gone = np.searchsorted(left, times, "right").astype(float)
    ones = np.ones_like(gone)
    columns = (times, gone * PACKET, gone, 0 * ones, 9 * PACKET * ones, 9 * ones)
    samples = QueueCounters(*(column[:, None] for column in columns))
    stills = Standstills(QueueCounters(*(column[0] for column in samples)))
    rate, packet = np.array([LINE_BPS * speed]), np.array([PACKET])
    each = [
        stills.within_s(QueueCounters(*(column[i : i + 5] for column in samples)), rate, packet)
        for i in range(1, len(times), 5)
    ]
    return np.cumsum(np.concatenate(each)[:, 0])


def sampled(seed: int) -> np.ndarray:
    """Samples 3 to 5 ms apart, as on 16 GPUs."""
    return np.cumsum(np.random.default_rng(seed).uniform(0.003, 0.005, int(END_S / 0.0045)))


@pytest.mark.parametrize("speed, stall_s", [(1, 0.012), (4, 0.008), (4, 0.012), (4, 0.018), (0.5, 0.018)])
def test_a_link_that_stops_and_goes_on_stood_still(speed: float, stall_s: float) -> None:
    """For as long as it did, but for the packets at both ends and the half of an interval that may not show
    it; packets take 8.3, 4.2 and 1 ms."""
    packet_s = LINE_PACKET_S / speed
    full = np.arange(int(END_S / packet_s)) * packet_s
    for seed in range(20):
        still = still_s(full + stall_s * (full > EVENT_S), sampled(seed), speed)[-1]
        assert max(stall_s - 2 * packet_s - 0.0025, 1e-3) <= still <= stall_s + packet_s


@pytest.mark.parametrize("speed", [0.5, 1, 4])
@pytest.mark.parametrize("share", [0.6, 0.8, 1.0])
def test_a_link_that_goes_on_did_not_stand_still(speed: float, share: float) -> None:
    """It keeps more than half of its rate: a few milliseconds at the moment of change at most."""
    packet_s = LINE_PACKET_S / speed
    full = np.arange(int(END_S / packet_s)) * packet_s
    left = np.where(full > EVENT_S, EVENT_S + (full - EVENT_S) / share, full)
    for seed in range(20):
        assert still_s(left, sampled(seed), speed)[-1] <= (STOPPED_S if share < 1 else 0.0)


@pytest.mark.parametrize("speed", [0.5, 1, 4])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_a_link_that_becomes_slow_stands_still_only_at_first(speed: float, share: float) -> None:
    """Until what it sends is clearly less than its rate; and never for more of the time than stated."""
    packet_s = LINE_PACKET_S / speed
    full = np.arange(int(END_S / packet_s)) * packet_s
    left = np.where(full > EVENT_S, EVENT_S + (full - EVENT_S) / share, full)
    for seed in range(20):
        times = sampled(seed)
        still = still_s(left, times, speed)
        after = times[1:] > EVENT_S
        assert (still <= STOPPED_S + OF_TIME * (times[1:] - EVENT_S) + 1e-9)[after].all()
        later = times[1:] > EVENT_S + 0.15 + packet_s / share
        assert np.ptp(still[later]) == 0.0
