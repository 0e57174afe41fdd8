"""Registers the equal-cost multi-path router."""

from collections.abc import Callable

from railweave.framework.hookspecs import Router, hookimpl
from railweave.plugins.ecmp.router import Ecmp


@hookimpl
def register_routers(register: Callable[[str, Router], None]) -> None:
    register("ecmp", Ecmp())
