"""Registers the built-in fabrics."""

from collections.abc import Callable

from railweave.framework.hookspecs import Topology, hookimpl
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.rail_optimised import RailOptimised
from railweave.topologies.ring import Ring
from railweave.topologies.torus import Torus, TwistedTorus


@hookimpl
def register_topologies(register: Callable[[str, Topology], None]) -> None:
    register(RailOnly.kind, RailOnly())
    register(RailOptimised.kind, RailOptimised())
    register(Ring.kind, Ring())
    register(Torus.kind, Torus())
    register(TwistedTorus.kind, TwistedTorus())
