"""What TAB offers behind the words of a line."""

from __future__ import annotations

import pytest

from railweave.framework.lab.tasks.completion import Completion
from railweave.framework.registry import load_plugins
from tests.fakes.small_fabrics import rail_only


@pytest.fixture(scope="module")
def completion() -> Completion:
    return Completion(rail_only(2, 3), load_plugins())


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("h1", ["h1.0", "h1.1", "h1.2"]),
        ("h0.0 ping h1.2", ["h1.2"]),
        ("fault d", ["degrade", "duplicate", "down"]),
        ("fault 'degr", ["'degrade"]),
        ("fault degrade rail:", ["rail:0", "rail:1", "rail:2"]),
        ("fault 'degrade link:g0.0->r", ["link:g0.0->rail0"]),
        ("fault degrade rail:0 ", ["to=", "way="]),
        ("fault kill c", ["controller"]),
        ("fault nothing r", []),
        ("routes g1.", ["g1.0", "g1.1", "g1.2"]),
        ("iperf h0.0 h1.2", ["h1.2"]),
        ("link r0 g0", ["g0.0", "g0.1", "g0.2"]),
        ("link r0 g0.0 ", ["down", "up"]),
        ("switch r0 st", ["stop", "start"]),
        ("run broadc", ["broadcast"]),
        ("run all-reduce 1", ["1M"]),
        ("run all-reduce 1M it", ["iterations="]),
    ],
)
def test_what_may_come_next(completion: Completion, line: str, offered: list[str]) -> None:
    before, space, text = line.rpartition(" ")
    assert completion.of(before.split() if space else [], text) == offered
