"""How many payload packets one core moves over one veth.

Everything runs on one core (the kernel's part of a send and of its delivery included), with 4096 bytes of
payload, over a veth made in the caller's network namespace, which must be private:

- transport: the whole of it, both ends: headers, ICRC made and checked, acknowledgements, windows, placing;
- send_path: headers, ICRC and sendmmsg alone, to nobody;
- bare: `send` of ready bytes in a Python loop, to nobody;
- scapy: `scapy.sendp` of packets that are built one by one, to nobody.
"""

import gc
import os
import select
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType

import numpy as np
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.sendrecv import sendp

from railweave.framework.model import Endpoint, PacketFormat, Schedule
from railweave.framework.processes.namespaces import silence_ipv6
from railweave.framework.processes.programs import run, tool
from railweave.traffic.packets import Addresses, Opcode, header, packet
from railweave.traffic.rocev2.batch import Batch, kernel_send
from railweave.traffic.rocev2.budget import Budget
from railweave.traffic.rocev2.buffers import Buffers
from railweave.traffic.rocev2.executor import Executor
from railweave.traffic.rocev2.messages import Outgoing, announcement
from railweave.traffic.rocev2.port import Port
from railweave.traffic.rocev2.receive_ring import RingShape
from railweave.traffic.rocev2.sender import Sender
from railweave.traffic.rocev2.sockets import ROCE_ONLY, PacketSocket, open_packet_socket
from railweave.traffic.rocev2.tuning import SPAN, Tuning

PACKET = PacketFormat(4096)
MESSAGE_BYTES = 1 << 20
ROUNDS = 5
NAMESPACE = "/proc/self/ns/net"
ENDS = tuple(
    Endpoint(i, f"g{i}", NAMESPACE, f"bench{i}", f"02:00:00:00:00:0{i + 1}", f"10.0.{i}.1", 4096)
    for i in range(2)
)
THERE = Addresses(ENDS[0].mac, ENDS[1].mac, ENDS[0].ip, ENDS[1].ip, 0x101)


def make_veth() -> None:
    first, second = ENDS
    silence_ipv6()
    run([tool("ip"), "-batch", "-"], stdin=(
        f"link add {first.interface} mtu 9000 address {first.mac} type veth "
        f"peer name {second.interface} mtu 9000 address {second.mac}\n"
        f"link set {first.interface} up\nlink set {second.interface} up\n"
    ))  # fmt: skip


def opened(end: Endpoint) -> PacketSocket:
    shape = RingShape.of(PACKET.full_packet_bytes + PACKET.RETH, 256)
    return open_packet_socket(end.namespace, end.interface, shape, ROCE_ONLY)


def one_message() -> Schedule:
    """Rank 0 writes MESSAGE_BYTES to rank 1."""
    one, none = np.ones(1, np.int32), np.zeros(1, np.int32)
    size = np.array([MESSAGE_BYTES], np.int64)
    return Schedule(
        "send", 2, MESSAGE_BYTES, "float32", "sum", MESSAGE_BYTES, none, one, size * 0, size * 0, size, none,
        none, np.zeros(2, np.int64), np.zeros(0, np.int64), phase_names=("send",),
    )  # fmt: skip


def transport(seconds: float) -> tuple[int, float]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(opened(end)) for end in ENDS]
        dirty: list[Batch] = []
        ports = [Port(each.ring, Batch(kernel_send(each.fileno()), dirty)) for each in sockets]
        executor = Executor(ENDS, ports, dirty, Tuning(min_window=64), PACKET)
        poll = stack.enter_context(select.epoll())
        by_fd = {each.fileno(): port for each, port in zip(sockets, ports, strict=True)}
        for fd in by_fd:
            poll.register(fd, select.EPOLLIN)
        schedule = one_message()
        buffers = Buffers(schedule)
        count, began = 0, time.perf_counter()
        while (spent := time.perf_counter() - began) < seconds:
            executor.prepare(schedule, buffers)
            executor.begin(time.monotonic())
            while not executor.drained:
                ready = [by_fd[fd] for fd, _ in poll.poll(0.005)]
                executor.step(ready, time.monotonic())
                if not ready:
                    executor.tick(time.monotonic())
            count += MESSAGE_BYTES // PACKET.path_mtu
        return count, spent


def send_path(seconds: float) -> tuple[int, float]:
    with opened(ENDS[0]) as source:
        dirty: list[Batch] = []
        tuning = Tuning(min_window=SPAN, max_window=SPAN)
        batch = Batch(kernel_send(source.fileno()), dirty)
        sender = Sender(THERE, batch, tuning, PACKET, Budget(None), [])
        sender.use_paths([0xC000], [0.0], [1.0], [0.0], 0.0)
        payload = np.zeros(MESSAGE_BYTES, np.uint8)
        about = announcement(0, 0, MESSAGE_BYTES)
        count, began = 0, time.perf_counter()
        while (spent := time.perf_counter() - began) < seconds:
            sender.reset(sender.next)
            message = Outgoing(0, sender.next, PACKET.path_mtu, payload.data, payload.ctypes.data, about)
            message.ready = True
            sender.offer([message])
            sender.pump(0.0)
            batch.flush()
            dirty.clear()
            count += message.packets
        return count, spent


def bare(seconds: float) -> tuple[int, float]:
    ready = packet(header(Opcode.WRITE_MIDDLE, THERE, 0xC000, 4096), 1, bytes(4096))
    with opened(ENDS[0]) as source:
        send, count, began = source.socket.send, 0, time.perf_counter()
        while (spent := time.perf_counter() - began) < seconds:
            for _ in range(256):
                send(ready)
            count += 256
        return count, spent


def scapy(seconds: float) -> tuple[int, float]:
    payload = bytes(4096)
    count, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        frame = (
            Ether(src=ENDS[0].mac, dst=ENDS[1].mac)
            / IP(src=ENDS[0].ip, dst=ENDS[1].ip)
            / UDP(sport=0xC000, dport=4791, chksum=0)
            / BTH(opcode=int(Opcode.WRITE_MIDDLE), dqpn=0x101, psn=count & 0xFFFFFF)
            / Raw(payload)
        )
        sendp(frame, iface=ENDS[0].interface, verbose=False)
        count += 1
    return count, spent


SENDERS: Mapping[str, Callable[[float], tuple[int, float]]] = MappingProxyType(
    {"transport": transport, "send_path": send_path, "bare": bare, "scapy": scapy}
)
"""Each runs for so many seconds: packets, and seconds."""


def measure(seconds: float, progress: Callable[[str], None]) -> dict[str, float]:
    """Packets per second of each sender and the transport's ratios to them: medians of ROUNDS, `seconds` in
    all."""
    make_veth()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rates: dict[str, list[float]] = {name: [] for name in SENDERS}
    cpu_us: dict[str, list[float]] = {name: [] for name in SENDERS}
    gc.disable()
    for send in SENDERS.values():
        send(0.05)
    for number in range(1, ROUNDS + 1):
        for name, send in SENDERS.items():
            cpu = time.process_time()
            count, spent = send(seconds / ROUNDS / len(SENDERS))
            rates[name].append(count / spent)
            cpu_us[name].append((time.process_time() - cpu) / count * 1e6)
        now = ", ".join(f"{name} {values[-1]:,.0f}" for name, values in rates.items())
        progress(f"{number}/{ROUNDS} packets per second: {now}")
    pps = {f"{name}_pps": statistics.median(values) for name, values in rates.items()}
    return {
        **pps,
        "transport_cpu_us_per_packet": statistics.median(cpu_us["transport"]),
        "transport_to_scapy": pps["transport_pps"] / pps["scapy_pps"],
        "transport_to_bare": pps["transport_pps"] / pps["bare_pps"],
        "send_path_to_bare": pps["send_path_pps"] / pps["bare_pps"],
        "payload_bytes": PACKET.path_mtu,
    }
