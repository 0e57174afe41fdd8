"""Messages between the processes of a run: msgpack over an inherited socket pair."""

import socket
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, Self

import msgpack
import numpy as np

from railweave.framework.errors import ChannelClosedError

_ARRAY, _NOUN = 1, 2
"""Types of msgpack's extensions: an array, and a noun of the model."""
_HEAD_BYTES = 256
"""Bytes of an array's message that hold its element type and shape, which are shorter."""
_NOUNS = "railweave.framework.model."
"""The modules of all nouns; each is imported when one of it travels."""


@cache
def _noun(module: str, name: str) -> Any:
    return getattr(import_module(_NOUNS + module), name)


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        head = msgpack.packb((value.dtype.str, value.shape))
        return msgpack.ExtType(_ARRAY, head + np.ascontiguousarray(value).tobytes())
    if isinstance(value, np.generic):
        return value.item()
    kind = type(value)
    if is_dataclass(kind) and kind.__module__.startswith(_NOUNS):
        values = [getattr(value, field.name) for field in fields(kind)]
        name = (kind.__module__.removeprefix(_NOUNS), kind.__name__)
        return msgpack.ExtType(_NOUN, msgpack.packb((*name, values), default=_encode))
    raise TypeError(f"{type(value).__name__} cannot travel on a channel")


def _decode(code: int, data: bytes) -> Any:
    if code == _NOUN:  # every sequence in a noun is a tuple
        *name, values = msgpack.unpackb(data, ext_hook=_decode, strict_map_key=False, use_list=False)
        noun = _noun(*name)
        return noun(**dict(zip((field.name for field in fields(noun)), values, strict=True)))
    if code != _ARRAY:
        return msgpack.ExtType(code, data)
    unpacker = msgpack.Unpacker()
    unpacker.feed(data[:_HEAD_BYTES])
    dtype, shape = unpacker.unpack()
    return np.frombuffer(data, np.dtype(dtype), offset=unpacker.tell()).reshape(shape)


class Channel:
    """One end. `send` blocks until the message is handed to the kernel; `poll` never blocks; `receive` waits.

    Messages are plain data (dicts, lists, numbers, strings, bytes, numpy arrays), and the dataclasses of
    framework/model, among them all events, which lists and dicts may hold. A closed peer raises
    ChannelClosedError. Works on plain and on eventlet's green sockets.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        # 0: as large as msgpack allows; findings of long runs take hundreds of megabytes
        self._unpacker = msgpack.Unpacker(ext_hook=_decode, strict_map_key=False, max_buffer_size=0)

    @classmethod
    def from_fd(cls, fd: int) -> Self:
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        return self._sock.fileno()

    def send(self, message: Any) -> None:
        data = msgpack.packb(message, default=_encode)
        try:
            self._sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosedError("the other end of the channel is gone") from error

    def receive(self) -> Any:
        """The next message; waits for it."""
        while True:
            for message in self._unpacker:
                return message
            self._read()

    def poll(self) -> list[Any]:
        """Every message that has arrived. Raises ChannelClosedError once all before the end were given
        out."""
        try:
            while True:
                self._read(socket.MSG_DONTWAIT)
        except BlockingIOError:
            return list(self._unpacker)
        except ChannelClosedError:
            if messages := list(self._unpacker):
                return messages
            raise

    def close(self) -> None:
        self._sock.close()

    def shutdown(self) -> None:
        """End it for both sides; a thread that waits for a message returns."""
        self._sock.shutdown(socket.SHUT_RDWR)

    def _read(self, flags: int = 0) -> None:
        try:
            data = self._sock.recv(1 << 20, flags)
        except ConnectionResetError:
            data = b""
        if not data:
            raise ChannelClosedError("the other end of the channel is gone")
        self._unpacker.feed(data)
