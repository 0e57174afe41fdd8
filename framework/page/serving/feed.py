"""What happens in a run, numbered, for pages that follow it: the run writes and never waits."""

import asyncio
from collections import deque
from threading import Lock
from typing import NamedTuple

MOST_MESSAGES, MOST_BYTES = 20_000, 16_000_000
"""Messages, and bytes of them, kept for pages that come back: an hour and a half of a run of 16 GPUs."""


class PageMessage(NamedTuple):
    """`data`: a JSON object in one line."""

    number: int
    data: str


class Feed:
    """The latest messages of a run, numbered from 1. Every page reads at its own pace from here, so that
    there is one bounded store and no queue for each.

    `publish` and `close` are for the thread of the run; all else for the event loop of the server.
    """

    def __init__(self, most: int = MOST_MESSAGES, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._messages: deque[PageMessage] = deque()
        self._lock, self._bytes = Lock(), 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news, self._waking = asyncio.Event(), False
        self.last, self.closed = 0, False
        """The number of the latest message; whether no more will come."""

    def serve_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on wake those who wait in `loop`."""
        self._loop = loop

    def publish(self, data: str) -> None:
        """Add a message, a JSON object in one line; the oldest go where there is no room."""
        with self._lock:
            self.last += 1
            self._messages.append(PageMessage(self.last, data))
            self._bytes += len(data)
            while len(self._messages) > self._most or (
                self._bytes > self._most_bytes and len(self._messages) > 1
            ):
                self._bytes -= len(self._messages.popleft().data)
        self._wake()

    def close(self) -> None:
        """No more messages will come."""
        self.closed = True
        self._wake()

    def after(self, number: int, most: int = 100) -> list[PageMessage] | None:
        """The next messages after `number`, at most `most`; None where some of them are gone, or where
        that number was never given out."""
        with self._lock:
            first = self.last - len(self._messages) + 1
            if not first - 1 <= number <= self.last:
                return None
            begin = number + 1 - first
            return [self._messages[i] for i in range(begin, min(begin + most, len(self._messages)))]

    async def news(self) -> None:
        """Wait until something was published or the feed closed since this was called."""
        await self._news.wait()

    def _wake(self) -> None:
        with self._lock:
            if self._loop is None or self._waking:
                return
            self._waking = True
        try:
            self._loop.call_soon_threadsafe(self._awake)
        except RuntimeError:  # the server has ended before the run
            self._loop = None

    def _awake(self) -> None:
        with self._lock:
            self._waking = False
        self._news.set()  # everyone who waits goes on; who waits from now on waits for what comes next
        self._news = asyncio.Event()
