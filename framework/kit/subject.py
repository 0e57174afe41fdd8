"""The plugin under check, what a router is held to, and the fabrics to check on: the examples of every
registered topology."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from railweave.framework.errors import PluginError, RailweaveError, blaming
from railweave.framework.experiment.plugin_calls import configured, fabric_of
from railweave.framework.kit.check_report import Violation
from railweave.framework.model import Fabric, HealthSnapshot, RouteTable
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers
from railweave.framework.routing.router_calls import ask

Options = Mapping[str, object]

MOST_GPUS = 256
"""GPUs up to which a fabric is small, so that every check is made on it."""


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
    options: Options

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


@dataclass(frozen=True, slots=True)
class Sample:
    """A fabric and what to call it: `rail-only (domains 2, rails 2)`."""

    name: str
    fabric: Fabric
    topology: str
    options: Options

    @property
    def small(self) -> bool:
        return self.fabric.n_gpus <= MOST_GPUS


def examples(registers: Registers) -> tuple[list[Sample], list[Violation]]:
    """The examples of every registered topology, and what is wrong with those that cannot be built."""
    samples, wrong = list[Sample](), list[Violation]()
    for name, topology in registers["topology"].items():
        for options in topology.examples:
            try:
                samples.append(built(registers, name, options))
            except RailweaveError as error:
                wrong.append(Violation.of(called(name, options), error))
    return samples, wrong


def built(registers: Registers, name: str, options: Options) -> Sample:
    """Raises ExperimentError, FabricError or PluginError where there is no such fabric."""
    topology = registers["topology"][name]
    params = resolve(f"topology {name}", topology.parameters, options)
    topology = configured("topology", name, topology, params)
    return Sample(called(name, options), fabric_of(name, topology, params), name, options)


def on(registers: Registers, text: str) -> Sample:
    """The fabric `NAME` or `NAME:FILE`, with the topology's defaults. Raises as `built`."""
    name, colon, file = text.partition(":")
    return built(registers, name, {"file": file} if colon else {})


def called(name: str, options: Options) -> str:
    inside = ", ".join(f"{key} {value}" for key, value in options.items())
    return f"{name} ({inside})" if inside else name
