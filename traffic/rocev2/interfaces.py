"""Interfaces of other network namespaces: entered, measured, and waited for."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from railweave.framework.errors import ChannelClosedError, TransportError
from railweave.framework.lab.namespaces import NetNamespace

_SIOCGIFMTU = 0x8921
_RTMGRP_LINK = 1


class HasFileno(Protocol):
    def fileno(self) -> int: ...


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Run the block in the network namespace at path `namespace`; this thread comes back afterwards."""
    try:
        fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise TransportError(
            f"network namespace {namespace} cannot be opened: {error.strerror}. Is the lab up?"
        ) from error
    try:
        with NetNamespace("", fd).entered():
            yield
    finally:
        os.close(fd)


def interface_mtu(interface: str) -> int | None:
    """The MTU of an interface of the current namespace; None if it is not there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            answer = fcntl.ioctl(sock.fileno(), _SIOCGIFMTU, struct.pack("16s16x", interface.encode()))
        except OSError:
            return None
    return int(struct.unpack_from("i", answer, 16)[0])


def await_interface(namespace: str, interface: str, mtu: int, within_s: float, parent: HasFileno) -> None:
    """Return once `interface` is there and carries IP packets of `mtu` bytes.

    The transport is started while the lab is still being built. Waits for the kernel's notices of links, and
    raises TransportError after `within_s`, ChannelClosedError when the other end of `parent` goes away.
    """
    end = time.monotonic() + within_s
    with inside(namespace):
        notices = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        with notices:
            notices.bind((0, _RTMGRP_LINK))
            poll = select.poll()
            poll.register(notices, select.POLLIN)
            poll.register(parent.fileno(), 0)  # tells of a hang-up only
            while (found := interface_mtu(interface)) is None or found < mtu:
                left = end - time.monotonic()
                if left <= 0:
                    raise TransportError(_missing(namespace, interface, mtu, found))
                for fd, _ in poll.poll(left * 1000):
                    if fd != notices.fileno():
                        raise ChannelClosedError("the lab went away while its interfaces were awaited")
                    notices.recv(1 << 16)


def _missing(namespace: str, interface: str, mtu: int, found: int | None) -> str:
    if found is None:
        return f"there is no interface {interface} in {namespace}. Check the endpoint that the lab gave."
    return (
        f"{interface} in {namespace} has MTU {found}, and RoCEv2 packets of this path MTU need {mtu}. Raise it with "
        "`ip link set mtu`, or lower the path MTU."
    )
