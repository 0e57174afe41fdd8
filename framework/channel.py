"""Messages between the processes of a run: length-prefixed msgpack over an inherited socket pair."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from typing import Any

import msgpack
import numpy as np

from railweave.framework.errors import ChannelClosedError

_LENGTH = struct.Struct("!I")
_ARRAY = 1


def _encode(value: Any) -> msgpack.ExtType:
    if isinstance(value, np.ndarray):
        head = msgpack.packb((value.dtype.str, value.shape))
        return msgpack.ExtType(_ARRAY, head + np.ascontiguousarray(value).tobytes())
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot travel on a channel")


def _decode(code: int, data: bytes) -> Any:
    if code != _ARRAY:
        return msgpack.ExtType(code, data)
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    dtype, shape = unpacker.unpack()
    return np.frombuffer(data, np.dtype(dtype), offset=unpacker.tell()).reshape(shape)


class Channel:
    """One end. `send` blocks until the message is handed to the kernel; `poll` never blocks; `receive` waits.

    Messages are plain data: dicts, lists, numbers, strings, bytes, numpy arrays. A closed peer raises
    ChannelClosedError. Works on plain and on eventlet's green sockets.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = bytearray()
        self._closed = False

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """Our end, and the socket for the child (inheritable; close it here once the child runs)."""
        ours, theirs = socket.socketpair()
        theirs.set_inheritable(True)
        return cls(ours), theirs

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        return self._sock.fileno()

    def send(self, message: Any) -> None:
        data = msgpack.packb(message, default=_encode)
        try:
            self._sock.sendall(_LENGTH.pack(len(data)) + data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosedError("the other end of the channel is gone") from error

    def receive(self, timeout_s: float | None = None) -> Any:
        """The next message; TimeoutError when none came in time."""
        while (message := self._next()) is None:
            if timeout_s is not None and not select.select([self._sock], [], [], timeout_s)[0]:
                raise TimeoutError(f"no message within {timeout_s} s")
            self._read(0)
        return message[0]

    def poll(self) -> list[Any]:
        """Every message that has arrived. Raises ChannelClosedError once all before the end were given out."""
        with contextlib.suppress(BlockingIOError):
            while not self._closed:
                self._read(socket.MSG_DONTWAIT)
        messages = []
        while (message := self._next()) is not None:
            messages.append(message[0])
        if self._closed and not messages:
            raise ChannelClosedError("the other end of the channel is gone")
        return messages

    def close(self) -> None:
        self._sock.close()

    def _read(self, flags: int) -> None:
        if self._closed:
            raise ChannelClosedError("the other end of the channel is gone")
        try:
            data = self._sock.recv(1 << 20, flags)
        except ConnectionResetError:
            data = b""
        if data:
            self._buffer += data
            return
        self._closed = True
        if flags == 0:
            raise ChannelClosedError("the other end of the channel is gone")

    def _next(self) -> tuple[Any] | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        message = msgpack.unpackb(
            bytes(self._buffer[_LENGTH.size : end]), ext_hook=_decode, strict_map_key=False
        )
        del self._buffer[:end]
        return (message,)
