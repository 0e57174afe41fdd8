"""Random scenarios of faults from a seed, how each should end, and whether it did.

How a scenario should end follows from the ground truth alone: the links that its faults leave, and the routes
that the router chooses over them.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from railweave.framework.analysis.assumed_health import assumed_health
from railweave.framework.errors import FaultError
from railweave.framework.experiment.faults import VERBS, Fault, ResolvedFault, parse, resolve, steps
from railweave.framework.experiment.plan import Plan
from railweave.framework.experiment.wants import lacked
from railweave.framework.hookspecs import Engine, Router
from railweave.framework.model import Fabric, Schedule
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.result import RunResult
from railweave.framework.routing.batches import all_paths, unreachable
from railweave.framework.routing.router_calls import unguarded
from railweave.framework.runs import runner
from railweave.framework.studies.campaigns import ChaosRun, Scenario
from railweave.framework.studies.computing import Row
from railweave.framework.studies.leftovers import MARK, footprint
from railweave.framework.studies.points import Point
from railweave.framework.studies.sweeps import carried_out, sweep_of_plan

COMPLETES, FAILS = "completes", "fails"
MOST_FAULTS = 3
"""Faults of one drawn run."""
JUDGED = ("timed_faults", "accuracy", "leftovers", "why")
"""What a campaign adds to the row of a run."""
Draw = np.random.Generator


def scenarios(
    fabric: Fabric,
    router: Router,
    schedule: Schedule,
    engine: Engine,
    *,
    runs: int,
    seed: int,
    iterations: int,
) -> list[Scenario]:
    """`runs` scenarios of one to three faults each. Equal arguments give equal scenarios; for a fault that
    the engine lacks another one is drawn."""
    drawn = []
    for number in range(runs):
        draw = np.random.default_rng((seed, number))
        faults = [_fault(fabric, engine, draw, iterations) for _ in range(draw.integers(1, MOST_FAULTS + 1))]
        faults.sort(key=lambda text: _when(parse(text)))
        cut = cut_for_good(fabric, router, schedule, faults)
        drawn.append(Scenario(number, tuple(faults), FAILS if cut else COMPLETES, cut))
    return drawn


def cut_for_good(
    fabric: Fabric, router: Router, schedule: Schedule, faults: Sequence[str]
) -> tuple[str, ...]:
    """The GPUs of pairs of the schedule that lose their last path and get none back before the next
    iteration; empty if there are none. Faults of later iterations never fire then."""
    src, dst, _ = schedule.pairs()
    used = set(zip(src.tolist(), dst.tolist(), strict=True))
    used |= {(b, a) for a, b in used}  # acknowledgements
    simple = (step for text in faults for step in steps(parse(text)) if not VERBS[step.verb].objects)
    injected: list[ResolvedFault] = []
    for _, due in groupby(sorted(simple, key=_when), lambda fault: _when(fault)[0]):
        injected += [resolve(fault, fabric) for fault in due]
        table = unguarded(router, fabric, assumed_health(fabric, faults=injected))
        lost = {(int(a), int(b)) for a, b in unreachable(all_paths(table))} & used
        if lost:
            return tuple(fabric.node_name(gpu) for gpu in sorted({gpu for pair in lost for gpu in pair}))
    return ()


def judge(run: ChaosRun) -> str | None:
    """What differs from the expected ending, in words; None if nothing does."""
    if run.leftovers:
        return f"left behind: {', '.join(run.leftovers)}"
    if run.expected == COMPLETES:
        if run.error is not None:
            return f"failed: {run.error}"
        if run.wrong:
            return f"{run.wrong} elements came out wrong"
        return "beat the physical limit" if run.verdict == "invalid" else None
    if run.error is None:
        return "completed, though no path was left"
    if not any(name in run.error for name in run.cut):
        return f"did not name the cut ranks {', '.join(run.cut)}: {run.error}"
    return None


def _when(fault: Fault) -> tuple[int, float]:
    return fault.at_iteration or 0, fault.after_s


# -- one random fault ----------------------------------------------------------------------------------
def _fault(fabric: Fabric, engine: Engine, draw: Draw, iterations: int) -> str:
    kinds = [kind for kind in _KINDS if kind is not _ocs or fabric.ocs_names]
    while True:
        make = kinds[draw.integers(len(kinds))]
        text = f"at=iter:{draw.integers(1, iterations)} {make(fabric, draw)}"
        fault = parse(text)
        try:
            resolve(fault, fabric)
        except FaultError:  # a kind of object that this fabric does not have
            continue
        if not lacked(fault, engine):
            return text


def _share(draw: Draw, low: float, high: float) -> str:
    return f"{draw.uniform(low, high):.0%}"


def _switch(fabric: Fabric, draw: Draw) -> str:
    """A rail, domain or spine; a GPU where there are none."""
    groups = fabric.groups[1:] or fabric.groups
    group = groups[draw.integers(len(groups))]
    place = group.coordinates(group.first + int(draw.integers(group.size)))
    return f"{group.kind}:{'.'.join(map(str, place))}"


def _gpu(fabric: Fabric, draw: Draw) -> str:
    return ".".join(map(str, fabric.coordinates(int(draw.integers(fabric.n_gpus)))))


def _link(fabric: Fabric, draw: Draw) -> str:
    return f"link:{fabric.link_name(int(draw.integers(fabric.n_links)))}"


def _slow(fabric: Fabric, draw: Draw) -> str:
    way = draw.choice(["", " way=out", " way=in"])
    return f"degrade {_switch(fabric, draw)} to={_share(draw, 0.1, 0.6)}{way}"


def _flapping(fabric: Fabric, draw: Draw) -> str:
    target = [_link, lambda f, d: f"nic:{_gpu(f, d)}", _switch][draw.integers(3)](fabric, draw)
    return f"flap {target} period={draw.integers(4, 11) * 100}ms times={draw.integers(1, 4)}"


def _ocs(fabric: Fabric, draw: Draw) -> str:
    return f"down ocs:{fabric.ocs_names[draw.integers(len(fabric.ocs_names))]}"


_KINDS: tuple[Callable[[Fabric, Draw], str], ...] = (
    _slow,
    _slow,
    lambda fabric, draw: f"degrade {_link(fabric, draw)} to={_share(draw, 0.1, 0.6)}",
    lambda fabric, draw: f"loss {_switch(fabric, draw)} rate={_share(draw, 0.01, 0.05)}",
    lambda fabric, draw: f"reorder {_switch(fabric, draw)} rate={_share(draw, 0.02, 0.2)}",
    lambda fabric, draw: f"duplicate {_switch(fabric, draw)} rate={_share(draw, 0.01, 0.1)}",
    _flapping,
    lambda fabric, draw: f"down {_link(fabric, draw)}",
    lambda fabric, draw: f"down nic:{_gpu(fabric, draw)}",
    lambda fabric, draw: f"down gpu:{_gpu(fabric, draw)}",
    lambda fabric, draw: f"down {_switch(fabric, draw)}",
    _ocs,
    lambda fabric, draw: "kill controller",
    lambda fabric, draw: (
        f"kill switch:{fabric.node_name(int(draw.integers(fabric.n_nodes)))} "
        f"back={draw.integers(1, 11) * 100}ms"
    ),
)
"""Random faults, each as likely as the others."""


def campaign(
    plan: Plan,
    drawn: Sequence[Scenario],
    directory: Path,
    registers: Registers,
    on_run: Callable[[dict[str, Any]], None] = lambda run: None,
) -> list[dict[str, Any]]:
    """Run scenarios of an experiment in turn, as a study in `directory`; a row for each, as `ChaosRun` has
    it, which `on_run` gets as well."""
    seed, by_number = plan.experiment.seed, {scenario.number: scenario for scenario in drawn}
    axis = [{"label": n, "faults": [*s.faults], "seed": seed + n} for n, s in by_number.items()]
    watched, runs = _Watched(registers), list[dict[str, Any]]()

    def add(point: Point, row: Row) -> Row:
        scenario, result = by_number[int(str(point.settings["scenario"]))], watched.result
        run = ChaosRun(
            **asdict(scenario),
            error=f"{row['cause']}: {row['error']}" if "cause" in row else None,
            wrong=row.get("wrong", 0),
            verdict=row.get("verdict", ""),
            seconds=row["seconds"],
            leftovers=watched.leftovers,
            timed_faults=() if result is None else result.faults,
            accuracy=None if result is None else result.accuracy,
            why=None,
        )
        runs.append(asdict(replace(run, why=judge(run))))
        on_run(runs[-1])
        return {**row, **{key: runs[-1][key] for key in JUDGED}}

    sweep = sweep_of_plan("chaos", plan, {"scenario": axis}, {})
    carried_out(sweep, directory, registers, watched.run, here=True, on_row=add)
    return runs


class _Watched:
    """Carries out runs. `result`: of the last one, None where it failed; `leftovers`: what it left on the
    machine."""

    def __init__(self, registers: Registers) -> None:
        self._registers = registers
        self.result: RunResult | None = None
        self.leftovers: tuple[str, ...] = ()

    def run(self, plan: Plan, directory: RunDirectory) -> RunResult:
        mark = os.environ[MARK] = str(directory.path.absolute())
        before, self.result = footprint(mark), None
        try:
            self.result = runner.run(plan, self._registers, directory)
        finally:
            self.leftovers = tuple(sorted(footprint(mark) - before))
        return self.result
