"""Registers the built-in fabrics."""

from collections.abc import Callable

from railweave.framework.hookspecs import Topology, hookimpl
from railweave.topologies.clos import Clos
from railweave.topologies.fat_tree import FatTree
from railweave.topologies.from_file import FromFile
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.rail_optimised import RailOptimised
from railweave.topologies.ring import Ring
from railweave.topologies.torus import Torus, TwistedTorus


@hookimpl
def register_topologies(register: Callable[[str, Topology], None]) -> None:
    every = (RailOnly(), RailOptimised(), Ring(), Torus(), TwistedTorus(), FatTree(), Clos())
    built_in = {topology.kind: topology for topology in every}
    for kind, topology in built_in.items():
        register(kind, topology)
    register("file", FromFile(built_in))
