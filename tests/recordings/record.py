"""Records what the sampler reads of a lab into NAME.npz, by hand: python tests/recordings/record.py NAME...

`REGIMES` says which there are. Nothing else should run on the machine meanwhile. `replay.py` reads the files
and says what is in them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from railweave.framework.experiment.plan import load_plan
from railweave.framework.lab.emulated_run import lab_session
from railweave.framework.lab.measuring.measurements import LabMeasurements
from railweave.framework.lab.measuring.queue_counters import QueueCounters
from railweave.framework.lab.measuring.service_meter import ServiceMeter
from railweave.framework.lab.sandbox import unshare_command
from railweave.framework.model import Measurement
from railweave.framework.processes.namespaces import mount
from railweave.framework.registry import load_plugins

HERE = Path(__file__).parent
RAW = Path("/run/raw")
"""What the sampler's process adds to, in the lab's own file system."""


@dataclass(frozen=True)
class Regime:
    """`settings`: beyond measuring without trains and without feedback. `rails`: whose links are kept, all
    links by default. `busy`: for how much of each second another process needs a core."""

    settings: dict[str, Any]
    rails: tuple[int, ...] | None = None
    busy: float = 0.0


def _slow(size: str, iterations: int, fault: str, *more: str, **settings: Any) -> Regime:
    return Regime({"size": size, "iterations": iterations, "faults": [fault, *more], **settings})


REGIMES = {
    "rail-20-64K": _slow("64K", 6, "at=iter:2 degrade rail:1 to=20%"),
    "rail-20-256K": _slow("256K", 4, "at=iter:1 degrade rail:1 to=20%"),
    "rail-50-256K": _slow("256K", 4, "at=iter:1 degrade rail:1 to=50%"),
    "domain-50-1M": _slow("1M", 5, "at=iter:1 degrade domain:1 to=50%", router="spray", measure="auto"),
    "rail-20-1M-restored": _slow("1M", 5, "at=iter:1 degrade rail:1 to=20%", "at=iter:3 restore rail:1"),
    "loss-3-1M": _slow("1M", 5, "at=iter:1 loss rail:1 rate=3%"),
    "healthy-cpu-bursts": Regime({"size": "256K", "iterations": 8, "faults": []}, busy=0.2),
    "healthy-busy-core": Regime({"size": "1M", "iterations": 1, "faults": []}, busy=0.9),
    "torus-20": _slow(
        "256K", 5, "at=iter:2 degrade link:g0.0->g1.0 to=20%", topology="torus", rate_scale=2e-6,
        **{"topology.shape": "4x4"},
    ),
    "64-gpus-1M": Regime(
        {
            "size": "1M", "iterations": 2, "topology.domains": 8, "topology.rails": 8,
            "faults": ["at=iter:1 degrade rail:1 to=20%"],
        },
        rails=(0, 1),
    ),
    "rail-optimised-35-512K": _slow(
        "512K", 4, "at=iter:1 degrade rail:2 to=35%", topology="rail-optimised",
    ),
    "ring-30": _slow(
        "1M", 4, "at=iter:1 degrade link:g3->g4 to=30%", topology="ring", **{"topology.nodes": 8},
    ),
    "fat-tree-50": _slow("512K", 4, "at=iter:1 degrade link:g0.0.0->e0.0 to=50%", topology="fat-tree"),
    "nic-50-1M": _slow("1M", 4, "at=iter:1 degrade nic:2.1 to=50%", router="spray", measure="auto"),
    "cable-10-2M": _slow("2M", 2, "at=iter:1 degrade link:g1.2->r2 to=10%", measure="auto"),
    "rail-70-2M": _slow("2M", 4, "at=iter:1 degrade rail:3 to=70%"),
    "nic-20-restored": _slow(
        "1M", 6, "at=iter:1 degrade nic:0.3 to=20%", "at=iter:4 restore nic:0.3", measure="auto",
    ),
    "rail-30-busy-core": Regime(
        {"size": "512K", "iterations": 5, "faults": ["at=iter:2 degrade rail:0 to=30%"]}, busy=0.9,
    ),
    "healthy-torus-busy-core": Regime(
        {"size": "1M", "iterations": 3, "faults": [], "topology": "torus", "topology.shape": "4x4"}, busy=0.5,
    ),
    "64-gpus-healthy-cpu-bursts": Regime(
        {"size": "4M", "iterations": 1, "faults": [], "topology.domains": 8, "topology.rails": 8},
        rails=(0, 1), busy=0.3,
    ),
}  # fmt: skip


def recorded(name: str) -> None:
    """Inside the lab's namespaces: run the regime, write its file."""
    regime, known = REGIMES[name], load_plugins()
    settings = {"measure": "queue", "feedback": False, **regime.settings}
    plan = load_plan(None, settings, known)
    metered, measured = ServiceMeter.add, LabMeasurements.measure
    measurements: list[Measurement] = []

    def add(meter: ServiceMeter, samples: QueueCounters, stolen_s: float = 0.0) -> None:
        metered(meter, samples, stolen_s)
        file = os.open(RAW, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, np.array(samples).swapaxes(0, 1).tobytes())
        os.close(file)

    def measure(lab: LabMeasurements) -> Measurement:
        measurements.append(measured(lab))
        return measurements[-1]

    ServiceMeter.add, LabMeasurements.measure = add, measure  # type: ignore[method-assign]
    busy = os.fork() if regime.busy else 0
    if regime.busy and busy == 0:
        while True:
            until = time.monotonic() + regime.busy
            while time.monotonic() < until:
                pass
            time.sleep(1 - regime.busy)
    with lab_session(plan, known, lambda _: None) as session:
        session.iterate()
        found, start_s = session.findings(), session.engine.clock.start_s or 0.0
    seconds = [round(one.result.seconds, 3) for one in found.iterations]
    print(name, found.rate_scale, seconds, [(fault.t_s, fault.text) for fault in found.faults])
    fabric = plan.fabric
    links = np.arange(fabric.n_links)
    if regime.rails is not None:
        rails = fabric.group("rail")
        assert rails is not None
        links = np.flatnonzero(np.isin(fabric.link_element, [rails.first + rail for rail in regime.rails]))
    raw = np.fromfile(RAW).reshape(-1, len(QueueCounters._fields), fabric.n_links)[:, :, links]
    raw = raw[raw[:, 0].min(axis=1) > start_s - 1.0]
    t_us = np.round((raw[:, 0] - start_s) * 1e6).astype(np.int64)
    counters = {
        field: np.diff(raw[:, i], axis=0, prepend=0).astype(np.int32)
        for i, field in enumerate(QueueCounters._fields)
        if i and field != "queue_packets"
    }
    lost = np.array([one.lost[links] for one in measurements])
    np.savez_compressed(
        HERE / f"{name}.npz",
        settings=np.array(json.dumps(settings)), rate_scale=np.array(found.rate_scale), links=links,
        faults_s=np.array([fault.t_s for fault in found.faults]),
        first_us=t_us.min(axis=1), offset_us=(t_us - t_us.min(axis=1)[:, None]).astype(np.int32),
        measured_s=np.array([one.t_s for one in measurements]),
        lost=np.where(np.isnan(lost), -1, lost).astype(np.int16),
        **counters,
    )  # fmt: skip


def main(names: list[str]) -> None:
    for name in names or REGIMES:
        command = [*unshare_command(), sys.executable, "-W", "ignore", __file__, "--inside", name]
        subprocess.run(command, check=True, timeout=300)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        mount("tmpfs", "/run", "tmpfs", data="mode=755")
        recorded(sys.argv[2])
    else:
        main(sys.argv[1:])
