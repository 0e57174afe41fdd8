"""`railweave shell`: a lab with its routes installed, and Mininet's prompt in it."""

from __future__ import annotations

import ctypes
import fcntl
import signal
import socket
import struct
from collections.abc import Mapping
from typing import Any

from railweave.framework.addressing import ipv4, ipv4_text, mac_text
from railweave.framework.channel import Channel
from railweave.framework.experiment import Plan, from_document
from railweave.framework.lab.conductor import Conductor
from railweave.framework.lab.emulation import Emulation
from railweave.framework.lab.names import host_name, interface_name
from railweave.framework.lab.ovs import run, tool
from railweave.framework.lab.sandbox import Sandbox
from railweave.framework.registry import load

SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17


def shell(plan: Plan) -> int:
    """Open the prompt for this plan's fabric; gives the exit code. The lab is gone when this returns."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the prompt
    try:
        with Sandbox("shell", {"document": plan.document()}, interactive=True) as lab:
            return lab.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def task(message: Mapping[str, Any], channel: Channel) -> None:
    """Bring the fabric up, give its hosts addresses, and hand the terminal to Mininet."""
    from mininet.cli import CLI

    class Prompt(CLI):  # type: ignore[misc]
        prompt = "railweave> "
        identchars = CLI.identchars + "."  # so that h0.0 is one word

    registers = load()
    plan = from_document(message["document"], registers)
    conductor = Conductor(plan, registers, _print)
    try:
        conductor.bring_up()
        address_hosts(conductor.lab)
        _print(
            {"text": "hosts h<gpu>, switches as in `railweave topo show`; try: h0.0 ping -c2 h1.0, then exit"}
        )
        Prompt(conductor.lab.net)
    finally:
        conductor.down()


def _print(event: Mapping[str, Any]) -> None:
    if event.get("text"):
        print(f"* {event['text']}", flush=True)  # noqa: T201 - this process owns the terminal


def address_hosts(lab: Emulation) -> None:
    """Give hosts their addresses and everyone's MAC, so that ordinary programs run in them.

    Runs never do this: a host with an address answers behind the sender's back.
    """
    fabric = lab.fabric
    everyone = [(ipv4_text(ipv4(fabric, gpu)), mac_text(gpu)) for gpu in range(fabric.n_gpus)]
    for gpu in range(fabric.n_gpus):
        name = host_name(fabric, gpu)
        interface = interface_name(name, 0)
        lines = [
            "link set dev lo up",
            f"link set dev {interface} address {everyone[gpu][1]}",
            f"addr add {everyone[gpu][0]}/8 dev {interface}",
        ]
        lines += [
            f"neigh replace {ip} lladdr {mac} dev {interface} nud permanent"
            for other, (ip, mac) in enumerate(everyone)
            if other != gpu
        ]
        run([tool("ip"), "-n", name, "-batch", "-"], given="\n".join(lines) + "\n")
        with lab.hosts[name].entered():
            checksum_in_software(interface)


def checksum_in_software(interface: str) -> None:
    """The userspace datapath passes packets on as they are, so TCP needs its checksums written at once."""
    buffer = bytearray(struct.pack("=II", ETHTOOL_STXCSUM, 0))
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    request = struct.pack("16sP16x", interface.encode(), address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCETHTOOL, request)
