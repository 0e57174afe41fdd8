"""The bounded store of messages that pages read from."""

from __future__ import annotations

import asyncio
import threading

import pytest

from railweave.framework.page.serving.feed import Feed


def numbers(feed: Feed, after: int, most: int = 100) -> list[int] | None:
    found = feed.after(after, most)
    return None if found is None else [message.number for message in found]


def test_every_message_after_a_number_in_order() -> None:
    feed = Feed()
    assert numbers(feed, 0) == []
    for i in range(5):
        feed.publish(f'{{"i":{i}}}')
    assert numbers(feed, 0) == [1, 2, 3, 4, 5]
    assert numbers(feed, 3) == [4, 5]
    assert numbers(feed, 0, most=2) == [1, 2]
    assert numbers(feed, 5) == []
    assert feed.after(4) == [(5, '{"i":4}')]


def test_numbers_that_were_never_given_out_are_told_apart() -> None:
    feed = Feed()
    feed.publish("{}")
    assert numbers(feed, 2) is None  # a page of an earlier run on this port


@pytest.mark.parametrize(("most", "most_bytes"), [(10, 10**9), (10**9, 100)])
def test_what_is_kept_is_bounded(most: int, most_bytes: int) -> None:
    feed = Feed(most, most_bytes)
    for _ in range(1000):
        feed.publish("0123456789")
    assert numbers(feed, 990) == list(range(991, 1001))
    assert numbers(feed, 989) is None
    feed.publish("x" * 200)  # larger than all the room: kept alone, or with the latest
    assert feed.after(1000) == [(1001, "x" * 200)]


def test_a_reader_on_another_thread_gets_all() -> None:
    feed = Feed()

    async def read() -> list[int]:
        feed.serve_on(asyncio.get_running_loop())
        ready.set()
        seen: list[int] = []
        while True:
            closed, following = feed.closed, feed.after(len(seen))
            assert following is not None
            seen += [message.number for message in following]
            if not following and closed:
                return seen
            if not following:
                await feed.news()

    ready, results = threading.Event(), []
    reader = threading.Thread(target=lambda: results.append(asyncio.run(read())))
    reader.start()
    ready.wait()
    for _ in range(2000):
        feed.publish("{}")
    feed.close()
    reader.join(20)
    assert results == [list(range(1, 2001))]
    feed.publish("{}")  # whose reader is gone
