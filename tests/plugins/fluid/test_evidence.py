"""What the model's packets would show, against the code of the lab and a recording of one."""

from __future__ import annotations

import json

import numpy as np
import pytest

import railweave as rw
from railweave.bench.engine_cases import JOBS, Case, keys_of
from railweave.framework.experiment.plan import load_plan
from railweave.framework.health.rate_evidence import RateEvidence
from railweave.framework.health.timed_trains import Trains
from railweave.framework.hookspecs import LinkState
from railweave.framework.lab.measuring.prober import Prober
from railweave.framework.lab.measuring.queue_counters import QueueCounters
from railweave.framework.lab.measuring.service_meter import ServiceMeter
from railweave.framework.model import HealthSnapshot, Measurement, PathBatch
from railweave.framework.registry import load_plugins
from railweave.plugins.fluid.counters import Counters
from railweave.plugins.fluid.queues import WaitingPlaces
from tests.recordings.replay import HERE

PACKET = 4154


def paths_of(*hops: list[int]) -> PathBatch:
    """One path for each pair."""
    n = len(hops)
    return PathBatch(
        np.arange(n), np.arange(n) + n, np.arange(n + 1), np.ones(n),
        np.cumsum([0, *map(len, hops)]), np.concatenate(hops).astype(np.int32),
    )  # fmt: skip


def test_packets_wait_where_their_path_is_full_first() -> None:
    """Pairs 0 and 1 over links 0 and 2, and 1 and 2; of them 1 and 2 are full."""
    places = WaitingPlaces.of(paths_of([0, 2], [1, 2]), np.array([10.0, 10.0]))
    left = np.array([100.0, 4.0])
    waiting = places.behind(np.array([False, True, True])).waiting_bits(left)
    assert waiting.tolist() == [0, 4, 10]  # of pair 0 a window, of pair 1 what is left
    assert places.behind(np.zeros(3, bool)).waiting_bits(left).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("fabric", "rate_scale", "percent"), [("rail-only", 1e-5, 0.453), ("ring", 8e-4, 0.199)]
)
def test_acknowledgements_are_those_that_labs_sent(fabric: str, rate_scale: float, percent: float) -> None:
    """What the counters of all links of labs with two jobs showed beyond the bytes of the data."""
    registers = load_plugins()
    plan = load_plan(None, keys_of(Case(fabric, "ecmp", JOBS), registers), registers)
    data, acks = 0.0, 0.0
    for job in plan.jobs:
        src, dst, size = job.on_gpus(job.schedule).pairs()
        paths = plan.router.routes(plan.fabric, HealthSnapshot.healthy(plan.fabric)).paths(src, dst)
        hops = np.bincount(paths.path_pair, paths.weight * np.diff(paths.hop_start))
        senders = plan.transport.senders(plan.fabric.scaled(rate_scale), paths, plan.packet)
        each = plan.packet.acknowledgement_bytes / plan.packet.full_packet_bytes
        data, acks = data + size @ hops, acks + (size * each / senders.ack_every) @ hops
    assert 100 * acks / data == pytest.approx(percent, abs=0.002)


@pytest.mark.parametrize("seed", range(5))
def test_trains_go_when_those_of_the_lab_do(seed: int) -> None:
    """Random states of links, one sample after the other; a train of the lab is over once its queue is."""
    rng = np.random.default_rng(seed)
    plan = rw.load(registers=load_plugins(), domains=2, rails=2)
    fabric = plan.fabric.scaled(1e-5)
    n, zero = fabric.n_links, np.zeros(fabric.n_links)
    lab, trains = Prober(fabric, plan.packet, 5 * 0.05), Trains(fabric, plan.packet, 0.05)
    ports = np.stack((fabric.link_src, fabric.link_port), 1)
    slow, lossy, sent = rng.random(n) < 0.2, rng.random(n) < 0.2, 0
    for step in range(1, 400):
        now = 0.05 * step
        data = rng.random(n) < (0.02 if step % 200 < 150 else 0.5)
        stated = data & (rng.random(n) < 0.1)
        rates = fabric.capacity_bps * np.where(slow, 0.3, 1.0)
        links = LinkState(zero, np.where(lossy, 0.2, 0.0), np.where(slow | (step > 30), rates, np.nan), zero,
                          np.ones(n, bool), slow & (step % 90 > 80), *np.zeros((2, n), bool))  # fmt: skip
        trains.arrived(now, rates, links.loss, Counters(n, plan.packet))
        out = trains._times.out
        data &= ~out
        measurement = Measurement(now, 0.05, PACKET * data, 1.0 * data, zero, zero, 1.0 * out, zero,
                                  np.where(stated, rates, np.nan), zero, links.up)  # fmt: skip
        lab._times.out &= out
        lab.cleaned(measurement)
        trains.seen(now, data, stated & data)
        before = trains._times.sent_s.copy()
        trains.send(now, links, rates)
        went = np.flatnonzero(trains._times.sent_s != before)
        theirs = lab.trains(now, links)
        assert [[train.switch, train.port] for train in theirs] == ports[went].tolist(), step
        for link, train in zip(went, theirs, strict=True):
            assert (train.packets, train.size_bytes) == (trains._packets[link], trains._bytes[link])
        sent += len(went)
    assert sent > 10


@pytest.mark.parametrize(
    ("line_bps", "share"), [(5.2e6, 0.2), (5.2e6, 0.5), (5.2e6, 1.0), (5e5, 0.6), (2e5, 0.6), (2e5, 0.4)]
)
def test_a_rate_shows_when_it_shows_to_the_meter_of_the_lab(line_bps: float, share: float) -> None:
    """A link that serves packets of 4,154 bytes one after the other, sampled every 4 ms there and every 25 ms
    here: of 5.2 Mb/s, as long messages have, and so slow that a packet takes longer than samples. There the
    meter waits for two packets more, as no packet had left before the first."""
    line, rate = np.array([line_bps]), np.array([line_bps * share])
    each_s = 8 * PACKET / rate[0]
    t_s = np.arange(0, 2 if each_s < 0.1 else 4, 0.004)
    left = np.floor(np.maximum(t_s - 0.1, 0) / each_s)
    waiting = np.where(t_s >= 0.1, 10.0, 0.0)
    rows = QueueCounters(*(np.array(values)[:, None] for values in
                           (t_s, left * PACKET, left, 0 * t_s, waiting * PACKET, waiting)))  # fmt: skip
    meter = ServiceMeter(line, PACKET, QueueCounters(*(row[0] for row in rows)))
    ours, lab_says, we_say = RateEvidence(line, PACKET), [], []
    for begin in range(1, len(t_s) - 7, 6):
        meter.add(QueueCounters(*(row[begin : begin + 6] for row in rows)))
        now, since = t_s[begin + 5], t_s[begin - 1]
        bits = rate * max(0.0, min(now - since, now - 0.1))
        ours.add(np.array([now > 0.1]), bits, rate)
        lab_says.append(meter.rate_bps[0] / line[0])
        we_say.append(ours.rate_bps[0] / line[0])
    for level in (0.9 if share < 1 else 1.01, share * 1.3):
        ends = [0.024 * int(np.argmax(np.array(says) < level)) for says in (lab_says, we_say)]
        assert abs(ends[0] - ends[1]) <= max(0.11, 2.5 * each_s), (level, ends)
    assert lab_says[-1] == pytest.approx(share, rel=0.03) and we_say[-1] == pytest.approx(share)


def test_what_waits_is_what_waited_in_the_lab() -> None:
    """Mean queues of the links that had one, in the recorded iterations with rail 1 at 20 %: a window of 10
    packets on rails, of 64 in domains, or what is left of messages of 16 and 64 packets."""
    with np.load(HERE / "rail-20-1M-restored.npz") as file:
        data = dict(file)
    settings = {
        **json.loads(str(data["settings"])),
        "engine": "fluid",
        "rate_scale": float(data["rate_scale"]),
    }
    registers = load_plugins()
    settings.pop("measure", None)
    plan = rw.load(registers=registers, **settings)
    findings = plan.engine.run(plan, registers, lambda event: None)
    recorded = np.cumsum(data["queue_bytes"], axis=0, dtype=float)
    for name in ("g0.0->r0", "g0.1->r1", "g1.2->r2", "g0.0->d0", "r0->g0.0"):
        link = next(i for i in range(plan.fabric.n_links) if plan.fabric.link_name(i) == name)
        lab = recorded[:, list(data["links"]).index(link)]
        ours = findings.samples.queue_bytes[:, link]
        means = [queue[queue > 0].mean() / PACKET if (queue > 0).any() else 0.0 for queue in (lab, ours)]
        assert means[1] == pytest.approx(means[0], rel=0.2, abs=1.0), (name, means)
