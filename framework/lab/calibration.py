"""How many packet-hops a second this machine can carry, measured on the lab's own switches before they are shaped.

The userspace datapath is by far the dearest part of a packet's way, and has cores to itself: `calibrate` sees that
alone. The kernel's datapath switches in whoever sends, for little: there the transport is the limit, and a `trial` of
it sees both together.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from railweave.framework.addressing import ENTROPY_BASE, ROCE_PORT, ipv4, ipv4_text
from railweave.framework.errors import LabError
from railweave.framework.experiment import Plan
from railweave.framework.lab.emulation import Emulation, cpu_seconds
from railweave.framework.lab.names import host_name, interface_name
from railweave.framework.model import PacketFormat, RouteTable, Schedule, all_pairs
from railweave.framework.registry import Registers

BURST_S = 0.3
"""Length of the measurement; the figure is CPU time per hop, which other load on the machine hardly moves."""

FIRST_TRIES = 5

FLIGHT = 8
"""Packets under way per sender: enough to batch, too few to overflow a port's receive buffer (208 KiB)."""

TRIAL, TRIAL_PACKETS = "send-recv", 2048

ETH_P_IP = 0x0800
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23

SHARE = 0.7
"""Part of the capacity that the data packets of the busiest phase may use. Acknowledgements, senders and the control
loop take the rest. Measured at 16 GPUs on 2 cores: at 0.7 healthy iterations take 1.08 times the closed form, at 0.8 1.1
to 1.14, at 1.0 the domain phases fall behind."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the switches of this lab can carry: packet-hops per second of one core, and of all shards together."""

    hops_per_core_s: float
    hops_s: float


def calibrate(lab: Emulation, table: RouteTable, packet: PacketFormat) -> Capacity:
    """Send full packets from every GPU to the next and divide their hops by the switches' CPU time.

    The first rules are installed, the links still unshaped. All GPUs send because one loop of the switch serves
    all ports: what a packet costs falls as the loop finds more of them.
    """
    fabric = lab.fabric
    src = np.arange(fabric.n_gpus)
    dst = (src + 1) % fabric.n_gpus
    batch = table.paths(src, dst)
    hops_per_round = FLIGHT * int((np.diff(batch.hop_start)[batch.pair_start[:-1]] + 1).sum())
    frames = [
        _frame(ipv4(fabric, int(a)), ipv4(fabric, int(b)), packet.full_packet_bytes)
        for a, b in zip(src, dst, strict=True)
    ]
    sockets = [_socket(lab, gpu) for gpu in range(fabric.n_gpus)]
    pids = {shard.pids["ovs-vswitchd"] for shard in lab.shards}
    hops_done = 0
    try:
        for sender, receiver, frame in zip(sockets, [*sockets[1:], sockets[0]], frames, strict=True):
            _first_packet(sender, receiver, frame)
        before = sum(cpu_seconds(pid) for pid in pids)
        began = time.monotonic()
        end = began + BURST_S
        while time.monotonic() < end:
            for sock, frame in zip(sockets, frames, strict=True):
                for _ in range(FLIGHT):
                    sock.send(frame)
            for sock in sockets:
                for _ in range(FLIGHT):
                    sock.recv(64)
            hops_done += hops_per_round
        used = time.monotonic() - began if lab.kernel_datapath else sum(map(cpu_seconds, pids)) - before
    except TimeoutError:
        words = "\n".join(shard.last_words() for shard in lab.shards)
        raise LabError(f"calibration: a packet was lost after {hops_done} packet-hops.\n{words}") from None
    finally:
        for sock in sockets:
            sock.close()
    per_core = hops_done / used
    cores = min(len(lab.shards), len(os.sched_getaffinity(0)))
    # two daemons share caches, kernel and memory with each other and with the senders
    return Capacity(per_core, per_core * (1 + 0.5 * (cores - 1)))


def trial(
    plan: Plan, registers: Registers, table: RouteTable, carry: Callable[[str, Schedule], float]
) -> Capacity:
    """Let the transport send from every GPU to the next, `TRIAL_PACKETS` in all; `carry` gives the seconds it takes."""
    fabric, packet, asked = plan.fabric, plan.packet, plan.experiment
    size = max(1, TRIAL_PACKETS // fabric.n_gpus) * packet.path_mtu
    schedule = registers["collective"][TRIAL].schedule(
        fabric, range(fabric.n_gpus), size, asked.dtype, asked.redop
    )
    batch = table.paths(schedule.src, schedule.dst)
    hops = np.diff(batch.hop_start)[batch.pair_start[:-1]] + 1
    carry(TRIAL, schedule)  # opens the queue pairs
    rate = float((-(-schedule.size // packet.path_mtu) * hops).sum()) / carry(TRIAL, schedule)
    return Capacity(rate, rate)


def _first_packet(sender: socket.socket, receiver: socket.socket, frame: bytes) -> None:
    """Take one packet across. The first of a flow asks ovs-vswitchd for its way, and may be lost when many do."""
    for _ in range(FIRST_TRIES - 1):
        sender.send(frame)
        try:
            receiver.recv(64)
        except TimeoutError:
            continue
        return
    sender.send(frame)
    receiver.recv(64)


def _socket(lab: Emulation, gpu: int) -> socket.socket:
    name = host_name(lab.fabric, gpu)
    with lab.hosts[name].entered():
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        sock.bind((interface_name(name, 0), ETH_P_IP))
    sock.settimeout(1.0)
    return sock


def _frame(src: int, dst: int, size: int) -> bytes:
    """A UDP packet that the installed rules carry; its payload is nothing."""
    ethernet = bytes.fromhex("0200000000010200000000000800")
    length = size - len(ethernet)
    addresses = socket.inet_aton(ipv4_text(src)) + socket.inet_aton(ipv4_text(dst))
    ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, 17, 0) + addresses
    udp = struct.pack("!HHHH", ENTROPY_BASE, ROCE_PORT, length - len(ip), 0)
    return ethernet + ip + udp + bytes(length - len(ip) - len(udp))


def busiest_phase_hops(plan: Plan, table: RouteTable) -> float:
    """Packet-hops per second of the busiest phase of the plan's first schedule on the fabric as declared: packets x
    switches over the time that its busiest link needs."""
    fabric, schedule, packet = plan.fabric, plan.schedule, plan.packet
    ranks = np.arange(fabric.n_gpus)
    paths = table.paths(*all_pairs(fabric.n_gpus))
    key = paths.src * fabric.n_gpus + paths.dst
    src, dst = ranks[schedule.src], ranks[schedule.dst]
    pair = np.searchsorted(key, src * fabric.n_gpus + dst)
    first = paths.pair_start[pair]
    hops = np.diff(paths.hop_start)[first]
    packets = np.maximum(1, -(-schedule.size // packet.path_mtu))
    work = packets * (hops + 1)
    busiest = 0.0
    for phase in np.unique(schedule.phase):
        mine = np.flatnonzero(schedule.phase == phase)
        load = np.zeros(fabric.n_links)
        for i in mine:
            links = paths.links[paths.hop_start[first[i]] : paths.hop_start[first[i] + 1]]
            load[links] += packets[i] * packet.full_packet_bytes * 8
        seconds = float((load / fabric.capacity_bps).max())
        if seconds > 0:
            busiest = max(busiest, float(work[mine].sum()) / seconds)
    return busiest


def auto_scale(capacity: Capacity, declared_hops_s: float) -> float:
    """The rate scale at which the busiest phase takes `SHARE` of the capacity, rounded down to two digits."""
    if declared_hops_s <= 0:
        return 1e-5
    raw = SHARE * capacity.hops_s / declared_hops_s
    digits = 1 - int(np.floor(np.log10(raw)))
    return float(np.floor(raw * 10.0**digits) / 10.0**digits)
