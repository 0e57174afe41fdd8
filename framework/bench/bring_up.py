"""How fast a lab comes up and goes down, against stock Mininet in the same run."""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from railweave.framework.errors import InputError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.lab.plugin import in_lab
from railweave.framework.registry import load_plugins

RATE_SCALE = 1e-5
"""Any that fits: rates are set and read back, and no traffic runs."""


def bring_up(gpus: int, repeat: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """Seconds up and down of a shaped rail-only fabric: railweave's lab, and stock Mininet with TCLink over
    the same Topo; medians of `repeat` runs.

    Up: from the start of the first process until the last switch is connected to Ryu, whose import counts;
    railweave's also installs the first rules and starts the transport. Down: until the last process of the
    lab is gone.
    """
    plan = load_plan(None, {**square_rail_only(gpus), "rate_scale": RATE_SCALE}, load_plugins())
    times: dict[str, list[tuple[float, float]]] = {"railweave": [], "mininet": []}
    for number in range(1, repeat + 1):
        for lab, rows in times.items():
            progress(f"{number}/{repeat} {lab}: up and down")
            rows.append(_cycle_s({"document": plan.document(), "lab": lab}))
            progress(f"{number}/{repeat} {lab}: up in {rows[-1][0]:.2f} s, down in {rows[-1][1]:.2f} s")
    ups = {lab: statistics.median(up for up, _ in rows) for lab, rows in times.items()}
    downs = {lab: statistics.median(down for _, down in rows) for lab, rows in times.items()}
    return {
        "gpus": gpus,
        "links": plan.fabric.n_links,
        "repeat": repeat,
        "up_s": ups,
        "down_s": downs,
        "up_ratio": ups["mininet"] / ups["railweave"],
        "down_ratio": downs["mininet"] / downs["railweave"],
    }


def _cycle_s(message: Mapping[str, Any]) -> tuple[float, float]:
    began = time.monotonic()
    stopping: list[float] = []
    in_lab("bring-up", message, lambda _: stopping.append(time.monotonic()))
    return stopping[0] - began, time.monotonic() - stopping[0]


def square_rail_only(gpus: int) -> dict[str, object]:
    """Experiment keys of the rail-only fabric of `gpus` GPUs that is closest to as many domains as rails; no
    fault."""
    rails = max(k for k in range(1, math.isqrt(gpus) + 1) if gpus % k == 0)
    if rails == 1:
        raise InputError(
            f"--gpus {gpus}: a rail-only fabric needs domains x rails, and {gpus} is prime. Try {gpus + 1}."
        )
    return {
        "topology": "rail-only",
        "topology.domains": gpus // rails,
        "topology.rails": rails,
        "fault": "none",
    }
