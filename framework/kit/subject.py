"""The plugin under check, and what a router is held to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from railweave.framework.errors import PluginError, blaming
from railweave.framework.experiment.plugin_calls import configured
from railweave.framework.model import Fabric, HealthSnapshot, RouteTable
from railweave.framework.parameters import resolve
from railweave.framework.routing.router_calls import ask

REROUTES = "reroutes"
EQUAL_SPLIT = "equal-split"
DEADLOCK_FREE = "deadlock-free"
PROMISES: Mapping[str, str] = {
    REROUTES: "a pair loses its path only where the fabric itself is cut",
    EQUAL_SPLIT: "the paths of a pair carry equal shares",
    DEADLOCK_FREE: "channels (links and virtual channels) never wait for each other in a cycle",
}
"""What a router may promise for a fabric, by its method `promises`."""


@dataclass(frozen=True)
class Subject:
    """A registered object, configured afresh by every `made`."""

    kind: str
    name: str
    registered: Any
    options: Mapping[str, object]

    def made(self) -> Any:
        """The object with its options. Raises PluginError if configuring fails, ExperimentError for options
        it does not take."""
        values = resolve(f"{self.kind} {self.name}", self.registered.parameters, self.options)
        return configured(self.kind, self.name, self.registered, values)

    def ask(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """What a fresh router answers. Raises RouteError naming it where it fails."""
        return ask(self.made(), self.name, fabric, health)

    def promises(self, fabric: Fabric) -> frozenset[str]:
        """What a router is held to on this fabric. Raises PluginError for unknown words."""
        router = self.made()
        with blaming(f"router {self.name}: promises()"):
            words = frozenset(router.promises(fabric))
        if unknown := words - PROMISES.keys():
            raise PluginError(
                f"router {self.name} promises {', '.join(sorted(unknown))}; the words are: "
                f"{', '.join(PROMISES)}."
            )
        return words
