"""Registers the built-in fabrics."""

from __future__ import annotations

from collections.abc import Callable

from railweave.framework.hookspecs import Topology, hookimpl
from railweave.topologies.rail_only import KIND, RailOnly


@hookimpl
def register_topologies(register: Callable[[str, Topology], None]) -> None:
    register(KIND, RailOnly())
