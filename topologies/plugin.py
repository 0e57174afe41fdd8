"""Registers the built-in fabrics."""

from collections.abc import Callable

from railweave.framework.hookspecs import Topology, hookimpl
from railweave.topologies.rail_only import KIND, RailOnly
from railweave.topologies.rail_optimised import KIND as RAIL_OPTIMISED
from railweave.topologies.rail_optimised import RailOptimised
from railweave.topologies.ring import KIND as RING
from railweave.topologies.ring import Ring
from railweave.topologies.torus import KIND as TORUS
from railweave.topologies.torus import Torus
from railweave.topologies.twisted_torus import KIND as TWISTED_TORUS
from railweave.topologies.twisted_torus import TwistedTorus


@hookimpl
def register_topologies(register: Callable[[str, Topology], None]) -> None:
    register(KIND, RailOnly())
    register(RAIL_OPTIMISED, RailOptimised())
    register(RING, Ring())
    register(TORUS, Torus())
    register(TWISTED_TORUS, TwistedTorus())
