"""Registers the router of optical rings."""

from collections.abc import Callable

from railweave.framework.hookspecs import Router, hookimpl
from railweave.plugins.optree.router import OpTree


@hookimpl
def register_routers(register: Callable[[str, Router], None]) -> None:
    register("optree", OpTree())
