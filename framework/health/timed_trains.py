"""Trains of packets over idle links of a model: they take their time, and their bytes count."""

from typing import Protocol

import numpy as np

from railweave.framework.health.rate_evidence import EXACT_PACKETS
from railweave.framework.health.trains import TrainTimes
from railweave.framework.hookspecs import LinkState
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.arrays import Bool, Float, Int64

FILL_SAMPLES = 5
"""For how many samples a train keeps a healthy link busy, as in lab/measuring/health_sources.py."""


class CountsTrains(Protocol):
    """The counters of links."""

    def add(self, packets: Float, packet_bytes: Float, loss: Float) -> None:
        """(L,) each: packets that links have sent, their bytes, and the share that was lost."""


class Trains:
    """The trains under way, and when the last packet of each has arrived. `shown_bps` (L,): the rate
    that the latest showed which arrived, by its last packets if they are enough, else by all."""

    def __init__(self, fabric: Fabric, packet: PacketFormat, interval_s: float) -> None:
        self._times = TrainTimes(fabric, packet, FILL_SAMPLES * interval_s)
        self._until_s = np.full(fabric.n_links, -np.inf)
        self._packets, self._bytes = np.zeros((2, fabric.n_links))
        self._left_bits = np.full(fabric.n_links, np.inf)
        """Of the train under way over each link, what was left of it when the rate last changed."""
        self._rates_bps = self.shown_bps = fabric.capacity_bps

    @property
    def next_s(self) -> float:
        """When the next train has arrived; infinity if none is under way."""
        return float(self._until_s[self._times.out].min(initial=np.inf))

    @property
    def wanted(self) -> Int64:
        """The links whose rate is not known well enough, as far as was last said."""
        return self._times.wanted

    def seen(self, now_s: float, data: Bool | Int64, stated: Bool | Int64) -> None:
        """Links that carried data until now, and those whose rate that has stated."""
        self._times.seen(now_s, data, data, stated)

    def arrived(self, now_s: float, rates_bps: Float, loss: Float, counters: CountsTrains) -> Bool:
        """(L,): the links whose train has arrived since the last call, and has shown their rate; `rates_bps`,
        `loss` (L,) are those of now."""
        times = self._times
        if not times.out.any():
            self._rates_bps = rates_bps
            return np.zeros(len(rates_bps), bool)
        before_bps = self._rates_bps
        changed = times.out & (rates_bps != before_bps)
        if changed.any():
            left_s = np.maximum(self._until_s[changed] - now_s, 0.0)
            slower = before_bps[changed] / rates_bps[changed]
            self._until_s[changed] = np.minimum(self._until_s[changed], now_s) + left_s * slower
            self._left_bits[changed] = left_s * before_bps[changed]
        self._rates_bps = rates_bps
        done = times.out & (self._until_s <= now_s)
        if done.any():
            counters.add(np.where(done, self._packets, 0.0), self._bytes, loss)
            bits, took_s = (self._packets * self._bytes * 8)[done], self._until_s[done] - times.sent_s[done]
            self.shown_bps = self.shown_bps.copy()
            last = self._left_bits[done] >= EXACT_PACKETS * self._bytes[done] * 8
            self.shown_bps[done] = np.where(last, rates_bps[done], bits / took_s)
            times.out &= ~done
        return done

    def send(self, now_s: float, links: LinkState, rates_bps: Float) -> None:
        """Trains over the links that need one."""
        at = self._times.due(now_s, links)
        if not len(at):
            return
        self._packets[at], self._bytes[at] = self._times.trains(at, links)
        self._rates_bps, self._left_bits[at] = rates_bps, np.inf
        self._until_s[at] = now_s + self._packets[at] * self._bytes[at] * 8 / rates_bps[at]
