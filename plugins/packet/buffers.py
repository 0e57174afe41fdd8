"""How much ports hold before they pause the links that fill them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.arrays import Float
from railweave.framework.parameters.units import size as size_text
from railweave.plugins.packet.layout import (
    MEMORY,
    NEVER,
    NONE,
    PAUSED,
    PICOSECONDS,
    PORT,
    SHARED,
    Records,
    in_lines,
)

BUFFER_S = 12e6 * 8 / (32 * 40e9)
"""Seconds that a switch's memory lasts at the rates of all its ports together: 12 MB for 32 ports of 40 Gb/s,
as the switches that DCQCN's thresholds were computed for (Zhu and others, SIGCOMM 2015, section 4)."""
BUFFER_SOURCE = "75 us at the rates of its ports, as 12 MB for 32 x 40 Gb/s in DCQCN, SIGCOMM 2015"


@dataclass(frozen=True, slots=True)
class Pauses:
    """Priority-based flow control (IEEE 802.1Qbb) of data. Bytes that an ingress port holds: above `xoff` its
    link is paused, down to `xon` it goes on, and `headroom` is the room above `xoff` for what is under way
    until then (None: what that takes at most, where the frame waits for a packet, too). `response_s`: time
    until a frame that has come is obeyed.

    Raises ExperimentError where Xon lies above Xoff.
    """

    xoff: int
    xon: int
    headroom: int | None = None
    response_s: float = 0.0

    def __post_init__(self) -> None:
        if self.xon > self.xoff:
            raise ExperimentError(
                f"xon {size_text(self.xon)} lies above xoff {size_text(self.xoff)}; a paused link goes on "
                "when its port holds xon or less, and is paused above xoff."
            )

    def described(self, headrooms: Float) -> str:
        """The thresholds, in words."""
        room = _range(headrooms)
        return f"paused above {size_text(self.xoff)} down to {size_text(self.xon)}, headroom {room}"

    def headrooms(self, fabric: Fabric, packet: PacketFormat, room: int = 0) -> Float:
        """(L,): bytes above Xoff for each link. `room`: of a port, 0 without a limit. Raises ExperimentError
        where the headroom is less than a pause needs, or Xoff and headroom are more than the room."""
        needs = needed(fabric, packet, self.response_s)
        worst = int(np.argmax(needs))
        if self.headroom is not None and self.headroom < needs[worst]:
            raise ExperimentError(
                f"headroom {size_text(self.headroom)} is too small for {fabric.link_name(worst)}: until its "
                f"sender has stopped, {size_text(int(needs[worst]))} arrive (twice the latency at its rate, "
                "and two packets). Raise headroom, or leave it out."
            )
        headrooms = needs + behind(fabric, packet)
        if self.headroom is not None:
            headrooms = np.full(len(needs), float(self.headroom))
        most = float(headrooms.max(initial=0.0))
        if 0 < room < self.xoff + most:
            raise ExperimentError(
                f"xoff {size_text(self.xoff)} and headroom {size_text(int(most))} are more than the buffer "
                f"of a port, {size_text(room)}. Lower xoff, or raise buffer."
            )
        return headrooms


def pauses_of(options: Mapping[str, object], packet: PacketFormat) -> Pauses | None:
    """What the options of the engine say; None without `pfc`. Xon by itself is two packets below Xoff (Zhu
    and others, DCQCN, SIGCOMM 2015, section 4)."""
    xoff, xon, headroom = (options[name] for name in ("xoff", "xon", "headroom"))
    below = max(0, int(str(xoff)) - 2 * largest(packet))
    pauses = Pauses(
        int(str(xoff)),
        below if xon == "auto" else int(str(xon)),
        None if headroom == "auto" else int(str(headroom)),
        float(str(options["response"])),
    )
    return pauses if options["pfc"] else None


def largest(packet: PacketFormat) -> int:
    """Wire bytes of the largest packet: a full one that begins a message."""
    return packet.full_packet_bytes + packet.RETH


def needed(fabric: Fabric, packet: PacketFormat, response_s: float = 0.0) -> Float:
    """(L,): bytes that may still come over a link once its port holds more than Xoff: what it carries while
    packets and frame are under way and until the frame is obeyed, the packet with which Xoff was passed, and
    the one that was being sent (IEEE 802.1Qbb, annex O, with a frame that waits for nothing)."""
    both = np.arange(fabric.n_links) ^ 1
    trip_s = fabric.latency_s + fabric.latency_s[both] + response_s
    return np.asarray(np.ceil(trip_s * fabric.capacity_bps / 8) + 2 * largest(packet), np.float64)


def behind(fabric: Fabric, packet: PacketFormat) -> Float:
    """(L,): bytes that come over a link while its pause frame waits for the largest packet."""
    both = np.arange(fabric.n_links) ^ 1
    return np.asarray(np.ceil(largest(packet) * fabric.capacity_bps / fabric.capacity_bps[both]), np.float64)


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """The data of all ports of a switch shares its memory, `size` bytes (0: BUFFER_S of the rates of its
    ports). A queue may have `alpha` times what is free."""

    size: int = 0
    alpha: float = 1.0

    def sizes(self, fabric: Fabric, headrooms: Float | None) -> Float:
        """(N,): bytes of each node to share, apart from the headroom of its ports (L,). Raises
        ExperimentError where that leaves nothing."""
        n = fabric.n_nodes
        sizes = np.full(n, float(self.size))
        if not self.size:
            sizes = np.floor(np.bincount(fabric.link_src, fabric.capacity_bps, n) / 8 * BUFFER_S)
        if headrooms is not None:
            reserved = np.bincount(fabric.link_dst, headrooms, n)
            worst = int(np.argmin(sizes - reserved))
            if sizes[worst] <= reserved[worst]:
                raise ExperimentError(
                    f"the headroom of the ports of {fabric.node_name(worst)}, "
                    f"{size_text(int(reserved[worst]))}, is more than its buffer, "
                    f"{size_text(int(sizes[worst]))}. Raise buffer, or leave it out."
                )
            sizes -= reserved
        return np.asarray(sizes, np.float64)


@dataclass(frozen=True, slots=True)
class Buffers:
    """What ingress ports count: with `pauses` each has `room` (0: no limit), and all of a switch may have a
    memory that is `shared`. None of both: queues drop what finds them full (Settings.room)."""

    room: int = 0
    pauses: Pauses | None = None
    shared: SharedMemory | None = None

    @classmethod
    def of(cls, options: Mapping[str, object], packet: PacketFormat) -> Self:
        """As the options of the engine say. Raises ExperimentError where they contradict."""
        size, pauses = int(str(options["buffer"])), pauses_of(options, packet)
        if options["buffer_model"] == "shared":
            return cls(0, pauses, SharedMemory(size, float(str(options["alpha"]))))
        return cls(size if pauses else 0, pauses)

    @property
    def flags(self) -> int:
        """As the simulation wants them (layout.BUFFERS)."""
        return PAUSED * (self.pauses is not None) | SHARED * (self.shared is not None)

    def headrooms(self, fabric: Fabric, packet: PacketFormat) -> Float | None:
        """(L,), None without pauses. Raises ExperimentError where there is too little room."""
        return None if self.pauses is None else self.pauses.headrooms(fabric, packet, self.room)

    def records(self, fabric: Fabric, packet: PacketFormat) -> tuple[Records, Records]:
        """Those of ingress ports and of the memory of nodes (layout.PORT, layout.MEMORY), none where nothing
        counts what they hold. Raises ExperimentError where there is too little room."""
        n = fabric.n_links if self.flags else 0
        port: Any = in_lines(n, PORT)
        memory: Any = in_lines(fabric.n_nodes if self.shared else 0, MEMORY)
        if not n:
            return port, memory
        port["since"], port["node"], port["next"], port["most"] = NEVER, NONE, NONE, NEVER
        headrooms = self.headrooms(fabric, packet)
        if self.pauses is not None and headrooms is not None:
            back_s = fabric.latency_s[np.arange(n) ^ 1] + self.pauses.response_s
            port["frame"] = np.rint(back_s * PICOSECONDS)
            port["xoff"], port["xon"], port["headroom"] = self.pauses.xoff, self.pauses.xon, headrooms
            port["most"] = NEVER if self.shared else self.pauses.xoff + headrooms
        if self.shared is not None:
            memory["size"], memory["alpha"] = self.shared.sizes(fabric, headrooms), self.shared.alpha
            memory["first"], port["node"] = NONE, fabric.link_dst
            for link in range(n - 1, -1, -1):
                node = fabric.link_dst[link]
                port["next"][link], memory["first"][node] = memory["first"][node], link
        return port, memory

    def patience(self, fabric: Fabric, packet: PacketFormat) -> int:
        """Picoseconds that the slowest full port takes to empty at the rate of its link: a link that is
        paused for longer waits for another that is paused."""
        headrooms = self.headrooms(fabric, packet)
        if self.pauses is None or headrooms is None:
            return NEVER
        full = (self.pauses.xoff + headrooms) * 8 * PICOSECONDS
        return int((full / fabric.capacity_bps).max(initial=0.0))

    def described(self, fabric: Fabric, packet: PacketFormat) -> str:
        """In words, with the source of what is not given; empty where nothing is counted."""
        headrooms = self.headrooms(fabric, packet)
        words = list[str]()
        if self.shared is not None:
            sizes = self.shared.sizes(fabric, headrooms)
            switches = sizes[np.unique(fabric.link_dst)] // 1024 * 1024
            source = "" if self.shared.size else f" ({BUFFER_SOURCE})"
            words = [f"shared by switch, {_range(switches)}{source}, alpha {self.shared.alpha:g}"]
        if self.pauses is not None and headrooms is not None:
            words.append(f"lossless, {self.pauses.described(headrooms)}")
        return ", ".join(words)


def _range(sizes: Float) -> str:
    low, high = (size_text(int(some)) for some in (sizes.min(), sizes.max()))
    return low if low == high else f"{low} to {high}"
