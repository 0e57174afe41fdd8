"""Links that are expected back: waited for as long as that costs less than to leave, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railweave.framework.health.options import HealthOptions
from railweave.framework.health.outlook import Outage, Outlook
from railweave.framework.health.publishing import rescored
from railweave.framework.model import Fabric, HealthSnapshot, PacketFormat, PathBatch, Schedule
from railweave.framework.model.senders import Senders
from railweave.framework.routing.demand import JobDemand, StatesSenders
from railweave.framework.routing.reroute import RouteChange, RoutesInUse
from railweave.plugins.hscore.router import HScore
from railweave.traffic.collectives.entries import Entries
from tests.fakes.small_fabrics import rail_only

PACKET = PacketFormat()
WINDOW_BYTES, DEAD_AFTER_S = 65536, 1e-3
PAIR = (np.array([0]), np.array([1]))
"""Of one domain, at 3600 Gb/s; the detour over two rails has 400 Gb/s."""


def message(fabric: Fabric, size: int) -> Schedule:
    entries = Entries(fabric.n_gpus, 4)
    entries.phase("send")
    entries.add(0, 1, length=size // 4)
    return entries.build("send", size // 4, "int32", "sum")


def stated(paths: PathBatch) -> Senders:
    """They wait for nothing else, and switches store nothing."""
    n = len(paths.src)
    none, window = np.zeros(n), np.full(n, 8.0 * WINDOW_BYTES)
    return Senders(window, window, none, np.ones(n), none, none, none, np.full(n, DEAD_AFTER_S))


def without(fabric: Fabric, *switches: str) -> HealthSnapshot:
    """All links of these switches are down."""
    healthy = HealthSnapshot.healthy(fabric, version=2, margin=1.25)
    cut = np.isin(fabric.link_element, [fabric.node_ids[switch] for switch in switches])
    return rescored(fabric, healthy, np.where(cut, 0.0, 1.0), "mean")


def answer(size: int, lasts_s: float, states: StatesSenders | None) -> RouteChange | None:
    """To an outage of the domain, which is expected back after `lasts_s`."""
    fabric = rail_only(2, 2)
    demand = JobDemand([message(fabric, size)], PACKET, states) if size else None
    routes = RoutesInUse(fabric, HScore(), HealthOptions(), "hscore", PAIR, demand)
    healthy = HealthSnapshot.healthy(fabric, version=1, margin=1.25)
    outage = Outage(Outlook.steady(without(fabric, "domain0")), lasts_s)
    change = routes.react(healthy, 1.0, ((1.0, healthy),), outage)
    assert routes.react(healthy, 1.1, ((1.0, healthy),), outage) is None  # nothing is new
    return change


@pytest.mark.parametrize("size", [1 << 20, 1 << 14])
def test_pairs_wait_while_an_outage_costs_less_than_what_is_under_way_on_a_detour(size: int) -> None:
    """Who leaves gets on at a ninth of the rate: an outage of D is shorter by D / 9. What is under way when
    the domain is back, a window or all of a shorter message, takes its time at 400 Gb/s."""
    under_way_s = 8 * min(WINDOW_BYTES, PACKET.wire_bytes(size)) / 400e9
    assert answer(size, 0.9 * 9 * under_way_s, stated) is None
    change = answer(size, 1.1 * 9 * under_way_s, stated)
    assert change is not None and change.moved.all()


def test_who_has_left_does_not_return_before_the_links_are_up() -> None:
    """The pair 0 -> 1 has left its domain. Then rail 2 goes down, which the pair 5 -> 8 needs, and both are
    expected back so soon that it had better wait."""
    fabric = rail_only(3, 3)
    entries = Entries(fabric.n_gpus, 4)
    entries.phase("send")
    for src, dst in ((0, 1), (5, 8)):
        entries.add(src, dst, length=1 << 18)
    demand = JobDemand([entries.build("send", 1 << 18, "int32", "sum")], PACKET, stated)
    pairs = np.array([0, 5]), np.array([1, 8])
    routes = RoutesInUse(fabric, HScore(), HealthOptions(), "hscore", pairs, demand)
    healthy = HealthSnapshot.healthy(fabric, version=1, margin=1.25)
    change = routes.react(without(fabric, "domain0"), 1.0)
    assert change is not None and change.moved.tolist() == [True, False]
    outage = Outage(Outlook.steady(without(fabric, "domain0", "rail2")), 1e-9)
    change = routes.react(healthy, 4.0, ((1.0, healthy),), outage)
    assert change is not None and change.moved.tolist() == [False, True]


@pytest.mark.parametrize(
    ("size", "states"), [(0, stated), (1 << 20, None)], ids=["no demand", "nothing is stated of senders"]
)
def test_who_knows_too_little_leaves(size: int, states: StatesSenders | None) -> None:
    change = answer(size, 1e-9, states)
    assert change is not None and change.moved.all()


def test_pairs_leave_where_the_transport_would_give_up_first() -> None:
    """A window of 40 MB would be under way for 7 ms; an outage of 0.6 ms is waited for up to 1.2 ms, and
    pairs without an answer fail after 1 ms."""
    huge = 40e6

    def patient(paths: PathBatch) -> Senders:
        return replace(stated(paths), window_bits=np.full(len(paths.src), 8 * huge))

    assert answer(1 << 26, 0.4e-3, patient) is None
    assert answer(1 << 26, 0.6e-3, patient) is not None
