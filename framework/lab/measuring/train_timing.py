"""Which link gets a timed train when, and what the arrival times of trains say about links. Pure of
clocks."""

from collections import deque

import numpy as np

from railweave.framework.lab.switching.controller_link import Train
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float

TRAIN_S = 0.06
"""How long a train keeps a healthy link busy; milliseconds of jitter are then a few per cent of it."""

SHARE = 0.035
"""Share of a link's time that its trains may take."""

EACH_S = 0.01
"""A train costs the controller and the switches time, whatever its link: at most one per this time over all
links."""

PACKET_BYTES = 9000
"""The largest packets that links of the lab carry, because a train costs the switches time per packet."""

FEWEST, MOST = 4, 16
"""Packets of a train: the token bucket lets the first one through early, and a fast link would need
hundreds."""

AT_ONCE = 4
"""Trains that may start at one sample."""

KEPT, KEPT_SHORT = 4, 6
"""Number of latest trains of which the fastest counts; more for short trains, which jitter affects more."""

SHORT_S = 0.04
DOUBT, DOUBT_S = 1.2, 0.005
"""A train that is slower than its link's figure by this factor and time is in doubt: the next one follows
soon, but not so soon that the same stall of the machine spoils both."""

SOON_S = 0.2

CALIBRATION = 4
"""Trains of a link before its first figure."""

LOST_S = 10.0
NUMBERS = 65535


class TrainTiming:
    """Gives every link its turn, with one train under way per link, and evaluates the latest trains.

    A train's packets queue one behind the other, so between the arrivals of the first and the last packet the
    link served the bytes in between: their quotient is its service rate, whatever constant delay the emulator
    adds to both. Jitter adds or subtracts milliseconds; of the latest trains the fastest counts. The delay of
    the first packet above the minimum of its link is its waiting time.
    """

    def __init__(self, fabric: Fabric, packet_bytes: int = PACKET_BYTES) -> None:
        self._fabric, n, self.packet_bytes = fabric, fabric.n_links, packet_bytes
        fill = 1 + np.ceil(TRAIN_S * fabric.capacity_bps / (8 * packet_bytes)).astype(int)
        self.packets = np.clip(fill, FEWEST, MOST)
        self._healthy_s = (self.packets - 1) * packet_bytes * 8 / fabric.capacity_bps
        self._period_s = np.maximum(np.maximum(TRAIN_S / SHARE, n * EACH_S), self._healthy_s / SHARE)
        kept = np.where(self._healthy_s < SHORT_S, KEPT_SHORT, KEPT)
        self._last: list[deque[float]] = [deque(maxlen=int(k)) for k in kept]
        self._due = np.arange(n) / n * self._period_s.min()  # spread over the first period
        self._under_way: dict[int, tuple[int, float]] = {}
        self._number = 0
        self._baseline = np.full(n, np.inf)
        self._seen = np.zeros(n, int)
        self.queue_bytes: Float = np.zeros(n)

    def departures(self, now_s: float, up: Bool) -> list[Train]:
        """The trains to send now, all of which the caller sends. Links that are down get none."""
        self._under_way = {
            number: train for number, train in self._under_way.items() if now_s - train[1] <= LOST_S
        }
        free = (self._due <= now_s) & up
        free[[link for link, _ in self._under_way.values()]] = False
        ready = np.flatnonzero(free)
        chosen = ready[np.argsort(self._due[ready], kind="stable")][:AT_ONCE]
        trains = []
        for link in map(int, chosen):
            self._number = self._number % NUMBERS + 1
            self._under_way[self._number] = (link, now_s)
            self._due[link] = now_s + self._period_s[link]
            trains.append(
                Train.over(self._fabric, link, int(self.packets[link]), self.packet_bytes, self._number)
            )
        return trains

    def arrived(
        self, number: int, sent_s: float, first_s: float, last_s: float
    ) -> tuple[int, float, float] | None:
        """(link, service rate in bit/s, delay in s above the minimum) after this train. None while a link has
        had too few, for a train in doubt, and for one that was given up."""
        if number not in self._under_way:
            return None
        link, departed_s = self._under_way.pop(number)
        took, delay = max(last_s - first_s, 1e-6), first_s - sent_s
        self._last[link].append(took)
        best = min(self._last[link])
        self._baseline[link] = min(self._baseline[link], delay)
        self._seen[link] += 1
        if self._seen[link] < CALIBRATION or took > DOUBT * best + DOUBT_S:
            self._due[link] = departed_s + (last_s - sent_s) + SOON_S
            return None
        rate = (int(self.packets[link]) - 1) * self.packet_bytes * 8 / best
        waited = float(delay - self._baseline[link])
        self.queue_bytes[link] = waited * rate / 8
        return link, rate, waited

    def forget(self) -> None:
        """No report about trains under way will come."""
        self._under_way.clear()
