"""The meter against a simulated token-bucket link whose every departure is known."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.lab.measuring.queue_counters import QueueCounters
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


def sampled(
    times: np.ndarray, sent: np.ndarray, waiting: np.ndarray, packet: float = PACKET
) -> QueueCounters:
    """Samples (m, 1) of one link: packets sent so far and packets that wait."""
    columns = (times, sent * packet, sent, np.zeros(len(times)), waiting * packet, waiting)
    return QueueCounters(*(np.asarray(column, float)[:, None] for column in columns))


def fed(samples: QueueCounters, line_bps: float = LINE_BPS, at_once: int = 5) -> Iterator[ServiceMeter]:
    """The meter that gets so many samples at once, after each time."""
    meter = ServiceMeter(np.array([line_bps]), PACKET, QueueCounters(*(column[0] for column in samples)))
    for i in range(1, len(samples.t_s), at_once):
        meter.add(QueueCounters(*(column[i : i + at_once] for column in samples)))
        yield meter


def metered(
    arrived: np.ndarray,
    rate_bps: float | np.ndarray,
    every_s: float,
    phase_s: float,
    *,
    packet: float = PACKET,
    jitter: float = 0.0,
    line_bps: float = LINE_BPS,
) -> Iterator[ServiceMeter]:
    """The meter after every sample of a link to which packets come at these times; samples come up to
    `jitter` of an interval late."""
    left = departures(arrived, rate_bps, packet)
    times = np.arange(phase_s, left[-1] + 3 * every_s, every_s)
    times += np.random.default_rng(int(phase_s * 1e9)).uniform(0, jitter * every_s, len(times))
    came, gone = np.searchsorted(arrived, times, "right"), np.searchsorted(left, times, "right")
    yield from fed(sampled(times, gone, came - gone, packet), line_bps)


def bursts(packets: int, share: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """So many bursts, each served before the next."""
    gap_s = 2 * packets * PACKET_S / share
    return np.repeat(np.arange(count) * gap_s + rng.uniform(0, gap_s / 10, count), packets)


@settings(max_examples=15)
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


@settings(max_examples=15)
@given(st.integers(2, 12), st.sampled_from([(0.2, 0.5), (0.5, 0.75)]), st.integers(0, 2**32))
def test_a_link_that_becomes_slow_is_known_soon(packets: int, case: tuple[float, float], seed: int) -> None:
    """After the fault, once 24 packets have waited: 0.2 of its rate is called below 0.5, 0.5 below 0.75."""
    (share, below), rng = case, np.random.default_rng(seed)
    arrived = bursts(packets, share, 24 // (packets - 1) + 2, rng)
    (*_, meter) = metered(arrived, share * LINE_BPS, 0.004, rng.uniform(0, 0.004))
    assert meter.rate_bps[0] / LINE_BPS < below


@settings(max_examples=15)
@given(
    st.sampled_from(["sent", "waiting"]),
    st.integers(1, 8),
    st.sampled_from([0.2, 0.5]),
    st.integers(0, 2**32),
)
def test_bytes_that_are_counted_before_their_packet_blind_no_meter(
    counter: str, ahead: int, share: float, seed: int
) -> None:
    """The kernel counts bytes, then packets; a sample may fall between the two. Of 40 packets at the full
    rate some samples do; then the link is slow, which 24 packets show as they do without such samples."""
    rng = np.random.default_rng(seed)
    fast, slow = bursts(4, 1.0, 10, rng), bursts(4, share, 8, rng)
    arrived = np.concatenate((fast, fast[-1] + 1.0 + slow))
    left = departures(arrived, np.where(arrived <= fast[-1], 1.0, share) * LINE_BPS)
    times = np.arange(rng.uniform(0, 0.004), left[-1] + 0.01, 0.004)
    came, gone = np.searchsorted(arrived, times, "right"), np.searchsorted(left, times, "right")
    samples = sampled(times, gone, came - gone)
    torn = rng.choice(np.flatnonzero(times < fast[-1]), ahead, replace=False)
    (samples.sent_bytes if counter == "sent" else samples.queue_bytes)[torn] += PACKET
    (*_, meter) = fed(samples)
    assert meter.rate_bps[0] / LINE_BPS < {0.2: 0.5, 0.5: 0.75}[share]


@settings(max_examples=15)
@given(st.integers(2, 40), st.integers(2, 4), st.sampled_from([0.2, 0.6, 1.0]), st.integers(0, 2**32))
def test_a_rate_of_before_says_how_far_back_it_goes(
    before: int, packets: int, share: float, seed: int
) -> None:
    """Bursts at the full rate, then others at a share of it, then a train of twelve. No statement of the full
    rate claims to rest on what came after the change; where there was none, the train alone says it anew."""
    rng = np.random.default_rng(seed)
    fast, slow = bursts(packets, 1.0, before, rng), bursts(packets, share, 2, rng)
    changed_s = fast[-1] + 1.0
    train_s = changed_s + slow[-1] + 1.0
    arrived = np.concatenate((fast, changed_s + slow, np.full(12, train_s)))
    rates = np.where(arrived < changed_s, 1.0, share) * LINE_BPS
    for meter in metered(arrived, rates, 0.004, rng.uniform(0, 0.004)):
        full = share < 1 and meter.rate_bps[0] >= 0.9 * LINE_BPS
        since_s = meter.rates.since_s[0]
        assert since_s <= meter.rates.stated_s[0] and not (full and since_s > changed_s)
    assert share < 1 or since_s > train_s - 0.1


@pytest.mark.parametrize("share, most", [(0.2, 0.25), (0.5, 0.7)])
def test_where_packets_take_seconds_one_gap_says_the_rate(share: float, most: float) -> None:
    """256 GPUs at 1 MiB: a packet takes 0.76 s, at a fifth of the rate 3.8 s. A rail has 16 links, and 24
    packets are 1.5 of each; bounded to a packet, a rate of 0.2 would be 0.4 then."""
    line_bps = PACKET * 8 / 0.76
    arrived = np.full(2, 0.1)
    (*_, meter) = metered(arrived, share * line_bps, 0.025, 0.011, line_bps=line_bps)
    assert share - 0.01 <= meter.rate_bps[0] / line_bps <= most


@settings(max_examples=15)
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
    for seed in range(2):
        rng = np.random.default_rng(seed)
        arrived = np.repeat(np.arange(count) * gap_s + rng.uniform(0, gap_s / 10, count), packets)
        phase_s = rng.uniform(0, every_s)
        for meter in metered(arrived, LINE_BPS, every_s, phase_s, packet=packet, jitter=0.5):
            assert not meter.rate_bps[0] < 0.9 * LINE_BPS


@settings(max_examples=15)
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


STOLEN_S = 0.16


def stolen_from(share: float, stolen: bool) -> list[float]:
    """What is said of a link that always has work: its packets take 2 ms at full rate, and every second its
    processor is gone for 160 ms, which `stolen` tells in ticks of 10 ms when it is back; samples go on."""
    rate_bps = PACKET * 8 / 0.002
    left = np.arange(1, int(6 / 0.002 * share)) * 0.002 / share
    gone = np.arange(0.5, 6.0)
    back = gone + STOLEN_S
    left += STOLEN_S * np.searchsorted(gone - STOLEN_S * np.arange(len(gone)), left)
    times = np.arange(0.0, 5.9, 0.01)
    sent = np.searchsorted(left, times, "right")
    samples = sampled(times, sent, np.full(len(times), 50.0))
    meter = ServiceMeter(np.array([rate_bps]), PACKET, QueueCounters(*(column[0] for column in samples)))
    said = []
    for i in range(1, len(times), 2):
        after, until_s = times[i - 1], times[i : i + 2][-1]
        lost_s = STOLEN_S * np.count_nonzero((after < back) & (back <= until_s))
        meter.add(QueueCounters(*(column[i : i + 2] for column in samples)), lost_s * stolen)
        said.append(meter.rate_bps[0] / rate_bps)
    return said


def test_a_link_is_not_slow_because_a_processor_was_taken_away() -> None:
    assert np.nanmin(stolen_from(1.0, stolen=False)) < 0.9
    assert np.nanmin(stolen_from(1.0, stolen=True)) > 0.9
    assert stolen_from(0.2, stolen=True)[30] == pytest.approx(0.2, abs=0.05)  # before 0.7 s are over


@pytest.mark.parametrize("stall_s", [0.001, 0.004])
@pytest.mark.parametrize("stolen_share", [0.1, 0.2])
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_what_is_stolen_now_and_then_hides_no_slow_link(
    share: float, stolen_share: float, stall_s: float
) -> None:
    """A bucket fills while nobody looks: packets of 10 ms and more are late only if they are due in a stall,
    and their rate is hardly less for it. The link was known as healthy."""
    packet_s, until_s = 0.01, 8.0
    begin = np.random.default_rng(1).uniform(0, until_s, int(until_s * stolen_share / stall_s))
    begin.sort()
    rate = np.where(np.arange(int(until_s / packet_s)) < 1 / packet_s, 1.0, share)
    left, now_s = [], 0.0
    for part in rate:
        now_s += packet_s / part  # from the last departure: nothing is caught up
        at = int(np.searchsorted(begin, now_s)) - 1
        now_s = max(now_s, begin[at] + stall_s if at >= 0 else 0.0)
        left.append(now_s)
    times = np.arange(0.0, until_s, 0.01)
    samples = sampled(times, np.searchsorted(left, times, "right"), np.full(len(times), 50.0))
    rate_bps = PACKET * 8 / packet_s
    meter = ServiceMeter(np.array([rate_bps]), PACKET, QueueCounters(*(column[0] for column in samples)))
    said, told_s = [], 0.0
    for i in range(1, len(times), 5):
        until = times[i : i + 5][-1]
        in_ticks_s = np.floor(np.count_nonzero(begin < until) * stall_s / 0.01) * 0.01
        meter.add(QueueCounters(*(column[i : i + 5] for column in samples)), in_ticks_s - told_s)
        told_s = in_ticks_s
        said.append(meter.rate_bps[0] / rate_bps)
    assert said[15] > 0.9
    assert said[-40:] == pytest.approx([share] * 40, rel=0.15)


def test_a_rate_is_known_once_two_packets_do_not_contradict_it() -> None:
    for packets, known in ((2, False), (4, True)):
        (*_, meter) = metered(np.zeros(packets), LINE_BPS, 0.004, 0.001)
        assert (meter.rate_bps[0] == LINE_BPS) == known


def test_packets_that_cannot_contradict_a_rate_do_not_confirm_it() -> None:
    """Packets of a link of 36 Mb/s that serves half, for hardly longer than a machine may stand still, were
    taken for the full rate, so while it was in doubt it got no train."""
    line_bps = 9 * LINE_BPS
    (*_, meter) = metered(np.zeros(12), line_bps / 2, 0.002, 0.001, line_bps=line_bps)
    assert np.isnan(meter.rate_bps[0])
    (*_, meter) = metered(np.zeros(24), line_bps, 0.002, 0.001, line_bps=line_bps)
    assert meter.rate_bps[0] == line_bps


def test_one_packet_at_a_time_is_no_evidence() -> None:
    (*_, meter) = metered(np.arange(50) * 0.1, LINE_BPS / 5, 0.004, 0.001)
    assert np.isnan(meter.rate_bps[0]) and meter.rates.stated_s[0] == -np.inf


def test_a_link_that_serves_nothing_says_nothing_until_it_serves() -> None:
    times = np.arange(0, 1, 0.01)
    (*_, meter) = fed(sampled(times, times > 0.95, 1 + (times < 0.955)))
    assert np.isnan(meter.rate_bps[0])


def test_a_late_moment_does_not_make_a_fast_link_slow() -> None:
    """A link that stands still for 10 ms in a second of full service keeps more than 0.8 of its rate."""
    arrived = np.arange(0, 1, PACKET_S / 2)[:100]
    times = np.arange(0, 1, 0.004)
    left = departures(arrived, LINE_BPS)
    left = np.where(left > 0.5, left + 0.01, left)
    came, gone = np.searchsorted(arrived, times, "right"), np.searchsorted(left, times, "right")
    for meter in fed(sampled(times, gone, came - gone)):
        assert not meter.rate_bps[0] < 0.8 * LINE_BPS


@pytest.mark.parametrize("late_s, least", [(0.012, 0.93), (0.02, 0.88), (0.025, 0.9)])
def test_a_moment_shorter_than_an_interval_does_not_make_a_fast_link_slow(
    late_s: float, least: float
) -> None:
    """The links of a domain, sampled as on 32 GPUs, stand still; where it is for long enough to be noticed,
    samples are late as well."""
    line_bps, every_s = 8 * LINE_BPS, 0.0137
    left = departures(np.zeros(1500), line_bps)
    left[left > 0.6] += late_s
    for phase_s in np.arange(0, every_s, 0.0017):
        times = np.arange(phase_s, left[-1], every_s)
        if late_s > every_s + 0.01:
            times[times > 0.6] += late_s
        gone = np.searchsorted(left, times, "right")
        for meter in fed(sampled(times, gone, len(left) - gone), line_bps):
            assert not meter.rate_bps[0] < least * line_bps


def at_full_load(times: np.ndarray, left: list[np.ndarray], line_bps: float) -> Iterator[ServiceMeter]:
    """The meter after every sample of links where nine packets always wait; when those of each leave."""
    gone = np.array([np.searchsorted(of_link, times, "right") for of_link in left], float).T
    t, waiting, none = np.broadcast_arrays(times[:, None], np.full_like(gone, 9.0), np.zeros_like(gone))
    samples = QueueCounters(t, gone * PACKET, gone, none, waiting * PACKET, waiting)
    meter = ServiceMeter(np.full(len(left), line_bps), PACKET, QueueCounters(*(c[0] for c in samples)))
    for i in range(1, len(times)):
        meter.add(QueueCounters(*(column[i : i + 1] for column in samples)))
        yield meter


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.6, 0.9])
def test_links_of_one_core_that_stands_still_do_not_become_slow(phase: float) -> None:
    """64 GPUs: 60 domain links at full load, sampled every 24 ms. 11 of them stand still for 27 ms, and the
    sample of then comes 31 ms late; the others went on."""
    line_bps, every_s, still_s, links = 8e6, 0.024, 0.027, 60
    left = np.arange(4000) * PACKET * 8 / line_bps
    times = np.arange(phase * every_s, 2.0, every_s)
    times[(late := np.flatnonzero(times > 1.0)[0]) :] += 0.031
    stood = left + (left > times[late - 1] + 0.002) * still_s
    for meter in at_full_load(times, [stood] * 11 + [left] * (links - 11), line_bps):
        assert not (meter.rate_bps < 0.9 * line_bps).any()


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_late_samples_do_not_hide_links_that_are_slow(share: float) -> None:
    """16 of 128 links become slow, and every third sample is late; they are known in 0.5 s."""
    line_bps, every_s, links, slow_s = 8e6, 0.024, 128, 1.0
    times = np.cumsum(np.where(np.arange(80) % 3 == 0, 2, 1) * every_s)
    full = np.arange(4000) * PACKET * 8 / line_bps
    slow = np.where(full > slow_s, slow_s + (full - slow_s) / share, full)
    times = times[times < slow_s + 0.5]
    (*_, meter) = at_full_load(times, [slow] * 16 + [full] * (links - 16), line_bps)
    assert (meter.rate_bps[:16] < (share + 0.25) * line_bps).all()
    assert (meter.rate_bps[16:] > 0.9 * line_bps).all()


def test_a_packet_that_waits_for_a_short_one_says_nothing_of_its_link() -> None:
    """At line rate a packet takes 0.24 s; each one waits 30 ms, for an acknowledgement before it, which pays
    for what a long one before it took."""
    waiting = np.array([0, *[1, 1, 0, *[0] * 40] * 30])
    sent = np.cumsum(np.diff(waiting, prepend=0) < 0)
    (*_, meter) = fed(sampled(np.arange(len(waiting)) * 0.015, sent, waiting), 136e3)
    assert np.isnan(meter.rate_bps[0])


@settings(max_examples=4)
@given(st.integers(2, 40), st.sampled_from([0.2, 1.0]), st.integers(1, 9), st.integers(0, 2**32))
def test_samples_say_the_same_together_as_one_by_one(
    packets: int, share: float, many: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arrived = bursts(packets, share, 100 // packets + 1, rng)
    left = departures(arrived, share * LINE_BPS)
    times = np.arange(0, left[-1], 0.004)
    came, gone = np.searchsorted(arrived, times, "right"), np.searchsorted(left, times, "right")
    samples = sampled(times, gone, came - gone)
    (*_, alone), (*_, together) = fed(samples, at_once=1), fed(samples, at_once=many)
    assert together.all_waited_bytes == pytest.approx(alone.all_waited_bytes)
    assert together.rate_bps == pytest.approx(alone.rate_bps, rel=0.15, nan_ok=True)


def test_packets_longer_than_expected_are_taken_for_what_they_are() -> None:
    """A TCP connection opens: two short packets and a long one leave between two samples, and more than twice
    as long ones as the meter expects follow at the rate of the link."""
    line_bps, long_bytes, short_bytes, n = 0.68e6, 9014.0, 66.0, 20
    times = np.arange(-0.05, 1.9, 0.018)
    long_gone = np.searchsorted(np.arange(n) * long_bytes * 8 / line_bps, times, "right")
    short_gone = 2 * (long_gone > 0)
    waiting = (n - long_gone) * (long_gone > 0)
    columns = (
        times, long_gone * long_bytes + short_gone * short_bytes, long_gone + short_gone, 0 * times,
        waiting * long_bytes, waiting,
    )  # fmt: skip
    samples = QueueCounters(*(np.asarray(column, float)[:, None] for column in columns))
    said = [meter.rate_bps[0] for meter in fed(samples, line_bps, at_once=2)]
    assert np.nanmin(said) / line_bps == pytest.approx(1.0, abs=0.03)


@settings(max_examples=15)
@given(st.floats(0, 1), st.integers(0, 2**32))
def test_pieces_of_a_train_between_packets_do_not_confirm_a_rate(phase: float, seed: int) -> None:
    """64 GPUs, 4 MiB: 40 packets back to back at line rate, then one every 0.28 to 0.31 s, which each takes
    at a fifth of it, and pieces of a train whenever none waits. Samples are 24 ms apart. The time of a piece,
    34 ms, is too short to tell one rate from the other."""
    line_bps, every_s, rng = 0.6e6, 0.024, np.random.default_rng(seed)
    changed_s = 40 * PACKET * 8 / line_bps + 0.5
    data_s = [*np.zeros(40), *changed_s + np.arange(8) * rng.uniform(0.28, 0.31)]
    train_s, now_s = changed_s + rng.uniform(0.03, 0.1), 0.0
    rows: list[tuple[float, float, float]] = []
    while data_s:
        now_s = max(now_s, min(train_s, data_s[0]))
        came_s, size = (data_s.pop(0), PACKET) if data_s[0] <= now_s else (train_s, 512.0)
        rows.append((came_s, now_s, size))
        now_s += size * 8 / (line_bps if now_s < changed_s else 0.2 * line_bps)
    arrived, left, sizes = np.array(rows).T
    times = np.arange((phase - 1) * every_s, left[-1] + every_s, every_s)[:, None]
    gone, waits = left <= times, (arrived <= times) & (left > times)
    columns = (times[:, 0], gone @ sizes, gone.sum(axis=1), 0 * times[:, 0], waits @ sizes, waits.sum(axis=1))
    samples = QueueCounters(*(np.asarray(column, float)[:, None] for column in columns))
    for t_s, meter in zip(samples.t_s[1:, 0], fed(samples, line_bps, at_once=1), strict=True):
        if meter.rates.stated_s[0] == t_s > changed_s:
            assert meter.rate_bps[0] < 0.8 * line_bps


@pytest.mark.parametrize("every_s", [0.004, 0.0125, 0.02])
@pytest.mark.parametrize("share", [0.1, 0.2])
def test_a_slow_link_shows_in_bursts_too_short_for_its_line_rate(share: float, every_s: float) -> None:
    """Bursts of 8 packets, 33 ms at line rate, on a machine that samples as seldom as every 20 ms: each lasts
    far longer than that, so from where it is behind by three samples on its gaps are those of the link."""
    arrived, line_bps = bursts(8, share, 12, np.random.default_rng(3)), 2 * LINE_BPS
    (*_, meter) = metered(arrived, share * line_bps, every_s, 0.0031, line_bps=line_bps)
    assert meter.rate_bps[0] / line_bps == pytest.approx(share, abs=0.05)
