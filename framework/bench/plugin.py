"""Offers the benchmarks of a machine, and in a checkout those of railweave itself; what measures is imported
when it runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from railweave.framework.bench import checkout
from railweave.framework.hookspecs import Benchmark, hookimpl
from railweave.framework.parameters import Parameter, Value
from railweave.framework.registry import load_plugins

Progress = Callable[[str], None]


@dataclass
class OwnBenchmark(Benchmark):
    """A benchmark whose `measure` takes the options by name, and `progress`; it starts its labs itself."""

    summary: str
    measure: Callable[..., Mapping[str, Any]]
    parameters: tuple[Parameter, ...] = ()

    def run(self, options: Mapping[str, Value], progress: Progress) -> Mapping[str, Any]:
        return self.measure(**options, progress=progress)


def _bring_up(gpus: int, repeat: int, progress: Progress) -> Mapping[str, Any]:
    from railweave.framework.bench.bring_up import bring_up

    return bring_up(gpus, repeat, progress)


def _throughput(gpus: int, seconds: float, turns: int, quick: bool, progress: Progress) -> Mapping[str, Any]:
    from railweave.framework.bench.throughput import throughput

    seconds, turns = (0.3, 1) if quick else (seconds, turns)
    return throughput(load_plugins(), gpus, seconds, turns, progress, iperf=not quick)


def _datapaths(gpus: int, seconds: float, turns: int, progress: Progress) -> Mapping[str, Any]:
    from railweave.framework.bench.datapaths import datapaths

    return datapaths(load_plugins(), gpus, seconds, turns, progress)


def _routes(quick: bool, progress: Progress) -> Mapping[str, Any]:
    from railweave.framework.bench.route_speed import QUICK, Sizes, routes

    return routes(load_plugins(), QUICK if quick else Sizes(), progress)


def _fluid(rows: str, growth: bool, quick: bool, progress: Progress) -> Mapping[str, Any]:
    from railweave.framework.bench.fluid import fluid

    return fluid(rows, growth, quick, progress)


def _gpus(default: int, minimum: int) -> Parameter:
    return Parameter("gpus", default, "count", "size of the rail-only fabric", minimum=minimum)


def _turns(default: int) -> Parameter:
    return Parameter("turns", default, "count", "measurements of each; medians are shown", minimum=1)


def _seconds(default: float, minimum: float) -> Parameter:
    return Parameter("seconds", default, "time", "length of each part of a turn", minimum=minimum)


FLUID = (
    Parameter("rows", "", "text", "rows with one of these words in their name, such as torus,arrivals"),
    Parameter("growth", True, "bool", "families whose GPUs double, and their exponents"),
    Parameter("quick", False, "bool", "two small rows; no figures to quote"),
)
"""A wheel has `quick` alone (checkout.py)."""
FLUID_SUMMARY = "seconds and memory of the engine fluid by stage, up to 65,536 GPUs, and how they grow"
BENCHMARKS = {
    "bring-up": OwnBenchmark(
        "seconds to bring a shaped fabric up and down, against stock Mininet with TCLink",
        _bring_up,
        (_gpus(64, 2), Parameter("repeat", 1, "count", "runs of each; medians are shown", minimum=1)),
    ),
    "throughput": OwnBenchmark(
        "payload of all GPUs sending to the next, against bare senders over the same switches and rules",
        _throughput,
        (
            _gpus(16, 4),
            _seconds(1.0, 0.01),
            _turns(7),
            Parameter("quick", False, "bool", "one short turn without iperf3; no figures to quote"),
        ),
    ),
    "datapaths": OwnBenchmark(
        "Open vSwitch in the kernel against Open vSwitch as a process: bring-up, payload, idle health",
        _datapaths,
        (_gpus(16, 4), _seconds(5.0, 1.0), _turns(3)),
    ),
    "fluid": OwnBenchmark(FLUID_SUMMARY, _fluid, FLUID),
    "routes": OwnBenchmark(
        "seconds to decide the routes of 4,096 GPUs, against networkx; best-fit lookups; all-to-all loads",
        _routes,
        (Parameter("quick", False, "bool", "fabrics of 16 to 64 GPUs; no figures to quote"),),
    ),
}


@hookimpl
def register_benchmarks(register: Callable[[str, Benchmark], None]) -> None:
    for name, benchmark in {**BENCHMARKS, **checkout.benchmarks()}.items():
        register(name, benchmark)
