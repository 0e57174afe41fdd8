"""Registers the OpenFlow controllers `ryu`, `os-ken` and `c65of`. Imports none of the libraries."""

from collections.abc import Callable, Mapping
from typing import Any

from railweave.controllers.client import ControllerProcess
from railweave.controllers.packages import PACKAGES, check_installed, is_installed
from railweave.framework.hookspecs import Benchmark, Controller, hookimpl
from railweave.framework.parameters import Parameter, Value

SUMMARIES = {
    "ryu": "Ryu 4.34, on eventlet",
    "os-ken": "os-ken, the maintained fork of Ryu, on threads (extra os-ken)",
    "c65of": "c65of, a small OpenFlow 1.3 library, on threads (extra c65of)",
}


class InstallBenchmark(Benchmark):
    """Rules per second through each controller library."""

    summary = "rules per second through a controller, against `ovs-ofctl --bundle` with the same rules"
    parameters: tuple[Parameter, ...] = (
        Parameter("rules", 10_000, "count", "how many to install", minimum=1),
        Parameter("repeat", 5, "count", "installations of each; medians are shown", minimum=1),
        Parameter("controller", "all", "text", "which one", choices=("all", *PACKAGES)),
    )
    in_lab = True

    def run(self, options: Mapping[str, Value], progress: Callable[[str], None]) -> Mapping[str, Any]:
        from railweave.controllers.bench import measure

        chosen = str(options["controller"])
        if chosen != "all":
            check_installed(chosen)
        controllers = [name for name in PACKAGES if is_installed(name)] if chosen == "all" else [chosen]
        return measure(int(options["rules"]), int(options["repeat"]), controllers, progress)


@hookimpl
def register_controllers(register: Callable[[str, Controller], None]) -> None:
    for library, summary in SUMMARIES.items():
        register(library, ControllerProcess(library, summary))


@hookimpl
def register_benchmarks(register: Callable[[str, Benchmark], None]) -> None:
    register("install", InstallBenchmark())
