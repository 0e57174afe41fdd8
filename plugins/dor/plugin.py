"""Registers the dimension-order router."""

from collections.abc import Callable

from railweave.framework.hookspecs import Router, hookimpl
from railweave.plugins.dor.router import DimensionOrder


@hookimpl
def register_routers(register: Callable[[str, Router], None]) -> None:
    register("dor", DimensionOrder())
