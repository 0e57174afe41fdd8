"""Open vSwitch in the kernel against Open vSwitch as a process: labs of both, in turns, on one machine."""

from collections.abc import Callable
from statistics import median
from typing import Any

from railweave.framework.bench.bring_up import square_rail_only
from railweave.framework.bench.throughput import TASK, planned
from railweave.framework.experiment.plan import load_plan
from railweave.framework.lab.plugin import in_lab
from railweave.framework.lab.switching.datapath import KERNEL, USERSPACE
from railweave.framework.registry import Registers


def datapaths(
    registers: Registers, gpus: int, seconds: float, turns: int, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Medians of `turns` labs of each: seconds to come up; payload bytes per second of all GPUs, each sending
    to the next for about `seconds`; and the lowest score published while a lab is idle for `seconds`.

    Raises MachineError where the kernel datapath cannot be used.
    """
    values_of: dict[str, dict[str, list[float]]] = {KERNEL: {}, USERSPACE: {}}
    for turn in range(turns):
        for datapath, figures in values_of.items():
            progress(f"{turn + 1}/{turns} {datapath}: a lab with traffic, then an idle one")
            for name, value in _one(registers, gpus, seconds, datapath).items():
                figures.setdefault(name, []).append(value)
            now = ", ".join(f"{name} {values[-1]:.4g}" for name, values in figures.items())
            progress(f"{turn + 1}/{turns} {datapath}: {now}")
    medians = {
        datapath: {name: median(values) for name, values in figures.items()}
        for datapath, figures in values_of.items()
    }
    kernel, userspace = medians[KERNEL], medians[USERSPACE]
    return {
        "gpus": gpus,
        "turns": turns,
        **medians,
        "ratio": {name: kernel[name] / userspace[name] for name in ("bring_up_s", "payload_bytes_s")},
    }


def _one(registers: Registers, gpus: int, seconds: float, datapath: str) -> dict[str, float]:
    document = planned(gpus, 1, registers, datapath).document()
    busy = in_lab(
        TASK,
        {"document": document, "seconds": seconds, "turns": 1, "bare": False, "iperf": False},
        lambda _: None,
    )
    plan = load_plan(None, {**square_rail_only(gpus), "engine.datapath": datapath}, registers)
    idle = in_lab("watch", {"document": plan.document(), "seconds": seconds}, lambda _: None)
    return {
        "bring_up_s": busy["bring_up_s"],
        "payload_bytes_s": busy["transport"]["payload_bytes_s"],
        "lowest_element": min(idle["elements"].values()),
        "lowest_link": idle["link_score"],
        "reroutes": float(len(idle["reroutes"])),
    }
