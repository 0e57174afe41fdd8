"""Registers the shortest-path router."""

from collections.abc import Callable

from railweave.framework.hookspecs import Router, hookimpl
from railweave.plugins.shortest.router import Shortest


@hookimpl
def register_routers(register: Callable[[str, Router], None]) -> None:
    register("shortest", Shortest())
