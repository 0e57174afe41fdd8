"""What a user is told of the traffic of a plan before it runs."""

from __future__ import annotations

import pytest

from railweave.framework.experiment.plan import load_plan
from railweave.framework.registry import Registers, load_plugins


@pytest.fixture(scope="module")
def installed() -> Registers:
    return load_plugins()


@pytest.mark.parametrize(
    ("keys", "noted"),
    [
        ({"size": "4"}, True),
        ({"size": "64K"}, True),
        ({"size": "4", "topology.rail_latency": "1us"}, False),
        ({"size": "4", "topology.domain_latency": "1us"}, False),
        ({"size": "16M"}, False),
    ],
)
def test_small_messages_without_latencies_are_a_lower_bound(
    installed: Registers, keys: dict[str, object], noted: bool
) -> None:
    """Of 64 KiB over 4 x 4 the largest message is a quarter (the first step in a domain), 16 KiB: 0.33 us at
    400 Gb/s. Of 16 MiB it is 4 MiB, 84 us."""
    notes = load_plan(None, {"faults": "none", "engine": "fluid", **keys}, installed).notes
    assert any("every latency of this fabric is 0" in note for note in notes) == noted


def test_of_a_sweep_the_small_sizes_are_named(installed: Registers) -> None:
    notes = load_plan(None, {"size": "1K:16M:x128", "engine": "fluid"}, installed).notes
    assert any("of size 1K, 128K are" in note for note in notes)


def test_a_size_of_nothing_is_explained(installed: Registers) -> None:
    notes = load_plan(None, {"size": "0", "faults": "none"}, installed).notes
    assert notes == ("size 0: nothing is sent, so there is no time to measure",)


@pytest.mark.parametrize(("degrees", "noted"), [((8, 8, 4), True), ((4, 2, 2), False)])
def test_a_job_of_more_ranks_than_gpus_says_so(
    installed: Registers, degrees: tuple[int, int, int], noted: bool
) -> None:
    """8 x 8 x 4 is 256 ranks; 4 x 2 x 2 is the 16 GPUs of the default fabric."""
    keys = {f"workload.{name}": n for name, n in zip(("tp", "pp", "dp"), degrees, strict=True)}
    plan = load_plan(None, {"workload": "ptdp", "faults": "none", "size": "16M", **keys}, installed)
    assert any("is 256 ranks, and there are 16 GPUs" in note for note in plan.notes) == noted


@pytest.mark.parametrize(
    ("keys", "router"),
    [
        ({"collective": "optree"}, "optree"),
        ({"collective": "wrht"}, "optree"),
        ({"collective": "optree", "router": "shortest"}, "shortest"),
        ({"collective": "ring-all-gather"}, "shortest"),
    ],
)
def test_a_collective_that_is_made_for_a_router_gets_it(
    installed: Registers, keys: dict[str, object], router: str
) -> None:
    """`optree` runs 1.2 to 36 times slower on the shortest paths; an explicit choice stands."""
    plan = load_plan(None, {"topology": "ring", "engine": "fluid", "faults": "none", **keys}, installed)
    assert plan.experiment.router.name == router
    assert ("router" in plan.chosen) == ("router" not in keys)
    if router == "optree":
        assert plan.experiment.router.options["algorithm"] == keys["collective"]
