"""Offers the engine `fluid`."""

from collections.abc import Callable

from railweave.framework.fluid.engine import FluidEngine
from railweave.framework.hookspecs import Engine, hookimpl


@hookimpl
def register_engines(register: Callable[[str, Engine], None]) -> None:
    register("fluid", FluidEngine())
