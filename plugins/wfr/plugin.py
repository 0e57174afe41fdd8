"""Registers the wild-first router."""

from collections.abc import Callable

from railweave.framework.hookspecs import Router, hookimpl
from railweave.plugins.wfr.router import WildFirstRouting


@hookimpl
def register_routers(register: Callable[[str, Router], None]) -> None:
    register("wfr", WildFirstRouting())
