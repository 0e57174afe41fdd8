"""Offers the engine `fluid`."""

from collections.abc import Callable

from railweave.framework.hookspecs import Engine, hookimpl
from railweave.plugins.fluid.engine import FluidEngine


@hookimpl
def register_engines(register: Callable[[str, Engine], None]) -> None:
    register("fluid", FluidEngine())
