"""What items compute with: the calls of railweave, one set of plugins, and one engine for runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from railweave.framework.analysis.assumed_health import AssumedScores, assumed_health
from railweave.framework.analysis.explain import ExplainedPair
from railweave.framework.analysis.link_loads import LoadReport, Pattern, report
from railweave.framework.api import runs, studies
from railweave.framework.experiment.plan import Routed, plan_from_keys, routed_from_keys
from railweave.framework.model import Fabric, HealthSnapshot, RouteTable
from railweave.framework.model.coordinates import Counting
from railweave.framework.model.events import RunEvent
from railweave.framework.registry import Registers
from railweave.framework.results.result import RunResult
from railweave.framework.routing.router_calls import ask_for_live_links
from railweave.framework.studies.sweeps import sweep_of_keywords

FROM_ONE = Counting(1)
"""The sources count domains and rails from 1."""


@dataclass(frozen=True)
class Workbench:
    """`engine`: the name of the one that runs are carried out on; `on_event` receives their events."""

    registers: Registers
    engine: str
    on_event: Callable[[RunEvent], None] = lambda event: None

    def fabric(self, name: str, **parameters: object) -> Fabric:
        """A fabric with its declared rates. Raises ExperimentError for wrong parameters."""
        return runs.topology(name, registers=self.registers, **parameters)

    def explained(
        self, fabric: Fabric, pair: tuple[str, str], scores: AssumedScores | None = None, **keys: object
    ) -> ExplainedPair:
        """The paths of a pair and the router's reasons; `keys`: router, its parameters, faults."""
        return runs.explain(*pair, scores=scores, routed=self.routed(topology=fabric, **keys))

    def loads(self, pattern: str | Pattern, **keys: object) -> LoadReport:
        """The load of every link; `keys`: topology, router, their parameters, faults."""
        if isinstance(pattern, str):
            return runs.loads(pattern, routed=self.routed(**keys))
        fabric, name, router, faults = self.routed(**keys)
        return report(name, router, fabric, assumed_health(fabric, None, faults), pattern)

    def routed(self, **keys: object) -> Routed:
        """The fabric, router and faults of these keys."""
        return routed_from_keys(keys, self.registers)

    def table(self, **keys: object) -> tuple[Fabric, HealthSnapshot, RouteTable]:
        """The fabric, its health after the faults, and the router's table for both."""
        fabric, name, router, faults = self.routed(**keys)
        health = assumed_health(fabric, None, faults)
        return fabric, health, ask_for_live_links(router, name, fabric, health)

    def run(self, **keys: object) -> RunResult:
        """A run on the engine, without a directory. Raises what `rw.run` raises."""
        plan = plan_from_keys({**keys, "engine": self.engine}, self.registers)
        return runs.run(plan, registers=self.registers, on_event=self.on_event)

    def sweep(self, axes: Mapping[str, Sequence[object]], **keys: object) -> Sequence[Mapping[str, object]]:
        """The rows of a study over these axes, in the order of its points (docs/studies.md)."""
        sweep = sweep_of_keywords(axes, {**keys, "engine": self.engine}, {}, limited=False)
        return studies.in_turn(sweep, self.registers)


def scored(fabric: Fabric, **scores: Sequence[float]) -> AssumedScores:
    """Scores by kind of switch (`domain`, `rail`, `spine`), in their order; coordinates count from 1."""
    nodes: dict[int, float] = {}
    for kind, values in scores.items():
        group = fabric.group(kind)
        assert group is not None, f"{fabric.kind} has no {kind}"
        nodes |= {group.first + i: float(value) for i, value in enumerate(values)}
    return AssumedScores(FROM_ONE, nodes)
