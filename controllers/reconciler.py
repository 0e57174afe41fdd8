"""Makes switches hold the intended rules: complete sets, phased updates, resynchronisation."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railweave.controllers.intent import Intent
from railweave.framework.model import Rule, RuleUpdate
from railweave.framework.model.events import (
    Event,
    RulesInstalled,
    SwitchDown,
    SwitchUp,
    UpdateApplied,
    UpdateRetired,
)

if TYPE_CHECKING:  # it imports the OpenFlow library
    from railweave.controllers.connected_switch import ConnectedSwitch

Token = tuple[int, int]
"""(datapath id, number of the request): one answer that a job waits for."""
Job = Iterator[set[Token]]

SYNC = -1
"""In a token: the whole resynchronisation of a switch, instead of a single request."""


class JobQueue:
    """Runs jobs in order. A job yields the answers it waits for, and continues when all of them have come or
    the switches that owe them are gone."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._awaited: set[Token] = set()

    def put(self, job: Job) -> None:
        self._jobs.append(job)
        self._advance()

    def answered(self, token: Token) -> None:
        if token in self._awaited:
            self._awaited.discard(token)
            self._advance()

    def gone(self, switch: int) -> None:
        """The switch will not answer; it is resynchronised when it comes back."""
        self._awaited = {token for token in self._awaited if token[0] != switch}
        self._advance()

    def _advance(self) -> None:
        while self._jobs and not self._awaited:
            try:
                self._awaited = next(self._jobs[0])
            except StopIteration:
                self._jobs.popleft()


@dataclass
class _Sync:
    """A resynchronisation in progress: first the flows are read, then a barrier confirms the changes."""

    request: int
    cookies: set[int] = field(default_factory=set)
    barrier: int | None = None


class RuleReconciler:
    """Takes commands of the lab and answers of switches, and emits events through `report(event)`.

    Until the first `set_rules` the intent is unknown and no switch is changed, so a restart of the controller
    disturbs no traffic. `switches` are the connected ones, by datapath id; none of their methods waits: each
    returns the number that its answer will carry.
    """

    def __init__(self, report: Callable[[Event], None], clock: Callable[[], float]) -> None:
        self._report = report
        self._clock = clock
        self.intent = Intent()
        self._known = False
        self.switches: dict[int, ConnectedSwitch] = {}
        self._syncs: dict[int, _Sync] = {}
        self._sync_began = 0.0
        self._jobs = JobQueue()

    def set_rules(self, rules: Sequence[Rule]) -> None:
        self._jobs.put(self._set_rules(rules))

    def apply(self, update: RuleUpdate) -> None:
        self._jobs.put(self._apply(update))

    def retire(self, version: int) -> None:
        self._jobs.put(self._retire(version))

    def up(self, dpid: int, switch: "ConnectedSwitch") -> None:
        """A switch has connected, perhaps again, before the end of its old connection was noticed."""
        if dpid in self.switches:
            self.down(dpid)
        self.switches[dpid] = switch
        self._report(SwitchUp(dpid))
        if self._known:
            self._sync(dpid)

    def down(self, dpid: int) -> None:
        """The connection to a switch has ended."""
        del self.switches[dpid]
        self._report(SwitchDown(dpid))
        if self._syncs.pop(dpid, None) is not None:
            self._report_installed()
        self._jobs.gone(dpid)

    def flows(self, dpid: int, request: int, cookies: Iterable[int], more: bool) -> None:
        """A part of a switch's flows, the last one unless `more` follow."""
        sync = self._syncs.get(dpid)
        if sync is None or sync.request != request:
            return
        sync.cookies.update(cookies)
        if not more:
            sync.barrier = self.switches[dpid].change(*self.intent.compare(dpid, sync.cookies))

    def barrier(self, dpid: int, request: int) -> None:
        """A switch has confirmed everything up to this request."""
        sync = self._syncs.get(dpid)
        if sync is not None and sync.barrier == request:
            del self._syncs[dpid]
            self._report_installed()
            self._jobs.answered((dpid, SYNC))
        self._jobs.answered((dpid, request))

    def _set_rules(self, rules: Sequence[Rule]) -> Job:
        self.intent.replace(rules)
        self._known = True
        self._syncs.clear()
        self._sync_began = self._clock()
        for dpid in self.switches:
            self._sync(dpid)
        if not self.intent.switches():
            self._report_installed()
        yield {(dpid, SYNC) for dpid in self._syncs}

    def _apply(self, update: RuleUpdate) -> Job:
        began = self._clock()
        yield self._add(update.install)
        yield self._add(update.switch_over)
        self.intent.retire_later(update.version, update.remove)
        rules = len(update.install) + len(update.switch_over)
        self._report(UpdateApplied(update.version, rules, self._clock() - began))

    def _retire(self, version: int) -> Job:
        began = self._clock()
        deleted = self.intent.retire(version)
        yield {
            (dpid, self.switches[dpid].change((), cookies))
            for dpid, cookies in deleted.items()
            if dpid in self.switches
        }
        self._report(UpdateRetired(version, sum(map(len, deleted.values())), self._clock() - began))

    def _add(self, rules: Sequence[Rule]) -> set[Token]:
        """Send rules to the connected switches; the others get them when they connect."""
        return {
            (dpid, self.switches[dpid].change(placed, ()))
            for dpid, placed in self.intent.add(rules).items()
            if dpid in self.switches
        }

    def _sync(self, dpid: int) -> None:
        if not self._syncs:
            self._sync_began = self._clock()
        self._syncs[dpid] = _Sync(self.switches[dpid].read_flows())

    def _report_installed(self) -> None:
        """If no resynchronisation is in progress: every connected switch holds its rules."""
        if self._syncs:
            return
        intended = self.intent.switches()
        connected = intended & self.switches.keys()
        if intended and not connected:
            return
        rules, missing = (
            sum(len(self.intent.rules[dpid]) for dpid in connected),
            tuple(sorted(intended - connected)),
        )
        self._report(RulesInstalled(rules, self._clock() - self._sync_began, missing))
