"""Whole runs on the engine `packet`, through the calls that users make. Expected times: the engine `fluid`
where flows share links by turns, and bytes over the rates that faults leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import railweave as rw
from railweave.framework.errors import ExperimentError, NotInstalledError, TransportError
from railweave.framework.experiment.plan import Plan
from railweave.framework.model import PacketFormat
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.results.result import RunResult
from railweave.framework.routing.batches import answer
from railweave.plugins.packet import engine, machine
from railweave.plugins.packet.model import Model, pairs_of
from railweave.plugins.packet.windows import ideal_window, links_of

PACKET = PacketFormat()
LARGE = [
    {"topology": "rail-only", "domains": 4, "rails": 4, "collective": "ring-all-reduce"},
    {"topology": "rail-only", "domains": 4, "rails": 4, "collective": "all-to-all"},
    {"topology": "fat-tree", "k": 4, "router": "spray", "collective": "ring-all-gather"},
    {"topology": "ring", "nodes": 8, "collective": "ring-reduce-scatter"},
    {"topology": "rail-only", "domains": 1, "rails": 9, "collective": "incast"},
]


@pytest.fixture(scope="module")
def registers() -> Registers:
    return load_plugins()


def run(registers: Registers, **keys: Any) -> RunResult:
    return rw.run(registers=registers, engine=keys.pop("engine", "packet"), **{"iterations": 2, **keys})


def times_us(result: RunResult, job: int = 0) -> list[float]:
    return [row.declared_time_us for row in result.rows if row.iteration is not None and row.job == job]


@pytest.mark.parametrize("keys", LARGE, ids=lambda keys: f"{keys['topology']}-{keys['collective']}")
def test_large_messages_take_what_fluid_says(registers: Registers, keys: dict[str, Any]) -> None:
    """Within 2 %, with a window that fills the pipe: what is left are packets that fill and empty it."""
    window = {"engine": {"name": "packet", "window": "ideal"}}
    size = "64M" if keys["collective"] != "incast" else "4M"
    ours = run(registers, **keys, size=size, iterations=1, **window)
    fluid = run(registers, **keys, size=size, iterations=1, engine="fluid")
    assert times_us(ours)[0] == pytest.approx(times_us(fluid)[0], rel=0.02)


def test_waits_are_those_of_the_window_in_use(registers: Registers) -> None:
    """As the transport states them for windows of that size; a congestion control has its own windows, and
    with it they stay those of the transport."""
    keys = {
        "topology": "clos", "planes": 8, "servers": 2, "gpus": 2, "t0": 2, "t1": 2, "router": "spray",
        "collective": "permutation", "rate_scale": 1e-4, "topology.link_latency": "10us",
    }  # fmt: skip
    waits = {}
    for window, control in (("transport", "window"), ("ideal", "window"), ("ideal", "swift")):
        options = {"name": "packet", "window": window}
        plan = rw.load(registers=registers, engine=options, control=control, **keys)
        pair = Model(plan, plan.healthy_table, 1e-4).sim.s.pair
        waits[window, control] = pair[["first_wait", "timeout", "most_wait", "dead_after"]]
        if window == "ideal" and control == "window":
            batch = answer(plan.healthy_table, *pairs_of(plan))
            bits = 8 * ideal_window(links_of(plan.fabric, batch, plan.packet), plan.packet)
            senders = plan.transport.senders(plan.fabric.scaled(1e-4), batch, plan.packet, bits)
            assert np.allclose(pair["timeout"], senders.timeout_s * 1e-4 * 1e12, rtol=1e-9)
            assert np.allclose(pair["window"], bits / 8, rtol=0.01)
    assert (waits["ideal", "window"]["timeout"] > 1.5 * waits["transport", "window"]["timeout"]).all()
    assert np.array_equal(waits["ideal", "swift"], waits["transport", "window"])


def test_packets_that_meet_in_queues_take_longer_than_flows(registers: Registers) -> None:
    """A permutation sprayed in turn over a fat tree: senders in step meet at the links of the core, where the
    fluid has room for all. Never faster than fluid; the rest is what queues cost with this window."""
    keys = {"topology": "fat-tree", "k": 4, "router": "spray", "collective": "permutation", "size": "4M"}
    ours = run(registers, **keys, iterations=1, engine={"name": "packet", "window": "ideal"})
    fluid = run(registers, **keys, iterations=1, engine="fluid")
    assert 1 <= times_us(ours)[0] / times_us(fluid)[0] < 1.15


def test_the_main_job_loses_a_rail_and_recovers(registers: Registers) -> None:
    """A rail at a fifth of its rate: with feedback the routes leave it, and the iterations after it take no
    more than half of those that stay."""
    keys = {"faults": ["at=iter:2 degrade rail:1 to=20%"], "iterations": 6}
    stay, leave = (run(registers, feedback=feedback, **keys) for feedback in (False, True))
    assert len(leave.reroutes) >= 1 and not stay.reroutes
    healthy, degraded, answered = times_us(leave)[1], times_us(stay)[-1], times_us(leave)[-1]
    assert degraded / healthy > 3
    assert answered < 0.6 * degraded
    assert all(row.wrong is None for row in leave.rows)


def test_a_detour_of_more_links_is_no_tie(registers: Registers) -> None:
    """A cable of a torus that is as slow as flows on the way around it are: short messages are later there by
    a packet for every link. By flows alone routes took ways that cost 3 to 6 % more than staying did."""
    keys = {
        "topology": "torus", "shape": "4x4", "router": "wfr", "size": "256K", "iterations": 4,
        "collective": "halving-doubling-all-reduce", "faults": ["at=iter:1 degrade link:g0.0->g0.1 to=52%"],
    }  # fmt: skip
    stay, leave = (run(registers, feedback=feedback, **keys) for feedback in (False, True))
    assert times_us(leave)[-1] <= 1.01 * times_us(stay)[-1]


def test_equal_runs_are_equal_and_report_losses(registers: Registers) -> None:
    keys = {
        "topology": "fat-tree", "k": 4, "router": "spray", "chooser": "reps", "collective": "permutation",
        "faults": ["at=iter:1 loss link:t0.0->a0.0 rate=10%"], "iterations": 3, "feedback": False,
    }  # fmt: skip
    plan = rw.load(registers=registers, engine="packet", **{**keys, "faults": "none"})
    link = plan.fabric.link_name(int(plan.healthy_table.path(0, plan.fabric.n_gpus - 1)[0].links[1]))
    keys["faults"] = [f"at=iter:1 loss link:{link} rate=10%"]
    first, second = (run(registers, **keys) for _ in range(2))
    assert times_us(first) == times_us(second)
    lost = [row.retransmitted for row in first.rows if row.iteration is not None]
    assert lost[0] == 0 and sum(filter(None, lost)) > 0
    assert lost[1] != lost[2]  # no iteration loses what another one lost
    assert lost == [row.retransmitted for row in second.rows if row.iteration is not None]


def test_pairs_that_wait_for_a_slow_nic_are_not_given_up(registers: Registers) -> None:
    """A pair waits for packets of 14 others, longer than `dead_after`; theirs show how long that may take.
    The iterations take what the NIC needs, 20 times as long, and what was sent again because it was late."""
    keys: dict[str, Any] = {
        "domains": 4, "rails": 4, "collective": "direct-all-to-all", "size": "1M", "iterations": 3,
        "faults": ["at=iter:1 degrade nic:0.1 to=5%"], "feedback": False,
    }  # fmt: skip
    healthy, *slow = times_us(run(registers, **keys))
    assert all(15 < time / healthy < 30 for time in slow)


def test_jobs_that_share_nothing_do_not_see_each_other(registers: Registers) -> None:
    """Two jobs in domains of their own take, to the picosecond, what each takes alone."""
    jobs = ["ranks=domain:0 collective=ring-all-reduce", "ranks=domain:1 collective=all-to-all size=512K"]
    keys = {"domains": 2, "rails": 4, "rate_scale": 1e-5, "feedback": False}
    both = run(registers, jobs=jobs, alone=0, **keys)
    single = [run(registers, jobs=[job], alone=0, **keys) for job in jobs]
    for number, alone in enumerate(single):
        assert times_us(both, number) == pytest.approx(times_us(alone), abs=1e-6)


@pytest.mark.parametrize(("control", "some"), [("dcqcn", True), ("window", False)])
def test_rows_count_the_cnps_that_senders_got(registers: Registers, control: str, some: bool) -> None:
    """Only DCQCN's receivers send any; of three flows into one port at line rate some packets are marked."""
    result = run(registers, collective="incast", size="1M", iterations=1, control=control,
                 domains=4, rails=1)  # fmt: skip
    assert [row.cnps > 0 for row in result.rows if row.cnps is not None] == [some] * len(result.rows)


def test_messages_that_meet_nobody_have_no_slowdown(registers: Registers) -> None:
    """A permutation within one domain, where the acknowledgement of every fourth packet goes before data;
    then three to one, in which every packet waits for two others."""
    keys = {"topology": "rail-only", "domains": 1, "rails": 4, "iterations": 1, "size": "1M"}
    alone = run(registers, **keys, collective="permutation", engine={"name": "packet", "window": "ideal"})
    row = alone.rows[0]
    assert row.slowdown is not None
    every, megabytes = row.slowdown
    assert every.up_to_bytes is None and megabytes.up_to_bytes == 1 << 20
    assert every.messages == megabytes.messages == 4
    acks = PACKET.acknowledgement_bytes / (4 * PACKET.full_packet_bytes)
    assert every.p50 == every.max == pytest.approx(1 + acks, abs=1e-3)
    assert every.p99 is None and every.max_us == pytest.approx(row.declared_time_us)
    incast = run(registers, **keys, collective="incast").rows[0].slowdown
    assert incast is not None and incast[0].max == pytest.approx(3, rel=0.01)


def test_trimming_delivers_all_and_waits_for_no_timeout(registers: Registers) -> None:
    """Incast into a port with room for eight packets. What is trimmed is sent again at once, so it takes what
    its bytes take, and the headers; dropped packets are found late. Nothing that was trimmed is dropped."""
    keys = {
        "topology": "rail-only",
        "domains": 1,
        "rails": 8,
        "collective": "incast",
        "size": "1M",
        "iterations": 1,
    }
    trims, drops = (
        run(registers, **keys, engine={"name": "packet", "buffer": "34K", "trimming": trimming})
        for trimming in (True, False)
    )
    row = trims.rows[0]
    assert row.trimmed == row.retransmitted > 0 and sum(link.drops for link in trims.links) == 0
    assert sum(link.trimmed or 0 for link in trims.links) == row.trimmed
    assert {link.trimmed for link in drops.links} == {None}
    assert drops.rows[0].trimmed is None and sum(link.drops for link in drops.links) > 0
    assert row.declared_time_us < drops.rows[0].declared_time_us


def test_adaptive_switches_leave_a_slow_link(registers: Registers) -> None:
    """A link of the core at a quarter: paths in turn wait for it, and switches that choose do not. Where
    nothing is wrong, ties by link give each flow a single path, and these meet further on, as ecmp's do."""
    keys = {"topology": "fat-tree", "k": 4, "router": "spray", "collective": "permutation", "size": "4M",
            "feedback": False, "faults": ["at=iter:1 degrade link:a0.0->c0.0 to=25%"]}  # fmt: skip
    turns, by_id, drawn, flowlets = (
        times_us(run(registers, **keys, engine={"name": "packet", **options}))
        for options in ({}, {"adaptive": "packet", "ties": "id"}, {"adaptive": "packet"},
                        {"adaptive": "flowlet"})
    )  # fmt: skip
    assert turns[1] > 2.5 * turns[0]
    assert drawn[0] < 1.1 * turns[0] < by_id[0] and flowlets[0] < by_id[0]
    assert max(by_id[1], drawn[1], flowlets[1]) < 0.7 * turns[1]


@pytest.mark.parametrize("keys", [{}, {"size": "16K"}, {"size": "16K", "control": "swift"}])
def test_a_cut_pair_fails_the_run(registers: Registers, keys: dict[str, Any]) -> None:
    """Also one whose only packet is sent again and again."""
    quiet = {
        "feedback": False,
        "health": {"interval": 10.0},
    }  # a paced pair gives up after hours
    with pytest.raises(TransportError, match=r"stood still for .* packets are lost on links that are down"):
        run(registers, topology="ring", nodes=4, faults=["at=iter:1 down link:g0->g1"], **quiet, **keys)


def test_pairs_whose_router_leaves_them_no_path_fail_the_run(registers: Registers) -> None:
    """`dor` has one path a pair; it is down when the pair has sent its first packets on it."""
    keys: dict[str, Any] = {"topology": {"name": "torus", "shape": "3x3"}, "router": "dor", "iterations": 2}
    with pytest.raises(TransportError, match=r"g0\.0 -> g1\.0, stood still for 4\.5 s"):
        run(registers, faults=["at=iter:1 down link:g0.0->g1.0"], **keys)


@pytest.mark.parametrize("size", ["16K", "64K", "256K"])
def test_token_buckets_store_nothing_so_short_messages_stay_where_they_end_sooner(
    registers: Registers, size: str
) -> None:
    """An all-reduce of 4 x 4 over a rail at 60 %: with stored packets the detour would pay for messages of a
    packet; over links that pass a packet on at once it takes 1.22 times as long, as it does on a lab."""
    keys: dict[str, Any] = {"size": size, "iterations": 2, "faults": ["at=iter:0 degrade rail:1 to=60%"]}
    keys["engine"] = {"name": "packet", "switching": "token-buckets", "nic": "fifo"}
    none, oracle = (
        times_us(run(registers, **keys, feedback=told, oracle=told))[-1] for told in (False, True)
    )
    assert oracle <= 1.01 * none


@pytest.mark.parametrize(("switching", "within_s"), [("token-buckets", 0.5), ("store-and-forward", 1.0)])
@pytest.mark.parametrize("size", ["64K", "256K"])
def test_packets_that_waited_tell_of_slow_links_however_short_their_queues(
    registers: Registers, size: str, switching: str, within_s: float
) -> None:
    """A rail at 60 %, messages of one packet and of four: a lab sees it after 0.42 s at 64 KiB, as samples of
    its queues count packets that waited. A packet waits for one at most there, so few queues stand at the
    moment of a sample."""
    engine = {"name": "packet", "switching": switching, "nic": "fifo"}
    result = run(
        registers, size=size, iterations=6, engine=engine, faults=["at=iter:2 degrade rail:1 to=60%"]
    )
    (fault,) = result.faults
    assert fault.detected_s is not None and fault.detected_s < within_s
    assert result.health[-1].elements["rail:1"] == pytest.approx(0.6, abs=0.1)


@pytest.mark.parametrize("size", ["64K", "1M"])
def test_with_the_latency_of_a_lab_its_links_are_token_buckets(registers: Registers, size: str) -> None:
    """Packets from one GPU to the other, over two links and three switches, by the run's clock: the first one
    leaves at once, and what the bucket holds, 50 us, is owed at the end (net/sched/sch_htb.c). One-way, so
    that no acknowledgement takes time from data. Latencies are drawn, a third of them at the first
    switch, where the second bucket makes up at best for all but the last packet's, and at worst for none, so
    that the latest of n counts: the n-th harmonic number times the mean (Renyi, 1953)."""
    keys = {"topology": "rail-only", "domains": 1, "rails": 2, "collective": "incast", "size": size}

    def with_latency(latency: float, seed: int = 1) -> RunResult:
        lab = {"name": "packet", "packet_latency": latency}
        return run(registers, **keys, rate_scale=1e-5, iterations=1, engine=lab, seed=seed)

    result = with_latency(1e-9)
    fabric = rw.load(registers=registers, engine="packet", **keys).fabric
    count = int(result.rows[0].size_bytes) // PACKET.path_mtu
    per_byte_s = 8 / fabric.capacity_bps[0] / 1e-5
    sent = PACKET.full_packet_bytes * (count - 1) + PACKET.RETH  # all but the last one
    expected = sent * per_byte_s - 50e-6 + 2 * fabric.latency_s[0] / 1e-5
    assert result.rows[0].time_us == pytest.approx(1e6 * expected, rel=6e-5)  # packets of whole picoseconds
    hops = (
        2 * (count + count // 8) - 1
    )  # senders with a window of 64 ask for every eighth; the last is under way
    assert result.counts["packet_hops"] == hops
    assert result.fidelity.verdict == "pass"
    drawn = [with_latency(50e-6, seed) for seed in range(64)]
    assert drawn[0].fabric.packet_latency_us == pytest.approx(50)
    late_us = np.mean([run.rows[0].time_us for run in drawn]) - 1e6 * expected
    slack, latest = 4 * np.sqrt(5 / 9 / 64), sum(1 / np.arange(1, count + 1))
    assert 1 - slack < late_us / 50 < (latest + 2) / 3 + slack


def test_what_a_left_path_has_lost_is_known_as_if_the_path_were_in_use(registers: Registers) -> None:
    """Packets of one path stay in order, also on one that a pair has left: what was sent there later and has
    arrived tells of it (RFC 8985, section 6.2, per path). So leaving a lossy rail within an iteration costs
    nothing; where all that was lost there waited for a timeout, the iteration took 1.38 times as long as with
    routes kept, in the mean over these seeds."""
    topology = {"name": "rail-only", "domains": 3, "rails": 5, "domain_rate": 4e11, "rail_rate": 1e11,
                "rail_latency": 1.21e-6}  # fmt: skip
    keys = {"topology": topology, "router": "spray", "size": 1963024, "estimator": "rate", "iterations": 2,
            "faults": ["at=iter:1 loss rail:0 rate=4.35%"]}  # fmt: skip
    ratios = []
    for seed in range(6):
        stays, leaves = (run(registers, seed=seed, feedback=on, **keys) for on in (False, True))
        assert leaves.reroutes
        ratios.append(times_us(leaves)[1] / times_us(stays)[1])
    assert np.mean(ratios) < 1.03


@pytest.mark.parametrize("seed", [1, 2])
def test_new_paths_are_tried_within_their_timeout(registers: Registers, seed: int) -> None:
    """Windows of the direct paths take 0.65 ms, so that senders wait twice that; on the paths around over
    domains they wait 137 us at most, also for what a pair has lost before it took these, longer than an
    iteration takes on them."""
    topology = {"name": "rail-only", "domains": 5, "rails": 2, "domain_rate": 3.6e12, "rail_rate": 1e11,
                "domain_latency": 3.66e-6, "rail_latency": 5.01e-7}  # fmt: skip
    keys = {"topology": topology, "router": "hscore", "collective": "direct-all-to-all", "size": 2621440,
            "estimator": "rate", "iterations": 3, "faults": ["at=iter:1 loss rail:1 rate=1.20%"]}  # fmt: skip
    leaves = run(registers, seed=seed, engine={"name": "packet", "window": "ideal"}, **keys)
    assert leaves.reroutes
    _healthy_us, leaving_us, left_us = times_us(leaves)
    assert leaving_us < left_us + 137


def test_a_rail_that_loses_packets_is_left_as_if_it_were_cut(registers: Registers) -> None:
    """Docs/packets.md: 7.6 % lost take a tenth of the rate, and waits of senders ten times what the iteration
    took. As with the rail down, which is the law "slow is never worse than cut"."""
    keys = {
        "domains": 4, "rails": 4, "rail_latency": "3us", "collective": "direct-all-to-all", "size": "1M",
        "iterations": 4,
    }  # fmt: skip
    stays, leaves, down = (
        times_us(run(registers, **keys, fault=[f"at=iter:1 {what}"], **more))
        for what, more in (
            ("loss rail:0 rate=7.6%", {"feedback": False}),
            ("loss rail:0 rate=7.6%", {}),
            ("down rail:0", {}),
        )
    )
    assert stays[-1] > 5 * stays[0] and leaves[-1] == pytest.approx(down[-1], rel=0.03)


def test_loss_is_counted_of_the_packets_that_came(registers: Registers) -> None:
    """With 50 ms of the run's clock on the way, those lost at the end of a burst were told after all others,
    as if a link of 15 % had lost all of its last ones; routes changed 16 times in six iterations."""
    topology = {
        "name": "rail-only",
        "domains": 2,
        "rails": 4,
        "domain_latency": 3.29e-6,
        "rail_latency": 6.7e-8,
    }
    result = run(
        registers, topology=topology, router="hscore", collective="broadcast", size=2097152, iterations=4,
        faults=["at=iter:1 loss link:d0->g0.1 rate=15.49%"], seed=0,
    )  # fmt: skip
    assert len(result.reroutes) == 1
    (lossy,) = [link for link in result.links if link.name == "d0->g0.1"]
    assert lossy.h_score == pytest.approx(0.845 / (1 + 6 * 0.155), abs=0.05)


def test_routes_around_a_dead_rail_go_on(registers: Registers) -> None:
    result = run(registers, faults=["at=iter:1 down rail:1"], iterations=5)
    assert len(times_us(result)) == 5
    assert result.reroutes


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"program": "true", "collective": None}, "engine packet cannot, because it has no hosts"),
        ({"engine": {"name": "packet", "kmin": "2M"}}, "kmin 2M lies above kmax 80K"),
        ({"engine": {"name": "packet", "marks": "off"}, "control": "dcqcn"}, "engine.marks is off"),
        ({"engine": {"name": "packet", "ack_every": 0}}, "ack_every"),
        (
            {"engine": {"name": "packet", "packet_latency": "2ms", "switching": "cut-through"}},
            "switching cut-through: a lab",
        ),
        (
            {"engine": {"name": "packet", "trimming": True}},
            "queues have no limit, so no packet finds one full",
        ),
        ({"engine": {"name": "emulation", "trimming": True}}, "no option 'trimming'.* have it: packet"),
        ({"engine": {"name": "fluid", "adaptive": "packet"}}, "no option 'adaptive'.* have it: packet"),
    ],
)
def test_what_cannot_be_is_refused_by_name(registers: Registers, keys: dict[str, Any], why: str) -> None:
    with pytest.raises(ExperimentError, match=why):
        rw.load(registers=registers, **{"engine": "packet", **keys})


def test_without_numba_the_extra_is_named(registers: Registers, monkeypatch: pytest.MonkeyPatch) -> None:
    plan: Plan = rw.load(registers=registers, engine="packet")
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    with pytest.raises(NotInstalledError, match=r"pip install 'railweave\[fluid\]'") as caught:
        plan.engine.estimate(plan)
    assert caught.value.exit_code == 2


def test_a_buffer_below_a_packet_is_refused_before_the_run(registers: Registers) -> None:
    plan: Plan = rw.load(registers=registers, engine={"name": "packet", "buffer": "1K"})
    with pytest.raises(ExperimentError, match="buffer 1K: no packet of 4170 bytes fits into it") as caught:
        plan.engine.estimate(plan)
    assert caught.value.exit_code == 2


def test_memory_and_events_are_said_beforehand(registers: Registers) -> None:
    """At least one event for each packet and link that it crosses; what takes too long is refused."""
    plan: Plan = rw.load(registers=registers, engine="packet", topology="fat-tree", k=4, router="spray")
    estimate = plan.engine.estimate(plan)
    assert estimate.events is not None and estimate.memory_bytes is not None
    result = run(registers, topology="fat-tree", k=4, router="spray", iterations=1)
    per_iteration = estimate.events / plan.experiment.iterations
    assert 0.3 * per_iteration < dict(result.counts)["events"] < 3 * per_iteration
    assert machine.machine_code(False) is machine.machine_code(False)
    assert np.isfinite(estimate.memory_bytes)
    assert estimate.seconds is not None and 0 < estimate.seconds < 600


def test_a_domain_that_flaps_is_waited_for(registers: Registers) -> None:
    """Down for half of each second of the run's clock, while an iteration takes a second and a half: from the
    second outage on an iteration lasts longer by the outages that begin in it, and a tenth of each at most
    for what was lost to be asked for and sent again. To leave took twice as long, in the mean of 24."""
    half_s, period_s, first = 0.5, 1.0, 3
    result = run(
        registers, topology="rail-only", router="hscore", size="1M", iterations=16,
        faults=[f"at=iter:{first} flap domain:1 period={period_s:g}s times=60"],
        engine={"name": "packet", "switching": "token-buckets", "nic": "fifo"},
    )  # fmt: skip
    rows = [row for row in result.rows if row.iteration is not None]
    healthy_s, since_s = rows[0].time_us / 1e6, rows[first].t_s
    later = [row for row in rows if row.t_s > since_s + 3 * period_s]
    assert len(later) >= 6
    for row in later:
        begins = np.ceil((row.t_s - since_s - half_s) / period_s)
        outages = np.floor((row.t_s + row.time_us / 1e6 - since_s) / period_s) - begins + 1
        assert row.time_us / 1e6 <= healthy_s + 1.1 * half_s * outages
    assert all(reroute.t_s < later[0].t_s for reroute in result.reroutes)
