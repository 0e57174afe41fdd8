"""What the engine `fluid` takes for experiments, each in a process of its own; here two small ones."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from railweave.framework.bench.checkout import not_here
from railweave.framework.errors import RunFailedError
from railweave.framework.experiment.plan import plan_from_keys
from railweave.framework.registry import load_plugins
from railweave.framework.solver.quotient import NetworkState
from railweave.framework.solver.reduction import quotients
from railweave.framework.solver.simulation import BATCH, FlowSimulation

STAGES = ("start_up", "fabric", "schedule", "routes", "solve", "write")
MODULE = "railweave.framework.bench.fluid_process"
TREE_1024 = {"topology": "fat-tree", "k": 16, "router": "ecmp"}


@dataclass(frozen=True, slots=True)
class FluidCase:
    """One experiment: its name; keys of it, as `rw.run` takes them; seconds and megabytes it should take;
    whether SimGrid can be asked for it, too. `algorithm`: makes the MSCCL file that is its collective."""

    name: str
    keys: Mapping[str, object]
    goal_s: float
    goal_mb: float | None = None
    peer: bool = False
    algorithm: Callable[[], str] | None = None


def permutation(sizes: str = "equal") -> dict[str, object]:
    collective = {"name": "permutation", "sizes": sizes}
    return {"collective": collective, "size": 2_000_000, "iterations": 1}


def all_reduce(domains: int, rails: int) -> dict[str, object]:
    shape = {"domains": domains, "rails": rails}
    return {"topology": "rail-only", **shape, "router": "hscore", "collective": "all-reduce", "size": "1G"}


QUICK = (
    FluidCase("permutation 128 fat-tree", TREE_1024 | permutation() | {"k": 8}, 1, peer=True),
    FluidCase("all-reduce 16x16", all_reduce(16, 16) | {"iterations": 2}, 1),
)


def fluid(rows: str, growth: bool, quick: bool, report: Callable[[str], None]) -> dict[str, Any]:
    """`quick`: two small rows, with the caches of compiled code as they are. All others are in a checkout
    (tests/bench/fluid.py). Raises NotInstalledError without `quick`."""
    if not quick:
        raise not_here("bench fluid without --quick")
    with tempfile.TemporaryDirectory(prefix="railweave-bench-") as scratch:
        table = []
        for row in QUICK:
            report(row.name)
            table.append(shown(row, measured(row, Path(scratch), own_caches=False)))
    return figures(table, report)


def figures(
    table: Sequence[Mapping[str, Any]],
    report: Callable[[str], None],
    *,
    cold: Mapping[str, Any] = {},
    growth: Mapping[str, Any] = {},
) -> dict[str, Any]:
    """Lines of `shown`, without columns that none of them has, and `batch_error`. `cold`: of a row that ran
    with empty caches of compiled code; `growth`: exponents by family."""
    report("error of batches")
    return {
        "rows": _without_empty_columns(table),
        "cold_s": cold.get("total_s"),
        "cold_cpu_s": cold.get("cpu_s"),
        "batch_error": batch_error(),
        "growth": growth,
    }


def batch_error() -> float:
    """By how much of its time, at most, a transfer of an uneven all-to-all of 64 ends at another time than if
    ends close to each other were not taken together."""
    keys = {"topology": "rail-only", "domains": 8, "rails": 8, "collective": "moe-all-to-all", "size": "4M"}
    plan = plan_from_keys({"engine": "fluid", **keys}, load_plugins())
    states = (NetworkState(plan.first_paths[0], plan.fabric.capacity_bps),)
    (flows,) = quotients((plan.schedule,), plan.fabric, states, plan.packet, symmetry=False)
    ends = []
    for batch in (BATCH, 0.0):
        simulation = FlowSimulation(flows.networks[0], batch=batch)
        job = simulation.add(flows.tasks)
        simulation.advance()
        ends.append(simulation.end_s(job))
    return float(np.abs(ends[0] / ends[1] - 1).max())


def measured(row: FluidCase, scratch: Path, *, own_caches: bool = True) -> dict[str, Any]:
    """The figures of a row's process and of itself; `error` alone where it failed. `own_caches`: compiled
    code is kept in `scratch`, and not where it would be."""
    try:
        return _run(row, scratch, own_caches)
    except RunFailedError as error:
        return {"error": str(error)}


def _run(row: FluidCase, scratch: Path, own_caches: bool) -> dict[str, Any]:
    environment = dict(os.environ)
    if own_caches:
        caches = {"PYTHONPYCACHEPREFIX": str(scratch / "python"), "NUMBA_CACHE_DIR": str(scratch / "numba")}
        environment |= {**caches, "PYTHONDONTWRITEBYTECODE": ""}
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        out_path, err_path = Path(directory, "out"), Path(directory, "err")
        keys = dict(row.keys)
        if row.algorithm:
            (file := Path(directory, "algorithm.xml")).write_text(row.algorithm())
            keys["collective"] = f"msccl:{file}"
        began = time.perf_counter()
        with out_path.open("wb") as out, err_path.open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", MODULE, json.dumps(keys), str(Path(directory, "run"))],
                stdout=out, stderr=err, env=environment,
            )  # fmt: skip
            try:
                _, status, usage = os.wait4(process.pid, 0)
            except BaseException:
                process.kill()
                process.wait()
                raise
        process.returncode = os.waitstatus_to_exitcode(status)
        total_s = time.perf_counter() - began
        if process.returncode:
            lines = err_path.read_text().splitlines() or [f"ended with {process.returncode}"]
            raise RunFailedError(lines[-1])
        figures: dict[str, Any] = json.loads(out_path.read_text())
        stages = figures.pop("cpu_s")
        return figures | {
            "stages": stages,
            "total_s": total_s,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "memory_mb": usage.ru_maxrss * 1024 / 1e6,
        }


def shown(row: FluidCase, figures: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the table: figures next to what was aimed at; None for those that there are not."""
    stages, counts = figures.get("stages", {}), figures.get("counts", {})
    solve_s = stages.get("solve") or stages.get("run")
    return {
        "row": row.name,
        "gpus": figures.get("gpus"),
        **{f"{stage}_s": stages.get(stage) for stage in STAGES},
        "cpu_s": figures.get("cpu_s"),
        "total_s": figures.get("total_s"),
        "goal_s": row.goal_s,
        "memory_mb": figures.get("memory_mb"),
        "goal_mb": row.goal_mb,
        "passes": solve_s / figures["one_pass_s"] if solve_s and figures["one_pass_s"] else None,
        "events": counts.get("events"),
        "declared_us": figures.get("declared_us"),
        "simgrid_s": None,
        "simgrid_differs": None,
        "error": figures.get("error"),
    }


def _without_empty_columns(table: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    used = [key for key in table[0] if any(line[key] is not None for line in table)]
    return [{key: line[key] for key in used} for line in table]
