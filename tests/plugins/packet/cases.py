"""Cases for the simulation and for the textbook simulator: a fabric, paths, messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from railweave.framework.model import Fabric, FabricBuilder, NodeGroup, PacketFormat, PathBatch, Schedule
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.model.routes import starts
from railweave.plugins.packet.buffers import Buffers, Pauses
from railweave.plugins.packet.layout import DEADLOCK
from railweave.plugins.packet.messages import Messages, messages_of
from railweave.plugins.packet.settings import Settings, Waits
from railweave.plugins.packet.simulation import Simulation

PACKET = PacketFormat()
LONG = 10**12


@dataclass(frozen=True)
class Message:
    """`size` bytes from one GPU to another, after others; or `seconds` of computing on one GPU."""

    src: int
    dst: int
    size: int = 0
    after: tuple[int, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Case:
    """`paths`: of the pairs that send, by src, then dst. `window` bytes; times picoseconds."""

    fabric: Fabric
    paths: PathBatch
    messages: Sequence[Message]
    settings: Settings = field(default_factory=Settings)
    window: float = 1e9
    first_wait: int = LONG
    timeout: int = LONG
    most_wait: int = 4 * LONG
    dead_after: int = 1 << 61
    loss: Float = field(default_factory=lambda: np.empty(0))

    def schedule(self) -> Schedule:
        m, n = self.messages, self.fabric.n_gpus
        zeros = np.zeros(len(m), np.int64)
        return Schedule(
            "case", n, 1, "uint8", "none", 1 << 40,
            np.array([x.src for x in m], np.int32), np.array([x.dst for x in m], np.int32), zeros, zeros,
            np.array([x.size for x in m], np.int64), zeros, zeros,
            starts(np.array([len(x.after) for x in m], np.int64)),
            np.array([a for x in m for a in x.after], np.int64),
            seconds=np.array([x.seconds for x in m], np.float64),
        )  # fmt: skip

    def pairs(self) -> tuple[Int64, Int64]:
        return self.paths.src, self.paths.dst

    def simulation(self, *, by_path: bool = False) -> tuple[Simulation, Messages]:
        """Ready for `advance`; `by_path`: and senders count by path."""
        messages = messages_of(self.schedule(), PACKET, *self.pairs(), self.fabric.n_gpus)
        sim = Simulation(self.fabric, PACKET, [self.pairs()], [[messages]], self.settings, by_path=by_path)
        sim.use_paths(0, self.paths)
        ones = np.ones(len(self.paths.src), np.int64)
        waits = (self.first_wait, self.timeout, self.most_wait, self.dead_after)
        sim.allow(0, self.window * ones, Waits(*(ones * wait for wait in waits)))
        if len(self.loss):
            sim.harm(self.loss, np.zeros(len(self.loss)), np.zeros(len(self.loss), bool))
        sim.begin(0, messages)
        return sim, messages

    def run(self) -> tuple[Simulation, Int64]:
        """After the last message, or with a deadlock; when each entry was over."""
        sim, messages = self.simulation()
        while not sim.over(0) and not sim.s.globals[DEADLOCK]:
            assert not sim.advance(1 << 61), "nothing happens any more, and a message is under way"
        return sim, sim.entries(0, len(messages.of))["end"].astype(np.int64)


def ps(fabric: Fabric, link: int, size: int) -> int:
    """How long a link needs for a packet of so many wire bytes."""
    return int(size * (8e12 / fabric.capacity_bps[link]) + 0.5)


def packet_sizes(payload: int) -> list[int]:
    """Wire bytes of the packets of a message: headers of each, and of the first one RETH (PacketFormat)."""
    mtu = PACKET.path_mtu
    parts = [min(mtu, payload - at) for at in range(0, max(payload, 1), mtu)]
    return [-(-part // 4) * 4 + PACKET.HEADERS + PACKET.RETH * (i == 0) for i, part in enumerate(parts)]


def between(fabric: Fabric, paths: dict[tuple[int, int], list[list[int]]]) -> PathBatch:
    """Pairs that share their packets out evenly over these paths."""
    pairs = sorted(paths)
    src, dst = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    return PathBatch.evenly(src, dst, [paths[pair] for pair in pairs])


def links_along(fabric: Fabric, nodes: Sequence[int]) -> list[int]:
    """The links from each node to the next."""
    of_ends = {
        ends: link
        for link, ends in enumerate(zip(fabric.link_src.tolist(), fabric.link_dst.tolist(), strict=True))
    }
    return [of_ends[ends] for ends in pairwise(nodes)]


def with_latency(fabric: Fabric, latency_s: Float) -> Fabric:
    return replace(fabric, latency_s=latency_s)


def three_switches(latency_s: float) -> tuple[Fabric, list[list[int]]]:
    """A ring of switches with a GPU each, and the paths from each GPU to the one two switches further."""
    groups = [NodeGroup("gpu", 0, (3,), "g"), NodeGroup("t0", 3, (3,), "s")]
    builder = FabricBuilder("ring-of-switches", groups, {})
    builder.cables([0, 1, 2], [3, 4, 5], "nic", 4e11, latency_s)
    builder.cables([3, 4, 5], [4, 5, 3], "fabric", 4e11, latency_s)
    fabric = builder.build()
    paths = [[i, *(3 + (i + k) % 3 for k in range(3)), (i + 2) % 3] for i in range(3)]
    return fabric, [links_along(fabric, path) for path in paths]


def ring_of_waits(
    pauses: Pauses, latency_s: float = 5e-7, packets: Sequence[int] = (200, 200, 200), senders: int = 3
) -> Case:
    """On three switches in a ring a message from each of these GPUs to the one two switches further: every
    link of the ring has two flows at line rate, where all send."""
    fabric, paths = three_switches(latency_s)
    by_pair = {(i, (i + 2) % 3): [path] for i, path in enumerate(paths[:senders])}
    sizes = [n * PACKET.path_mtu for n in packets[:senders]]
    messages = [Message(i, (i + 2) % 3, size) for i, size in enumerate(sizes)]
    return Case(fabric, between(fabric, by_pair), messages, Settings(buffers=Buffers(0, pauses)))
