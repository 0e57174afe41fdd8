"""Registers the collectives and the transport."""

from __future__ import annotations

from collections.abc import Callable

from railweave.framework.hookspecs import Collective, Transport, hookimpl
from railweave.traffic.collectives.hierarchical import HierarchicalAllReduce
from railweave.traffic.collectives.neighbor_exchange import NeighborExchange
from railweave.traffic.collectives.one_stage import OneStage
from railweave.traffic.collectives.optree import OpTree
from railweave.traffic.collectives.ring import RingAllReduce
from railweave.traffic.collectives.ring_all_gather import RingAllGather
from railweave.traffic.collectives.wrht import Wrht
from railweave.traffic.proxy import RoceV2


@hookimpl
def register_collectives(register: Callable[[str, Collective], None]) -> None:
    register("all-reduce", HierarchicalAllReduce())
    register("ring-all-reduce", RingAllReduce())
    register("ring-all-gather", RingAllGather())
    register("neighbor-exchange", NeighborExchange())
    register("one-stage", OneStage())
    register("wrht", Wrht())
    register("optree", OpTree())


@hookimpl
def register_transports(register: Callable[[str, Transport], None]) -> None:
    register("rocev2", RoceV2())
