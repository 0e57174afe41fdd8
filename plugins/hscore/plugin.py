"""Registers the h-score router."""

from collections.abc import Callable

from railweave.framework.hookspecs import Router, hookimpl
from railweave.plugins.hscore.router import HScore


@hookimpl
def register_routers(register: Callable[[str, Router], None]) -> None:
    register("hscore", HScore())
