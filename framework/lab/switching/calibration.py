"""What this machine can carry, measured on the lab's own switches before they are shaped: packet-hops per
second, and the latency of one packet. The rate scale follows from both.

The userspace datapath costs by far the most per packet and has cores to itself, so `calibrate` measures it
alone. The kernel datapath switches in the context of the sender and costs little; there the transport is the
limit, and `trial` measures both together.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from railweave.framework.analysis.limits.timeline import Timeline
from railweave.framework.errors import LabError
from railweave.framework.experiment.plan import Plan
from railweave.framework.model import Fabric, PacketFormat, RouteTable, Schedule
from railweave.framework.model.addressing import ROCE_PORT, ipv4
from railweave.framework.model.arrays import Int64
from railweave.framework.processes.udp_frame import udp_frame
from railweave.framework.registry import Registers
from railweave.framework.routing.loads import link_loads

if TYPE_CHECKING:
    from railweave.framework.lab.switching.emulation import Emulation

NEIGHBOURS = "send-recv"
"""The collective in which every GPU sends to the next."""

TRIAL_PACKETS, PACKETS = 2048, 8
"""Packets of a measurement, of all GPUs together; and of each GPU in a row: at once for the capacity, enough
for batches and too few to overflow a port's receive buffer (208 KiB); one by one for the latency."""

TRIES = 5
"""How often a packet may be lost, a latency or an iteration is measured, and a scale corrected, at most."""

SHARE = 0.6
"""Share of the capacity that the data packets of the busiest phase may use. Acknowledgements, senders and the
control loop take the rest. Measured at 16 GPUs on 2 cores: healthy iterations take 1.06 times the closed form
at 0.6, 1.08 to 1.1 at 0.7, 1.1 to 1.14 at 0.8."""

LATENCY, LATE = 0.04, 0.05
"""Part of the shortest step and of an iteration that the latency of a packet by itself may take; and part of
an iteration that may pass besides what its links need, as packets are later among others. At a quarter of the
rates it would be a quarter, and declared times are to be the same to 10 %."""

LONGEST_S = 60.0
"""Seconds of an iteration beyond which its latency slows it down no further; the verdict then says so."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Packet-hops per second that the switches of this lab can carry: per core, and all shards together."""

    hops_per_core_s: float
    hops_s: float

    @classmethod
    def of_cores(cls, hops_per_core_s: float, cores: int) -> Self:
        """A further core is half a core: daemons share caches, kernel and memory."""
        return cls(hops_per_core_s, hops_per_core_s * (1 + cores) / 2)


def calibrate(lab: "Emulation", table: RouteTable, packet: PacketFormat) -> Capacity:
    """Send full packets from every GPU to the next and divide their hops by the switches' CPU time.

    The first rules are installed, the links still unshaped. All GPUs send because one loop of the switch
    serves all ports, and the cost per packet falls with the number of packets per turn.
    """
    fabric, gpus = lab.fabric, np.arange(lab.fabric.n_gpus)
    addresses = [ipv4(fabric, gpu) for gpu in range(fabric.n_gpus)]
    nexts = [*addresses[1:], addresses[0]]
    frames = [  # to a port at which the transport does not listen
        udp_frame(a, b, packet.full_packet_bytes, dst_port=ROCE_PORT + 1)
        for a, b in zip(addresses, nexts, strict=True)
    ]
    hops_per_round = PACKETS * int(_switches(table, gpus, np.roll(gpus, -1)).sum())
    rounds, hops_done = max(1, TRIAL_PACKETS // (PACKETS * len(gpus))), 0
    with lab.host_sockets(timeout_s=1.0) as sockets:
        try:
            for sender, receiver, frame in zip(sockets, [*sockets[1:], sockets[0]], frames, strict=True):
                _first_packet(sender, receiver, frame)
            cpu_s, began = lab.switch_cpu_s(), time.monotonic()
            for _ in range(rounds):
                for sock, frame in zip(sockets, frames, strict=True):
                    for _ in range(PACKETS):
                        sock.send(frame)
                for sock in sockets:
                    for _ in range(PACKETS):
                        sock.recv(64)
                hops_done += hops_per_round
        except TimeoutError:
            words = "\n".join(shard.log_tail() for shard in lab.shards)
            raise LabError(
                f"calibration: a packet was lost after {hops_done} packet-hops.\n{words}"
            ) from None
        if lab.kernel_datapath:  # switches in the context of the sender
            return Capacity.of_cores(hops_done / (time.monotonic() - began), 1)
        cpu_s = lab.switch_cpu_s() - cpu_s
    # in a run packets come in smaller batches, and a hop takes twice the processor time at least
    return Capacity.of_cores(hops_done / cpu_s / 2, min(len(lab.shards), len(os.sched_getaffinity(0))))


def trial(
    plan: Plan, registers: Registers, table: RouteTable, carry: Callable[[str, Schedule], float]
) -> Capacity:
    """Let the transport send from every GPU to the next, `TRIAL_PACKETS` in all; `carry` returns the seconds
    taken."""
    fabric, packet, experiment = plan.fabric, plan.packet, plan.experiment
    size = max(1, TRIAL_PACKETS // fabric.n_gpus) * packet.path_mtu
    schedule = registers["collective"][NEIGHBOURS].schedule(
        fabric, range(fabric.n_gpus), size, experiment.dtype, experiment.redop
    )
    hops = _switches(table, schedule.src, schedule.dst)
    carry(NEIGHBOURS, schedule)  # opens the queue pairs
    rate = float((-(-schedule.size // packet.path_mtu) * hops).sum()) / carry(NEIGHBOURS, schedule)
    return Capacity(rate, rate)


def packet_latency_s(
    plan: Plan, registers: Registers, table: RouteTable, carry: Callable[[str, Schedule], float]
) -> float | None:
    """Seconds from a packet's arrival at a rank to that of the packet it sets off at the next rank, through
    the transport and the unshaped switches; the lower quartile of the trials, because whatever else runs on
    the machine makes packets late and never early.

    All ranks send in every step, as in a collective, and each waits for the packet before. None where some
    rank has no neighbour to send to.
    """
    n, experiment = plan.fabric.n_gpus, plan.experiment
    ranks = np.arange(n)
    if n < 2 or not np.diff(table.paths(ranks, np.roll(ranks, -1)).pair_start).all():
        return None
    schedule = registers["collective"][NEIGHBOURS].schedule(
        plan.fabric, range(n), plan.packet.path_mtu, experiment.dtype, experiment.redop
    )
    steps = min(PACKETS, max(2, TRIAL_PACKETS // (PACKETS * n)))
    chain = replace(
        schedule,
        repeat=np.full(n, steps),
        slot=np.zeros(n),  # all ranks take turns
        chained_start=np.arange(n + 1),
        chained=np.roll(np.arange(n), 1),  # rank r waits for what r - 1 sent it
    ).expand()
    carry(NEIGHBOURS, chain)  # opens the queue pairs
    times = [carry(NEIGHBOURS, chain) for _ in range(TRIES)]
    return float(np.percentile(times, 25)) / steps


def _first_packet(sender: socket.socket, receiver: socket.socket, frame: bytes) -> None:
    """Send one packet until it arrives. The first one of a flow is an upcall, and may be lost among many."""
    for _ in range(TRIES - 1):
        sender.send(frame)
        with suppress(TimeoutError):
            receiver.recv(64)
            return
    sender.send(frame)
    receiver.recv(64)


def busiest_phase_hops(plan: Plan, table: RouteTable) -> float:
    """Packet-hops per second in the busiest phase of the plan's first schedule, on the fabric as declared:
    packets x switches over the time that the busiest link needs."""
    fabric, schedule, packet = plan.fabric, plan.schedule.transfers, plan.packet
    pairs, pair = np.unique(schedule.src.astype(np.int64) * fabric.n_gpus + schedule.dst, return_inverse=True)
    src, dst = np.divmod(pairs, fabric.n_gpus)
    hops = _switches(table, src, dst)
    packets = np.maximum(1, -(-schedule.size // packet.path_mtu))
    busiest = 0.0
    for phase in np.unique(schedule.phase):
        chosen = schedule.phase == phase
        sent = np.bincount(pair[chosen], packets[chosen], len(pairs)).astype(np.float64)
        bits = link_loads(fabric, table, src, dst, sent * 8 * packet.full_packet_bytes).load
        seconds = float((bits / fabric.capacity_bps).max())
        if seconds > 0:
            busiest = max(busiest, float((sent * hops).sum()) / seconds)
    return busiest


def neighbour_hops(fabric: Fabric, table: RouteTable, packet: PacketFormat) -> float:
    """Packet-hops per second of programs, on the fabric as declared: every GPU sends to the next as fast as
    its path allows. Each counts three times: TCP answers with packets, and programs need processors."""
    src = np.arange(fabric.n_gpus)
    dst = np.roll(src, -1)
    bits = np.full(len(src), 8.0 * packet.full_packet_bytes)
    seconds = float((link_loads(fabric, table, src, dst, bits).load / fabric.capacity_bps).max())
    return 3 * float(_switches(table, src, dst).sum()) / seconds if seconds > 0 else 0.0


def _switches(table: RouteTable, src: Int64, dst: Int64) -> Int64:
    """(pairs,): switches that a packet of each pair crosses on its first path."""
    batch = table.paths(src, dst)
    return np.diff(batch.hop_start)[batch.pair_start[:-1]] + 1


def auto_scale(
    capacity: Capacity,
    declared_hops_s: float,
    latency_s: float | None = None,
    times: Sequence[Timeline] = (),
) -> float:
    """The rate scale at which the busiest phase uses SHARE of the capacity; or less, so that the latency of a
    packet takes LATENCY of the shortest step, and of an iteration, at most. Rounded down to two digits.
    `times`: of every size at declared rates, ascending."""
    moving = [timeline for timeline in times if timeline.seconds() > 0]
    exact = SHARE * capacity.hops_s / declared_hops_s if declared_hops_s > 0 else 1e-5
    if latency_s and moving:
        scale = min(exact, *(LATENCY * timeline.shortest_step_s() / latency_s for timeline in moving))
        while any(timeline.latency_share(latency_s * scale) > LATENCY for timeline in moving):
            scale *= 0.9
        exact = max(scale, min(exact, moving[-1].seconds() / LONGEST_S))
    return _two_digits(exact)


def late_share(scale: float, took: Iterable[tuple[float, float]]) -> float:
    """Of the worst iteration, the part that its links do not need at `scale`. `took`: the seconds that links
    need at declared rates, and those of the iteration."""
    return max(1 - needed_s / scale / took_s for needed_s, took_s in took)


def slower_scale(tried: Sequence[tuple[float, float]], times: Sequence[Timeline]) -> float:
    """The next scale to try, or the one to take if it is not lower than the last. `tried`: scales and their
    late shares, in order; all ranks begin at once there, while the latency was measured with one packet each.
    `times`: as `auto_scale` has them.

    What takes a constant time takes a smaller share of slower iterations: LATE at the next scale. What
    packets wait for each other does not: where the secant through the last two shares ends above LATE at a
    scale of 0, LATE more than there is allowed.
    """
    scale, late = tried[-1]
    if late <= LATE:
        return scale
    if len(tried) > 1:
        faster, was = tried[-2]
        slope = (was - late) / (faster - scale)
        if late - slope * scale >= LATE:
            return faster if slope * faster <= LATE else max(scale, _two_digits(LATE / slope))
    slower = LATE / (1 - LATE) * (1 - late) / late * scale
    return min(scale, _two_digits(max(slower, times[-1].seconds() / LONGEST_S)))


def slowed(scale: float, plan: Plan) -> float:
    """The rate scale of a plan whose engine is to be `slower` than this one, which the machine carries."""
    return _two_digits(scale / float(str(plan.experiment.engine.options["slower"])))


def _two_digits(scale: float) -> float:
    """Rounded down, but for what rounding took from two digits."""
    digits = 1 - int(np.floor(np.log10(scale)))
    return float(np.floor(scale * 10.0**digits + 1e-9) / 10.0**digits)
