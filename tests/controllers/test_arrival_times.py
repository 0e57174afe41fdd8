"""Arrival times of bytes, against the clock of the sender."""

from __future__ import annotations

import socket
import time

import pytest

from railweave.controllers.arrival_times import StampedSocket

BUSY_S = 0.1


def test_what_arrived_while_the_reader_was_busy_has_the_time_of_its_arrival() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as sender, server.accept()[0] as receiver:
            stamped = StampedSocket(receiver)
            time.sleep(BUSY_S)  # the kernel begins to keep times a little after the first socket asks for it
            sent_s = time.monotonic()
            sender.sendall(b"12345678")
            time.sleep(BUSY_S)
            assert stamped.recv(4) == b"1234"
            assert sent_s - 0.001 <= stamped.arrived_s < sent_s + BUSY_S / 2
            assert stamped.recv(100) == b"5678"
            assert stamped.arrived_s < sent_s + BUSY_S / 2
            sender.shutdown(socket.SHUT_WR)
            assert stamped.recv(4) == b""


def test_a_time_limit_holds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()), server.accept()[0] as receiver:
            stamped = StampedSocket(receiver)
            stamped.settimeout(0.01)
            with pytest.raises(TimeoutError):
                stamped.recv(4)
