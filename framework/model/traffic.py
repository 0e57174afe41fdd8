"""A collective as a DAG of transfers, and the outcome of one iteration of it."""

from dataclasses import dataclass, field

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.model.arrays import ArrayNoun, Float, Int32, Int64

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

    def wire_bytes(self, payload_bytes: int) -> int:
        """Wire bytes of one message: every packet's headers, RETH once, padding to 4 bytes."""
        return int(self.wire_bytes_of(np.array(payload_bytes)))

    def wire_bytes_of(self, payload_bytes: Int64) -> Int64:
        """The same of several messages."""
        packets = np.maximum(1, -(-payload_bytes // self.path_mtu))
        return np.asarray(-(-payload_bytes // 4) * 4 + packets * self.HEADERS + self.RETH, np.int64)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One message of a schedule, as a plain value; the schedule itself keeps arrays. Bytes throughout."""

    src: int
    dst: int
    src_offset: int
    dst_offset: int
    size: int
    reduce: bool
    after: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Schedule(ArrayNoun):
    """Transfers between ranks (positions in the list of endpoints), each of which may start when those in
    `after` are complete: landed and, with `reduce`, combined into the destination's buffer.

    Every rank has a `data` buffer of `buffer_bytes`; `src_buffer` and `dst_buffer` choose between it (0) and
    an output buffer (1) and a scratch buffer (2) of the same size. Arrays of n transfers: src, dst,
    src_offset, dst_offset, size (bytes), reduce (bool as int), phase; `after_start` (n+1,) into `after`.
    """

    collective: str
    n_ranks: int
    size_bytes: int
    dtype: str
    redop: str
    buffer_bytes: int
    src: Int32
    dst: Int32
    src_offset: Int64
    dst_offset: Int64
    size: Int64
    reduce: Int32
    phase: Int32
    after_start: Int64
    after: Int64
    src_buffer: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    dst_buffer: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    phase_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.src)
        for name in ("src_buffer", "dst_buffer"):
            if len(getattr(self, name)) == 0:
                object.__setattr__(self, name, np.zeros(n, np.int32))
        ArrayNoun.__post_init__(self)
        arrays = (self.dst, self.src_offset, self.dst_offset, self.size, self.reduce, self.phase)
        if (
            {len(array) for array in arrays} != {n}
            or len(self.after_start) != n + 1
            or self.after_start[-1] != len(self.after)
        ):
            raise FabricError(f"schedule {self.collective}: its arrays do not fit together.")
        if np.any(self.after >= np.repeat(np.arange(n), np.diff(self.after_start))):
            raise FabricError(f"schedule {self.collective}: a transfer waits for itself or for a later one.")
        if n and (
            min(int(self.src_offset.min()), int(self.dst_offset.min()), int(self.size.min())) < 0
            or int((self.src_offset + self.size).max()) > self.buffer_bytes
            or int((self.dst_offset + self.size).max()) > self.buffer_bytes
            or min(int(self.src.min()), int(self.dst.min())) < 0
            or max(int(self.src.max()), int(self.dst.max())) >= self.n_ranks
        ):
            raise FabricError(f"schedule {self.collective}: a transfer reaches outside its buffers or ranks.")

    @property
    def n_transfers(self) -> int:
        return len(self.src)

    def matrix(self) -> Float:
        """(n_ranks, n_ranks): bytes that each rank sends to each other, [src, dst]."""
        n = self.n_ranks
        sums = np.bincount(self.src.astype(np.int64) * n + self.dst, self.size, n * n)
        return np.asarray(sums, np.float64).reshape(n, n)

    def transfer(self, i: int) -> Transfer:
        return Transfer(
            int(self.src[i]),
            int(self.dst[i]),
            int(self.src_offset[i]),
            int(self.dst_offset[i]),
            int(self.size[i]),
            bool(self.reduce[i]),
            tuple(int(x) for x in self.after[self.after_start[i] : self.after_start[i + 1]]),
        )


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


@dataclass(frozen=True, eq=False, slots=True)
class IterationResult(ArrayNoun):
    """One iteration as the transport saw it. Times are emulated seconds. `wrong` of `compared` elements, over
    all ranks, were not what the collective's arithmetic says; None where nothing can be compared.
    `wrong_icrc`: packets that ranks dropped for it.

    `end_s`: (n_transfers,), seconds from the iteration's start until each transfer had landed, which is when
    those that wait for it alone begin; empty where the transport does not say, and in the findings of a run.
    """

    iteration: int
    seconds: float
    wrong: int | None
    packets_sent: int
    retransmitted: int
    duplicates: int
    bytes_sent: int
    phase_seconds: tuple[float, ...]
    cpu_s: float
    send_lag_s: float
    compared: int = 0
    wrong_icrc: int = 0
    end_s: Float = field(default_factory=lambda: np.empty(0))
