"""A plugin that fails is told of by name, with exit code 2, before anything starts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main
from railweave.framework.cli.plugin import KINDS_TO_WRITE
from railweave.framework.errors import PluginError, RouteError
from railweave.framework.health.options import HealthOptions
from railweave.framework.hookspecs import hookimpl
from railweave.framework.kit.soundness import failures
from railweave.framework.kit.template import USES
from railweave.framework.model import Fabric, HealthSnapshot, RouteTable
from railweave.framework.registry import Registers
from railweave.framework.routing.route_control import RouteControl
from railweave.framework.routing.router_calls import ask
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.ring import Ring
from tests.framework.conftest import AllReduce
from tests.framework.kit import broken
from tests.framework.kit.broken import Changed, Sound, answers
from tests.framework.kit.conftest import Stranger

FABRIC = RailOnly().build({"domains": 2, "rails": 2})

FAILING: dict[str, tuple[Any, str]] = {
    "raises": (
        broken.Raises(),
        "router bad: routes() of a rail-only fabric fails with ZeroDivisionError: division by zero (",
    ),
    "raises late": (
        broken.RaisesLate(),
        "router bad: routes() of a rail-only fabric: its table fails with KeyError: 'g0.0' (",
    ),
    "nothing": (
        broken.Nothing(),
        "router bad: routes() of a rail-only fabric returns nothing instead of a RouteTable",
    ),
    "no such link": (Changed(answers(broken.unknown_link)), "the fabric has no such link"),
    "jumps": (Changed(answers(broken.jump)), "the link does not begin where the one before it ends"),
    "cut off": (Changed(answers(broken.missing)), "router bad gives no path for g0.1 -> g1.0"),
}


@pytest.fixture
def call(registers: Registers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`railweave` with a router `bad` among the plugins, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def invoke(router: object, *words: str) -> Result:
        found = Registers([*registers.manager.list_name_plugin(), ("strange", Stranger({"bad": router}))])
        return CliRunner().invoke(main, list(words), obj=found, prog_name="railweave")

    return invoke


@pytest.mark.parametrize("name", FAILING)
def test_a_run_with_it_never_starts(name: str, call: Callable[..., Result], tmp_path: Path) -> None:
    router, words = FAILING[name]
    done = call(router, "run", "--router", "bad", "--domains", "2", "--rails", "2")
    assert done.exit_code == 2, done.output
    assert "railweave: --router: router bad" in done.output and words in done.output
    assert "Traceback" not in done.output and not list(tmp_path.iterdir())


def test_a_path_through_a_dead_link_ends_the_run_with_the_link_named() -> None:
    """It cannot be seen before something is down; then it is not sent to the switches."""
    control = RouteControl(FABRIC, broken.BlindToDeath(), HealthOptions(), "bad")
    name, health = next(failures(FABRIC))
    assert name == "link g0.0->d0 down"
    with pytest.raises(RouteError, match=r"at link g0\.0->d0: the link is down"):
        control.react(health, 5.0)


def test_one_that_fails_later_is_named() -> None:
    class Tired(Sound):
        def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
            if health.down.any():
                raise RuntimeError("no more")
            return super().routes(fabric, health)

    control = RouteControl(FABRIC, Tired(), HealthOptions(), "tired")
    with pytest.raises(
        RouteError,
        match=r"router tired: routes\(\) .* fails with RuntimeError: no more \(.*test_refused_early.py:\d+\)",
    ):
        control.react(next(failures(FABRIC))[1], 5.0)


def test_answers_of_the_wrong_kind_are_named() -> None:
    health = HealthSnapshot.healthy(FABRIC)

    class Listing(Sound):
        def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
            return replace(super().routes(fabric, health), resolve=lambda src, dst: [])

    class Foreign(Sound):
        def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
            other = Ring().build({"nodes": 5})
            return broken.Shortest().routes(other, HealthSnapshot.healthy(other))

    with pytest.raises(RouteError, match="its table answers with a list instead of a PathBatch"):
        ask(Listing(), "r", FABRIC, health).paths(np.array([0]), np.array([1]))
    with pytest.raises(RouteError, match="returns a table of 5 GPUs for a fabric of 4"):
        ask(Foreign(), "r", FABRIC, health)


def test_a_sound_one_is_asked_as_before() -> None:
    health = HealthSnapshot.healthy(FABRIC, version=7)
    table = ask(Sound(), "sound", FABRIC, health)
    assert (table.router, table.version) == ("sound", 7)
    assert table.path(0, 1) == broken.Shortest().routes(FABRIC, health).path(0, 1)


def test_a_plugin_that_fails_while_it_registers_is_named() -> None:
    class Clumsy:
        @hookimpl
        def register_routers(self, register: Callable[[str, Any], None]) -> None:
            raise AttributeError("nope")

    with pytest.raises(
        PluginError, match=r"plugin clumsy \(their package\): register_routers fails with Attrib"
    ):
        Registers([("clumsy (their package)", Clumsy())])


def test_a_taken_name_names_both() -> None:
    with pytest.raises(PluginError, match="router 'shortest' is offered by two and by one"):
        Registers([(name, Stranger({"shortest": Sound()})) for name in ("one", "two")])


def test_a_workload_and_a_collective_of_one_name_are_refused() -> None:
    class Both:
        @hookimpl
        def register_workloads(self, register: Callable[[str, Any], None]) -> None:
            register("train", AllReduce())

        register_collectives = register_workloads

    with pytest.raises(PluginError, match="'train' is a workload of both and a collective of both"):
        Registers([("both", Both())])


def test_check_tells_by_its_exit_code(call: Callable[..., Result]) -> None:
    found = call(Changed(answers(broken.jump)), "plugin", "check", "bad", "--no-scale")
    assert found.exit_code == 1 and "router bad fails" in found.output
    unknown = call(Sound(), "plugin", "check", "worse", "--kind", "router")
    assert unknown.exit_code == 2 and "there is no router 'worse'" in unknown.output
    option = call(Sound(), "plugin", "check", "bad", "--set", "speed=3")
    assert option.exit_code == 2 and "router bad has no option 'speed'" in option.output


def test_check_as_json(call: Callable[..., Result]) -> None:
    router = broken.BlindToDeath()
    router.name = "bad"
    done = call(router, "plugin", "check", "bad", "--no-scale", "--json")
    document = json.loads(done.stdout)
    assert done.exit_code == 1 and document["schema"]["name"] == "railweave.plugin.check"
    single = next(check for check in document["checks"] if check["check"] == "single failures")
    assert single["status"] == "failed" and single["violations"][0]["pair"] == "g0.0 -> g0.1"


def test_new_says_what_comes_next(call: Callable[..., Result], tmp_path: Path) -> None:
    done = call(Sound(), "plugin", "new", "own-router")
    assert done.exit_code == 0 and "railweave run --router own-router" in done.output
    assert f"{sys.executable} -m pip install -e own-router" in done.output
    fabric = call(Sound(), "plugin", "new", "own-fabric", "--kind", "topology")
    assert fabric.exit_code == 0 and "railweave run --topology own-fabric" in fabric.output
    assert (tmp_path / "own-router" / "own_router" / "router.py").is_file()
    taken = call(Sound(), "plugin", "new", "bad")
    assert taken.exit_code == 2 and "router 'bad' is taken by strange" in taken.output


def test_every_kind_with_a_template_can_be_asked_for() -> None:
    assert set(KINDS_TO_WRITE) == set(USES)
