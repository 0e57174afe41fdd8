"""Experiments checked whole: fabrics, plugins and faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.hookspecs import Collective, Topology, hookimpl
from railweave.framework.registry import Registers, load_plugins
from tests.framework.experiment.experiments import refused


def test_no_rails_and_one_gpu_are_refused(registers: Registers) -> None:
    assert "0 is too small; it takes a whole number, 1 or more" in refused(registers, {"topology.rails": 0})
    assert "a fabric needs 2 or more" in refused(registers, {"topology.domains": 1, "topology.rails": 1})


def test_the_default_fault_is_left_out_where_it_does_not_fit(registers: Registers) -> None:
    for overrides in ({"topology.rails": 1}, {"iterations": 3}):
        plan = load_plan(None, overrides, registers)
        assert plan.faults == ()
        assert plan.experiment.faults == ()
        assert "no fault in this run" in plan.notes[0]


@pytest.mark.parametrize("nothing", ["none", [], ["none"]])
def test_no_fault_can_be_asked_for(registers: Registers, nothing: object) -> None:
    plan = load_plan(None, {"faults": nothing}, registers)
    assert (plan.faults, plan.notes) == ((), ())


def test_the_default_router_is_refused_on_another_fabric(registers: Registers) -> None:
    message = refused(registers, {"topology": "loop"})
    assert message == (
        "router: router hscore does not serve this loop: it requires domains, interfaces, "
        "and this fabric lacks domains, interfaces. For loop there is: none."
    )


def test_each_fabric_gets_a_router_and_a_collective_that_serve_it() -> None:
    registers = load_plugins()
    chosen = {}
    for topology in ("rail-only", "rail-optimised", "ring", "torus", "twisted-torus", "fat-tree"):
        asked = load_plan(None, {"topology": topology}, registers).experiment
        chosen[topology] = (asked.router.name, asked.collective.name)
    assert chosen == {
        "rail-only": ("hscore", "all-reduce"),
        "rail-optimised": ("spray", "all-reduce"),
        "ring": ("shortest", "multi-ring-all-reduce"),
        "torus": ("dor", "multi-ring-all-reduce"),
        "twisted-torus": ("dor", "ring-all-reduce"),
        "fat-tree": ("spray", "ring-all-reduce"),
    }
    with pytest.raises(ExperimentError, match="hscore does not serve this torus"):
        load_plan(None, {"topology": "torus", "router": "hscore"}, registers)


class Broken(Topology, Collective):
    """A topology and a collective that raise, or give something else than they should."""

    summary = "broken"
    kind = "all-reduce"

    def __init__(self, made: object) -> None:
        self._made = made

    def build(self, params: object) -> object:
        if isinstance(self._made, Exception):
            raise self._made
        return self._made

    def schedule(self, *arguments: object) -> object:
        return self.build(None)

    inputs = expected = schedule

    @hookimpl
    def register_topologies(self, register: Callable[[str, Any], None]) -> None:
        register("broken", self)

    @hookimpl
    def register_collectives(self, register: Callable[[str, Any], None]) -> None:
        register("broken-collective", self)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (None, "{}: {}() at " + __file__),
        (KeyError("rail"), "{}: {} fails with KeyError: 'rail' (" + __file__),
        (MemoryError(), "{}: {} needs more memory than this machine has. Choose a smaller fabric."),
    ],
)
def test_a_plugin_that_fails_is_named_with_file_and_line(
    made: object, says: str, registers: Registers
) -> None:
    broken = Registers([*registers.manager.list_name_plugin(), ("broken", Broken(made))])
    assert says.format("topology", "topology broken: build", "Fabric") in refused(
        broken, {"topology": "broken"}
    )
    message = refused(broken, {"collective": "broken-collective", "size": 64})
    assert says.format("collective", "collective broken-collective: schedule", "Schedule") in message


def test_a_fabric_whose_routes_do_not_fit_is_refused_with_an_estimate(registers: Registers) -> None:
    message = refused(registers, {"topology.domains": 1000, "topology.rails": 1000, "fault": "none"})
    assert "1000000 GPUs are 1e+12 pairs, whose routes take about 2e+05 GB; this machine has" in message
    assert "1048576 is the most" in refused(
        registers, {"topology.domains": 1_000_000, "topology.rails": 1_000_000}
    )
