"""Smoothing against its closed form, and what counts as evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railweave.framework.errors import HealthError
from railweave.framework.health.smoothing import PATIENCE_PACKETS, LinkTracker, observe
from railweave.framework.hookspecs.estimators import MOST_PACKETS
from railweave.framework.model import Fabric, Measurement, PathBatch, PathCounts

Make = Callable[..., Measurement]


def test_it_starts_without_evidence(fabric: Fabric) -> None:
    links = LinkTracker.start(fabric).links
    assert not links.queue_bytes.any() and not links.loss.any() and links.up.all()
    assert np.isnan(links.service_bps).all() and np.isnan(links.probe_s).all()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=12))
def test_queue_follows_with_its_time_constant(fabric: Fabric, measured: Make, steps: list[float]) -> None:
    """A constant queue of 1000 bytes, however it is sampled: 1000 (1 - exp(-t / 0.3))."""
    tracker = LinkTracker.start(fabric)
    for dt in steps:
        tracker = observe(tracker, measured(dt_s=dt, queue_bytes={5: 1000.0}), 0.3)
    assert tracker.links.queue_bytes[5] == pytest.approx(1000 * (1 - np.exp(-sum(steps) / 0.3)))
    assert tracker.links.queue_bytes[4] == 0


def test_no_smoothing_takes_the_last_value(fabric: Fabric, measured: Make) -> None:
    tracker = observe(LinkTracker.start(fabric), measured(queue_bytes={5: 1000.0}), 0.0)
    assert observe(tracker, measured(queue_bytes={5: 700.0}), 0.0).links.queue_bytes[5] == 700


def test_a_queue_says_nothing_of_a_link_before_its_rate_can_be_known(fabric: Fabric, measured: Make) -> None:
    """24 full packets at line rate; 0.05 s each here."""
    tracker = LinkTracker.start(fabric, fabric.capacity_bps[5] * 0.05 / 8)
    patience_s = PATIENCE_PACKETS * 0.05
    # when the first queue seen began is not known, however long nobody looked
    tracker = observe(tracker, measured(dt_s=2 * patience_s, queue_bytes={5: 1000.0}), 0.0)
    for _ in range(11):
        tracker = observe(tracker, measured(dt_s=patience_s / 12, queue_bytes={5: 1000.0}), 0.0)
        assert tracker.links.queue_bytes[5] == 0
    for _ in range(2):
        tracker = observe(tracker, measured(dt_s=patience_s / 12, queue_bytes={5: 1000.0}), 0.0)
    assert tracker.links.queue_bytes[5] == 1000
    emptied = observe(tracker, measured(), 0.0)
    assert observe(emptied, measured(queue_bytes={5: 1000.0}), 0.0).links.queue_bytes[5] == 0
    rated = observe(emptied, measured(queue_bytes={5: 1000.0}, service_bps={5: 1e6}), 0.0)
    assert rated.links.queue_bytes[5] == 1000


def test_loss_is_the_share_of_packets_lost(fabric: Fabric, measured: Make) -> None:
    tracker = LinkTracker.start(fabric)
    for _ in range(5):
        tracker = observe(tracker, measured(sent_packets={7: 100.0, 8: 10.0}, lost={7: 25.0}))
    assert tracker.links.loss[7] == pytest.approx(0.25)
    assert tracker.links.loss[8] == 0


def test_what_finds_the_queue_full_is_load_and_no_loss(fabric: Fabric, measured: Make) -> None:
    """As under TCP, whose senders go on until a queue is full; they do not end a loss either."""
    tracker = observe(
        LinkTracker.start(fabric),
        measured(sent_packets={7: 80.0, 8: 100.0}, drops={7: 20.0, 8: 100.0}, lost={8: 20.0}),
    )
    assert tracker.links.loss[[7, 8]].tolist() == [0.0, 0.2]
    assert observe(tracker, measured(drops={8: 100.0})).links.loss[8] == 0.2


def test_loss_of_few_packets_weighs_little(fabric: Fabric, measured: Make) -> None:
    tracker = observe(LinkTracker.start(fabric), measured(sent_packets={7: 1000.0}))
    tracker = observe(tracker, measured(lost={7: 1.0}))
    assert tracker.links.loss[7] < 0.002


@pytest.mark.parametrize("share", [0.01, 0.03, 0.2])
def test_loss_is_visible_after_512_packets_or_8_losses(fabric: Fabric, measured: Make, share: float) -> None:
    """In samples of 10 packets; over 40 seeds. A count that stops at the 8th loss gives 8/7 of the share."""
    stated = []
    for seed in range(40):
        rng, tracker, packets = np.random.default_rng(seed), LinkTracker.start(fabric), 0
        while tracker.links.loss[7] == 0 and packets < 1100:
            lost = float(rng.binomial(10, share))
            tracker = observe(tracker, measured(sent_packets={7: 10.0}, lost={7: lost}))
            packets += 10
        assert packets <= 520 * (2 if share == 0.01 else 1)  # 0.5 % of blocks at 1 % have no loss
        stated.append(tracker.links.loss[7])
    assert np.mean(stated) == pytest.approx(share, rel=0.25)


def test_an_idle_link_keeps_the_loss_it_showed_until_packets_contradict_it(
    fabric: Fabric, measured: Make
) -> None:
    """0.75^10 = 0.06 may be chance; after it 25 of 110 are lost, and 0.77^40 = 0.00003 may not."""
    tracker = observe(LinkTracker.start(fabric), measured(sent_packets={7: 100.0}, lost={7: 25.0}))
    for _ in range(40):
        tracker = observe(tracker, measured(dt_s=60.0))
    assert tracker.links.loss[7] == pytest.approx(0.25)
    tracker = observe(tracker, measured(sent_packets={7: 10.0}))
    assert tracker.links.loss[7] == pytest.approx(25 / 110)
    tracker = observe(tracker, measured(sent_packets={7: 30.0}))
    assert tracker.links.loss[7] == 0


@pytest.mark.parametrize("before", [(0, 0), (12, 4), (400, 0), (500, 6)])
def test_a_run_of_lost_packets_alone_is_total_loss(
    fabric: Fabric, measured: Make, before: tuple[int, int]
) -> None:
    """Retries of a silent path, a packet every 0.3 s: as many as are improbable at the loss of the packets
    before, of which 100 without loss are assumed. P(run) = ((lost + 1) / (packets + 100)) ^ n < 1e-4. One
    arrival ends it, and says no more; 60 end the run at 0.8^60 = 1e-6, and leave what the
    packets before it lost."""
    packets, lost = before
    tracker = observe(LinkTracker.start(fabric), measured(sent_packets={7: packets}, lost={7: lost}))
    needed = int(np.ceil(np.log(1e-4) / np.log((lost + 1) / (packets + 100)) + 1e-9))
    for tries in range(1, needed + 1):
        assert tracker.links.loss[7] < 1
        tracker = observe(tracker, measured(dt_s=0.3, sent_packets={7: 1.0}, lost={7: 1.0}))
        assert (tracker.links.loss[7] == 1) == (tries == needed)
    assert needed <= 4
    tracker = observe(tracker, measured(sent_packets={7: 1.0}, lost={7: 1.0}))
    assert tracker.links.loss[7] == 1
    tracker = observe(tracker, measured(sent_packets={7: 1.0}))
    assert 0 < tracker.links.loss[7] < 1
    assert observe(tracker, measured(sent_packets={7: 60.0})).links.loss[7] < 0.02


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_a_loss_that_begins_is_not_taken_for_total(fabric: Fabric, measured: Make, share: float) -> None:
    """Three packets in each of 400 samples of 25 ms, on 100 links: at half the packets a run of 14 lost ones
    is improbable."""
    rng, tracker = np.random.default_rng(2), LinkTracker.start(fabric)
    links, total = range(min(100, fabric.n_links)), 0
    for _ in range(400):
        lost = {link: float(rng.binomial(3, share)) for link in links}
        tracker = observe(tracker, measured(dt_s=0.025, sent_packets=dict.fromkeys(links, 3.0), lost=lost))
        total += int((tracker.links.loss == 1).sum())
    assert total <= 400 * len(links) * 1e-3
    assert np.median(tracker.links.loss[: len(links)]) == pytest.approx(share, rel=0.3)


def test_silence_after_lost_packets_is_no_total_loss(fabric: Fabric, measured: Make) -> None:
    """Nobody sends while senders wait for answers: only what is lost after that says more."""
    tracker = observe(LinkTracker.start(fabric), measured(sent_packets={7: 3.0}, lost={7: 3.0}))
    for _ in range(10):
        tracker = observe(tracker, measured(dt_s=0.1))
        assert tracker.links.loss[7] < 1
    tracker = observe(tracker, measured(sent_packets={7: 1.0}, lost={7: 1.0}))
    assert tracker.links.loss[7] == 1


def test_14_packets_in_a_row_are_total_loss_at_once(fabric: Fabric, measured: Make) -> None:
    """0.5^14 < 1e-4: within the tenth of a second in which a window of packets is sent."""
    tracker = observe(LinkTracker.start(fabric), measured(sent_packets={7: 90.0}))
    for packets, total in ((5, False), (5, False), (3, False), (1, True)):
        changed = measured(dt_s=0.025, sent_packets={7: float(packets)}, lost={7: float(packets)})
        tracker = observe(tracker, changed)
        assert (tracker.links.loss[7] == 1) == total


def test_counts_of_a_model_are_rounded(fabric: Fabric, measured: Make) -> None:
    """Three of three packets are lost, whichever way the sums of their parts were rounded."""
    tracker = observe(LinkTracker.start(fabric), measured(sent_packets={7: 90.0}))
    for rounded in (1 + 1e-10, 1 - 1e-10, 1 + 1e-10):
        tracker = observe(tracker, measured(dt_s=0.3, sent_packets={7: rounded}, lost={7: 1.0}))
    assert tracker.links.loss[7] == 1


def test_the_packets_that_were_looked_for_count_not_those_sent_since(fabric: Fabric, measured: Make) -> None:
    """A silent link: arrivals were counted a moment after the 30 packets of this interval, of 50, and 20 of
    these are among the packets of the next."""
    tracker = LinkTracker.start(fabric)
    for sent, counted in ((30.0, 50.0), (40.0, 20.0), (12.0, 12.0)):
        tracker = observe(tracker, measured(sent_packets={7: sent}, lost={7: counted}, counted={7: counted}))
        assert tracker.links.loss[7] == 1


@pytest.mark.parametrize("share", [0.03, 0.2])
def test_packets_count_once_their_arrivals_are_counted(fabric: Fabric, measured: Make, share: float) -> None:
    """400 packets in each of 50 samples, arrivals counted after every tenth: the loss never ends in between,
    although 4,000 packets without a known loss are far from what chance explains."""
    rng, tracker, lost = np.random.default_rng(1), LinkTracker.start(fabric), 0
    for number in range(1, 51):
        lost += rng.binomial(400, share)
        known = {7: float(lost) if number % 10 == 0 else np.nan}
        tracker = observe(tracker, measured(sent_packets={7: 400.0}, lost=known))
        lost = 0 if number % 10 == 0 else lost
        assert tracker.links.loss[7] == pytest.approx(share if number >= 10 else 0.0, rel=0.2)


def test_the_last_rate_seen_is_kept(fabric: Fabric, measured: Make) -> None:
    tracker = observe(LinkTracker.start(fabric), measured(service_bps={13: 2e5}, probe_s={13: 0.04}))
    tracker = observe(tracker, measured())
    assert tracker.links.service_bps[13] == 2e5
    assert tracker.links.probe_s[13] == 0.04
    assert np.isnan(tracker.links.service_bps[12])
    assert observe(tracker, measured(service_bps={13: 1e6})).links.service_bps[13] == 1e6


def test_carrier_is_taken_as_it_is(fabric: Fabric, measured: Make) -> None:
    tracker = observe(LinkTracker.start(fabric), measured(up={3: False}))
    assert np.flatnonzero(~tracker.links.up).tolist() == [3]
    assert observe(tracker, measured()).links.up.all()


def test_it_is_pure(fabric: Fabric, measured: Make) -> None:
    tracker, again = LinkTracker.start(fabric), LinkTracker.start(fabric)
    one = observe(tracker, measured(queue_bytes={1: 50.0}))
    two = observe(again, measured(queue_bytes={1: 50.0}))
    assert np.array_equal(one.links.queue_bytes, two.links.queue_bytes)
    assert not tracker.links.queue_bytes.any()
    with pytest.raises(ValueError, match="read-only"):
        one.links.queue_bytes[0] = 1.0


def test_impossible_measurements_are_refused(fabric: Fabric, measured: Make) -> None:
    tracker = LinkTracker.start(fabric)
    with pytest.raises(HealthError, match=r"covers 0\.0 s: it must be above 0"):
        observe(tracker, measured(dt_s=0.0))
    with pytest.raises(HealthError, match=r"queue_bytes of link 4 is -1\.0"):
        observe(tracker, measured(queue_bytes={4: -1.0}))
    with pytest.raises(HealthError, match="drops of link 4 is nan"):
        observe(tracker, measured(drops={4: np.nan}))
    with pytest.raises(HealthError, match=r"service_bps of link 4 is -5\.0"):
        observe(tracker, measured(service_bps={4: -5.0}))
    short = np.zeros(3)
    with pytest.raises(HealthError, match="sent_bytes of 3 links, not 24"):
        observe(tracker, Measurement(0.1, 0.1, *[short] * 8, short > 0))


@pytest.mark.parametrize("part", [0.2, 0.8, 0.88])
def test_once_a_link_is_slow_the_others_of_its_switch_are_unknown_until_they_are_measured(
    fabric: Fabric, measured: Make, part: float
) -> None:
    """A rail's first link shows a part of its rate; the others say nothing until they are measured again;
    all is forgotten once it has recovered. A half that is taken for healthy hides 0.1 of the mean at 0.8, and
    steps of publishing would add to it."""
    mine, *others = fabric.element_links(fabric.node_ids["r1"]).tolist()
    rate = float(fabric.capacity_bps[mine])
    healthy = {link: rate for link in (mine, *others)}
    tracker = observe(LinkTracker.start(fabric), measured(t_s=1.0, service_bps=healthy))
    assert not tracker.links.unknown.any()
    tracker = observe(tracker, measured(t_s=2.0, service_bps={mine: part * rate}))
    assert np.flatnonzero(tracker.links.unknown).tolist() == sorted(others)
    tracker = observe(tracker, measured(t_s=3.0, service_bps={others[0]: rate}))
    assert np.flatnonzero(tracker.links.unknown).tolist() == sorted(others[1:])
    assert tracker.measured_s[[mine, *others]].tolist() == [2.0, 3.0, *[1.0] * (len(others) - 1)]
    assert not observe(tracker, measured(t_s=4.0, service_bps={mine: rate})).links.unknown.any()


def test_what_began_before_a_link_of_the_switch_was_slow_is_outdated_where_nothing_waits(
    fabric: Fabric, measured: Make
) -> None:
    element = fabric.link_element[5]
    mine, other = np.flatnonzero(fabric.link_element == element)[:2]
    line = fabric.capacity_bps[5]
    both = {mine: 0.2 * line, other: line}
    tracker = observe(LinkTracker.start(fabric), measured(t_s=1.0, service_bps=both, since_s={other: 0.9}))
    assert tracker.links.outdated[other] and not tracker.links.outdated[mine]
    assert not tracker.links.unknown[other]  # it counts meanwhile: most links are as they were
    full = {other: line}
    queue = {other: 1000.0}
    waits = observe(tracker, measured(t_s=2.0, service_bps=full, since_s={other: 0.95}, queue_bytes=queue))
    assert not waits.links.outdated[other]  # what waits will say it
    empty = observe(waits, measured(t_s=3.0))
    assert empty.links.outdated[other]
    known = observe(empty, measured(t_s=4.0, service_bps=full, since_s={other: 1.1}))
    assert not known.links.outdated[other]


def by_path(paths: list[list[list[int]]], known: list[float], lost: list[float]) -> PathCounts:
    """Pairs 0 -> 1, 0 -> 2 with these paths."""
    batch = PathBatch.evenly(np.zeros(len(paths)), np.arange(1, len(paths) + 1), paths)
    return PathCounts(batch, np.array([known, lost, np.zeros(len(known))]))


def test_counts_by_path_add_up_while_a_pair_keeps_its_paths(fabric: Fabric, measured: Make) -> None:
    """The second pair takes other paths: it begins anew, wherever its paths stand in the table."""
    two = by_path([[[0], [2]], [[4]]], [10, 20, 30], [1, 2, 3])
    moved = by_path([[[0], [2]], [[6], [8]]], [1, 1, 5, 6], [0, 1, 0, 0])
    tracker = LinkTracker.start(fabric)
    assert not len(tracker.links.paths.paths.src)
    for paths in (two, None, two):
        tracker = observe(tracker, replace(measured(), paths=paths))
    assert tracker.links.paths.packets.tolist() == [[20, 40, 60], [2, 4, 6], [0, 0, 0]]
    tracker = observe(tracker, replace(measured(), paths=moved))
    assert tracker.links.paths.packets[:2].tolist() == [[21, 41, 5, 6], [2, 5, 0, 0]]
    others = by_path([[[0]]], [7], [0])
    assert observe(tracker, replace(measured(), paths=others)).links.paths == others


def test_old_packets_of_a_path_count_less_and_late_ones_are_not_lost(fabric: Fabric, measured: Make) -> None:
    tracker = LinkTracker.start(fabric)
    for _ in range(40):
        tracker = observe(tracker, replace(measured(), paths=by_path([[[0]]], [1000], [10])))
        known, lost, _ = tracker.links.paths.packets[:, 0]
        assert known <= 2 * MOST_PACKETS and lost == pytest.approx(known / 100)
    late = by_path([[[0]]], [0], [-2 * lost])
    assert observe(tracker, replace(measured(), paths=late)).links.paths.packets[1, 0] == 0
