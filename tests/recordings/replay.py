"""Recordings of labs (NAME.npz, by record.py), replayed through everything between the sampler and the
published scores.

Each holds, of L links (`links`), n samples: `first_us` (n,) on the run's clock, `offset_us` (n, L) after it;
increments of `sent_bytes`, `sent_packets`, `drops` and `queue_bytes` (n, L). And m measurements: when
(`measured_s`), `lost` packets (m, L), -1 where not counted. `settings` of the run, its `rate_scale`, and
`faults_s`, when each fault happened. Links that are not kept are idle.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.experiment.plan import Plan, load_plan
from railweave.framework.health.monitor import HealthMonitor
from railweave.framework.lab.measuring.queue_counters import QueueCounters
from railweave.framework.lab.measuring.queue_telemetry import QueueTelemetry
from railweave.framework.lab.measuring.sampler import Samples
from railweave.framework.lab.measuring.service_meter import ServiceMeter
from railweave.framework.model import HealthSnapshot
from railweave.framework.model.arrays import Float
from railweave.framework.registry import Registers
from railweave.framework.runs.fault_timetable import GroundTruth

HERE = Path(__file__).parent
COUNTERS = ("sent_bytes", "sent_packets", "drops", "queue_bytes")


@dataclass(frozen=True)
class Replay:
    """`t_s` (m,); published scores `link_score` (m, n_links) and `element_score` (m, n_nodes); what waited
    (m, n_links). `truth`: after each fault, at `t_s` of the run."""

    plan: Plan
    t_s: Float
    link_score: Float
    element_score: Float
    waited_bytes: Float
    truth: list[HealthSnapshot]


def replayed(
    name: str, registers: Registers, stall_s: float = 0.0, in_time: bool = False, every_s: float = 1.0
) -> Replay:
    """`stall_s`: the whole machine stands still for so long after every `every_s` of the recording; clocks
    go on, so all that follows is later. With `in_time` it is sampled meanwhile as usual."""
    with np.load(HERE / f"{name}.npz") as file:
        data: dict[str, Any] = dict(file)
    end_s = float(data["first_us"][-1] * 1e-6)
    begin = np.searchsorted(data["first_us"], np.arange(every_s, end_s if stall_s else 0.0, every_s) * 1e6)
    begin_us = data["first_us"][begin]
    for times, unit_s in (("first_us", 1e-6), ("measured_s", 1.0), ("faults_s", 1.0)):
        stalls = np.searchsorted(begin_us, data[times] * unit_s * 1e6)
        data[times] = data[times] + stalls * stall_s / unit_s
    if in_time and stall_s:
        _sample(data, begin, stall_s)
    plan = load_plan(None, json.loads(str(data["settings"])), registers)
    scaled, links = plan.fabric.scaled(float(data["rate_scale"])), data["links"]
    n, n_samples = scaled.n_links, len(data["first_us"])
    raw = np.zeros((6, n_samples, n))
    raw[0] = data["first_us"][:, None] * 1e-6
    raw[0][:, links] += data["offset_us"] * 1e-6
    for i, counter in enumerate(COUNTERS, 1):
        raw[i][:, links] = np.cumsum(data[counter], axis=0, dtype=float)
    raw[5] = np.ceil(raw[4] / plan.packet.full_packet_bytes)  # data is in full packets
    first = QueueCounters(*raw[:, 0])
    meter = ServiceMeter(scaled.capacity_bps, plan.packet.full_packet_bytes, first, scaled.link_element)

    def read() -> Samples:
        rates = meter.rates
        said = meter.rate_bps, rates.stated_s.copy(), rates.since_s.copy(), meter.all_waited_bytes.copy()
        return Samples(*raw[:, at], *said)

    at = 0
    telemetry = QueueTelemetry(SimpleNamespace(read=read), [])  # type: ignore[arg-type]
    monitor = HealthMonitor(scaled, plan.estimator, plan.packet, plan.experiment.health)
    up, seen = np.ones(n, bool), list[tuple[Float, Float, Float]]()
    for t_s, lost in zip(data["measured_s"], data["lost"], strict=True):
        until = int(np.searchsorted(raw[0].max(axis=1), t_s + 1e-5, "right"))
        if until > at + 1:
            meter.add(QueueCounters(*raw[:, at + 1 : until]))
            at = until - 1
        lost_of = np.where(lost[0] < 0, np.nan, np.zeros(n))
        lost_of[links] = np.where(lost < 0, np.nan, lost)
        measurement = replace(telemetry.measure(0.0, up), t_s=float(t_s), lost=lost_of)
        monitor.observe(measurement)
        now = monitor.snapshot
        seen.append((now.link_score, now.element_score, measurement.waited_bytes))
    known, truth = GroundTruth(plan.fabric, plan.experiment.health), list[HealthSnapshot]()
    for fault, t_s in zip(plan.faults, data["faults_s"], strict=True):
        known.inject(fault, float(t_s))
        truth.append(known.snapshot)
    scores = [np.array(values) for values in zip(*seen, strict=True)]
    return Replay(plan, data["measured_s"], *scores, truth)


def _sample(data: dict[str, Any], begin: NDArray[np.int64], stall_s: float) -> None:
    """Put samples, which show that nothing changes, into stalls after those at `begin`."""
    every_us = np.median(np.diff(data["first_us"]))
    more = np.arange(1, round(stall_s * 1e6 / every_us)) * every_us
    after = np.repeat(begin, len(more))
    more_us = data["first_us"][after] + np.tile(more, len(begin))
    data["first_us"] = np.insert(data["first_us"], after + 1, more_us)
    data["offset_us"] = np.insert(data["offset_us"], after + 1, data["offset_us"][after], axis=0)
    for counter in COUNTERS:
        data[counter] = np.insert(data[counter], after + 1, 0, axis=0)
