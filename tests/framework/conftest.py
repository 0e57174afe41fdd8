"""Registers of real plugins, filled up with small ones where the real ones need a machine;
and a whole result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from railweave.framework.hookspecs import (
    Collective,
    Configurable,
    Controller,
    Engine,
    Estimate,
    Router,
    Topology,
    Transport,
    hookimpl,
)
from railweave.framework.judging.rows import iteration_groups, iteration_rows
from railweave.framework.model import Fabric, FabricBuilder, IterationResult, NodeGroup, RouteTable, Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.framework.registry import Registers
from railweave.framework.results.figures import (
    Bottleneck,
    ControllerFigures,
    FabricFigures,
    FaultFigures,
    Fidelity,
    LinkFigures,
    RerouteFigures,
    WallTimes,
)
from railweave.framework.results.result import HealthPoint, RunResult
from railweave.plugins.estimators import plugin as estimators
from railweave.plugins.hscore import plugin as hscore
from railweave.topologies import plugin as topologies
from railweave.traffic.choosers import InTurn
from railweave.traffic.controls.window import Window
from tests.fakes.findings import timed


class Loop(Topology):
    """A ring whose cables run over optical switches, two wavelengths each: what rail-only does not have."""

    summary = "a ring with ocs"
    parameters = (Parameter("gpus", 4, "count", "GPUs", minimum=2, maximum=99),)

    def build(self, params: Mapping[str, Value]) -> Fabric:
        n = int(params["gpus"])
        builder = FabricBuilder("loop", [NodeGroup("gpu", 0, (n,), "n")], dict(params))
        ids = np.arange(n)
        builder.cables(ids, (ids + 1) % n, ("+", "-"), 1e9, wavelength=0, ocs="X:0,0")
        builder.cables(ids, (ids + 1) % n, ("+", "-"), 1e9, wavelength=1, ocs="X:0,1")
        return builder.build()


class Nowhere(Router):
    """A router of another kind of fabric; never asked for routes here."""

    summary = "torus alone"
    serves = ("torus",)
    parameters = (Parameter("depth", 2, "count", "how deep", minimum=1, maximum=5),)

    def routes(self, fabric: Fabric, health: object) -> RouteTable:
        raise AssertionError("a router that does not serve a fabric is not asked")


class AllReduce(Collective):
    """The shape of an all-reduce without its transfers."""

    summary = "an all-reduce of nothing"
    serves: tuple[str, ...] = ()
    kind = "all-reduce"

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        none = np.zeros(0, np.int64)
        return Schedule(
            "all-reduce", len(ranks), size_bytes, dtype, redop, size_bytes,
            none, none, none, none, none, none, none, np.zeros(1, np.int64), none,
        )  # fmt: skip

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        return [np.zeros(schedule.size_bytes, np.uint8)] * schedule.n_ranks

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        return inputs[rank]


class Training(AllReduce):
    """The shape of a workload with options."""

    summary = "training of nothing"
    kind = "training-iteration"
    parameters = (
        Parameter("model", "gpt-1t", "text", "what is trained", choices=("gpt-1t", "gpt-7b")),
        Parameter("tp", 8, "count", "tensor parallelism", minimum=1),
    )


class Anything(Configurable):
    summary = "stands for a process"
    parameters = (Parameter("window", 1 << 16, "bytes", "bytes in flight", minimum=1),)
    packets, predicts, lacks = True, False, {}

    def estimate(self, plan: object) -> Estimate:
        return Estimate()

    def __getattr__(self, name: str) -> Any:
        if name in (*vars(Controller), *vars(Transport), *vars(Engine)):
            return self.configured
        raise AttributeError(name)


class Others:
    @hookimpl
    def register_topologies(self, register: Callable[[str, Any], None]) -> None:
        register("loop", Loop())

    @hookimpl
    def register_routers(self, register: Callable[[str, Any], None]) -> None:
        register("nowhere", Nowhere())

    @hookimpl
    def register_collectives(self, register: Callable[[str, Any], None]) -> None:
        register("all-reduce", AllReduce())

    @hookimpl
    def register_workloads(self, register: Callable[[str, Any], None]) -> None:
        register("ptdp", Training())

    @hookimpl
    def register_controllers(self, register: Callable[[str, Any], None]) -> None:
        register("ryu", Anything())

    @hookimpl
    def register_transports(self, register: Callable[[str, Any], None]) -> None:
        register("rocev2", Anything())

    @hookimpl
    def register_choosers(self, register: Callable[[str, Any], None]) -> None:
        register("in-turn", InTurn())

    @hookimpl
    def register_congestion_controls(self, register: Callable[[str, Any], None]) -> None:
        register("window", Window())

    @hookimpl
    def register_engines(self, register: Callable[[str, Any], None]) -> None:
        register("emulation", Anything())


@pytest.fixture(scope="session")
def registers() -> Registers:
    return Registers(
        [("topologies", topologies), ("hscore", hscore), ("estimators", estimators), ("others", Others())]
    )


@pytest.fixture(scope="session")
def fabric(registers: Registers) -> Fabric:
    """rail-only, 4 domains x 4 rails."""
    built = registers["topology"]["rail-only"].build({"domains": 4, "rails": 4})
    assert isinstance(built, Fabric)
    return built


@pytest.fixture(scope="session")
def loop(registers: Registers) -> Fabric:
    """4 GPUs in a ring, two parallel cables each hop."""
    built = registers["topology"]["loop"].build({"gpus": 4})
    assert isinstance(built, Fabric)
    return built


@pytest.fixture
def result() -> RunResult:
    """A run of four iterations of 1 s, broken from 2 s on, rerouted at 4.5 s. Rate scale 1e-5."""
    none = np.zeros(0, np.int64)
    schedule = Schedule(
        "all-reduce", 16, 1 << 20, "float32", "sum", 1 << 20,
        none, none, none, none, none, none, none, np.zeros(1, np.int64), none,
    )  # fmt: skip
    seconds, starts = (1.0, 1.0, 2.5, 1.25), (0.0, 1.0, 2.0, 4.5)
    found = [
        IterationResult(i, s, 0, 1000, 2, 1, 1 << 22, (s / 2, s / 2), 0.1, 0.0) for i, s in enumerate(seconds)
    ]
    iterations = [timed(f, schedule, start, 0.6, 0.9, 3e6) for f, start in zip(found, starts, strict=True)]
    rows = iteration_rows(iterations, rate_scale=1e-5, busbw_factor=2 * 15 / 16)
    faults = (FaultFigures("at=iter:2 degrade rail:1 to=20%", "degrade", "rail:1", 2.0, 32),)
    reroutes = (RerouteFigures(4.5, 3, 24, "rail:1 1.00 -> 0.20"),)
    return RunResult(
        experiment={"topology": {"name": "rail-only"}, "collective": {"name": "all-reduce"}, "seed": 1},
        seed=1,
        versions={"railweave": "0.1.0"},
        fabric=FabricFigures("rail-only", 16, 8, 64, 1e-5),
        controller=ControllerFigures("ryu", 320, 0.4),
        rows=rows,
        iterations=iteration_groups(rows, faults, reroutes),
        links=(LinkFigures("g0.0->d0", "d", 1 << 20, 0, 0.4, 1.0),),
        health=(HealthPoint(3.0, 2, {"rail:0": 1.0, "rail:1": 0.2, "domain:0": 1.0}, {"g0.1->r1": 0.2}),),
        faults=faults,
        reroutes=reroutes,
        fidelity=Fidelity("pass"),
        bottlenecks=(
            Bottleneck(0, "rail:0", "g0.0->r0", 0, 0.3, True),
            Bottleneck(2, "rail:1", "g0.1->r1", 1, 0.61, False),
            Bottleneck(None, "rail:1", "g0.1->r1", 1, 0.4, False),
        ),
        timing=WallTimes(5.0, 6.0, 0.5),
        memory_peak_mb=400.0,
        cpu_s={"switches": 3.0},
    )
