"""One point of a study carried out: its plan, its run, its row."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railweave.framework.errors import PLUGIN_FAILURES, MachineError, RailweaveError, describe
from railweave.framework.experiment.plan import Plan, plan_from_keys
from railweave.framework.registry import Registers
from railweave.framework.results.result import RunResult
from railweave.framework.runs import runner
from railweave.framework.studies.figures import figures_of

Row = dict[str, Any]
Run = Callable[[Plan], RunResult]


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker is to compute: the keys of point `id`, `over` laid over `base`, as `plan_from_keys` takes
    them."""

    id: str
    base: Mapping[str, object]
    over: Mapping[str, object]
    written: bool

    def plan(self, registers: Registers) -> Plan:
        return plan_from_keys(self.over, registers, base=self.base, written=self.written)


def computed(task: Task, registers: Registers, run: Run | None = None) -> Row:
    """The figures of a task's run, or `cause` and `error` where it fails: a point that does must not end the
    others. `run`: what carries out its plan here, in place of its engine alone; raises MachineError where
    this machine lacks what that needs, as it will for others."""
    began = time.monotonic()
    row: Row
    try:
        plan = task.plan(registers)
        result = run(plan) if run else runner.run(plan, registers)
        row = figures_of(result)
    except RailweaveError as error:
        if run and isinstance(error, MachineError):
            raise
        row = failed(type(error).__name__, str(error))
    except PLUGIN_FAILURES as error:
        row = failed(type(error).__name__, describe(error))
    return {**row, "seconds": round(time.monotonic() - began, 4)}


def failures(rows: Sequence[Row]) -> str:
    """The failures among rows of points: how many of each cause, and the first; "" if there are none."""
    failed = [row for row in rows if "cause" in row]
    if not failed:
        return ""
    listed = ", ".join(
        f"{count} {cause}" for cause, count in Counter(r["cause"] for r in failed).most_common()
    )
    return f"{len(failed)} of {len(rows)} failed: {listed}. The first: {failed[0]['error']}"


def failed(cause: str, error: str) -> Row:
    """The row of a point that failed. `cause` is counted, `error` read."""
    return {"cause": cause, "error": error}
