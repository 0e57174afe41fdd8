"""What commands ask of a lab of their own, besides runs: tasks, the prompt, the machine's checks, benchmarks.

A lab's modules are imported when they are called: most commands need none.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from railweave.framework.bench.checkout import benchmark, compare_cases
from railweave.framework.experiment.plan import Plan
from railweave.framework.hookspecs import Benchmark
from railweave.framework.model.events import RunEvent
from railweave.framework.parameters import Value
from railweave.framework.results.result import RunResult

if TYPE_CHECKING:
    from railweave.framework.lab.tasks.doctor import MachineCheck

__all__ = ["benchmark", "benchmarked", "compare_cases", "done", "hold_prompt", "machine", "shell"]


def done(task: str, plan: Plan, on_event: Callable[[RunEvent], None], **message: object) -> Any:
    """The result of a lab's task (framework/lab/__main__.py) on the fabric of a plan. The lab is gone then.
    Raises what the task raised."""
    from railweave.framework.lab.plugin import in_lab

    return in_lab(task, {"document": plan.document(), **message}, on_event)


def shell(plan: Plan, task: str) -> int:
    """The exit status of the prompt, once it was left; `task`: the module that shows it, by `hold_prompt`."""
    from railweave.framework.lab.tasks.shell import shell as opened

    return opened(plan, task)


def hold_prompt(
    message: Mapping[str, Any],
    line: Callable[[RunEvent], str | None],
    report: Callable[[RunResult], str | None],
) -> int:
    """In the lab's first process: serve the prompt until it is left. `line`, `report`: what is shown of
    events and of results."""
    from railweave.framework.lab.tasks.shell import hold_prompt as held

    return held(message, line, report)


def machine() -> list["MachineCheck"]:
    """What this machine can do for a lab, and how to fix the rest; a small lab is brought up and down."""
    from railweave.framework.lab.tasks.doctor import findings

    return findings()


def benchmarked(
    name: str, chosen: Benchmark, options: Mapping[str, Value], progress: Callable[[str], None]
) -> Mapping[str, Any]:
    """The figures of the benchmark `chosen`, registered as `name`; measured in a lab without a fabric if it
    asks for one."""
    from railweave.framework.lab.tasks.benchmark import run_benchmark

    return run_benchmark(name, chosen, options, progress)
