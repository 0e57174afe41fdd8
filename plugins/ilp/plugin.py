"""Registers the optimising router."""

from collections.abc import Callable

from railweave.framework.hookspecs import Router, hookimpl
from railweave.plugins.ilp.router import OptimisedRouting


@hookimpl
def register_routers(register: Callable[[str, Router], None]) -> None:
    register("ilp", OptimisedRouting())
