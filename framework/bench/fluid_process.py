"""One experiment on the engine `fluid`, in a process of its own: `python -m MODULE KEYS DIRECTORY`.

KEYS is JSON. Prints the figures as JSON.
"""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railweave.framework.experiment.plan import Plan, plan_from_keys
from railweave.framework.model.events import PhaseStarted, RunEvent
from railweave.framework.registry import load_plugins
from railweave.framework.results.directory import RunDirectory
from railweave.framework.runs.runner import run

PASSES = 5
"""Copies of all routes, of which the fastest counts."""


def figures(keys: Mapping[str, object], directory: Path) -> dict[str, Any]:
    """Processor seconds by stage, counts of the engine and of the result. Raises what planning and running
    raise."""
    registers = load_plugins()
    seconds: dict[str, float | None] = {"start_up": (started_s := time.process_time())}
    plan = plan_from_keys({"engine": "fluid", **keys}, registers)
    planned_s, torn_down_s = time.process_time(), list[float]()

    def mark(event: RunEvent) -> None:
        if isinstance(event, PhaseStarted) and event.name == "tear-down":
            torn_down_s.append(time.process_time())

    result = run(plan, registers, RunDirectory.create(directory, ""), mark)
    ended_s = time.process_time()
    seconds |= {stage: result.cpu_s.get(stage) for stage in ("fabric", "schedule", "routes", "solve")}
    seconds |= {"plan": planned_s - started_s, "run": torn_down_s[0] - planned_s}
    seconds["write"] = ended_s - torn_down_s[0]
    (row,) = (row for row in result.rows if row.iteration is None)
    return {
        "gpus": plan.fabric.n_gpus,
        "cpu_s": seconds,
        "one_pass_s": _one_pass_s(plan),
        "counts": dict(getattr(result, "counts", {})),
        "declared_us": row.declared_time_us,
        "verdict": result.fidelity.verdict,
        "written_mb": sum(file.stat().st_size for file in directory.iterdir()) / 1e6,
    }


def _one_pass_s(plan: Plan) -> float:
    """Copying the arrays of all routes once: the least that anything which reads them all can take."""
    arrays = [getattr(paths, name) for paths in plan.first_paths for name in ("hop_start", "links", "weight")]
    took = []
    for _ in range(PASSES):
        began = time.perf_counter()
        for array in arrays:
            array.copy()
        took.append(time.perf_counter() - began)
    return min(took)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(figures(json.loads(sys.argv[1]), Path(sys.argv[2]))) + "\n")
