"""The health loop's decisions: measurements in, changed routes and rules out. No clock, no process, no
packet."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import NoPathError
from railweave.framework.health.options import HealthOptions
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
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.batches import (
    CHUNK,
    answer,
    batches,
    join,
    replaced,
    same_paths,
    table_from_batch,
    take,
    unreachable,
)
from railweave.framework.routing.checks import check_batch, pair_name
from railweave.framework.routing.damping import broken_pairs, damped
from railweave.framework.routing.demand import DemandGate, PairDemand
from railweave.framework.routing.router_calls import ask
from railweave.framework.routing.updates import counted, initial, plan, unruled

Pairs = tuple[Int64, Int64]
"""(src, dst) of the pairs in use, (P,) each."""


@dataclass(frozen=True, eq=False, slots=True)
class RouteChange:
    """`paths` of all pairs in use; `moved` (P,): the pairs that leave their old paths; `weighed` (P,): those
    that share them out otherwise; `why`: the scores that moved."""

    version: int
    paths: PathBatch
    moved: Bool
    weighed: Bool
    why: str


class RoutesInUse:
    """The routes of the pairs that carry traffic: requests them from the router, checks and damps its
    answers.

    `pairs`: all ordered pairs of GPUs by default. They are routed, checked and damped `block` pairs at a
    time, and nothing has an entry for a pair that is not in use. `demand`: what they send; pairs leave their
    paths only if that makes it end sooner. Without it scores alone decide, as in the source. Scores are
    ratios, so the fabric may have declared or emulated rates. `first`: the first routes of these pairs, in
    blocks, where `first_routes` has given them already.

    Raises RouteError naming the router if it fails, answers with something else, or gives a path that no
    packet could follow; NoPathError for pairs that it leaves without a path while everything is healthy.
    """

    def __init__(
        self,
        fabric: Fabric,
        router: Router,
        options: HealthOptions,
        name: str = "",
        pairs: Pairs | None = None,
        demand: PairDemand | None = None,
        *,
        first: Sequence[PathBatch] = (),
        block: int = CHUNK,
    ) -> None:
        self.fabric, self.router, self.options = fabric, router, options
        self.name = name or type(router).__name__
        self.version = 0
        self._routed = self._based_on = HealthSnapshot.healthy(fabric, margin=options.margin)
        self._again_s, self._refused = np.inf, False  # when to ask again; whether the demand kept pairs back
        self._blocks = list(first) or first_routes(fabric, router, self.name, options, pairs, block=block)
        self._changed_at = [np.full(len(paths.src), -np.inf) for paths in self._blocks]
        self.carry(demand)

    def carry(self, demand: PairDemand | None) -> None:
        """What the pairs send from now on; None: unknown, so that scores alone decide."""
        self._gate = None if demand is None else DemandGate(self.fabric, demand, self._blocks)
        if self._refused:
            self._again_s = -np.inf

    @property
    def paths(self) -> PathBatch:
        """The paths of all pairs in use."""
        return join(*self._blocks)

    def react(self, health: HealthSnapshot, now_s: float) -> RouteChange | None:
        """The change that newly published scores ask for, or None; cheap when nothing is new."""
        if health is self._routed and now_s < self._again_s:
            return None
        table = ask(self.router, self.name, self.fabric, health)
        blocks: list[PathBatch] = []
        moved: list[Bool] = []
        for old, changed_at in zip(self._blocks, self._changed_at, strict=True):
            new = answer(table, old.src, old.dst)
            check_batch(self.fabric, self.name, new, health)
            if self.router.damped:
                margin, dwell_s = self.options.margin, self.options.dwell_s
                new, leaves = damped(self.fabric, old, new, health, changed_at, now_s, margin, dwell_s)
            else:
                leaves = ~same_paths(old, new)
            blocks.append(new)
            moved.append(leaves)
        self._refused = False
        if self.router.damped and self._gate is not None and any(leaves.any() for leaves in moved):
            refused = self._gate.refused(self._blocks, blocks, moved, health, self.options.margin)
            for i, stays in enumerate(refused):
                moved[i] = moved[i] & ~stays
                self._refused |= bool(stays.any())
                at = np.flatnonzero(stays)
                blocks[i] = replaced(blocks[i], at, take(self._blocks[i], at))
        weighed = _weighed(self._blocks, blocks, moved)
        if not (weighed.any() or any(leaves.any() for leaves in moved)):
            self._routed, self._again_s = health, self._next_rested_s(now_s)
            return None
        why = self._why(self._based_on, health)
        for old, leaves, changed_at in zip(self._blocks, moved, self._changed_at, strict=True):
            changed_at[leaves] = now_s
            # what had no choice does not wait for the dwell time to return: while a cable flaps, that would
            # keep pairs on a slow detour for good
            at = np.flatnonzero(leaves)
            changed_at[at[broken_pairs(take(old, at), health)]] = -np.inf
        self._blocks, self._routed, self._based_on = blocks, health, health
        self._again_s = self._next_rested_s(now_s)
        # By change, not by snapshot: one may be acted on twice, before and after a dwell time.
        self.version += 1
        return RouteChange(self.version, self.paths, np.concatenate(moved), weighed, why)

    def _next_rested_s(self, now_s: float) -> float:
        """When the next dwell time is over: what only that holds back is tried again then; inf for never."""
        at, dwell_s = np.concatenate(self._changed_at), self.options.dwell_s
        return float(at[now_s - at < dwell_s].min(initial=np.inf)) + dwell_s

    def _why(self, before: HealthSnapshot, now: HealthSnapshot) -> str:
        """The scores that moved since routes last changed, largest move first: `rail:1 0.70 -> 0.10`."""
        changes = score_changes(self.fabric, before, now).items()
        order = sorted(changes, key=lambda item: -abs(item[1][1] - item[1][0]))
        moves = ", ".join(f"{name} {old:.2f} -> {new:.2f}" for name, (old, new) in order[:3])
        return moves or "earlier scores, after the dwell time"


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
        demand: PairDemand | None = None,
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

    def carry(self, demand: PairDemand | None) -> None:
        """As `RoutesInUse.carry`."""
        self._routes.carry(demand)

    def react(self, health: HealthSnapshot, now_s: float) -> Reroute | None:
        """The change of routes and rules that newly published scores ask for, or None."""
        change = self._routes.react(health, now_s)
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


def _weighed(old: Sequence[PathBatch], new: Sequence[PathBatch], moved: Sequence[Bool]) -> Bool:
    """(P,): the pairs of all blocks that keep their paths, with other weights."""
    found = []
    for before, after, leaves in zip(old, new, moved, strict=True):
        differs = np.zeros(len(leaves), bool)
        if not np.array_equal(before.weight, after.weight):
            stays = np.flatnonzero(~leaves)
            a, b = take(before, stays), take(after, stays)
            differs[stays[a.path_pair[a.weight != b.weight]]] = True
        found.append(differs)
    return np.concatenate(found)


def first_routes(
    fabric: Fabric,
    router: Router,
    name: str,
    options: HealthOptions,
    pairs: Pairs | None = None,
    *,
    block: int = CHUNK,
) -> list[PathBatch]:
    """The paths of `pairs` (all by default) before anything was measured, in blocks, proved sound.

    Raises as `RoutesInUse` does.
    """
    health = HealthSnapshot.healthy(fabric, margin=options.margin)
    blocks = list(batches(ask(router, name, fabric, health), pairs, block))
    for paths in blocks:
        check_batch(fabric, name, paths, health)
    if lost := [pair_name(fabric, *pair) for paths in blocks for pair in unreachable(paths)]:
        more = f" and {len(lost) - 5} more pairs" if len(lost) > 5 else ""
        raise NoPathError(f"router {name} gives no path for {', '.join(lost[:5])}{more}.")
    return blocks


def element_name(fabric: Fabric, node: int) -> str:
    """`rail:1`, `domain:0`: how users name a switch's score."""
    return f"{fabric.node_kind(node)}:{'.'.join(map(str, fabric.coordinates(node)))}"


def score_changes(
    fabric: Fabric, before: HealthSnapshot, now: HealthSnapshot
) -> dict[str, tuple[float, float]]:
    """(old, new) of every rail, domain or spine whose score moved, else of links that belong to none."""
    nodes = np.flatnonzero(before.element_score != now.element_score)
    alone = np.flatnonzero((before.link_score != now.link_score) & (fabric.link_element < 0))
    return {
        element_name(fabric, int(n)): (float(before.element_score[n]), float(now.element_score[n]))
        for n in nodes
    } | {
        fabric.link_name(int(link)): (float(before.link_score[link]), float(now.link_score[link]))
        for link in alone
    }
