"""Addresses for the hosts of a lab, so that ordinary programs run in them."""

import fcntl
import socket
import struct
from array import array
from pathlib import Path

from railweave.framework.lab.interface_names import host_name, interface_name
from railweave.framework.lab.programs.rank_space import User
from railweave.framework.lab.switching.emulation import Emulation
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.addressing import ROCE_PORT, ipv4, ipv4_text
from railweave.framework.model.traffic import ETHERNET_HEADER
from railweave.framework.processes.packet_socket import packet_socket
from railweave.framework.processes.programs import run, tool

WINDOW_PACKETS, WINDOW_S = 16, 0.02
"""The first is also the queue that the `delay` estimator takes for senders' windows; the second is a few
times the round trip through the switches."""
NO_ROCEV2 = f"""table ip rocev2 {{
chain out {{ type filter hook output priority 0; udp dport {ROCE_PORT} drop; }}
chain in {{ type filter hook input priority 0; udp dport {ROCE_PORT} drop; }}
}}
"""
"""nftables rules that packet sockets, which the transport uses, pass by."""
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17
"""linux/sockios.h, linux/ethtool.h."""


def address_hosts(lab: Emulation) -> None:
    """Give hosts their addresses and, for there is no ARP, all others as permanent neighbours; Mininet learns
    them too.

    Runs never do this: the kernel of a host with an address would take part in the traffic. The MACs stay,
    and are not those that the transport's packets are sent to, so a kernel still drops these.
    """
    net = lab.net
    assert net is not None
    interfaces = {}
    for gpu in range(lab.fabric.n_gpus):
        name = host_name(lab.fabric, gpu)
        interface = interfaces[name] = net[name].defaultIntf()
        with lab.hosts[name].entered():
            interface.ip, interface.mac = ipv4_text(ipv4(lab.fabric, gpu)), _mac(interface.name)
            _write_checksums_in_software(interface.name)
    for name, interface in interfaces.items():
        neighbours = [
            f"neigh replace {other.ip} lladdr {other.mac} dev {interface.name} nud permanent"
            for other in interfaces.values()
            if other is not interface
        ]
        lines = ["link set dev lo up", f"addr add {interface.ip}/8 dev {interface.name}", *neighbours]
        run([tool("ip"), "-n", name, "-batch", "-"], stdin="\n".join(lines) + "\n")


def open_to_programs(lab: Emulation, scaled: Fabric, packet: PacketFormat, *, rocev2: bool) -> None:
    """Let programs use the hosts: addresses, packets as large as a collective's, echo requests without
    privileges, and TCP windows that fill a link and not its queue.

    `scaled`: the fabric with the rates in use. A window holds `WINDOW_PACKETS` or, if more, what the fastest
    link carries in `WINDOW_S`; without that limit TCP keeps seconds of packets queued, and everything that
    waits for an answer takes seconds. `rocev2`: whether the hosts carry RoCEv2 as well; programs then neither
    send (sendto raises EPERM) nor receive its UDP port, so none disturbs a collective.
    """
    address_hosts(lab)
    window = max(WINDOW_PACKETS * packet.full_packet_bytes, int(scaled.capacity_bps.max() / 8 * WINDOW_S))
    # half of the buffer is the window (tcp_adv_win_scale), and a packet takes its header's room besides
    knobs = {
        "tcp_rmem": f"4096 {4 * window} {4 * window}",
        "tcp_wmem": f"4096 {4 * window} {4 * window}",
        "ping_group_range": "0 0" if User.invoking().mapped else "0 2147483647",
    }
    mtu = packet.full_packet_bytes + packet.RETH - ETHERNET_HEADER
    for name, namespace in lab.hosts.items():
        with namespace.entered():
            for knob, value in knobs.items():
                Path("/proc/sys/net/ipv4", knob).write_text(value)
            if rocev2:
                run([tool("nft"), "-f", "-"], stdin=NO_ROCEV2)
        run([tool("ip"), "-n", name, "link", "set", "dev", interface_name(name, 0), "mtu", str(mtu)])


def _mac(interface: str) -> str:
    with packet_socket() as sock:
        sock.bind((interface, 0))
        return ":".join(f"{byte:02x}" for byte in sock.getsockname()[4])


def _write_checksums_in_software(interface: str) -> None:
    """Turn checksum offload off: the userspace datapath forwards packets as they are."""
    order = array("I", (ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP16x", interface.encode(), order.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCETHTOOL, request)
