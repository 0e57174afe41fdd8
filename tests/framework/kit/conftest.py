"""The fixture under test, and registers of the built-in fabrics with any routers added."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from railweave.framework.hookspecs import hookimpl
from railweave.framework.kit.pytest_fixtures import check_plugin
from railweave.framework.registry import Registers
from railweave.topologies import plugin as topologies

__all__ = ["check_plugin"]

WithRouters = Callable[..., Registers]


class Stranger:
    """A plugin module in all but file."""

    def __init__(self, routers: dict[str, Any]) -> None:
        self._routers = routers

    @hookimpl
    def register_routers(self, register: Callable[[str, Any], None]) -> None:
        for name, router in self._routers.items():
            register(name, router)


@pytest.fixture(scope="session")
def with_routers() -> WithRouters:
    return lambda **routers: Registers([("topologies", topologies), ("stranger", Stranger(routers))])
