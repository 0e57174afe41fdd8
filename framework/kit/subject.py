"""The router under check, and what it is held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from railweave.framework.errors import PluginError, RailweaveError
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, RouteTable
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers
from railweave.framework.routing.asking import ask

REROUTES = "reroutes"
EQUAL_SPLIT = "equal-split"
DEADLOCK_FREE = "deadlock-free"
PROMISES: Mapping[str, str] = {
    REROUTES: "a pair loses its path only where the fabric itself is cut",
    EQUAL_SPLIT: "the paths of a pair carry equal shares",
    DEADLOCK_FREE: "channels (links and virtual channels) never wait for each other in a circle",
}
"""What a router may promise for a fabric, by its optional method `promises(fabric)`."""

LOSSLESS = ("torus", "twisted-torus")
"""Kinds of fabrics that lose no packet and so can deadlock."""


@dataclass(frozen=True)
class Subject:
    """A registered router, configured afresh whenever asked."""

    name: str
    registered: Router
    options: Mapping[str, object]

    @classmethod
    def of(cls, name: str, registers: Registers, options: Mapping[str, object]) -> Subject:
        """Raises PluginError for a name that is not there, ExperimentError for options it does not take."""
        router = registers["router"][name]
        resolve(f"router {name}", getattr(router, "parameters", ()), options)
        return cls(name, router, options)

    def made(self) -> Router:
        """The router with its options. Raises PluginError if configuring fails."""
        values = resolve(f"router {self.name}", self.registered.parameters, self.options)
        try:
            router = self.registered.configured(values)
        except RailweaveError:
            raise
        except Exception as error:
            raise PluginError(
                f"router {self.name}: configured({values}) fails with {type(error).__name__}: {error}."
            ) from error
        if not callable(getattr(router, "routes", None)):
            raise PluginError(
                f"router {self.name}: configured() gives {router!r}, which has no routes(). Return the router to use."
            )
        return router

    def ask(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """What a fresh router answers. Raises RouteError naming it where it fails."""
        return ask(self.made(), self.name, fabric, health)

    def promises(self, fabric: Fabric) -> frozenset[str]:
        """What it is held to on this fabric: what it says, or all but the equal split if it says nothing.

        Deadlock-freedom is asked of silent routers on lossless kinds alone. Raises PluginError for unknown words.
        """
        say = getattr(self.made(), "promises", None)
        if say is None:
            return frozenset({REROUTES, *({DEADLOCK_FREE} if fabric.kind in LOSSLESS else ())})
        said = frozenset(say(fabric))
        if unknown := said - PROMISES.keys():
            raise PluginError(
                f"router {self.name} promises {', '.join(sorted(unknown))}; the words are: {', '.join(PROMISES)}."
            )
        return said
