"""Offers the OpenFlow controllers `ryu` and `os-ken`. Imports neither library."""

from __future__ import annotations

from collections.abc import Callable

from railweave.controllers.client import ControllerProcess
from railweave.framework.hookspecs import Controller, hookimpl


@hookimpl
def register_controllers(register: Callable[[str, Controller], None]) -> None:
    register("ryu", ControllerProcess("ryu", "Ryu 4.34 under eventlet, started by our own launcher"))
    register(
        "os-ken", ControllerProcess("os-ken", "os-ken, the maintained fork of Ryu, under native threads")
    )
