"""Open vSwitch in the kernel beside Open vSwitch as a process: labs of both, by turns, on one machine."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from railweave.framework.experiment import load
from railweave.framework.lab.datapath import KERNEL, USERSPACE
from railweave.framework.lab.plugin import in_lab
from railweave.framework.lab.throughput import planned
from railweave.framework.registry import Registers


def datapaths(
    registers: Registers, gpus: int, seconds: float, turns: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Medians of `turns` labs of each: seconds to come up, payload bytes per second of all GPUs, each sending to the
    next for about `seconds`, and the lowest score published while a lab is idle for `seconds`.

    MachineError where there is no kernel datapath to compare with.
    """
    found: dict[str, dict[str, list[float]]] = {KERNEL: {}, USERSPACE: {}}
    for turn in range(turns):
        for datapath, figures in found.items():
            for name, value in _one(registers, gpus, seconds, datapath).items():
                figures.setdefault(name, []).append(value)
            now = ", ".join(f"{name} {values[-1]:.4g}" for name, values in figures.items())
            tell(f"{turn + 1}/{turns} {datapath}: {now}")
    middle = {way: {name: median(values) for name, values in rows.items()} for way, rows in found.items()}
    kernel, userspace = middle[KERNEL], middle[USERSPACE]
    return {
        "gpus": gpus,
        "turns": turns,
        **middle,
        "ratio": {name: kernel[name] / userspace[name] for name in ("bring_up_s", "payload_bytes_s")},
    }


def _one(registers: Registers, gpus: int, seconds: float, datapath: str) -> dict[str, float]:
    plan = planned(gpus, 1, registers, datapath)
    busy = in_lab(
        "throughput",
        {"document": plan.document(), "seconds": seconds, "turns": 1, "bare": False, "iperf": False},
        lambda _: None,
    )
    shape = {f"topology.{key}": plan.experiment.topology.options[key] for key in ("domains", "rails")}
    idle_plan = load(None, {**shape, "fault": "none", "engine.datapath": datapath}, registers)
    idle = in_lab("watch", {"document": idle_plan.document(), "seconds": seconds}, lambda _: None)
    return {
        "bring_up_s": busy["bring_up_s"],
        "payload_bytes_s": busy["transport"]["payload_bytes_s"],
        "lowest_element": min(idle["elements"].values()),
        "lowest_link": idle["link_score"],
        "reroutes": float(len(idle["reroutes"])),
    }
