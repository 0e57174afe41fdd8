"""Offers the engine `packet`."""

from collections.abc import Callable

from railweave.framework.hookspecs import Engine, hookimpl
from railweave.plugins.packet.engine import PacketEngine


@hookimpl
def register_engines(register: Callable[[str, Engine], None]) -> None:
    register("packet", PacketEngine())
