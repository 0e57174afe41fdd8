"""Keeps every switch at the intent: whole sets, updates in phases, and resyncs after a reconnection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from railweave.controllers.intent import Intent
from railweave.controllers.turns import Job, Token, Turns
from railweave.framework.model import Rule, RuleUpdate

SYNC = -1
"""In a token: the switch's resync, whatever requests it takes."""


class Switch(Protocol):
    """A connected switch. Neither call waits; the number returned comes back with the answer."""

    def read_flows(self) -> int:
        """Ask for all flows."""
        ...

    def change(self, add: Sequence[Rule], delete: Sequence[int]) -> int:
        """Add rules, then delete what has these cookies, then a barrier."""
        ...


@dataclass
class _Sync:
    """A resync under way: the flows being read, then the barrier behind their mending."""

    request: int
    cookies: set[int] = field(default_factory=set)
    barrier: int | None = None


class Keeper:
    """Answers of switches and commands of the lab come in, events go out through `report(kind, **data)`.

    Until the first `set_rules` the intent is unknown and no switch is touched: a restarted controller leaves
    what works alone.
    """

    def __init__(self, report: Callable[..., None], clock: Callable[[], float]) -> None:
        self._report = report
        self._clock = clock
        self._intent = Intent()
        self._known = False
        self._switches: dict[int, Switch] = {}
        self._syncs: dict[int, _Sync] = {}
        self._sync_began = 0.0
        self._turns = Turns()

    def set_rules(self, rules: Sequence[Rule]) -> None:
        self._turns.put(self._set_rules(rules))

    def apply(self, update: RuleUpdate) -> None:
        self._turns.put(self._apply(update))

    def retire(self, version: int) -> None:
        self._turns.put(self._retire(version))

    def up(self, dpid: int, switch: Switch) -> None:
        """A switch has connected, perhaps again and before its old connection was seen to end."""
        if dpid in self._switches:
            self.down(dpid)
        self._switches[dpid] = switch
        self._report("switch_up", dpid=dpid)
        if self._known:
            self._sync(dpid)

    def down(self, dpid: int) -> None:
        del self._switches[dpid]
        self._report("switch_down", dpid=dpid)
        if self._syncs.pop(dpid, None) is not None:
            self._tell_installed()
        self._turns.gone(dpid)

    def flows(self, dpid: int, request: int, cookies: Iterable[int], more: bool) -> None:
        """A part of a switch's flows, the last one unless `more` follow."""
        sync = self._syncs.get(dpid)
        if sync is None or sync.request != request:
            return
        sync.cookies.update(cookies)
        if not more:
            sync.barrier = self._switches[dpid].change(*self._intent.compare(dpid, sync.cookies))

    def barrier(self, dpid: int, request: int) -> None:
        sync = self._syncs.get(dpid)
        if sync is not None and sync.barrier == request:
            del self._syncs[dpid]
            self._tell_installed()
            self._turns.answered((dpid, SYNC))
        self._turns.answered((dpid, request))

    def rule(self, dpid: int, cookie: int) -> Rule | None:
        return self._intent.find(dpid, cookie)

    def _set_rules(self, rules: Sequence[Rule]) -> Job:
        self._intent.replace(rules)
        self._known = True
        self._syncs.clear()
        self._sync_began = self._clock()
        for dpid in self._switches:
            self._sync(dpid)
        if not self._intent.switches():
            self._tell_installed()
        yield {(dpid, SYNC) for dpid in self._syncs}

    def _apply(self, update: RuleUpdate) -> Job:
        began = self._clock()
        yield self._add(update.install)
        yield self._add(update.switch_over)
        self._intent.leave(update.version, update.remove)
        self._report(
            "applied",
            version=update.version,
            rules=len(update.install) + len(update.switch_over),
            seconds=self._clock() - began,
        )

    def _retire(self, version: int) -> Job:
        began = self._clock()
        gone = self._intent.retire(version)
        yield {
            (dpid, self._switches[dpid].change((), cookies))
            for dpid, cookies in gone.items()
            if dpid in self._switches
        }
        count = sum(map(len, gone.values()))
        self._report("retired", version=version, rules=count, seconds=self._clock() - began)

    def _add(self, rules: Sequence[Rule]) -> set[Token]:
        """Send rules to the switches that are there; the others get them when they come."""
        return {
            (dpid, self._switches[dpid].change(placed, ()))
            for dpid, placed in self._intent.add(rules).items()
            if dpid in self._switches
        }

    def _sync(self, dpid: int) -> None:
        if not self._syncs:
            self._sync_began = self._clock()
        self._syncs[dpid] = _Sync(self._switches[dpid].read_flows())

    def _tell_installed(self) -> None:
        """Once no resync is under way: every connected switch holds its rules."""
        if self._syncs:
            return
        named = self._intent.switches()
        here = named & self._switches.keys()
        if named and not here:
            return
        data: dict[str, Any] = {
            "rules": sum(map(self._intent.count, here)),
            "seconds": self._clock() - self._sync_began,
            "missing": sorted(named - here),
        }
        self._report("installed", **data)
