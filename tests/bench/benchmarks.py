"""The benchmarks about railweave itself, which `railweave bench` has in a checkout; what measures is imported
when it runs."""

from collections.abc import Mapping
from typing import Any

from railweave.framework.bench.plugin import FLUID, FLUID_SUMMARY, OwnBenchmark, Progress
from railweave.framework.parameters import Parameter
from railweave.framework.registry import load_plugins


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


def _sweep(points: int, quick: bool, progress: Progress) -> Mapping[str, Any]:
    from railweave.bench.sweep import sweep

    return sweep(load_plugins(), points, quick, progress)


def _fluid(rows: str, growth: bool, quick: bool, progress: Progress) -> Mapping[str, Any]:
    from railweave.bench.fluid import fluid

    return fluid(rows, growth, quick, progress)


def _flows(quick: bool, progress: Progress) -> Mapping[str, Any]:
    from railweave.bench.flows import flows

    return flows(quick, progress)


def _packet(rows: str, quick: bool, progress: Progress) -> Mapping[str, Any]:
    from railweave.bench.packet import packet

    return packet(rows, quick, progress)


BENCHMARKS = {
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
    "sweep": OwnBenchmark(
        "what studies cost: points of 256 GPUs, what a point takes beyond its computation, resuming, Dask",
        _sweep,
        (
            Parameter("points", 200, "count", "of 256 GPUs; 10,000 are the full size", minimum=4),
            Parameter("quick", False, "bool", "few and small; no figures to quote"),
        ),
    ),
    "fluid": OwnBenchmark(FLUID_SUMMARY, _fluid, FLUID),
    "flows": OwnBenchmark(
        "how much longer packets take than flows, by size of messages, transport and fabric, and what was "
        "stated of it",
        _flows,
        (Parameter("quick", False, "bool", "two sizes, no latencies; no figures to quote"),),
    ),
    "packet": OwnBenchmark(
        "processor seconds, packets over links a second and memory of the engine packet, up to 1,024 GPUs",
        _packet,
        (
            Parameter("rows", "", "text", "those whose names contain one of these words, by commas"),
            Parameter("quick", False, "bool", "two small rows; no figures to quote"),
        ),
    ),
}
