"""Waits for interfaces in other network namespaces."""

import fcntl
import select
import socket
import struct
import time
from typing import Protocol

from railweave.framework.errors import ChannelClosedError, TransportError
from railweave.framework.processes.namespaces import inside

_SIOCGIFMTU = 0x8921
_RTMGRP_LINK = 1


class HasFileno(Protocol):
    def fileno(self) -> int: ...


def interface_mtu(interface: str) -> int | None:
    """The MTU of an interface of the current namespace; None if it does not exist."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            answer = fcntl.ioctl(sock.fileno(), _SIOCGIFMTU, struct.pack("16s16x", interface.encode()))
        except OSError:
            return None
    return int(struct.unpack_from("i", answer, 16)[0])


def await_interface(namespace: str, interface: str, mtu: int, within_s: float, parent: HasFileno) -> None:
    """Return once `interface` exists and carries IP packets of `mtu` bytes.

    The transport is started while the lab is still being built. Waits for the kernel's link notifications;
    raises TransportError after `within_s`, and ChannelClosedError when the process at the other end of
    `parent` ends.
    """
    end = time.monotonic() + within_s
    with inside(namespace):
        notices = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        with notices:
            notices.bind((0, _RTMGRP_LINK))
            poll = select.poll()
            poll.register(notices, select.POLLIN)
            poll.register(parent.fileno(), 0)  # reports a hang-up only
            while (current := interface_mtu(interface)) is None or current < mtu:
                left = end - time.monotonic()
                if left <= 0:
                    raise TransportError(_missing(namespace, interface, mtu, current))
                for fd, _ in poll.poll(left * 1000):
                    if fd != notices.fileno():
                        raise ChannelClosedError(
                            "the lab ended while the transport waited for its interfaces"
                        )
                    notices.recv(1 << 16)


def _missing(namespace: str, interface: str, mtu: int, current: int | None) -> str:
    if current is None:
        return f"there is no interface {interface} in {namespace}. Check the endpoint."
    return (
        f"{interface} in {namespace} has MTU {current}, and RoCEv2 packets of this path MTU need {mtu}. "
        "Raise it with "
        "`ip link set mtu`, or lower the path MTU."
    )
