"""The link to the controller with a fake one; what a session does with it is in tests/framework/runs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from railweave.framework.errors import ControllerError
from railweave.framework.lab.switching.controller_link import ControllerLink, Train
from railweave.framework.model import Match, Output, Rule, RuleUpdate
from railweave.framework.model.events import ProcessReady, RuleRefused, TrainTimed
from tests.fakes.fake_controller import FakeController
from tests.fakes.hand_clock import HandClock
from tests.fakes.small_fabrics import rail_only

OLD, NEW, STANDING = (
    Rule(0, 100 + i, Match(ipv4_dst=(10 << 24 | i, 0xFFFFFFFF)), (Output(1),)) for i in range(3)
)


class Scene:
    """A link that is up, whose switches hold OLD."""

    def __init__(self) -> None:
        self.clock, self.notes, self.agreements, self.intent = HandClock(), [], [], [OLD]
        fabric = rail_only(2, 2)
        self.controller = FakeController(fabric, self.clock)
        self.link = ControllerLink(
            fabric,
            self.controller,
            self.controller.watch,
            intent=lambda: self.intent,
            drain_s=lambda: 0.5,
            note=self.notes.append,
            agreement=self.agreements.append,
        )
        self.link.start([])
        self.clock.drive(lambda: len(self.link.switches_up) == fabric.n_nodes)
        self.link.install()
        self.clock.drive(lambda: self.link.install_s is not None)
        self.clock.start()

    def held(self) -> set[Rule]:
        return self.controller.switches.contents()

    def change(self) -> SimpleNamespace:
        """A change of routes from OLD to NEW is on its way."""
        reroute = SimpleNamespace(update=RuleUpdate(7, (), (NEW,), (OLD,)))
        self.intent = [NEW]
        self.link.reroute(reroute)
        return reroute

    def restart(self) -> None:
        self.controller.kill()
        self.clock.drive(lambda: self.link.restarts > 0)
        self.clock.drive(lambda: self.link.install_s is not None)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_replaced_rules_stay_until_their_packets_have_drained(scene: Scene) -> None:
    reroute = scene.change()
    assert not scene.link.ready
    assert scene.link.advance(0.0) == []
    scene.clock.drive(lambda: scene.link.ready)
    assert not scene.link.at_rest
    assert scene.link.advance(1.0) == [reroute]
    assert scene.link.advance(1.49) == []
    assert scene.held() == {OLD, NEW}
    scene.link.advance(1.5)
    assert scene.held() == {NEW}
    assert scene.link.at_rest


def test_what_a_dead_controller_was_to_remove_is_removed_by_the_resync_alone(scene: Scene) -> None:
    scene.change()
    scene.clock.drive(lambda: scene.link.ready)
    scene.link.advance(1.0)
    scene.restart()
    assert scene.held() == {NEW}
    scene.link.advance(2.0)  # the successor knows nothing of update 7: to retire it would be a KeyError
    assert scene.link.at_rest


def test_a_change_that_was_applied_just_before_the_death_is_returned_and_not_retired(scene: Scene) -> None:
    reroute = scene.change()
    scene.clock.drive(lambda: scene.link.ready)
    scene.restart()
    assert scene.link.advance(1.0) == [reroute]
    scene.link.advance(9.0)
    assert scene.held() == {NEW}


def test_standing_rules_survive_a_restart(scene: Scene) -> None:
    scene.link.stand((STANDING,))
    scene.clock.drive(lambda: STANDING in scene.held())
    scene.restart()
    assert scene.held() == {OLD, STANDING}


def test_a_switch_that_goes_ends_the_agreement(scene: Scene) -> None:
    assert scene.agreements == [True]
    scene.controller.reconnect(0)
    assert scene.agreements == [True, False]
    assert 1 not in scene.link.switches_up
    scene.clock.drive(lambda: 1 in scene.link.switches_up)


def test_a_refused_rule_ends_the_run(scene: Scene) -> None:
    with pytest.raises(ControllerError, match=r"switch 3 refused a rule: OFPBMC_BAD_MASK\."):
        scene.controller._emit(RuleRefused(3, "OFPBMC_BAD_MASK"))


def test_reports_come_in_order_and_once_and_trains_wait_for_no_dead_controller(scene: Scene) -> None:
    assert scene.link.take_reports() == [ProcessReady()]
    scene.controller._emit(TrainTimed(1, 0.1, 0.2, 0.3))
    scene.link.send_trains([Train(0, 1, 12, 1000)])
    scene.controller.kill()
    scene.clock.drive(lambda: scene.link.restarts > 0)
    assert scene.link.pid is None
    scene.link.send_trains([Train(0, 1, 12, 1000)])
    scene.clock.drive(lambda: scene.link.up)
    assert scene.link.take_reports() == [TrainTimed(1, 0.1, 0.2, 0.3), ProcessReady()]
    assert scene.link.take_reports() == []
    assert len(scene.controller.trains) == 1
