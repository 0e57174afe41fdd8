"""Fabrics from files: `--topology file:FABRIC.yaml`."""

from collections.abc import Mapping
from dataclasses import replace

from railweave.framework.errors import FabricError, RailweaveError
from railweave.framework.hookspecs import Topology
from railweave.framework.model import Fabric
from railweave.framework.parameters import Parameter, Value


class FromFile(Topology):
    """The fabric that a file describes: railweave's own format, InfraGraph YAML or GraphML (docs/fabrics.md).

    A file whose `name` is that of a built-in topology must hold exactly that fabric, because collectives and
    closed forms go by the name.
    """

    summary = "the fabric in a file: --topology file:FABRIC.yaml"
    parameters: tuple[Parameter, ...] = (
        Parameter("file", "", "text", "the file: fabric YAML, InfraGraph YAML or GraphML"),
        Parameter(
            "default_rate",
            "none",
            "text",
            "rate of InfraGraph links without a bandwidth, or of each kind: nvlink=450GB/s,pcie=64GB/s",
        ),
    )
    examples: tuple[Mapping[str, object], ...] = ()

    def __init__(self, built_in: Mapping[str, Topology]) -> None:
        self._built_in = built_in

    def configured(self, options: Mapping[str, Value]) -> Topology:
        """One for this file alone, as it keeps notes."""
        return FromFile(self._built_in)

    def build(self, params: Mapping[str, Value]) -> Fabric:
        """Raises ExperimentError with file, line and the fix; FabricError without a file."""
        from railweave.framework.fabric_files import NO_RATES, DefaultRates, load  # a file needs its readers

        if not params["file"]:
            raise FabricError("topology file needs a file: --topology file:FABRIC.yaml.")
        text = str(params["default_rate"])
        rates = NO_RATES if text == "none" else DefaultRates.read(text)
        contents = load(str(params["file"]), rates)
        self.notes = tuple(f"{params['file']}: {sentence}" for sentence in contents.lost)
        fabric = contents.fabric
        if twin := self._built_in.get(fabric.kind):
            _must_equal(twin, fabric, str(params["file"]))
        return fabric


def _must_equal(topology: Topology, fabric: Fabric, path: str) -> None:
    """Raises FabricError for a file that goes by the name of a built-in fabric and holds another one."""
    try:
        options = {p.name: p.parse(fabric.params[p.name]) for p in topology.parameters}
        built = replace(topology.build(options), axis_names=fabric.axis_names, traits=fabric.traits)
    except (KeyError, RailweaveError):
        built = None
    if built != fabric or topology.lossless != ("lossless" in fabric.traits):
        raise FabricError(
            f"{path}: {fabric.kind} is the name of a built-in fabric, and this one is not what its options "
            "give. Give it a name of its own, such as `name: my-fabric`."
        )
