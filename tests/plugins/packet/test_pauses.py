"""Pauses (PFC) and deadlocks. Expected values: the bytes that come until a sender has stopped, those over a
port, the textbook simulator, and a ring in which each switch waits for the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import railweave as rw
from railweave.framework.errors import ExperimentError
from railweave.plugins.packet.buffers import Buffers, Pauses, SharedMemory, behind, needed
from railweave.plugins.packet.deadlocks import deadlock_of
from railweave.plugins.packet.layout import DEADLOCK
from railweave.plugins.packet.pause_counts import PauseCounts
from railweave.plugins.packet.settings import Settings
from tests.plugins.packet.cases import (
    PACKET,
    Case,
    Message,
    between,
    links_along,
    packet_sizes,
    ps,
    ring_of_waits,
)
from tests.plugins.packet.test_closed_forms import MTU, line, star
from tests.plugins.packet.test_textbook import compare_pauses
from tests.plugins.packet.textbook import Textbook

FULL = packet_sizes(MTU)[0]


def lossless(pauses: Pauses | None) -> Settings:
    return Settings(buffers=Buffers(0, pauses))


def incast(pauses: Pauses | None, senders: int = 4) -> tuple[Case, int]:
    """Messages of 100 packets each to GPU 0, and the link to it."""
    fabric, paths = star(senders)
    messages = [Message(g, 0, 100 * MTU) for g in range(1, senders + 1)]
    return Case(fabric, between(fabric, paths), messages, lossless(pauses)), paths[1, 0][0][1]


def test_a_lossless_port_drops_nothing_and_is_never_idle() -> None:
    """As many bytes as without pauses at the same rate, so the same end; and queues that end at the room that
    ports have."""
    paused, port = incast(Pauses(4 * FULL, 2 * FULL))
    free, _ = incast(None)
    (sim, end), (other, other_end) = paused.run(), free.run()
    assert end.max() == other_end.max()
    assert sim.s.link["drops"].sum() == 0 and sim.of_job(0)["again"].sum() == 0
    assert sim.s.link["longest"][port] < other.s.link["longest"][port]
    assert (sim.s.port["pauses"] > 0).sum() == 4
    assert (sim.s.port["fullest"] <= sim.s.port["most"]).all()


def test_headroom_holds_what_comes_until_the_sender_has_stopped() -> None:
    """The room that a pause needs, but for what comes while frames wait, since only acknowledgements go back;
    and no packet less: a port that is given two less drops."""
    case, _ = incast(Pauses(FULL, 0))
    sim, _ = case.run()
    need = needed(case.fabric, PACKET)
    port = sim.s.port
    spare = behind(case.fabric, PACKET)
    assert (port["fullest"] <= port["xoff"] + need + spare).all()
    assert (port["fullest"] > port["xoff"] + need - 2 * FULL)[port["pauses"] > 0].all()
    sim, _ = case.simulation()
    sim.s.port["most"] -= spare.astype(np.int64) + 2 * FULL
    sim.advance(10**9)
    assert sim.s.link["drops"].sum() > 0


def test_frames_wait_for_the_packet_under_way() -> None:
    """Three senders into a slow port get data at line rate themselves, whose packets begin a tenth of a
    packet before theirs arrive, so that pauses come late by nine tenths: twice the latency is 1.2 packets,
    in which two begin, and 2.1 are three. Headroom without room for that loses packets, and what there is by
    itself none."""
    fabric = rw.topology("rail-only", domains=1, rails=7)
    ends = [(1, 0), (2, 0), (3, 0), (4, 1), (5, 2), (6, 3)]
    paths = {(a, b): [links_along(fabric, (a, 7, b))] for a, b in ends}
    rates = fabric.capacity_bps.copy()
    rates[paths[1, 0][0][1]] /= 50
    latency_s = np.full(fabric.n_links, 0.6 * FULL * 8 / 4e11)
    fabric = replace(fabric, capacity_bps=rates, latency_s=latency_s)
    shifts = [Message(*pair, int(0.9 * FULL) - PACKET.HEADERS) for pair in ends[3:]]
    messages = [*shifts, *(Message(*pair, 20 * MTU) for pair in ends)]
    drops = []
    for headroom in (None, int(needed(fabric, PACKET).max())):
        case = Case(
            fabric, between(fabric, paths), messages, lossless(Pauses(3 * FULL, FULL, headroom)),
            first_wait=10**9, timeout=10**9, most_wait=4 * 10**9,
        )  # fmt: skip
        book = Textbook(case)
        book.run()
        sim, end = case.run()
        assert end.tolist() == book.end
        compare_pauses(sim, book, f"headroom {headroom}")
        drops.append(int(sim.s.link["drops"].sum()))
    assert drops[0] == 0 < drops[1]


def test_a_frame_takes_the_latency_and_the_time_until_it_is_obeyed() -> None:
    """One sender at 400 Gb/s into a link of a quarter: the port holds three packets of four that come, so the
    time of the first pause follows from the packets."""
    fabric, paths = star(1)
    nic, port = paths[1, 0][0]
    rates = fabric.capacity_bps.copy()
    rates[port] /= 4
    fabric = replace(fabric, capacity_bps=rates, latency_s=np.full(fabric.n_links, 3e-7))
    pauses = Pauses(3 * FULL, 0, response_s=2e-7)
    case = Case(fabric, between(fabric, paths), [Message(1, 0, 40 * MTU)], lossless(pauses))
    sim, _ = case.simulation()
    sizes = packet_sizes(40 * MTU)
    came = np.cumsum([ps(fabric, nic, size) for size in sizes]) + 300_000
    left = came[0] + np.cumsum([0, *(ps(fabric, port, size) for size in sizes)])
    held = [sum(sizes[: i + 1]) - sum(s for s, t in zip(sizes, left, strict=False) if t <= now)
            for i, now in enumerate(came.tolist())]  # fmt: skip
    first = next(i for i, bytes_ in enumerate(held) if bytes_ > pauses.xoff)
    obeyed = int(came[first]) + 500_000
    sim.advance(obeyed - 1)
    assert sim.s.link["paused"][nic] == 0 and sim.s.port["asked"][nic] == 1
    sim.advance(obeyed)
    assert sim.s.link["paused"][nic] == 1 and sim.s.port["since"][nic] == obeyed


def test_acknowledgements_are_not_paused() -> None:
    """Both ways at once: while data is paused, the acknowledgements of the other way go on, so that all ends
    as if each way were alone."""
    fabric, paths = star(3)
    paths |= {(0, g): [[path[1] ^ 1, path[0] ^ 1]] for (g, _), (path,) in paths.items()}
    messages = [Message(*ends, 50 * MTU) for ends in sorted(paths)]
    case = Case(fabric, between(fabric, paths), messages, lossless(Pauses(2 * FULL, FULL)))
    book = Textbook(case)
    book.run()
    sim, end = case.run()
    assert end.tolist() == book.end
    compare_pauses(sim, book, "both ways")
    assert sim.s.port["pauses"].sum() > 0


def test_three_switches_in_a_ring_wait_for_each_other() -> None:
    """Each link of the ring carries two flows at line rate, so each switch fills and pauses the one before
    it: a deadlock, found here and by the textbook at the same time."""
    case = ring_of_waits(Pauses(4 * FULL, 2 * FULL))
    book = Textbook(case)
    book.run()
    sim, _ = case.run()
    assert sim.s.globals[DEADLOCK]
    ring = {int(link) for link in links_along(case.fabric, (3, 4, 5, 3))}
    assert ring <= set(np.flatnonzero(sim.s.port["stuck"]).tolist())
    deadlock = deadlock_of(sim.s)
    assert deadlock is not None and deadlock.jobs == {0}
    assert deadlock.cycle == tuple(links_along(case.fabric, (3, 4, 5, 3)))
    names = "links s0->s1, s1->s2, s2->s0 are paused"
    assert names in deadlock.described(case.fabric)
    assert sim.now == book.now
    compare_pauses(sim, book, "ring")
    before = sim.of_job(0)["packets"].sum()
    sim.s.globals[DEADLOCK] = 0
    sim.advance(sim.now + 10**8)
    assert sim.of_job(0)["packets"].sum() == before  # nothing moves any more


def test_half_the_rate_and_twice_the_latency_take_twice_the_time() -> None:
    """Exactly, with as many pauses: headroom is a product of both."""
    fabric, paths = star(4)
    messages = [Message(g, 0, 100 * MTU) for g in range(1, 5)]
    runs = []
    for scale in (1, 2):
        slow = replace(
            fabric, capacity_bps=np.full(fabric.n_links, 4e11 / scale),
            latency_s=np.full(fabric.n_links, 3e-7 * scale),
        )  # fmt: skip
        pauses = Pauses(4 * FULL, 2 * FULL, response_s=1e-7 * scale)
        runs.append(Case(slow, between(slow, paths), messages, lossless(pauses)).run())
    (sim, end), (slow_sim, slow_end) = runs
    assert np.array_equal(2 * end, slow_end)
    assert sim.s.port["pauses"].sum() > 0
    for name in ("pauses", "fullest", "held", "most"):
        assert np.array_equal(sim.s.port[name], slow_sim.s.port[name])
    assert np.array_equal(2 * sim.s.port["paused"], slow_sim.s.port["paused"])


def test_pauses_spread_upstream() -> None:
    """A line of four whose last link is slow: the link before it is paused first, and the one before that
    because of it; the bytes over the slow link take as long as without pauses."""
    fabric, links = line(3)
    rates = fabric.capacity_bps.copy()
    rates[links[2]] /= 10
    fabric = replace(fabric, capacity_bps=rates)
    paths, messages = between(fabric, {(0, 3): [links]}), [Message(0, 3, 300 * MTU)]
    sim, end = Case(fabric, paths, messages, lossless(Pauses(4 * FULL, 2 * FULL))).run()
    _, free = Case(fabric, paths, messages).run()
    assert end[0] == free[0]
    assert (sim.s.port["depth"][links[0]], sim.s.port["depth"][links[1]]) == (2, 1)
    counts = PauseCounts.of(sim.s)
    before = PauseCounts(0 * counts.pauses, 0 * counts.paused_ps, 0 * counts.depths)
    paused = counts.since(before, 1.0)
    assert (paused.links, paused.depth, paused.pauses) == (2, 2, sim.s.port["pauses"].sum())
    assert 0 < paused.seconds < 2 * end[0] * 1e-12


def test_a_ring_that_one_flow_leaves_open_is_no_deadlock() -> None:
    case = ring_of_waits(Pauses(4 * FULL, 2 * FULL), senders=2)
    sim, end = case.run()
    assert not sim.s.globals[DEADLOCK] and sim.s.port["pauses"].sum() > 0
    assert end.max() < 10**9


@pytest.mark.parametrize(
    ("pauses", "room", "why"),
    [
        (lambda: Pauses(2 * FULL, 3 * FULL), 0, "xon .* lies above xoff .*"),
        (lambda: Pauses(2 * FULL, FULL, FULL), 0, "headroom .* is too small for g.*: .* Raise headroom"),
        (lambda: Pauses(20 * FULL, FULL), 10 * FULL, "are more than the buffer of a port, .* raise buffer"),
    ],
)
def test_thresholds_that_contradict_are_refused(pauses: object, room: int, why: str) -> None:
    fabric, _ = star(2)
    with pytest.raises(ExperimentError, match=why):
        pauses().headrooms(fabric, PACKET, room)  # type: ignore[operator]


def shared(alpha: float, packets: int, pauses: Pauses | None = None) -> Settings:
    return Settings(buffers=Buffers(0, pauses, SharedMemory(packets * FULL, alpha)))


@pytest.mark.parametrize("alpha", [0.5, 1.0, 4.0])
def test_a_queue_has_alpha_times_what_is_free(alpha: float) -> None:
    """One queue alone grows to alpha / (1 + alpha) of the memory (Choudhury and Hahne, 1998, equation 2)."""
    fabric, paths = star(4)
    messages = [Message(g, 0, 100 * MTU) for g in range(1, 5)]
    case = Case(
        fabric, between(fabric, paths), messages, shared(alpha, 60), first_wait=20_000_000,
        timeout=20_000_000, most_wait=80_000_000,
    )  # fmt: skip
    sim, _ = case.run()
    longest = sim.s.link["longest"].max() / FULL
    assert longest == pytest.approx(60 * alpha / (1 + alpha), abs=1.5)
    assert sim.s.link["drops"].sum() > 0
    assert (sim.s.memory["used"] == 0).all() and (sim.s.port["held"] == 0).all()


def test_two_queues_share_what_both_leave_free() -> None:
    """With alpha 1 two full queues have a third each, and a third stays free (equation 2)."""
    fabric = rw.topology("rail-only", domains=1, rails=10)
    paths = {(g, g % 2): [links_along(fabric, (g, 10, g % 2))] for g in range(2, 10)}
    messages = [Message(g, d, 100 * MTU) for g, d in sorted(paths)]
    sim, _ = Case(
        fabric, between(fabric, paths), messages, shared(1.0, 60), first_wait=20_000_000, timeout=20_000_000,
        most_wait=80_000_000,
    ).simulation()  # fmt: skip
    most, ports = np.zeros(2), [paths[2 + d, d][0][1] for d in range(2)]
    while sim.now < 10_000_000:
        sim.advance(sim.now + 50_000)
        most = np.maximum(most, sim.s.link["queued"][ports, 1])
    assert most / FULL == pytest.approx(20, abs=2)


def test_shared_memory_with_pauses_loses_nothing_and_is_never_overfull() -> None:
    """The ports of a switch pause by what is free, and headroom is set apart."""
    fabric, paths = star(8)
    headrooms = Pauses(FULL, 0).headrooms(fabric, PACKET)
    headroom = int(np.bincount(fabric.link_dst, headrooms).max())
    memory = SharedMemory(headroom + 40 * FULL, 0.5)
    settings = Settings(buffers=Buffers(0, Pauses(100 * FULL, 98 * FULL), memory))
    messages = [Message(g, 0, 100 * MTU) for g in range(1, 9)]
    sim, _ = Case(fabric, between(fabric, paths), messages, settings).run()
    assert sim.s.link["drops"].sum() == 0 and sim.s.port["pauses"].sum() > 0
    assert sim.s.port["fullest"].max() < 30 * FULL  # far below Xoff: what is free decides
    with pytest.raises(ExperimentError, match=r"headroom of the ports of .* its buffer, .* Raise"):
        SharedMemory(headroom, 1.0).sizes(fabric, headrooms)


def test_a_switch_has_the_memory_of_its_rates_by_default() -> None:
    """75 us, as 12 MB are for 32 ports of 40 Gb/s: of a switch with four of 400 Gb/s 15 MB."""
    fabric = rw.topology("fat-tree", k=4)
    sizes = SharedMemory().sizes(fabric, None)
    assert sizes[fabric.n_gpus :] == pytest.approx(4 * 400e9 / 8 * 75e-6, abs=1)
    assert "75 us" in Buffers(shared=SharedMemory()).described(fabric, PACKET)
