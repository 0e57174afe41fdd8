"""The meter against a simulated token-bucket link whose every departure is known."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.lab.measuring.service_meter import ServiceMeter

LINE_BPS, PACKET = 4e6, 4154.0
PACKET_S = PACKET * 8 / LINE_BPS


def departures(arrived: np.ndarray, rate_bps: float | np.ndarray, packet: float = PACKET) -> np.ndarray:
    """When each packet leaves: at once if the link was idle, else when the bucket has filled again, for each
    at its rate."""
    left, free = np.empty(len(arrived)), -1.0
    for i, (now, bps) in enumerate(np.broadcast(arrived, rate_bps)):
        left[i] = max(now, free)
        free = left[i] + packet * 8 / bps
    return left


def metered(
    arrived: np.ndarray,
    rate_bps: float | np.ndarray,
    every_s: float,
    phase_s: float,
    *,
    packet: float = PACKET,
    jitter: float = 0.0,
) -> Iterator[ServiceMeter]:
    """The meter after every sample of a link to which packets come at these times; samples come up to
    `jitter` of an interval late."""
    left = departures(arrived, rate_bps, packet)
    times = np.arange(phase_s, left[-1] + 3 * every_s, every_s)
    times += np.random.default_rng(int(phase_s * 1e9)).uniform(0, jitter * every_s, len(times))
    came, gone = np.searchsorted(arrived, times, "right"), np.searchsorted(left, times, "right")
    sent, waiting = gone * packet, 1.0 * (came - gone)
    meter = ServiceMeter(np.array([LINE_BPS]), PACKET, times[:1], sent[:1], waiting[:1] * packet)
    for i in range(1, len(times)):
        now = slice(i, i + 1)
        meter.add(times[now], sent[now], waiting[now] * packet, waiting[now])
        yield meter


def bursts(packets: int, share: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """So many bursts, each served before the next."""
    gap_s = 2 * packets * PACKET_S / share
    return np.repeat(np.arange(count) * gap_s + rng.uniform(0, gap_s / 10, count), packets)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 12),
    st.sampled_from([0.1, 0.2, 0.5, 0.8, 1.0]),
    st.sampled_from([0.002, 0.004]),
    st.integers(0, 2**32),
)
def test_short_bursts_add_up_to_the_rate(packets: int, share: float, every_s: float, seed: int) -> None:
    """Bursts of 2 to 12 packets of 8.3 ms, samples every 2 or 4 ms: within 0.1 of the truth, the mean of
    what is said over the second half of 100 packets that waited; 0.15 where packets wait alone."""
    rng = np.random.default_rng(seed)
    arrived = bursts(packets, share, 100 // (packets - 1) + 1, rng)
    said = [m.rate_bps[0] for m in metered(arrived, share * LINE_BPS, every_s, rng.uniform(0, every_s))]
    assert np.mean(said[len(said) // 2 :]) / LINE_BPS == pytest.approx(
        share, abs=0.1 if packets > 2 else 0.15
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.sampled_from([(0.2, 0.5), (0.5, 0.75)]), st.integers(0, 2**32))
def test_a_link_that_becomes_slow_is_known_soon(packets: int, case: tuple[float, float], seed: int) -> None:
    """After the fault, once 24 packets have waited: 0.2 of its rate is called below 0.5, 0.5 below 0.75."""
    (share, below), rng = case, np.random.default_rng(seed)
    arrived = bursts(packets, share, 24 // (packets - 1) + 2, rng)
    (*_, meter) = metered(arrived, share * LINE_BPS, 0.004, rng.uniform(0, 0.004))
    assert meter.rate_bps[0] / LINE_BPS < below


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.sampled_from([0.2, 1.0]), st.integers(0, 2**32))
def test_what_waited_is_all_but_the_packets_that_met_no_queue(packets: int, share: float, seed: int) -> None:
    """Of each burst all packets but the first one wait, a packet time and more; none is counted twice."""
    rng, count = np.random.default_rng(seed), 9
    arrived = bursts(packets, share, count, rng)
    (*_, meter) = metered(arrived, share * LINE_BPS, 0.004, rng.uniform(0, 0.004))
    assert meter.all_waited_bytes[0] / PACKET == pytest.approx(count * packets, abs=count)


@pytest.mark.parametrize("packets", [2, 3, 8, 40])
@pytest.mark.parametrize("every_s", [0.004, 0.017])
@pytest.mark.parametrize("packet", [PACKET, 9014.0, PACKET / 8])
def test_a_healthy_link_is_never_called_slow(packets: int, every_s: float, packet: float) -> None:
    """Whether samples come more often than packets leave or less; with those of TCP, which are longer than
    the transport's; and of a link eight times as fast."""
    gap_s, count = 2 * packets * packet * 8 / LINE_BPS, 600 // packets
    for seed in range(3):
        rng = np.random.default_rng(seed)
        arrived = np.repeat(np.arange(count) * gap_s + rng.uniform(0, gap_s / 10, count), packets)
        phase_s = rng.uniform(0, every_s)
        for meter in metered(arrived, LINE_BPS, every_s, phase_s, packet=packet, jitter=0.5):
            assert not meter.rate_bps[0] < 0.9 * LINE_BPS


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.sampled_from([(0.2, 0.5), (0.5, 0.75)]), st.integers(0, 2**32))
def test_what_was_known_of_a_link_does_not_hide_that_it_is_slow(
    packets: int, case: tuple[float, float], seed: int
) -> None:
    """As above, after up to 60 bursts at full rate."""
    (share, below), rng = case, np.random.default_rng(seed)
    before, slow = rng.integers(1, 60), 24 // (packets - 1) + 2
    healthy = bursts(packets, 1.0, before, rng)
    arrived = np.concatenate((healthy, healthy[-1] + 0.5 + bursts(packets, share, slow, rng)))
    rates = LINE_BPS * np.repeat([1.0, share], (len(healthy), packets * slow))
    (*_, meter) = metered(arrived, rates, 0.004, rng.uniform(0, 0.004))
    assert meter.rate_bps[0] / LINE_BPS < below


def test_a_rate_is_known_once_two_packets_do_not_contradict_it() -> None:
    for packets, known in ((2, False), (4, True)):
        (*_, meter) = metered(np.zeros(packets), LINE_BPS, 0.004, 0.001)
        assert (meter.rate_bps[0] == LINE_BPS) == known


def test_one_packet_at_a_time_is_no_evidence() -> None:
    (*_, meter) = metered(np.arange(50) * 0.1, LINE_BPS / 5, 0.004, 0.001)
    assert np.isnan(meter.rate_bps[0]) and meter.stated_s[0] == -np.inf


def test_a_link_that_serves_nothing_has_almost_no_rate() -> None:
    meter = ServiceMeter(np.array([LINE_BPS]), PACKET, np.zeros(1), np.zeros(1), np.array([PACKET]))
    for now in np.arange(0.01, 1, 0.01):
        meter.add(np.array([now]), np.zeros(1), np.array([PACKET]))
    assert meter.rate_bps[0] <= PACKET * 8 / 0.98


def test_a_late_moment_does_not_make_a_fast_link_slow() -> None:
    """A link that stands still for 10 ms in a second of full service keeps more than 0.8 of its rate."""
    arrived = np.arange(0, 1, PACKET_S / 2)[:100]
    times = np.arange(0, 1, 0.004)
    left = departures(arrived, LINE_BPS)
    left = np.where(left > 0.5, left + 0.01, left)
    came, gone = np.searchsorted(arrived, times, "right"), np.searchsorted(left, times, "right")
    meter = ServiceMeter(
        np.array([LINE_BPS]), PACKET, times[:1], gone[:1] * PACKET, (came - gone)[:1] * PACKET
    )
    for i in range(1, len(times)):
        meter.add(times[i : i + 1], gone[i : i + 1] * PACKET, (came - gone)[i : i + 1] * PACKET)
        assert not meter.rate_bps[0] < 0.8 * LINE_BPS


def test_a_packet_that_waits_for_a_short_one_says_nothing_of_its_link() -> None:
    """At line rate a packet takes 0.24 s; each one waits 30 ms, for an acknowledgement before it."""
    line, now, sent = np.array([136e3]), 0.0, 0.0
    meter = ServiceMeter(line, PACKET, np.zeros(1), np.zeros(1), np.zeros(1))
    for _ in range(30):
        for queue in (PACKET, PACKET, 0.0, *[0.0] * 40):
            now, sent = now + 0.015, sent + (PACKET if queue == 0 and meter._last[2][0] else 0.0)
            meter.add(np.array([now]), np.array([sent]), np.array([queue]))
    assert np.isnan(meter.rate_bps[0])
