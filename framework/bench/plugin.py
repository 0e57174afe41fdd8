"""Offers the benchmarks of the framework itself; what measures is imported when it runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
    from railweave.framework.bench.routes import QUICK, Sizes, routes

    return routes(load_plugins(), QUICK if quick else Sizes(), progress)


def _fluid(rows: str, growth: bool, quick: bool, progress: Progress) -> Mapping[str, Any]:
    from railweave.framework.bench.fluid import fluid

    return fluid(rows, growth, quick, progress)


def _health(quick: bool, resume: str, progress: Progress) -> Mapping[str, Any]:
    from railweave.bench.health import health

    return health(load_plugins(), quick, resume, progress)


def _live(iterations: int, progress: Progress) -> Mapping[str, Any]:
    from railweave.bench.live import live

    return live(load_plugins(), iterations, progress)


def _report(quick: bool, progress: Progress) -> Mapping[str, Any]:
    from railweave.bench.report import report_times

    return report_times(load_plugins(), quick, progress)


def _files(quick: bool, progress: Progress) -> Mapping[str, Any]:
    from railweave.bench.files import file_times

    return file_times(quick, progress)


def _gpus(default: int, minimum: int) -> Parameter:
    return Parameter("gpus", default, "count", "size of the rail-only fabric", minimum=minimum)


def _turns(default: int) -> Parameter:
    return Parameter("turns", default, "count", "measurements of each; medians are shown", minimum=1)


def _seconds(default: float, minimum: float) -> Parameter:
    return Parameter("seconds", default, "time", "length of each part of a turn", minimum=minimum)


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
    "health": OwnBenchmark(
        "detection, published scores and benefit of health in every regime, with and without feedback and "
        "with the truth",
        _health,
        (
            Parameter(
                "quick",
                False,
                "bool",
                "two sizes, ten idle seconds and ten of TCP on 4 x 4: about two minutes",
            ),
            Parameter("resume", "", "text", "a file of rows (JSON lines) to go on with and to add rows to"),
        ),
    ),
    "live": OwnBenchmark(
        "iteration time while 0, 1 and 5 pages follow the run, one of which never reads (extra live)",
        _live,
        (Parameter("iterations", 20, "count", "with each number of pages; medians are shown", minimum=1),),
    ),
    "report": OwnBenchmark(
        "seconds to write a run's report.html and its size, 16 to 1,024 GPUs",
        _report,
        (Parameter("quick", False, "bool", "16 GPUs alone"),),
    ),
    "files": OwnBenchmark(
        "seconds to load fabric files of 100,000 links and to refuse the largest ones, against plain parsers",
        _files,
        (Parameter("quick", False, "bool", "files a hundredth as large; no figures to quote"),),
    ),
    "fluid": OwnBenchmark(
        "seconds and memory of the engine fluid by stage, up to 65,536 GPUs, and how they grow",
        _fluid,
        (
            Parameter(
                "rows", "", "text", "rows with one of these words in their name, such as torus,arrivals"
            ),
            Parameter("growth", True, "bool", "families whose GPUs double, and their exponents"),
            Parameter("quick", False, "bool", "two small rows; no figures to quote"),
        ),
    ),
    "routes": OwnBenchmark(
        "seconds to decide the routes of 4,096 GPUs, against networkx; best-fit lookups; all-to-all loads",
        _routes,
        (Parameter("quick", False, "bool", "fabrics of 16 to 64 GPUs; no figures to quote"),),
    ),
}


@hookimpl
def register_benchmarks(register: Callable[[str, Benchmark], None]) -> None:
    for name, benchmark in BENCHMARKS.items():
        register(name, benchmark)
