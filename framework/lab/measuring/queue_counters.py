"""Counters of shapers: one netlink dump of all of a shard, from one socket.

The dump is read here rather than by a netlink library because the same cores switch the packets: for 64 links
it takes 0.1 to 0.2 ms, pyroute2 3.6 ms, `tc -s -j qdisc show` 2.6 ms and a fork (docs/dependencies.md). Dumps
are alike until interfaces come or go, so where each counter is, is found once.
"""

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import LabError
from railweave.framework.lab.switching.red import RED_HANDLE
from railweave.framework.lab.switching.shaping import SHAPER_HANDLE
from railweave.framework.model.arrays import Float
from railweave.framework.processes.namespaces import NetNamespace
from railweave.framework.processes.netlink import (
    DONE,
    ERROR,
    HEADER,
    NETLINK_ROUTE,
    RTM_GETQDISC,
    RTM_NEWQDISC,
    TCMSG,
    attributes,
    dump_request,
    messages,
)

TCA_STATS2, TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_APP = 7, 1, 3, 4
"""Attributes of a queue's statistics (linux/rtnetlink.h, linux/gen_stats.h)."""

TRIES, TOGETHER_S = 3, 0.001
"""A dump that took longer was interrupted, so it is not known when its parts were made; it is made anew."""

DUMP_REQUEST = dump_request(RTM_GETQDISC, TCMSG.pack(0, 0, 0, 0, 0))
_RED_STATISTICS = struct.Struct("=IIII")
"""Of RED (tc_red_xstats): early drops, drops of a full queue, others, packets marked."""


class QueueCounters(NamedTuple):
    """Counters of n shapers at one instant, (n,), or m instants, (m, n): cumulative bytes, packets and drops;
    queued bytes and packets."""

    t_s: Float
    sent_bytes: Float
    sent_packets: Float
    drops: Float
    queue_bytes: Float
    queue_packets: Float


class Dump(NamedTuple):
    """What the kernel sent, in parts that end at `ends` and were made at `times_s`, the last of which is when
    all were here."""

    data: bytes
    ends: list[int]
    times_s: list[float]


class ShardQueues:
    """Reads the shapers of one namespace. `interfaces`: the one of each link."""

    def __init__(self, namespace: NetNamespace, interfaces: Mapping[int, str]) -> None:
        with namespace.entered():
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
            self._socket.bind((0, 0))
            self._link_of = {socket.if_nametoindex(name): link for link, name in interfaces.items()}
        self._words, self._end_bytes = 0, HEADER.size

    def fileno(self) -> int:
        return self._socket.fileno()

    def dump(self) -> Dump:
        """The counters of all links as they are at this moment."""
        for _ in range(TRIES):
            dump = self._dumped()
            if dump.times_s[-1] - dump.times_s[0] < TOGETHER_S:
                break
        return dump

    def _dumped(self) -> Dump:
        self._socket.send(DUMP_REQUEST)
        # the kernel makes the first part while it is asked, each other one while it hands over the one before
        parts, ends, times_s, end, kind = list[bytes](), list[int](), [time.monotonic()], 0, 0
        while kind not in (DONE, ERROR):
            parts.append(self._socket.recv(1 << 18))
            times_s.append(time.monotonic())
            end += len(parts[-1])
            ends.append(end)
            if self._words:
                kind = HEADER.unpack_from(parts[-1], len(parts[-1]) - self._end_bytes)[1]
            else:
                *_, (kind, body) = messages(parts[-1])
                self._end_bytes = HEADER.size + body.stop - body.start
        if kind == ERROR:
            raise LabError("the kernel refused to list the shapers of a shard.")
        return Dump(b"".join(parts), ends, times_s)

    def read(self, dumps: Sequence[Dump], into: QueueCounters) -> None:
        """Write the counters of each link to its column in `into` (m, n), of each dump to its row."""
        words = [np.frombuffer(dump.data, np.uint32) for dump in dumps]
        if not self._are_known(words):
            if len(dumps) > 1:
                for row, dump in enumerate(dumps):
                    self.read([dump], QueueCounters(*(counter[row : row + 1] for counter in into)))
                return
            self._learn(dumps[0].data, words[0])
        values = np.array(words)[:, self._places]
        for row, dump in enumerate(dumps):
            into.t_s[row, self._links] = np.array(dump.times_s)[
                np.searchsorted(dump.ends, self._places[0] * 4)
            ]
        into.sent_bytes[:, self._links] = values[:, 0] + values[:, 1] * 2.0**32
        for counter, place in zip(into[2:], (2, 5, 4, 3), strict=True):
            counter[:, self._links] = values[:, place]

    def marked(self) -> dict[int, int]:
        """Packets that RED has marked so far, by link."""
        data, marked = self.dump().data, {}
        for kind, body in messages(data):
            if kind != RTM_NEWQDISC:
                continue
            _family, index, handle, _parent, _info = TCMSG.unpack_from(data, body.start)
            if handle == RED_HANDLE and index in self._link_of:
                statistics = _statistics(data, body)[TCA_STATS_APP].start
                marked[self._link_of[index]] = _RED_STATISTICS.unpack_from(data, statistics)[3]
        return marked

    def _are_known(self, words: Sequence[NDArray[np.uint32]]) -> bool:
        if any(len(dump_words) != self._words for dump_words in words):
            return False
        return bool((np.array(words)[:, self._marks] == self._marked).all())

    def _learn(self, data: bytes, words: NDArray[np.uint32]) -> None:
        """Where the counters of each link are in a dump, which is the same until interfaces come or go:
        `_links` (k,), `_places` (6, k) in words; the words at `_marks` show that it still is."""
        links, places, marks = list[int](), list[list[int]](), list[int]()
        for kind, body in messages(data):
            marks += [body.start - HEADER.size, body.start - HEADER.size + 4]
            if kind != RTM_NEWQDISC:
                continue
            marks += [body.start + 4, body.start + 8]
            _family, index, handle, _parent, _info = TCMSG.unpack_from(data, body.start)
            if handle != SHAPER_HANDLE or index not in self._link_of:
                continue
            inner = _statistics(data, body)
            basic, queue = inner[TCA_STATS_BASIC].start, inner[TCA_STATS_QUEUE].start
            marks += [basic - 4, queue - 4]
            links.append(self._link_of[index])
            places.append([basic, basic + 4, basic + 8, queue, queue + 4, queue + 8])
        if missing := len(self._link_of) - len(links):
            raise LabError(f"{missing} interfaces of a shard have lost their shaper.")
        self._links, self._places = np.array(links), np.array(places).T // 4
        self._words, self._marks = len(words), np.array(marks) // 4
        self._marked = words[self._marks]


def _statistics(data: bytes, body: slice) -> dict[int, slice]:
    """Where the statistics of a queue are in a message about it, by their kind."""
    outer = dict(attributes(data, slice(body.start + TCMSG.size, body.stop)))
    return dict(attributes(data, outer[TCA_STATS2]))


def read_all(shards: Sequence[ShardQueues], n_links: int) -> QueueCounters:
    """The counters of all links at this moment, (n_links,)."""
    counters = counters_of(shards, [[queues.dump() for queues in shards]], n_links)
    return QueueCounters(*(counter[0] for counter in counters))


def counters_of(
    shards: Sequence[ShardQueues], dumps: Sequence[Sequence[Dump]], n_links: int
) -> QueueCounters:
    """The counters of all links, (m, n_links), by m times the dumps of all shards."""
    counters = QueueCounters(*np.zeros((6, len(dumps), n_links)))
    for shard, queues in enumerate(shards):
        queues.read([dump[shard] for dump in dumps], counters)
    return counters
