"""Changed routes as rules for switches and entropies for senders."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from railweave.framework.health.options import HealthOptions
from railweave.framework.health.outlook import Outage
from railweave.framework.hookspecs import Router
from railweave.framework.model import (
    EntropyTable,
    Fabric,
    HealthSnapshot,
    PathBatch,
    RouteTable,
    Rule,
    RuleUpdate,
)
from railweave.framework.model.arrays import Int64
from railweave.framework.routing.batches import table_from_batch
from railweave.framework.routing.demand import JobDemand
from railweave.framework.routing.forecast import Prospects
from railweave.framework.routing.reroute import Pairs, RoutesInUse
from railweave.framework.routing.table_checks import pair_name
from railweave.framework.routing.updates import counted, initial, plan, unruled


@dataclass(frozen=True, eq=False, slots=True)
class Reroute:
    """Changed routes on their way to the switches.

    `pairs`: (M, 2), the (src, dst) whose paths, or shares of them, changed. `unreachable`: names of the pairs
    that have no path any more.
    Update and entropies are empty where no switch needs rules.
    """

    update: RuleUpdate
    entropies: EntropyTable
    table: RouteTable
    pairs: Int64
    why: str
    unreachable: tuple[str, ...]

    @property
    def pairs_changed(self) -> int:
        return len(self.pairs)


class RouteControl:
    """The routes in use and the rules that make the switches follow them; the entropies carry the fabric's
    rates. No rules are planned without `by_rules`.

    Other arguments and errors as of `RoutesInUse`.
    """

    def __init__(
        self,
        fabric: Fabric,
        router: Router,
        options: HealthOptions,
        name: str = "",
        pairs: Pairs | None = None,
        demand: JobDemand | None = None,
        *,
        by_rules: bool = True,
        first: Sequence[PathBatch] = (),
    ) -> None:
        self.fabric, self._by_rules = fabric, by_rules
        self._routes = RoutesInUse(fabric, router, options, name, pairs, demand, first=first)
        paths = self._routes.paths
        self.installed, self.entropies = initial(fabric, paths) if by_rules else unruled(paths)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule that the switches should hold now."""
        return self.installed.rules

    @property
    def table(self) -> RouteTable:
        """The routes in use; RouteError for other pairs."""
        installed = self.installed
        return table_from_batch(self._routes.name, installed.version, self.fabric.n_gpus, installed.batch)

    def asks(self, health: HealthSnapshot, now_s: float) -> bool:
        """As `RoutesInUse.asks`."""
        return self._routes.asks(health, now_s)

    def carry(self, demand: JobDemand | None) -> None:
        """As `RoutesInUse.carry`."""
        self._routes.carry(demand)

    def react(
        self,
        health: HealthSnapshot,
        now_s: float,
        prospects: Prospects = (),
        outage: Outage | None = None,
    ) -> Reroute | None:
        """The change of routes and rules that newly published scores ask for, or None."""
        change = self._routes.react(health, now_s, prospects, outage)
        if change is None:
            return None
        if self._by_rules:
            self.installed, update, self.entropies = plan(
                self.fabric, self.installed, change.paths, change.moved, change.version
            )
        else:
            update = RuleUpdate(change.version, (), (), ())
            self.installed, self.entropies = unruled(change.paths, change.version)
        pairs = np.stack((change.paths.src, change.paths.dst), axis=1)[change.moved | change.weighed]
        return Reroute(update, self.entropies, self.table, pairs, change.why, tuple(self.unreachable()))

    def rest(self) -> None:
        """Do what the next change is to find done; call it while none waits. Cheap when nothing is left."""
        self.installed = counted(self.fabric, self.installed)

    def unreachable(self) -> list[str]:
        """The pairs that have no path now."""
        return [pair_name(self.fabric, *pair) for pair in self.installed.unreachable]
