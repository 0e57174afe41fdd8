"""Registers the collectives, the workloads, the transport and its benchmark."""

from collections.abc import Callable, Mapping

from railweave.framework.hookspecs import (
    Benchmark,
    Collective,
    CongestionControl,
    PathChooser,
    Transport,
    Workload,
    hookimpl,
)
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.choosers import IN_TURN, MESSAGES, AtRandom, Flowlets, InTurn, Reps, WholeMessages
from railweave.traffic.collectives.all_to_all import DirectAllToAll, HierarchicalAllToAll
from railweave.traffic.collectives.halving_doubling import HalvingDoublingAllReduce
from railweave.traffic.collectives.hierarchical import (
    HierarchicalAllGather,
    HierarchicalAllReduce,
    HierarchicalReduceScatter,
    PipelinedAllReduce,
)
from railweave.traffic.collectives.msccl import Msccl
from railweave.traffic.collectives.multi_ring import MultiRingAllReduce
from railweave.traffic.collectives.optical import NeighborExchange, OneStage, OpTreeAllGather, Wrht
from railweave.traffic.collectives.patterns import Incast, MoeAllToAll, Permutation
from railweave.traffic.collectives.rings import RingAllGather, RingAllReduce, RingReduceScatter, SendRecv
from railweave.traffic.collectives.trees import Broadcast, TreeAllReduce
from railweave.traffic.controls.dcqcn import Dcqcn
from railweave.traffic.controls.nscc import Nscc
from railweave.traffic.controls.swift import Swift
from railweave.traffic.controls.window import WINDOW, Window
from railweave.traffic.proxy import RoceV2
from railweave.traffic.workloads.arrivals import PoissonArrivals
from railweave.traffic.workloads.chakra import Chakra
from railweave.traffic.workloads.kv import KvTransfer
from railweave.traffic.workloads.ptdp import Ptdp
from railweave.traffic.workloads.simccl import SimCcl


class TransportBenchmark(Benchmark):
    """Packets per second of one core."""

    summary = "payload packets per second of one core over one veth, against scapy and a bare socket loop"
    parameters: tuple[Parameter, ...] = (
        Parameter("seconds", 3.0, "time", "how long to measure in all", minimum=0.01),
    )
    in_lab = True

    def run(self, options: Mapping[str, Value], progress: Callable[[str], None]) -> Mapping[str, float]:
        from railweave.traffic.bench import measure

        return measure(float(options["seconds"]), progress)


@hookimpl
def register_collectives(register: Callable[[str, Collective], None]) -> None:
    for algorithm in (
        HierarchicalAllReduce(),
        PipelinedAllReduce(),
        RingAllReduce(),
        MultiRingAllReduce(),
        HalvingDoublingAllReduce(),
        TreeAllReduce(),
        HierarchicalAllGather(),
        RingAllGather(),
        HierarchicalReduceScatter(),
        RingReduceScatter(),
        HierarchicalAllToAll(),
        DirectAllToAll(),
        MoeAllToAll(),
        Permutation(),
        Incast(),
        Broadcast(),
        SendRecv(),
        Msccl(),
        NeighborExchange(),
        OneStage(),
        Wrht(),
        OpTreeAllGather(),
    ):
        register(algorithm.name, algorithm)


@hookimpl
def register_workloads(register: Callable[[str, Workload], None]) -> None:
    register("ptdp", Ptdp())
    register("chakra", Chakra())
    register("simccl", SimCcl())
    register("arrivals", PoissonArrivals())
    register("kv", KvTransfer())


@hookimpl
def register_choosers(register: Callable[[str, PathChooser], None]) -> None:
    register(IN_TURN, InTurn())
    register(MESSAGES, WholeMessages())
    register("random", AtRandom())
    register("reps", Reps())
    register("flowlets", Flowlets())


@hookimpl
def register_congestion_controls(register: Callable[[str, CongestionControl], None]) -> None:
    register(WINDOW, Window())
    register("dcqcn", Dcqcn())
    register("swift", Swift())
    register("nscc", Nscc())


@hookimpl
def register_transports(register: Callable[[str, Transport], None]) -> None:
    register("rocev2", RoceV2())


@hookimpl
def register_benchmarks(register: Callable[[str, Benchmark], None]) -> None:
    register("transport", TransportBenchmark())
