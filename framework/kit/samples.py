"""Fabrics to check plugins on: the examples of every registered topology."""

from collections.abc import Mapping
from dataclasses import dataclass

from railweave.framework.errors import RailweaveError
from railweave.framework.experiment.plugin_calls import configured, fabric_of
from railweave.framework.kit.report import Violation
from railweave.framework.model import Fabric
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers

Options = Mapping[str, object]

MOST_GPUS = 256
"""Fabrics up to here are small: every check is made on them."""


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


def called(name: str, options: Options) -> str:
    inside = ", ".join(f"{key} {value}" for key, value in options.items())
    return f"{name} ({inside})" if inside else name
