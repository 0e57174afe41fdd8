"""The engine against a textbook simulator on drawn cases: equal times to the picosecond, and equal counts of
packets, marks, drops, trims and losses on every link and of every pair."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import railweave as rw
from railweave.plugins.packet.buffers import Buffers, Pauses, SharedMemory
from railweave.plugins.packet.layout import BY_FLOWLET, BY_PACKET, DEADLOCK, DEPTHS, NEVER
from railweave.plugins.packet.settings import Settings
from railweave.plugins.packet.simulation import Simulation
from tests.plugins.packet.cases import PACKET, Case, Message, ring_of_waits
from tests.plugins.packet.textbook import Textbook

FABRICS = (
    ("ring", {"nodes": 5}, "shortest"),
    ("rail-only", {"domains": 2, "rails": 2}, "spray"),
    ("fat-tree", {"k": 4}, "spray"),
    ("torus", {"shape": "2x3"}, "dor"),
)
CASES = 300
FULL = PACKET.full_packet_bytes + PACKET.RETH


def drawn(seed: int) -> Case:
    """A fabric with links of several rates and latencies, some of which lose packets; messages that wait for
    others; queues, windows and thresholds of a few packets."""
    rng = np.random.default_rng(seed)
    if seed % 20 == 0:  # three switches in a ring, which most thresholds let into a deadlock
        xoff = int(rng.integers(0, 8)) * FULL
        pauses = Pauses(xoff, xoff // 2, response_s=float(rng.choice([0.0, 1e-7])))
        packets = rng.integers(50, 150, 3).tolist()
        return ring_of_waits(pauses, float(rng.choice([0.0, 2e-7])), packets)
    kind, options, router = FABRICS[int(rng.integers(len(FABRICS)))]
    plan = rw.load(engine="fluid", topology=kind, router=router, faults="none", **options)
    fabric, n = plan.fabric, plan.fabric.n_gpus
    rates = rng.choice([1e11, 2e11, 3.3e11, 4e11], fabric.n_links // 2).repeat(2)
    latency_s = rng.choice([0.0, 1e-7, 5e-7], fabric.n_links // 2).repeat(2)
    fabric = replace(fabric, capacity_bps=rates, latency_s=latency_s)
    messages = list[Message]()
    hot = int(rng.integers(n))
    for i in range(int(rng.integers(1, 12))):
        after = tuple(sorted({int(j) for j in rng.integers(0, i, int(rng.integers(0, 3)))} if i else ()))
        if rng.random() < 0.15:
            messages.append(Message(hot, hot, 0, after, float(rng.integers(0, 5)) * 1e-6))
            continue
        src, dst = rng.choice(n, 2, replace=False).tolist()
        dst = hot if rng.random() < 0.5 and src != hot else dst
        messages.append(Message(src, dst, int(rng.integers(1, 30 * PACKET.path_mtu)), after))
    sent = sorted({(m.src, m.dst) for m in messages if m.src != m.dst})
    ends = np.array(sent, np.int64).reshape(-1, 2)
    paths = plan.healthy_table.paths(ends[:, 0], ends[:, 1])
    lossy, marks = rng.random() < 0.4, rng.random() < 0.6
    kmin = float(rng.integers(0, 4) * FULL)
    room, trimming = int(rng.choice([0, 3, 3, 8])) * FULL, bool(rng.random() < 0.5)
    settings = Settings(
        room=room,
        kmin=kmin if marks else 0.0,
        kmax=kmin + float(rng.integers(1, 6) * FULL) if marks else 0.0,
        pmax=float(rng.choice([0.1, 1.0])),
        ack_every=int(rng.choice([1, 4, 8])),
        in_turn=bool(rng.random() < 0.7),
        seed=seed,
        trimming=trimming,
        adaptive=(0, 0, BY_PACKET, BY_FLOWLET)[seed % 4],
        gap=int(rng.choice([0, 300_000])),
        ties_drawn=bool(rng.random() < 0.5),
        marks_leaving=bool(rng.random() < 0.3),
        cut_through=bool(rng.random() < 0.3),
    )
    if seed % 5 == 0:
        credit = int(np.random.default_rng((seed, 1)).choice([0, 50_000, 400_000]))
        settings = replace(settings, cut_through=False, credit=credit, late=7_000 * (seed % 3))
    if rng.random() < 0.25:
        xoff = int(rng.integers(0, 3)) * FULL
        xon = max(xoff - int(rng.integers(0, 3)) * FULL, 0)
        pauses = Pauses(xoff, xon, response_s=float(rng.choice([0.0, 1e-7])))
        settings = replace(settings, buffers=Buffers(0, pauses), room=0)
    if rng.random() < 0.25:
        headrooms = settings.buffers.headrooms(fabric, PACKET)
        reserved = 0 if headrooms is None else int(np.bincount(fabric.link_dst, headrooms).max())
        memory = SharedMemory(reserved + int(rng.integers(2, 12)) * FULL, float(rng.choice([0.25, 1.0, 4.0])))
        settings = replace(settings, buffers=Buffers(0, settings.buffers.pauses, memory), room=0)
    loss = rng.choice([0.0, 0.05, 0.3], fabric.n_links, p=[0.7, 0.2, 0.1]) if lossy else np.empty(0)
    settings = replace(settings, fair=bool(rng.random() < 0.3))
    return Case(
        fabric, paths, messages, settings, window=float(rng.choice([1, 4, 20])) * FULL, first_wait=8_000_000,
        timeout=10_000_000, most_wait=40_000_000, loss=loss,
    )  # fmt: skip


def compare_pauses(sim: Simulation, book: Textbook, case: str) -> None:
    """Pauses of every link, how long they were, what ports hold, and what is in a deadlock."""
    port = sim.s.port
    for ours, theirs in (("pauses",) * 2, ("paused", "paused_for"), ("held",) * 2, ("asked",) * 2):
        expected = [int(getattr(link, theirs)) for link in book.links]
        assert port[ours].tolist() == expected, f"{case}: {ours}"
    assert sim.s.globals[DEPTHS:].sum() == port["pauses"].sum(), case
    stuck = set(np.flatnonzero(sim.s.port["stuck"]).tolist()) if sim.s.globals[DEADLOCK] else set()
    assert stuck == book.stuck, case


@pytest.mark.parametrize("block", range(10))
def test_times_marks_drops_and_losses_are_those_of_the_textbook(block: int) -> None:
    for seed in range(block * CASES // 10, (block + 1) * CASES // 10):
        case = drawn(seed)
        book = Textbook(case)
        book.run()
        sim, end = case.run()
        over = np.where(end == NEVER, -1, end).tolist()
        assert over == book.end, f"case {seed}"
        if case.settings.buffers.flags:
            compare_pauses(sim, book, f"case {seed}")
        columns = ("sent_packets", "sent"), ("drops",) * 2, ("lost",) * 2, ("marked",) * 2, ("trimmed",) * 2
        for ours, theirs in columns:
            expected = [getattr(link, theirs) for link in book.links]
            assert sim.s.link[ours].tolist() == expected, f"case {seed}: {ours}"
        pairs = list(book.pairs.values())
        columns = (
            ("packets",) * 2,
            ("again",) * 2,
            ("twice",) * 2,
            ("marked", "came_marked"),
            ("trimmed",) * 2,
        )
        for ours, theirs in columns:
            assert sim.of_job(0)[ours].tolist() == [getattr(pair, theirs) for pair in pairs], f"case {seed}"
        late = [lateness(pair.numbers) for pair in pairs]
        assert list(zip(*(sim.of_job(0)[name].tolist() for name in ("behind", "depth")), strict=True)) == late


def lateness(numbers: list[int]) -> tuple[int, int]:
    """Of packets in the order of their arrival: how many came behind a later one, and by how many numbers the
    latest one did (RFC 4737, with what is sent again under its old number)."""
    late = [max(numbers[: i + 1]) - number for i, number in enumerate(numbers)]
    return sum(depth > 0 for depth in late), max(late, default=0)


def test_the_drawn_cases_have_what_they_are_for() -> None:
    """Cases with drops, marks, losses, packets sent twice and pauses, so that equal counts say something."""
    counts = dict.fromkeys(("drops", "marked", "lost", "trimmed", "twice", "pauses", "deadlocks"), 0)
    for seed in range(100):
        sim, _ = drawn(seed).run()
        for name in ("drops", "marked", "lost", "trimmed"):
            counts[name] += bool(sim.s.link[name].any())
        counts["pauses"] += bool(sim.s.port["pauses"].any())
        counts["deadlocks"] += bool(sim.s.globals[DEADLOCK])
        counts["twice"] += bool(sim.of_job(0)["twice"].any())
    assert counts.pop("deadlocks") >= 2
    assert min(counts.values()) >= 4, counts
