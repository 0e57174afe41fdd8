"""How many payload packets one core moves over one veth.

Everything runs on one core (the kernel's part of a send and of its delivery included), with 4096 bytes of
payload, over a veth made in the caller's network namespace, which must be private:

- transport: the whole of it, both ends: headers, ICRC made and checked, acknowledgements, windows, placing;
- send_path: headers, ICRC and sendmmsg alone, without a receiver;
- bare: `send` of ready bytes in a Python loop, without a receiver;
- scapy: `scapy.sendp` of packets that are built one by one, without a receiver.
"""

import gc
import os
import select
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from itertools import count

import numpy as np
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.sendrecv import sendp

from railweave.framework.model import Endpoint, PacketFormat, Schedule
from railweave.framework.processes.namespaces import silence_ipv6
from railweave.framework.processes.programs import run, tool
from railweave.traffic.packets import Addresses, Opcode, header, packet, reth
from railweave.traffic.rocev2.batch import Batch, kernel_send
from railweave.traffic.rocev2.buffers import RankBuffers
from railweave.traffic.rocev2.executor import Executor
from railweave.traffic.rocev2.messages import Message
from railweave.traffic.rocev2.port import Port
from railweave.traffic.rocev2.sender import Budget, Sender
from railweave.traffic.rocev2.sockets import ROCE_ONLY, PacketSocket, RingShape, open_packet_socket
from railweave.traffic.rocev2.tuning import SPAN, Tuning

PACKET = PacketFormat(4096)
MESSAGE_BYTES = 1 << 20
"""Bytes of a message: 256 packets."""
ROUNDS = 5
"""Measurements of each sender, in turn, of which medians are shown."""
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
    shape = RingShape(PACKET.full_packet_bytes + PACKET.RETH, 256)
    return open_packet_socket(end.namespace, end.interface, shape, ROCE_ONLY)


def one_message() -> Schedule:
    """Rank 0 writes MESSAGE_BYTES to rank 1."""
    ones, none = np.ones(1, np.int32), np.zeros(1, np.int32)
    size = np.array([MESSAGE_BYTES], np.int64)
    return Schedule(
        "send", 2, MESSAGE_BYTES, "float32", "sum", MESSAGE_BYTES, none, ones, size * 0, size * 0, size, none,
        none, np.zeros(2, np.int64), np.zeros(0, np.int64), phase_names=("send",),
    )  # fmt: skip


def transport() -> Generator[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(opened(end)) for end in ENDS]
        dirty: list[Batch] = []
        ports = [Port(socket.ring, Batch(kernel_send(socket.fileno()), dirty)) for socket in sockets]
        executor = Executor(ENDS, ports, dirty, Tuning(min_window=64), PACKET)
        poll = stack.enter_context(select.epoll())
        by_fd = {socket.fileno(): port for socket, port in zip(sockets, ports, strict=True)}
        for fd in by_fd:
            poll.register(fd, select.EPOLLIN)
        schedule = one_message()
        buffers = RankBuffers(schedule)
        while True:
            executor.prepare(schedule, buffers)
            executor.begin(time.monotonic())
            while not executor.drained:
                ready = [by_fd[fd] for fd, _ in poll.poll(0.005)]
                executor.step(ready, time.monotonic())
                if not ready:
                    executor.tick(time.monotonic())
            yield MESSAGE_BYTES // PACKET.path_mtu


def send_path() -> Generator[int]:
    with opened(ENDS[0]) as source:
        dirty: list[Batch] = []
        tuning = Tuning(min_window=SPAN, max_window=SPAN)
        batch = Batch(kernel_send(source.fileno()), dirty)
        sender = Sender(THERE, batch, tuning, PACKET, Budget(0, 1), {})
        sender.use_paths(0.0, [0xC000], [1.0], [0.0], [1.0], [0.0])
        payload = np.zeros(MESSAGE_BYTES, np.uint8)
        memory, about = (payload.data, payload.ctypes.data), reth(0, 0, MESSAGE_BYTES)
        while True:
            sender.reset(sender.next)
            message = Message(0, sender.next, PACKET.path_mtu, memory, payload, about, reduce=False)
            message.ready = True
            sender.offer([message])
            sender.pump(0.0)
            batch.flush()
            dirty.clear()
            yield message.packets


def bare() -> Generator[int]:
    ready = packet(header(Opcode.WRITE_MIDDLE, THERE, 0xC000, 4096), 1, bytes(4096))
    with opened(ENDS[0]) as source:
        send = source.send
        while True:
            for _ in range(256):
                send(ready)
            yield 256


def scapy() -> Generator[int]:
    payload = bytes(4096)
    for number in count():
        frame = (
            Ether(src=ENDS[0].mac, dst=ENDS[1].mac)
            / IP(src=ENDS[0].ip, dst=ENDS[1].ip)
            / UDP(sport=0xC000, dport=4791, chksum=0)
            / BTH(opcode=int(Opcode.WRITE_MIDDLE), dqpn=0x101, psn=number & 0xFFFFFF)
            / Raw(payload)
        )
        sendp(frame, iface=ENDS[0].interface, verbose=False)
        yield 1


SENDERS = (transport, send_path, bare, scapy)
"""Each yields how many packets it has just sent, for ever."""


def speed(sender: Callable[[], Generator[int]], seconds: float) -> tuple[float, float]:
    """Packets per second, and microseconds of CPU per packet, over `seconds`."""
    with closing(sender()) as sends:
        next(sends)  # the first time it opens its sockets
        packets, began, cpu = 0, time.perf_counter(), time.process_time()
        while (spent := time.perf_counter() - began) < seconds:
            packets += next(sends)
        return packets / spent, (time.process_time() - cpu) / packets * 1e6


def measure(seconds: float, progress: Callable[[str], None]) -> dict[str, float]:
    """Packets per second of each sender and the transport's ratios to them: medians of ROUNDS, `seconds` in
    all."""
    make_veth()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    gc.disable()
    rounds = []
    for number in range(1, ROUNDS + 1):
        rounds.append([speed(sender, seconds / ROUNDS / len(SENDERS)) for sender in SENDERS])
        now = ", ".join(f"{s.__name__} {pps:,.0f}" for s, (pps, _) in zip(SENDERS, rounds[-1], strict=True))
        progress(f"{number}/{ROUNDS} packets per second: {now}")
    medians = np.median(rounds, axis=0).tolist()
    pps = {f"{sender.__name__}_pps": median for sender, (median, _) in zip(SENDERS, medians, strict=True)}
    return {
        **pps,
        "transport_cpu_us_per_packet": medians[0][1],
        "transport_to_scapy": pps["transport_pps"] / pps["scapy_pps"],
        "transport_to_bare": pps["transport_pps"] / pps["bare_pps"],
        "send_path_to_bare": pps["send_path_pps"] / pps["bare_pps"],
        "payload_bytes": PACKET.path_mtu,
    }
