"""The two estimators against numbers by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.hookspecs import LinkState
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers
from railweave.plugins.estimators import plugin
from railweave.topologies.rail_only import RailOnly

PACKET = PacketFormat(1024)
L = (1024 + 58) * 8
"""Bits of a full packet: 1024 payload, 14 Ethernet, 20 IPv4, 8 UDP, 12 BTH, 4 ICRC."""


def fabric(latency_s: float = 0.0) -> Fabric:
    return RailOnly().build(
        {"domains": 2, "rails": 1, "domain_rate": 1e6, "rail_rate": 1e6, "domain_latency": latency_s}
    )


def state(**given: float) -> LinkState:
    """Link 0 as given, the others quiet, healthy and without evidence."""
    arrays = {"queue_bytes": 0.0, "loss": 0.0, "service_bps": np.nan, "probe_s": np.nan}
    values = {name: np.full(8, default) for name, default in arrays.items()}
    up = np.ones(8, bool)
    for name, value in given.items():
        (up if name == "up" else values[name])[0] = value
    return LinkState(**values, up=up, **dict.fromkeys(("unknown", "outdated", "doubted"), np.zeros(8, bool)))


def scores(name: str, links: LinkState, latency_s: float = 0.0, **options: object) -> list[float]:
    offered = Registers([("estimators", plugin)])["estimator"][name]
    estimator = offered.configured(resolve(name, offered.parameters, options))
    return estimator.scores(fabric(latency_s), links, PACKET).tolist()


@pytest.mark.parametrize("name", ["delay", "rate"])
def test_quiet_links_without_evidence_score_1(name: str) -> None:
    assert scores(name, state()) == [1.0] * 8


@pytest.mark.parametrize("name", ["delay", "rate"])
def test_an_idle_link_at_a_fifth_scores_a_fifth(name: str) -> None:
    assert scores(name, state(service_bps=2e5)) == pytest.approx([0.2] + [1.0] * 7)


@pytest.mark.parametrize("name", ["delay", "rate"])
def test_loss_costs_the_speed_that_the_transport_loses_and_down_is_0(name: str) -> None:
    assert scores(name, state(loss=0.3))[0] == pytest.approx(0.7 / (1 + 6 * 0.3))
    assert scores(name, state(up=0.0)) == [0.0] + [1.0] * 7
    assert scores(name, state(service_bps=0.0))[0] == 0.0
    assert scores(name, state(loss=1.0))[0] == 0.0


@pytest.mark.parametrize("name", ["delay", "rate"])
def test_a_rate_seen_above_the_declared_one_is_held_to_1(name: str) -> None:
    assert scores(name, state(service_bps=1.01e6))[0] == 1.0


PLAIN = {"allowance": 0, "allowance_time": 0}


def test_delay_counts_the_queue() -> None:
    """Three full packets waiting: T = 4 L/C, so 1/4; at half the rate besides, 1/8."""
    assert scores("delay", state(queue_bytes=3 * L / 8), **PLAIN)[0] == pytest.approx(1 / 4)
    assert scores("delay", state(queue_bytes=3 * L / 8, service_bps=5e5), **PLAIN)[0] == pytest.approx(1 / 8)
    assert scores("rate", state(queue_bytes=3 * L / 8, service_bps=5e5))[0] == pytest.approx(1 / 2)


def test_delay_can_let_the_window_pass() -> None:
    """Three packets waiting and two of them allowed: T = 2 L/C; with three or more, none counts."""
    queue = state(queue_bytes=3 * L / 8)
    packets = [scores("delay", queue, **{**PLAIN, "allowance": n})[0] for n in (0, 2, 3, 9)]
    assert packets == pytest.approx([1 / 4, 1 / 2, 1, 1])
    # in time at line rate: one packet is 8.656 ms at 1 Mb/s
    times = [scores("delay", queue, **{**PLAIN, "allowance_time": n * 8.656e-3})[0] for n in (0, 2, 3, 9)]
    assert times == pytest.approx([1 / 4, 1 / 2, 1, 1])


def test_delay_counts_the_latency_on_both_sides_where_asked_to() -> None:
    """L/C = 8.656 ms, latency 10 ms, one packet waiting: (8.656 + 10) / (17.312 + 10)."""
    source = {**PLAIN, "latency": True}
    assert scores("delay", state(queue_bytes=L / 8), 0.01, **source)[0] == pytest.approx(18.656 / 27.312)


@pytest.mark.parametrize("name", ["delay", "rate"])
@pytest.mark.parametrize("latency_s", [0.0, 1e-3, 10.0])
def test_latency_hides_no_slow_link(name: str, latency_s: float) -> None:
    """A score says what a link serves, whatever its latency."""
    assert scores(name, state(service_bps=3e5), latency_s)[0] == pytest.approx(0.3)


@given(st.floats(0, 1e9), st.floats(0, 1), st.one_of(st.just(float("nan")), st.floats(0, 1e9)))
def test_scores_are_scores(queue: float, loss: float, service: float) -> None:
    for name in ("delay", "rate"):
        h = scores(name, state(queue_bytes=queue, loss=loss, service_bps=service))
        assert all(0 <= score <= 1 for score in h)


def test_a_queue_on_a_link_whose_rate_is_known_is_load_and_not_sickness() -> None:
    """50 packets wait: with no rate known, 34 of them count; at a known rate none does."""
    queue = 50 * L / 8
    assert scores("delay", state(queue_bytes=queue, service_bps=1e6))[0] == 1.0
    assert scores("delay", state(queue_bytes=queue))[0] == pytest.approx(1 / 35, rel=0.05)
    assert scores("delay", state(queue_bytes=queue, service_bps=5e5))[0] == pytest.approx(0.5)
