"""Packets of a run, and the outcome of one iteration."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.model.arrays import ArrayNoun, Float, Int64

if TYPE_CHECKING:
    from railweave.framework.model.schedule import Schedule

ETHERNET_HEADER = 14
"""Bytes of Ethernet header that Linux's shapers count; preamble, gap and FCS do not exist on a veth."""


@dataclass(frozen=True, slots=True)
class PacketFormat:
    """Sizes of the RoCEv2 packets of a run. `path_mtu` is the payload of a full packet (256..4096)."""

    path_mtu: int = 4096

    HEADERS = ETHERNET_HEADER + 20 + 8 + 12 + 4  # Ethernet, IPv4, UDP, BTH, ICRC
    RETH = 16

    def __post_init__(self) -> None:
        if self.path_mtu not in (256, 512, 1024, 2048, 4096):
            raise FabricError(f"path MTU {self.path_mtu}: RoCE knows 256, 512, 1024, 2048 and 4096.")

    @property
    def full_packet_bytes(self) -> int:
        """L: wire bytes of one full packet."""
        return self.path_mtu + self.HEADERS

    @property
    def acknowledgement_bytes(self) -> int:
        """Wire bytes of an acknowledgement: AETH and the transport's counts; nothing is missing."""
        return self.HEADERS + 4 + 4

    def wire_bytes(self, payload_bytes: int) -> int:
        """Wire bytes of one message: every packet's headers, RETH once, padding to 4 bytes."""
        return int(self.wire_bytes_of(np.array(payload_bytes)))

    def packets_of(self, payload_bytes: Int64) -> Int64:
        """How many packets each of several messages takes."""
        return np.maximum(1, -(-payload_bytes // self.path_mtu))

    def wire_bytes_of(self, payload_bytes: Int64) -> Int64:
        """The same of several messages."""
        packets = self.packets_of(payload_bytes)
        return np.asarray(-(-payload_bytes // 4) * 4 + packets * self.HEADERS + self.RETH, np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class Demand(ArrayNoun):
    """What GPUs send in an iteration, of all phases and jobs together: `size_bytes` of payload from `src` to
    `dst`, (P,) each. Every pair that sends something is there once, by src, then dst."""

    src: Int64
    dst: Int64
    size_bytes: Int64

    def each(self) -> list[tuple[int, int, int]]:
        """(src, dst, bytes) of every pair."""
        columns = self.src.tolist(), self.dst.tolist(), self.size_bytes.tolist()
        return list(zip(*columns, strict=True))

    @classmethod
    def of(cls, schedules: Iterable["Schedule"], n_gpus: int) -> Self:
        """Of schedules between GPUs."""
        every = [schedule.pairs() for schedule in schedules]
        columns = [np.concatenate([np.empty(0, np.int64), *column]) for column in zip(*every, strict=True)]
        src, dst, size = columns or [np.empty(0, np.int64)] * 3
        pairs, place = np.unique(src * n_gpus + dst, return_inverse=True)
        sums = np.rint(np.bincount(place, size, len(pairs))).astype(np.int64)
        return cls(*np.divmod(pairs, max(n_gpus, 1)), sums)


@dataclass(frozen=True, slots=True)
class RankOutcome:
    """How one rank of a program ended, of the `job`th job. `rank` None: the launcher of all of them.
    `status`: its exit code, or minus the signal that ended it. `printed_bytes` in all; `output`: the end of
    that, None where the run directory has the file."""

    rank: int | None
    status: int
    printed_bytes: int
    output: str | None = None
    job: int = 0


@dataclass(frozen=True, slots=True)
class PausedLinks:
    """Pauses (PFC, IEEE 802.1Qbb) of an iteration: how many `pauses`, of how many `links`, emulated seconds
    of all links together, and `depth`, how many paused links waited for each other at most.

    >>> PausedLinks(3, 2, 1e-6, 1).plus(PausedLinks(1, 1, 2e-6, 2))
    PausedLinks(pauses=4, links=2, seconds=3e-06, depth=2)
    """

    pauses: int
    links: int
    seconds: float
    depth: int

    def plus(self, other: "PausedLinks") -> "PausedLinks":
        """Both together; `links` and `depth` are those of the one with more."""
        return PausedLinks(
            self.pauses + other.pauses,
            max(self.links, other.links),
            self.seconds + other.seconds,
            max(self.depth, other.depth),
        )


@dataclass(frozen=True, eq=False, slots=True)
class MessageTimes(ArrayNoun):
    """Messages of an iteration, (m,) each: payload bytes; emulated seconds from when nothing that a message
    waits for was missing until it had landed; and the seconds that it would take alone on idle links."""

    size_bytes: Int64
    seconds: Float
    alone_s: Float


@dataclass(frozen=True, eq=False, slots=True)
class IterationResult(ArrayNoun):
    """One iteration as the transport saw it. Times are emulated seconds. `wrong` of `compared` elements, over
    all ranks, were not what the collective's arithmetic says; None where nothing can be compared.
    `retransmitted`, `duplicates`, `marked` (packets that met congestion, RFC 3168, as their acknowledgements
    say), `cnps` (congestion notification packets that senders got), `out_of_order` (packets that arrived
    behind a later one of their pair, RFC 4737): None where there are no packets. `wrong_icrc`: packets that
    ranks dropped for it. `reorder_depth`: the most by which the number of a packet lay below that of one of
    its pair that had arrived before; `trimmed`: packets that lost their payload in full queues; None where
    that is not counted. `paused`: None where links are not paused.

    `end_s`: (n_transfers,), seconds from the iteration's start until each transfer had landed, which is when
    those that wait for it alone begin; empty where the transport does not say, and in the findings of a run.
    `messages`: None where they are not timed one by one.
    """

    iteration: int
    seconds: float
    wrong: int | None
    packets_sent: int
    retransmitted: int | None
    duplicates: int | None
    bytes_sent: int
    phase_seconds: tuple[float, ...]
    cpu_s: float
    send_lag_s: float
    compared: int = 0
    wrong_icrc: int = 0
    marked: int | None = None
    cnps: int | None = None
    end_s: Float = field(default_factory=lambda: np.empty(0))
    out_of_order: int | None = None
    reorder_depth: int | None = None
    trimmed: int | None = None
    messages: MessageTimes | None = None
    paused: PausedLinks | None = None
