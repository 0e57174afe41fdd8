"""The health loop's decisions: measurements in, changed rules out. No clock, no process, no packet."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from railweave.framework.errors import NoPathError
from railweave.framework.health.options import HealthOptions
from railweave.framework.hookspecs import Router
from railweave.framework.model import (
    EntropyTable,
    Fabric,
    HealthSnapshot,
    RouteTable,
    Rule,
    RuleUpdate,
)
from railweave.framework.model.arrays import Int64
from railweave.framework.routing.asking import ask
from railweave.framework.routing.checks import check_table, cut_pairs
from railweave.framework.routing.stability import damped, diff
from railweave.framework.routing.updates import initial, plan


@dataclass(frozen=True, slots=True)
class Reroute:
    """Changed routes on their way to the switches. `cut`: names of pairs that have no path any more."""

    update: RuleUpdate
    entropies: EntropyTable
    table: RouteTable
    pairs_changed: int
    why: str
    cut: tuple[str, ...]


class RouteControl:
    """Keeps the routes of one run: asks the router, damps what it says, checks it, and plans the change of rules.

    Scores are ratios, so the fabric may have declared or emulated rates; the entropies carry the fabric's.
    """

    def __init__(self, fabric: Fabric, router: Router, options: HealthOptions, name: str = "") -> None:
        self.fabric, self.router, self.options = fabric, router, options
        self._name = name or type(router).__name__
        self._routed = HealthSnapshot.healthy(fabric, margin=options.margin)
        self.table = first_routes(fabric, router, self._name, options)
        self.installed, _, self.entropies = initial(fabric, self.table)
        self._changed_at = np.full((fabric.n_gpus, fabric.n_gpus), -np.inf)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule that the switches should hold now."""
        return self.installed.rules

    def react(self, health: HealthSnapshot, now_s: float) -> Reroute | None:
        """The change of routes that newly published scores ask for, or None; cheap when nothing is new."""
        if health is self._routed:
            return None
        # numbered by change, not by snapshot: one snapshot may be acted on twice, before and after a dwell time
        asked = replace(ask(self.router, self._name, self.fabric, health), version=self.table.version + 1)
        check_table(self.fabric, asked, health, allow_cut=True)
        if self.router.damped:
            table, changed = damped(
                self.fabric, self.table, asked, health, self._changed_at, now_s,
                self.options.margin, self.options.dwell_s,
            )  # fmt: skip
        else:
            table, changed = asked, diff(self.table, asked)
        if not changed.any():
            # what only the dwell time holds back is asked about again at the next look
            if not (now_s - self._changed_at < self.options.dwell_s).any():
                self._routed = health
            return None
        why = self._why(self._routed, health)
        self.installed, update, self.entropies, _ = plan(self.fabric, self.installed, table)
        self.table, self._routed = table, health
        self._changed_at = np.where(changed, now_s, self._changed_at)
        return Reroute(update, self.entropies, table, int(changed.sum()), why, tuple(self.cut()))

    def cut(self) -> list[str]:
        """The pairs that have no path now."""
        name = self.fabric.node_name
        return [f"{name(int(a))} -> {name(int(b))}" for a, b in cut_pairs(self.table)]

    def _why(self, before: HealthSnapshot, now: HealthSnapshot) -> str:
        """The scores that moved, largest move first: `rail:1 0.70 -> 0.10`."""
        moved = score_changes(self.fabric, before, now)
        if not moved:
            return "earlier scores, after the dwell time"
        order = sorted(moved.items(), key=lambda item: -abs(item[1][1] - item[1][0]))
        return ", ".join(f"{name} {old:.2f} -> {new:.2f}" for name, (old, new) in order[:3])


def first_routes(fabric: Fabric, router: Router, name: str, options: HealthOptions) -> RouteTable:
    """The routes before anything was measured, checked whole.

    Raises RouteError naming the router if it fails, answers with something else, or gives a path that no packet
    could follow; NoPathError for pairs that it leaves without one.
    """
    health = HealthSnapshot.healthy(fabric, margin=options.margin)
    table = ask(router, name, fabric, health)
    report = check_table(fabric, table, health, allow_cut=True)
    if len(report.cut):
        raise NoPathError(f"router {name} gives no path for {_listed(_names(fabric, report.cut))}.")
    return table


def element_name(fabric: Fabric, node: int) -> str:
    """`rail:1`, `domain:0`: how users name a switch's score."""
    return f"{fabric.node_kind(node)}:{'.'.join(map(str, fabric.coordinates(node)))}"


def score_changes(
    fabric: Fabric, before: HealthSnapshot, now: HealthSnapshot
) -> dict[str, tuple[float, float]]:
    """(old, new) of every rail, domain or spine whose score moved, else of links that belong to none."""
    nodes = np.flatnonzero(before.element_score != now.element_score)
    changes = {
        element_name(fabric, int(n)): (float(before.element_score[n]), float(now.element_score[n]))
        for n in nodes
    }
    alone = np.flatnonzero((before.link_score != now.link_score) & (fabric.link_element < 0))
    changes |= {
        fabric.link_name(int(link)): (float(before.link_score[link]), float(now.link_score[link]))
        for link in alone
    }
    return changes


def _names(fabric: Fabric, pairs: Int64) -> list[str]:
    return [f"{fabric.node_name(int(a))} -> {fabric.node_name(int(b))}" for a, b in pairs]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more pairs" if len(names) > 5 else "")
