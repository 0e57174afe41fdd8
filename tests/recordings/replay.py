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


def replayed(name: str, registers: Registers, stall_s: float = 0.0, every_s: float = 1.0) -> Replay:
    """`stall_s`: the whole machine stands still for so long after every `every_s` of the recording; clocks
    go on, so all that follows is later."""
    with np.load(HERE / f"{name}.npz") as file:
        data: dict[str, Any] = dict(file)
    for times, unit_s in (("first_us", 1e-6), ("measured_s", 1.0), ("faults_s", 1.0)):
        stalls = np.floor_divide(data[times] * unit_s, every_s).clip(0)
        data[times] = data[times] + stalls * stall_s / unit_s
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
    meter = ServiceMeter(scaled.capacity_bps, plan.packet.full_packet_bytes, first)

    def read() -> Samples:
        said = meter.rate_bps, meter.stated_s, meter.since_s, meter.all_waited_bytes.copy()
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
