"""The hooks of plugins."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pluggy
from numpy.typing import NDArray

from railweave.framework.hookspecs.choosing import PathChooser
from railweave.framework.hookspecs.congestion import CongestionControl
from railweave.framework.hookspecs.engines import Controller, Engine, Transport
from railweave.framework.hookspecs.estimators import Estimator
from railweave.framework.hookspecs.reports import Benchmark, Report
from railweave.framework.hookspecs.routing import Router, Topology
from railweave.framework.hookspecs.sending import Collective, Workload
from railweave.framework.model import (
    Endpoint,
    Fabric,
    HealthSnapshot,
    IterationResult,
    Measurement,
    RouteTable,
)

hookspec = pluggy.HookspecMarker("railweave")
hookimpl = pluggy.HookimplMarker("railweave")


class Hooks:
    """The hooks. Each `register_*` fires once, when the command starts, and offers objects by name; a name
    taken twice raises PluginError, which names both holders.

    The `on_*` hooks observe a run. All but `on_run_end` fire in the process that holds the session: with the
    engine `emulation` that is the lab's first process, whose loop measures health 40 times a second, so an
    observer that takes longer than a few milliseconds delays the measurement it observes (a note says so).
    `on_run_end` and reports fire once per run, in the process that called `run`, after `result.json` is
    written. An exception becomes a note that names plugin, file and line, and the run goes on; printed lines
    become notes, too.
    """

    @hookspec
    def register_topologies(self, register: Callable[[str, Topology], None]) -> None:
        """Offer fabrics by name (`--topology NAME`)."""

    @hookspec
    def register_routers(self, register: Callable[[str, Router], None]) -> None:
        """Offer routers by name (`--router NAME`)."""

    @hookspec
    def register_collectives(self, register: Callable[[str, Collective], None]) -> None:
        """Offer collectives by name (`--collective NAME`)."""

    @hookspec
    def register_workloads(self, register: Callable[[str, Workload], None]) -> None:
        """Offer workloads by name (`--workload NAME`)."""

    @hookspec
    def register_estimators(self, register: Callable[[str, Estimator], None]) -> None:
        """Offer health estimators by name (`--estimator NAME`)."""

    @hookspec
    def register_controllers(self, register: Callable[[str, Controller], None]) -> None:
        """Offer OpenFlow controllers by name (`--controller NAME`)."""

    @hookspec
    def register_transports(self, register: Callable[[str, Transport], None]) -> None:
        """Offer transports by name (`transport:` in the experiment)."""

    @hookspec
    def register_choosers(self, register: Callable[[str, PathChooser], None]) -> None:
        """Offer choosers of paths by name (`--chooser NAME`)."""

    @hookspec
    def register_congestion_controls(self, register: Callable[[str, CongestionControl], None]) -> None:
        """Offer congestion controls by name (`--control NAME`)."""

    @hookspec
    def register_engines(self, register: Callable[[str, Engine], None]) -> None:
        """Offer engines by name (`engine:` in the experiment)."""

    @hookspec
    def register_reports(self, register: Callable[[str, Report], None]) -> None:
        """Offer reports by name; all of them are written at the end of a run."""

    @hookspec
    def register_benchmarks(self, register: Callable[[str, Benchmark], None]) -> None:
        """Offer benchmarks by name (`railweave bench NAME`)."""

    @hookspec
    def on_run_start(self, experiment: Mapping[str, Any], directory: str | None) -> None:
        """A run begins; nothing is up yet. `experiment`: the resolved experiment, as in the result.
        `directory`: the absolute path of the run directory, which observers may write to; None if the run
        keeps none."""

    @hookspec
    def on_fabric_up(self, fabric: Fabric, endpoints: Sequence[Endpoint]) -> None:
        """The fabric is up, with emulated rates, and its first rules are installed; no traffic yet."""

    @hookspec
    def on_health(self, health: HealthSnapshot, measurement: Measurement) -> None:
        """New scores were published, from this latest measurement; `health.t_s` is the time."""

    @hookspec
    def on_reroute(
        self, table: RouteTable, pairs: NDArray[np.int64], pairs_changed: int, why: str, t_s: float
    ) -> None:
        """Changed routes were installed and are in use. `pairs`: the (src, dst) GPUs that moved,
        (pairs_changed, 2); `t_s`: seconds since the first iteration began."""

    @hookspec
    def on_iteration(self, result: IterationResult, t_s: float, job: int) -> None:
        """One iteration of the collective ended, at `t_s` seconds after the first began; `job`: its number
        among several."""

    @hookspec
    def on_run_end(self, result: Mapping[str, Any], directory: str | None) -> None:
        """The run is over and its result written; `result` is the documented JSON result."""
