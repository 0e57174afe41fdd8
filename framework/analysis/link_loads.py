"""Link loads of a demand on a fabric in its present health, and its throughput relative to the healthy
fabric."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from railweave.framework.analysis.demand import Demand
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, RouteTable
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.routing.loads import LinkLoads, all_to_all_loads, link_loads
from railweave.framework.routing.router_calls import ask_for_live_links


@dataclass(frozen=True, slots=True)
class KindLoads:
    """Loads of the links of one kind, in the demand's unit; `down` links carry nothing and are left out."""

    kind: str
    links: int
    down: int
    most: float
    least: float
    mean: float


@dataclass(frozen=True, eq=False)
class LoadReport:
    """What `demand` puts on the links of `fabric`. `load` (n_links,) in the demand's unit; `busy_s`
    (n_links,) the load over the rate left, for bytes: s.

    `unreachable` (M, 2): pairs [src, dst] of the demand without a path, `unroutable` their amount. `ratio`:
    throughput relative to the same demand on the healthy fabric, if all pairs progress equally: the busiest
    link's time there over its time here; 0 with unreachable pairs. `ratio_of_routed`: the same without the
    unreachable pairs.
    """

    fabric: Fabric
    demand: Demand
    load: Float
    busy_s: Float
    kinds: tuple[KindLoads, ...]
    unreachable: Int64
    unroutable: float
    ratio: float
    ratio_of_routed: float


def tables_asked(health: HealthSnapshot) -> int:
    """How many times `report` routes the demand: twice for a damaged fabric, which is compared with the
    healthy one."""
    return 1 + _damaged(health)


def report(
    name: str,
    router: Router,
    fabric: Fabric,
    health: HealthSnapshot,
    demand: Demand,
    watch: Callable[[int], None] = lambda pairs: None,
) -> LoadReport:
    """The loads of `demand` by `router`'s paths under `health`; `watch` is called with the number of pairs
    done.

    A link of score h passes h times its declared rate.

    Raises PluginError for a router that breaks its contract.
    """
    now = _loads(fabric, ask_for_live_links(router, name, fabric, health, watch), demand)
    rate = fabric.capacity_bps * health.link_score
    busy = np.divide(now.load * 8, rate, out=np.zeros(fabric.n_links), where=rate > 0)
    before = busy
    if _damaged(health):
        table = ask_for_live_links(router, name, fabric, HealthSnapshot.healthy(fabric), watch)
        before = _loads(fabric, table, demand).load * 8 / fabric.capacity_bps
    routed = float(before.max() / busy.max()) if busy.any() else 0.0
    kinds = tuple(
        _of_kind(kind, now.load[fabric.link_kind == i], health.down[fabric.link_kind == i])
        for i, kind in enumerate(fabric.kinds)
    )
    return LoadReport(
        fabric,
        demand,
        now.load,
        busy,
        kinds,
        now.unreachable,
        now.unroutable,
        0.0 if len(now.unreachable) else routed,
        routed,
    )


def _damaged(health: HealthSnapshot) -> bool:
    return bool((health.link_score < 1).any() or (health.element_score < 1).any())


def _loads(fabric: Fabric, table: RouteTable, demand: Demand) -> LinkLoads:
    if demand.uniform:
        return all_to_all_loads(fabric, table)
    return link_loads(fabric, table, demand.src, demand.dst, demand.amount)


def _of_kind(kind: str, load: Float, down: np.ndarray) -> KindLoads:
    live = load[~down]
    figures = (float(live.max()), float(live.min()), float(live.mean())) if live.size else (0.0, 0.0, 0.0)
    return KindLoads(kind, len(load), int(down.sum()), *figures)
