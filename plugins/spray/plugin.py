"""Registers the spraying router."""

from collections.abc import Callable

from railweave.framework.hookspecs import Router, hookimpl
from railweave.plugins.spray.router import Spray


@hookimpl
def register_routers(register: Callable[[str, Router], None]) -> None:
    register("spray", Spray())
