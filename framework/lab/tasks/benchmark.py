"""Runs a registered benchmark where it wants to be run."""

from collections.abc import Callable, Mapping
from typing import Any

from railweave.framework.hookspecs import Benchmark
from railweave.framework.lab.plugin import in_lab
from railweave.framework.model.events import Note, RunEvent
from railweave.framework.parameters import Value
from railweave.framework.registry import load_plugins


def run_benchmark(
    name: str, benchmark: Benchmark, options: Mapping[str, Value], progress: Callable[[str], None]
) -> Mapping[str, Any]:
    """The figures of the benchmark, registered as `name`; in a lab without a fabric if it asks for one."""
    if not benchmark.in_lab:
        return benchmark.run(options, progress)

    def show(event: RunEvent) -> None:
        if isinstance(event, Note):
            progress(event.text)

    figures: Mapping[str, Any] = in_lab("benchmark", {"name": name, "options": dict(options)}, show)
    return figures


def task(message: Mapping[str, Any], emit: Callable[[RunEvent], None]) -> Mapping[str, Any]:
    """Run the benchmark `message["name"]` with `message["options"]`, complete and parsed."""
    benchmark: Benchmark = load_plugins()["benchmark"][message["name"]]
    return benchmark.run(message["options"], lambda text: emit(Note(text)))
