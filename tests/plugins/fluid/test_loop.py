"""The health loop outside the case of whole rails without latency: latency, one cable, loss, other routers,
flaps."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import railweave as rw
from railweave.framework.results.result import RunResult


def run(fault: str, **keys: Any) -> RunResult:
    return rw.run(engine="fluid", iterations=8, faults=[f"at=iter:2 {fault}"], **keys)


def times_us(result: RunResult) -> np.ndarray[Any, Any]:
    """Declared, relative to the first iteration, which is healthy."""
    times = np.array([row.declared_time_us for row in result.rows if row.iteration is not None])
    return times / times[0]


def rails(domains: int, rails: int, latency: str = "0s") -> dict[str, Any]:
    return {"topology": {"name": "rail-only", "domains": domains, "rails": rails, "rail_latency": latency}}


@cache
def found_without_latency(router: str) -> float | None:
    """Seconds."""
    without = run("degrade rail:1 to=30%", router=router, size="16M", **rails(4, 4))
    return without.faults[0].published_s


@pytest.mark.parametrize("latency", ["0s", "0.1us", "0.5us", "2us", "10us"])
@pytest.mark.parametrize("router", ["hscore", "spray"])
def test_latency_hides_no_slow_rail(router: str, latency: str) -> None:
    """Rail 1 at 30 %, 16 MiB: scored 0.3, found as soon as without latency, and routes as good as with the
    truth."""
    keys = {**rails(4, 4, latency), "router": router, "size": "16M"}
    ours, oracle = run("degrade rail:1 to=30%", **keys), run("degrade rail:1 to=30%", oracle=True, **keys)
    assert ours.health[-1].elements["rail:1"] == pytest.approx(0.3, abs=0.1)
    found_s, soonest_s = ours.faults[0].published_s, found_without_latency(router)
    assert found_s is not None and soonest_s is not None and found_s <= soonest_s + 0.025  # a sample
    assert times_us(ours)[-1] == pytest.approx(times_us(oracle)[-1], rel=1e-6)


@pytest.mark.parametrize("mode", [{}, {"oracle": True}])
@pytest.mark.parametrize(
    "fault, size, router, collective",
    [
        ("loss rail:1 rate=20%", "1M", "hscore", "all-reduce"),
        ("loss rail:1 rate=10%", "4M", "spray", "pipelined-all-reduce"),
        ("degrade rail:1 to=30%", "1M", "hscore", "all-reduce"),
    ],
)
def test_leaving_never_costs_more_than_staying(
    fault: str, size: str, router: str, collective: str, mode: dict[str, bool]
) -> None:
    """With latencies, where a detour's links cost time as well: by bytes alone up to 2.8 times as long."""
    keys: dict[str, Any] = {"size": size, "router": router, "collective": collective}
    keys["topology"] = {"name": "rail-only", "domain_latency": "1us", "rail_latency": "2us"}
    ours, none = run(fault, **keys, **mode), run(fault, feedback=False, **keys)
    assert times_us(ours)[2:].sum() <= (1.01 if mode else 1.03) * times_us(none)[2:].sum()


def test_packets_leave_one_slow_nic() -> None:
    """8 x 8, a NIC at 50 %, 256 MiB. Staying: rail steps take twice as long, 1.53 times the iteration.
    `spray` sends the packets of the pairs that use the NIC over the 7 other rails, which get 1/7 more: the
    rail steps are 53 % of the time, so 1 + 0.53 / 7 = 1.076. The fault is judged by its own links, and they
    are named."""
    result = run("degrade nic:2.1 to=50%", router="spray", size="256M", **rails(8, 8))
    assert times_us(result)[-1] == pytest.approx(1.076, abs=0.002)
    (fault,) = result.faults
    assert fault.visible and fault.published_s is not None and fault.recovered_s is not None
    assert {link: round(score, 2) for link, score in fault.link_scores.items()} == {
        "g2.1->r1": 0.5, "r1->g2.1": 0.5,
    }  # fmt: skip
    (reroute,) = result.reroutes
    assert reroute.pairs_changed == 2 and "g2.1->r1 (nic:2.1) 1.00 -> 0." in reroute.why


FABRICS: dict[str, dict[str, Any]] = {
    "rail-only": {**rails(8, 4), "fault": "nic:2.1"},
    "torus": {"topology": "torus", "router": "wfr", "fault": "link:g0.0.0->g1.0.0"},
    "fat tree": {"topology": "fat-tree", "router": "ecmp", "fault": "core:0.0"},
    "rail-optimised": {"topology": "rail-optimised", "fault": "nic:1.1"},
    "ring": {"topology": {"name": "ring", "nodes": 12}, "router": "shortest", "fault": "link:g0->g1"},
}


@pytest.mark.parametrize("mode", [{}, {"oracle": True}])
@pytest.mark.parametrize("name", FABRICS)
def test_slow_is_never_worse_than_cut(name: str, mode: dict[str, bool]) -> None:
    """At 5 % of the rate, with routers that follow scores and such that know links as up or down alone."""
    keys = dict(FABRICS[name])
    what = keys.pop("fault")
    slow = run(f"degrade {what} to=5%", size="1M", **keys, **mode)
    cut = run(f"down {what}", size="1M", **keys, **mode)
    assert times_us(slow)[-1] <= 1.03 * times_us(cut)[-1]


@pytest.mark.parametrize("what", ["link:g0.1->r1", "nic:2.1", "rail:1"])
def test_total_loss_is_found_as_a_cut_is(what: str) -> None:
    """Within three timeouts of 0.2 s, by retries that nothing answers, and left; without feedback the run
    fails."""
    lost, cut = (run(fault, size="1M", **rails(4, 4)) for fault in (f"loss {what} rate=100%", f"down {what}"))
    assert times_us(lost)[-1] == pytest.approx(times_us(cut)[-1], rel=1e-6)
    assert lost.reroutes[0].t_s - (lost.faults[0].t_s or 0.0) < 0.6 + 0.3  # after the rail phase has begun


def test_total_loss_is_found_where_a_message_is_a_packet_or_two() -> None:
    """As many lost packets as retries show: three, within three timeouts, which are 800 packet times here."""
    keys = {"topology": {"name": "fat-tree", "k": 4, "link_rate": 8e11}, "router": "spray", "size": 75264}
    lost = run("loss core:0.1 rate=100%", collective="ring-all-gather", **keys)
    assert times_us(lost)[-1] == pytest.approx(1.0, rel=1e-6)


def test_an_oracle_leaves_for_a_loss_that_scores_would_take_for_noise() -> None:
    """1.2 % of packets scores 0.92, but a message of a packet waits for a lost one: 1.35 times as long on a
    ring whose other direction is free."""
    keys = {"topology": {"name": "ring", "nodes": 16}, "router": "spray", "size": 9636}
    modes: tuple[dict[str, bool], ...] = ({"oracle": True}, {"feedback": False})
    knows, blind = (
        times_us(run("loss link:g6->g7 rate=1.2%", collective="ring-all-reduce", **keys, **mode))[-1]
        for mode in modes
    )
    assert blind > 1.3 and knows == pytest.approx(1.0, abs=0.01)


FIRST_S, EPISODES = 2.0, 8


def episodes(slow_s: float, period_s: float) -> list[str]:
    faults = []
    for k in range(EPISODES):
        at = FIRST_S + period_s * k
        faults += [f"at={at:g}s degrade rail:1 to=20%", f"at={at + slow_s:g}s restore rail:1"]
    return faults


def progress(result: RunResult, begin_s: float, end_s: float) -> float:
    """Iterations between these times, and parts of them."""
    ends = np.cumsum([row.time_us / 1e6 for row in result.rows if row.iteration is not None])
    assert ends[-1] > end_s
    done = np.interp([begin_s, end_s], np.append(0.0, ends), np.arange(len(ends) + 1))
    return float(done[1] - done[0])


@cache
def flapping(router: str, *faults: str, feedback: bool = True) -> RunResult:
    """Samples that nothing follows are few."""
    keys = {} if feedback else {"feedback": False, "health": {"interval": 10.0}}
    return rw.run(
        engine="fluid", iterations=60, size="1M", router=router, faults=[*faults], **rails(4, 4), **keys
    )


@pytest.mark.parametrize(
    ("slow_s", "period_s", "router"),
    [(0.3, 3, "hscore"), (0.6, 3, "hscore"), (1.5, 3, "hscore"), (2.4, 3, "hscore"), (1.5, 3, "spray"),
     (2.4, 3, "spray"), (0.7, 1, "spray"), (0.2, 1, "hscore")],
)  # fmt: skip
def test_a_rail_that_flaps_costs_what_the_better_of_staying_and_leaving_does(
    slow_s: float, period_s: float, router: str
) -> None:
    """Rail 1 at 20 %, 8 times. With feedback iterations take at most 1.06 times as long as without from the
    first episode on, and as the better of staying and the rail cut from the second on."""
    faults, end_s = episodes(slow_s, period_s), FIRST_S + EPISODES * period_s
    ours, left = flapping(router, *faults), flapping(router, "at=0s down rail:1")
    stays = flapping(router, *faults, feedback=False)
    assert progress(ours, FIRST_S, end_s) >= progress(stays, FIRST_S, end_s) / 1.06
    since_s = FIRST_S + period_s
    best = max(progress(result, since_s, end_s) for result in (stays, left))
    assert progress(ours, since_s, end_s) >= best / 1.06
