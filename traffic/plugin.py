"""Registers the collectives, the workloads and the transport."""

from __future__ import annotations

from collections.abc import Callable

from railweave.framework.hookspecs import Collective, Transport, Workload, hookimpl
from railweave.traffic.collectives.broadcast import Broadcast
from railweave.traffic.collectives.direct_all_to_all import DirectAllToAll
from railweave.traffic.collectives.halving_doubling import HalvingDoublingAllReduce
from railweave.traffic.collectives.hierarchical import HierarchicalAllReduce
from railweave.traffic.collectives.hierarchical_all_gather import HierarchicalAllGather
from railweave.traffic.collectives.hierarchical_all_to_all import HierarchicalAllToAll
from railweave.traffic.collectives.hierarchical_reduce_scatter import HierarchicalReduceScatter
from railweave.traffic.collectives.msccl import Msccl
from railweave.traffic.collectives.multi_ring import MultiRingAllReduce
from railweave.traffic.collectives.neighbor_exchange import NeighborExchange
from railweave.traffic.collectives.one_stage import OneStage
from railweave.traffic.collectives.optree import OpTree
from railweave.traffic.collectives.pipelined import PipelinedAllReduce
from railweave.traffic.collectives.ring import RingAllReduce
from railweave.traffic.collectives.ring_all_gather import RingAllGather
from railweave.traffic.collectives.ring_reduce_scatter import RingReduceScatter
from railweave.traffic.collectives.send_recv import SendRecv
from railweave.traffic.collectives.tree_all_reduce import TreeAllReduce
from railweave.traffic.collectives.wrht import Wrht
from railweave.traffic.proxy import RoceV2
from railweave.traffic.workloads.chakra import Chakra
from railweave.traffic.workloads.ptdp import Ptdp


@hookimpl
def register_collectives(register: Callable[[str, Collective], None]) -> None:
    register("all-reduce", HierarchicalAllReduce())
    register("pipelined-all-reduce", PipelinedAllReduce())
    register("ring-all-reduce", RingAllReduce())
    register("multi-ring-all-reduce", MultiRingAllReduce())
    register("halving-doubling-all-reduce", HalvingDoublingAllReduce())
    register("tree-all-reduce", TreeAllReduce())
    register("all-gather", HierarchicalAllGather())
    register("ring-all-gather", RingAllGather())
    register("reduce-scatter", HierarchicalReduceScatter())
    register("ring-reduce-scatter", RingReduceScatter())
    register("all-to-all", HierarchicalAllToAll())
    register("direct-all-to-all", DirectAllToAll())
    register("broadcast", Broadcast())
    register("send-recv", SendRecv())
    register("msccl", Msccl())
    register("neighbor-exchange", NeighborExchange())
    register("one-stage", OneStage())
    register("wrht", Wrht())
    register("optree", OpTree())


@hookimpl
def register_workloads(register: Callable[[str, Workload], None]) -> None:
    register("ptdp", Ptdp())
    register("chakra", Chakra())


@hookimpl
def register_transports(register: Callable[[str, Transport], None]) -> None:
    register("rocev2", RoceV2())
