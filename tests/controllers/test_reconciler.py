"""The reconciler with switches of the test's own, which answer when told to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from railweave.controllers.reconciler import Job, JobQueue, RuleReconciler
from railweave.framework.model import Match, Output, Rule, RuleUpdate
from railweave.framework.model.addressing import dpid
from railweave.framework.model.events import Event, RulesInstalled, SwitchDown, SwitchUp, UpdateApplied


def rule(switch: int, dst: int, port: int) -> Rule:
    return Rule(switch, 100, Match(ipv4_dst=(dst, 0xFFFFFFFF)), (Output(port),))


@dataclass
class Table:
    """A flow table behind a slow line: requests wait in `asked` until `answer`."""

    node: int
    reconciler: RuleReconciler
    flows: dict[tuple[int, Match], Rule] = field(default_factory=dict)
    asked: list[tuple[int, str]] = field(default_factory=list)
    changes: int = 0
    _numbers: int = 0

    def read_flows(self) -> int:
        return self._ask("flows")

    def change(self, add: Sequence[Rule], delete: Sequence[int]) -> int:
        for found in add:
            self.flows[found.priority, found.match] = found
        self.flows = {key: found for key, found in self.flows.items() if found.cookie not in delete}
        self.changes += len(add) + len(delete)
        return self._ask("barrier")

    def _ask(self, what: str) -> int:
        self._numbers += 1
        self.asked.append((self._numbers, what))
        return self._numbers

    def answer(self) -> None:
        """Answer everything, and what follows from the answers."""
        while self.asked:
            number, what = self.asked.pop(0)
            if what == "barrier":
                self.reconciler.barrier(dpid(self.node), number)
            else:
                cookies = [found.cookie for found in self.flows.values()]
                self.reconciler.flows(dpid(self.node), number, cookies[:1], True)
                self.reconciler.flows(dpid(self.node), number, cookies[1:], False)

    def holds(self) -> set[Rule]:
        return set(self.flows.values())


class Scene:
    """A reconciler whose reports are kept, and its switches."""

    def __init__(self, *nodes: int) -> None:
        self.told: list[Event] = []
        self.reconciler = RuleReconciler(self.told.append, lambda: 0.0)
        self.tables = {node: self.connect(node) for node in nodes}

    def connect(self, node: int) -> Table:
        table = Table(node, self.reconciler)
        self.reconciler.up(dpid(node), table)
        return table

    def kinds(self) -> list[str]:
        return [event.kind for event in self.told if not isinstance(event, SwitchUp | SwitchDown)]

    def answer(self) -> None:
        while any(table.asked for table in self.tables.values()):
            for table in self.tables.values():
                table.answer()


def test_nothing_is_touched_before_the_intent_is_known() -> None:
    scene = Scene(0)
    assert scene.tables[0].asked == []
    assert scene.told == [SwitchUp(1)]


def test_switches_are_made_to_hold_exactly_the_intent() -> None:
    scene = Scene(0, 1)
    kept, foreign, wanted = rule(0, 1, 2), rule(0, 2, 2), rule(0, 3, 2)
    for found in (kept, foreign):
        scene.tables[0].flows[found.priority, found.match] = found
    scene.tables[1].flows[9, Match()] = rule(1, 9, 9)
    scene.reconciler.set_rules([kept, wanted])
    scene.answer()
    assert scene.tables[0].holds() == {kept, wanted}
    assert scene.tables[0].changes == 2
    assert scene.tables[1].holds() == set()  # not named, so empty
    assert scene.told[-1] == RulesInstalled(2, 0.0)
    assert scene.kinds() == ["installed"]


def test_a_second_time_changes_nothing() -> None:
    scene = Scene(0)
    rules = [rule(0, number, 2) for number in range(5)]
    for _ in range(2):
        scene.reconciler.set_rules(rules)
        scene.answer()
    assert scene.tables[0].changes == 5
    assert scene.kinds() == ["installed", "installed"]


def test_installed_waits_for_a_first_switch_and_names_those_that_are_missing() -> None:
    scene = Scene()
    scene.reconciler.set_rules([rule(0, 1, 2), rule(1, 1, 2)])
    assert scene.told == []
    for node in (0, 1):
        scene.tables[node] = scene.connect(node)
        scene.answer()
    installed = [event for event in scene.told if isinstance(event, RulesInstalled)]
    assert installed == [RulesInstalled(1, 0.0, (dpid(1),)), RulesInstalled(2, 0.0)]


def test_an_empty_intent_without_switches_is_installed_at_once() -> None:
    scene = Scene()
    scene.reconciler.set_rules([])
    assert scene.kinds() == ["installed"]


def test_an_update_switches_over_after_the_last_install_is_confirmed() -> None:
    scene = Scene(0, 1)
    old, entry, transit = rule(0, 1, 2), rule(0, 1, 3), rule(1, 1, 4)
    scene.reconciler.set_rules([old])
    scene.answer()
    scene.reconciler.apply(RuleUpdate(1, (transit,), (entry,), (old,)))
    scene.reconciler.apply(RuleUpdate(2, (), (old,), (entry, transit)))
    assert scene.tables[1].holds() == {transit}
    assert scene.tables[0].holds() == {old}
    scene.tables[1].answer()
    assert scene.tables[0].holds() == {entry}
    scene.tables[0].answer()
    assert scene.told[-2:] == [
        UpdateApplied(1, 2, 0.0),
        UpdateApplied(2, 1, 0.0),
    ]
    assert scene.tables[0].holds() == {old}
    scene.reconciler.retire(1)
    scene.reconciler.retire(2)
    scene.answer()
    assert scene.tables[0].holds() == {old}
    assert scene.tables[1].holds() == set()
    assert scene.kinds()[-2:] == ["retired", "retired"]


def test_an_update_without_rules_is_applied_at_once() -> None:
    scene = Scene()
    scene.reconciler.apply(RuleUpdate(3, (), (), ()))
    assert [event.version for event in scene.told if isinstance(event, UpdateApplied)] == [3]


@pytest.mark.parametrize("phase", ["install", "switch_over"])
def test_a_switch_that_goes_holds_up_nothing_and_gets_its_rules_when_it_returns(phase: str) -> None:
    scene = Scene(0, 1)
    scene.reconciler.set_rules([rule(0, 1, 2), rule(1, 1, 2)])
    scene.answer()
    late = rule(1, 2, 2)
    phases = {"install": ((late,), ()), "switch_over": ((), (late,))}[phase]
    scene.reconciler.apply(RuleUpdate(1, *phases, ()))
    scene.reconciler.down(dpid(1))
    assert scene.kinds()[-1] == "applied"
    scene.tables[1] = scene.connect(1)  # empty
    scene.answer()
    assert scene.tables[1].holds() == {rule(1, 1, 2), late}
    assert scene.kinds()[-1] == "installed"


def test_a_switch_that_goes_during_the_resync_is_reported_missing() -> None:
    scene = Scene(0, 1)
    scene.reconciler.set_rules([rule(0, 1, 2), rule(1, 1, 2)])
    scene.tables[0].answer()
    assert "installed" not in scene.kinds()
    scene.reconciler.down(dpid(1))
    assert scene.told[-1] == RulesInstalled(1, 0.0, (dpid(1),))


def test_a_reconnection_seen_before_the_end_of_the_old_connection_counts_as_both() -> None:
    scene = Scene(0)
    scene.reconciler.set_rules([rule(0, 1, 2)])
    scene.answer()
    scene.reconciler.apply(RuleUpdate(1, (rule(0, 2, 2),), (), ()))
    scene.tables[0] = scene.connect(0)
    scene.answer()
    assert [event.kind for event in scene.told] == [
        "switch_up", "installed", "switch_down", "applied", "switch_up", "installed",
    ]  # fmt: skip
    assert scene.tables[0].holds() == {rule(0, 1, 2), rule(0, 2, 2)}


def test_an_update_during_a_resync_is_not_undone_by_it() -> None:
    """The flows are read, then changed, then the answer arrives: it is compared with the current intent."""
    scene = Scene(0)
    old, new = rule(0, 1, 2), rule(0, 1, 3)
    scene.reconciler.set_rules([old])
    scene.answer()
    again = Table(0, scene.reconciler, flows={(old.priority, old.match): old})
    scene.reconciler.up(dpid(0), again)
    number, _ = again.asked.pop(0)
    scene.reconciler.apply(RuleUpdate(1, (), (new,), (old,)))
    scene.reconciler.flows(dpid(0), number, [old.cookie], False)
    again.answer()
    assert again.holds() == {new}
    assert scene.kinds()[-2:] == ["applied", "installed"]


def test_answers_to_an_overtaken_reading_are_ignored() -> None:
    scene = Scene(0)
    scene.reconciler.set_rules([rule(0, 1, 2)])
    scene.reconciler.flows(dpid(0), 99, [], False)
    assert scene.tables[0].changes == 0
    scene.reconciler.flows(dpid(7), 1, [], False)
    scene.answer()
    assert scene.tables[0].changes == 1


def job(name: str, log: list[str], *waits: set[tuple[int, int]]) -> Job:
    for number, wait in enumerate(waits):
        log.append(f"{name}{number}")
        yield wait
    log.append(f"{name} done")


def test_a_job_waits_for_all_its_answers_and_the_next_job_for_it() -> None:
    queue, log = JobQueue(), list[str]()
    queue.put(job("a", log, {(1, 1), (2, 1)}, {(1, 2)}))
    queue.put(job("b", log, {(1, 3)}))
    assert log == ["a0"]
    queue.answered((1, 1))
    queue.answered((1, 2))  # not awaited yet, so it counts for nothing
    assert log == ["a0"]
    queue.answered((2, 1))
    assert log == ["a0", "a1"]
    queue.answered((1, 2))
    assert log == ["a0", "a1", "a done", "b0"]
    queue.answered((1, 3))
    assert log[-1] == "b done"


def test_what_waits_for_nothing_goes_straight_on() -> None:
    queue, log = JobQueue(), list[str]()
    queue.put(job("a", log, set(), set()))
    assert log == ["a0", "a1", "a done"]


def test_a_switch_that_is_gone_owes_nothing() -> None:
    queue, log = JobQueue(), list[str]()
    queue.put(job("a", log, {(1, 1), (2, 1)}))
    queue.gone(1)
    assert log == ["a0"]
    queue.gone(2)
    assert log == ["a0", "a done"]
