"""What the engine `fluid` takes for experiments of up to 65,536 GPUs, each in a process of its own."""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from railweave.bench import simgrid
from railweave.framework.bench.fluid_rows import COLD, GROWTH, QUICK, ROWS, Row
from railweave.framework.errors import InputError, MachineError, RunFailedError, did_you_mean
from railweave.framework.experiment.plan import plan_from_keys
from railweave.framework.registry import load_plugins
from railweave.framework.solver.quotient import State
from railweave.framework.solver.reduction import quotient
from railweave.framework.solver.simulation import BATCH, Simulation

STAGES = ("start_up", "fabric", "schedule", "routes", "solve", "write")
MODULE = "railweave.framework.bench.fluid_row"
PEER_WITHIN_S = 120.0


def fluid(rows: str, growth: bool, quick: bool, report: Callable[[str], None]) -> dict[str, Any]:
    """`rows`: those whose names contain one of these words, all if empty; `growth`: families of doubling GPUs
    as well. `quick`: two small rows.

    Rows run with full caches of compiled code, Python's and numba's; `cold_s`: the row `COLD` with empty
    ones. `total_s` on the wall clock, from starting the process to its end; all other seconds of the
    processor. `passes`: how often the routes could be copied in the time that was solved in. `batch_error`:
    see there. Rows that fail say why. Where SimGrid is installed: what it takes for the same flows, and by
    how much it differs.
    """
    chosen = QUICK if quick else _chosen(rows)
    cold, table, grown = dict[str, Any](), [], {}
    with tempfile.TemporaryDirectory(prefix="railweave-bench-") as scratch:
        place = Path(scratch)
        if not quick:
            report(f"{COLD.name}, with empty caches of compiled code")
            cold = measured(COLD, place)
            measured(COLD, place)  # numba writes its cache in two runs
        program = simgrid.driver(place)
        for row in chosen:
            report(row.name)
            line = shown(row, measured(row, place, own_caches=not quick))
            if program is not None and row.peer:
                try:
                    line |= simgrid.compared(program, row.keys, PEER_WITHIN_S)
                except MachineError as error:
                    report(str(error))
            table.append(line)
        for family, members in GROWTH.items() if growth and not quick else ():
            report(f"growth: {family}")
            grown[family] = exponents([measured(row, place) for row in members])
    report("error of batches")
    return {
        "rows": _without_empty_columns(table),
        "cold_s": cold.get("total_s"),
        "cold_cpu_s": cold.get("cpu_s"),
        "batch_error": batch_error(),
        "growth": grown,
    }


def batch_error() -> float:
    """By how much of its time, at most, a transfer of an uneven all-to-all of 64 ends at another time than if
    ends close to each other were not taken together."""
    keys = {"topology": "rail-only", "domains": 8, "rails": 8, "collective": "moe-all-to-all", "size": "4M"}
    plan = plan_from_keys({"engine": "fluid", **keys}, load_plugins())
    states = (State(plan.first_paths[0], plan.fabric.capacity_bps),)
    flows = quotient(plan.schedule, plan.fabric, states, plan.packet, symmetry=False)
    ends = []
    for batch in (BATCH, 0.0):
        simulation = Simulation(flows.networks[0], batch=batch)
        job = simulation.add(flows.tasks)
        simulation.advance()
        ends.append(simulation.end_s(job))
    return float(np.abs(ends[0] / ends[1] - 1).max())


def _chosen(words: str) -> tuple[Row, ...]:
    """Raises InputError for a word that no row has."""
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    for word in wanted:
        if not any(word in row.name for row in ROWS):
            names = [row.name for row in ROWS]
            raise InputError(
                f"rows: no row has {word!r} in its name; there are: {'; '.join(names)}."
                f"{did_you_mean(word, names)}"
            )
    return tuple(row for row in ROWS if not wanted or any(word in row.name for word in wanted))


def measured(row: Row, scratch: Path, *, own_caches: bool = True) -> dict[str, Any]:
    """The figures of a row's process and of itself; `error` alone where it failed. `own_caches`: compiled
    code is kept in `scratch`, and not where it would be."""
    try:
        return _run(row, scratch, own_caches)
    except RunFailedError as error:
        return {"error": str(error)}


def _run(row: Row, scratch: Path, own_caches: bool) -> dict[str, Any]:
    environment = dict(os.environ)
    if own_caches:
        caches = {"PYTHONPYCACHEPREFIX": str(scratch / "python"), "NUMBA_CACHE_DIR": str(scratch / "numba")}
        environment |= {**caches, "PYTHONDONTWRITEBYTECODE": ""}
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        said, complained = Path(directory, "out"), Path(directory, "err")
        began = time.perf_counter()
        with said.open("wb") as out, complained.open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", MODULE, json.dumps(row.keys), str(Path(directory, "run"))],
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
            lines = complained.read_text().splitlines() or [f"ended with {process.returncode}"]
            raise RunFailedError(lines[-1])
        figures: dict[str, Any] = json.loads(said.read_text())
        stages = figures.pop("cpu_s")
        return figures | {
            "stages": stages,
            "total_s": total_s,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "memory_mb": usage.ru_maxrss * 1024 / 1e6,
        }


def shown(row: Row, figures: Mapping[str, Any]) -> dict[str, Any]:
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


def exponents(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """GPUs, processor seconds, memory; and the exponents of both by the GPUs, first against last."""
    if failed := [run["error"] for run in runs if "error" in run]:
        return {"error": failed[0]}
    gpus = [run["gpus"] for run in runs]
    columns = {name: [run[name] for run in runs] for name in ("cpu_s", "memory_mb")}
    doublings = math.log(gpus[-1] / gpus[0])
    return {
        "gpus": tuple(gpus),
        **{name: tuple(column) for name, column in columns.items()},
        **{
            f"{name}_exponent": math.log(column[-1] / column[0]) / doublings
            for name, column in columns.items()
        },
    }
