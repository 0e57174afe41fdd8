"""Which fabrics a router is tried on, and the command of the real run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from railweave.framework.cli._options import plan_of
from railweave.framework.cli.run import run
from railweave.framework.hookspecs import Topology, hookimpl
from railweave.framework.kit.plugin_check import check_plugin
from railweave.framework.kit.subject import Subject, built, examples
from railweave.framework.kit.trials import MOST_GPUS, command
from railweave.framework.model import Fabric, FabricBuilder, NodeGroup
from railweave.framework.parameters import Parameter, Value
from railweave.framework.registry import Registers, load_plugins
from railweave.topologies import plugin as topologies
from tests.framework.kit.broken import GivesUp, Sound

BUILT_IN = Registers([("topologies", topologies)])


class Star(Topology):
    """GPUs around one switch: a topology as a stranger adds it."""

    summary = "GPUs around one switch"
    parameters = (Parameter("gpus", 1000, "count", "GPUs", minimum=2),)

    def build(self, params: Mapping[str, Value]) -> Fabric:
        n = int(params["gpus"])
        groups = [NodeGroup("gpu", 0, (n,), "g"), NodeGroup("hub", n, (1,), "hub")]
        builder = FabricBuilder("star", groups, dict(params))
        builder.cables(np.arange(n), np.full(n, n), "s", 1e9)
        return builder.build()


class StarWithExamples(Star):
    examples: tuple[Mapping[str, object], ...] = ({"gpus": 2}, {"gpus": 5})


class Strange:
    def __init__(self, topology: object, router: object) -> None:
        self._topology, self._router = topology, router

    @hookimpl
    def register_topologies(self, register) -> None:  # type: ignore[no-untyped-def]
        register("star", self._topology)

    @hookimpl
    def register_routers(self, register) -> None:  # type: ignore[no-untyped-def]
        register("broken", self._router)


def test_every_built_in_topology_has_small_ones_one_for_the_lab_and_one_of_1024_gpus() -> None:
    samples, wrong = examples(BUILT_IN)
    assert not wrong and all(s.fabric.n_gpus <= 128 for s in samples if s.small)
    for name in BUILT_IN["topology"].keys() - {"file"}:  # which is what a user gives it
        sizes = [s.fabric.n_gpus for s in samples if s.topology == name]
        assert sizes[0] <= (128 if name == "twisted-torus" else MOST_GPUS) and sizes[-1] == 1024


def test_a_strangers_topology_is_tried_on_its_own_examples() -> None:
    found = Registers([("strange", Strange(StarWithExamples(), Sound(serves=("star",))))])
    report = check_plugin("router", "broken", found)
    assert report.passed, report.text()
    assert report.fabrics == ("star (gpus 2)", "star (gpus 5)")
    assert [o.status for o in report.outcomes if o.check == "1,024 GPUs"] == ["skipped"]


def test_without_examples_a_large_default_is_left_out_and_said() -> None:
    """A thousand GPUs are too many for every failure; the author is told what to add."""
    found = Registers([("strange", Strange(Star(), GivesUp(serves=("star",))))])
    assert (
        "no installed topology builds a small one (see `examples`"
        in check_plugin("router", "broken", found).text()
    )


@pytest.mark.parametrize("kind", ["rail-only", "rail-optimised", "ring", "torus", "fat-tree"])
def test_the_command_of_the_real_run_is_one_that_can_be_planned(kind: str) -> None:
    """Read by the command's own parser, up to the lab."""
    installed = load_plugins()
    subject = Subject("router", "ecmp", installed["router"]["ecmp"], {"seed": 3})
    sample = built(installed, kind, installed["topology"][kind].examples[0])
    words = command(subject, sample, Path("never"))
    assert words[3] == "run"
    plan = plan_of(run.make_context("run", words[4:], obj=installed))
    assert plan.fabric == sample.fabric
    assert (plan.experiment.iterations, plan.experiment.router.options["seed"], plan.faults) == (2, 3, ())
