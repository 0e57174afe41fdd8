"""The same tasks by SimGrid's flow model, where it is installed (Debian: libsimgrid-dev, g++).

Its own corrections are switched off (TCP-gamma, bandwidth and latency factors, RTT weights, cross traffic),
so that flows share links by max-min fairness (Velho and Legrand, "Accuracy study and improvement of network
simulation in the SimGrid framework", SIMUTools 2009). Only pairs of one path, without delays.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

from railweave.framework.errors import MachineError
from railweave.framework.experiment.plan import plan_from_keys
from railweave.framework.model import PathBatch
from railweave.framework.model.arrays import Float, Int32, Int64
from railweave.framework.registry import load_plugins
from railweave.framework.solver.network import Network
from railweave.framework.solver.quotient import NetworkState
from railweave.framework.solver.reduction import quotients
from railweave.framework.solver.simulation import FlowSimulation
from railweave.framework.solver.tasks import Tasks

SLOWER = 1e6
"""SimGrid counts times to an absolute precision, so rates are divided by this, and times multiplied."""
OPTIONS = (
    "--log=root.thres:critical", "--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0",
    "--cfg=network/bandwidth-factor:1", "--cfg=network/latency-factor:1", "--cfg=network/weight-S:0",
    "--cfg=network/crosstraffic:0", "--cfg=contexts/stack-size:64", "--cfg=contexts/guard-size:0",
)  # fmt: skip


def driver(directory: Path) -> Path | None:
    """The program, compiled into `directory`; None without a compiler or SimGrid. Raises MachineError where
    the compiler refuses it."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        return None
    source, program = Path(__file__).with_name("simgrid.cpp"), directory / "simgrid"
    command = [compiler, "-O2", "-std=c++17", str(source), "-o", str(program), "-lsimgrid"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "simgrid/s4u.hpp" in done.stderr or "-lsimgrid" in done.stderr:  # no headers, no library
        return None
    if done.returncode:
        raise MachineError(
            f"{source}: {done.stderr.strip().splitlines()[-1]}. Is SimGrid 3.30 or later there?"
        )
    return program


def compared(program: Path, keys: Mapping[str, object], within_s: float) -> dict[str, float]:
    """Of the flows of an experiment's iteration: `simgrid_s`, what SimGrid takes, and `simgrid_differs`, the
    largest relative difference of a task's end from ours without batches. Nothing beyond `within_s`."""
    plan = plan_from_keys({"engine": "fluid", **keys}, load_plugins())
    state = NetworkState(plan.first_paths[0], plan.fabric.capacity_bps)
    schedule = plan.schedule if plan.schedule.seconds.any() else plan.schedule.expand()
    (flows,) = quotients((schedule,), plan.fabric, (state,), plan.packet, symmetry=False)
    began = time.perf_counter()
    try:
        theirs_s = end_s(program, flows.networks[0], flows.tasks, state.paths, within_s)
    except subprocess.TimeoutExpired:
        return {}
    took_s = time.perf_counter() - began
    simulation = FlowSimulation(flows.networks[0], batch=0.0)
    job = simulation.add(flows.tasks)
    simulation.advance()
    differs = np.abs(simulation.end_s(job) / theirs_s - 1)
    return {"simgrid_s": took_s, "simgrid_differs": float(differs.max(initial=0))}


def end_s(
    program: Path, network: Network, tasks: Tasks, routes: PathBatch, within_s: float | None = None
) -> Float:
    """(n,): when each task ended; `routes` are those of the network's pairs. Raises MachineError where
    SimGrid fails, and subprocess.TimeoutExpired."""
    assert (network.use == 1).all() and not network.delay_s.any() and (tasks.repeat == 1).all()
    amount = np.where(tasks.pair < 0, tasks.seconds * SLOWER, np.maximum(np.rint(tasks.bits / 8), 1))
    hosts = 1 + int(max(routes.src.max(), routes.dst.max()))
    lines = [[network.n_links, *(network.capacity_bps / 8 / SLOWER).tolist()], [hosts, network.n_pairs]]
    paths = _lists(network.start, network.link)
    for src, dst, path in zip(routes.src.tolist(), routes.dst.tolist(), paths, strict=True):
        lines.append([src, dst, len(path), *path])
    lines.append([tasks.n_tasks])
    waits = _lists(tasks.after_start, tasks.after)
    rows = (tasks.pair.tolist(), amount.tolist(), (tasks.release_s * SLOWER).tolist(), waits)
    for pair, work, release, after in zip(*rows, strict=True):
        lines.append([pair, work, release, len(after), *after])
    done = subprocess.run(
        [str(program), *OPTIONS], input="\n".join(" ".join(map(repr, line)) for line in lines),
        capture_output=True, text=True, check=False, timeout=within_s,
    )  # fmt: skip
    if done.returncode:
        raise MachineError(f"SimGrid ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return np.array(done.stdout.split(), np.float64) / SLOWER


def _lists(start: Int64, values: Int32 | Int64) -> list[list[int]]:
    flat = values.tolist()
    return [flat[a:b] for a, b in pairwise(start.tolist())]
