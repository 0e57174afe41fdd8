"""Which link gets a timed train when, and what the times of trains say of links. No clock, no process."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float

TRAIN_S = 0.06
"""How long a train keeps a healthy link busy: milliseconds of jitter are then some per cent of it."""

SHARE = 0.035
"""Share of a link's time that its trains may take."""

EACH_S = 0.01
"""A train costs the controller and the switches time, whatever its link: no oftener than this over all links."""

PACKET_BYTES = 9000
"""As large as links of the lab carry: what a train costs the switches is counted in packets."""

FEWEST, MOST = 4, 16
"""Packets of a train: a token bucket gives one away, and a fast link would want hundreds."""

AT_ONCE = 4
"""Trains that may start at one look."""

KEPT, KEPT_SHORT = 4, 6
"""Of how many last trains the fastest counts; of trains that jitter weighs on more, more."""

SHORT_S = 0.04
DOUBT, DOUBT_S = 1.2, 0.005
"""A train slower than what is held of its link by this factor and time is in doubt: the next one follows soon,
but not so soon that the same stall of the machine spoils both."""

SOON_S = 0.2

CALIBRATION = 4
"""Trains of a link before anything is said of it."""

LOST_S = 10.0
NUMBERS = 65535


@dataclass(frozen=True, slots=True)
class Departure:
    """Train `number` is to be sent over `link`."""

    number: int
    link: int
    packets: int


class TrainTimes:
    """Lets every link have its turn, one train under way on each, and keeps what came of the last ones.

    A train's packets wait in the queue of its link one behind the other, so between the arrivals of the first and the
    last the link served what lies between: bytes over that time is its service rate, whatever constant delay the
    emulator adds to both. Jitter adds and takes milliseconds; of the last few trains the fastest counts. The delay
    of the first packet beyond the least ever seen of its link is what it waited.
    """

    def __init__(self, fabric: Fabric, packet_bytes: int = PACKET_BYTES) -> None:
        n, self.packet_bytes = fabric.n_links, packet_bytes
        fill = 1 + np.ceil(TRAIN_S * fabric.capacity_bps / (8 * packet_bytes)).astype(int)
        self.packets = np.clip(fill, FEWEST, MOST)
        self._healthy_s = (self.packets - 1) * packet_bytes * 8 / fabric.capacity_bps
        self._period_s = np.maximum(np.maximum(TRAIN_S / SHARE, n * EACH_S), self._healthy_s / SHARE)
        kept = np.where(self._healthy_s < SHORT_S, KEPT_SHORT, KEPT)
        self._last: list[deque[float]] = [deque(maxlen=int(k)) for k in kept]
        self._due = np.arange(n) / n * self._period_s.min()  # spread over the first period
        self._under_way: dict[int, tuple[int, float]] = {}
        self._travelling = np.zeros(n, bool)
        self._number = 0
        self._baseline = np.full(n, np.inf)
        self._seen = np.zeros(n, int)
        self.queue_bytes: Float = np.zeros(n)

    def departures(self, now_s: float, up: Bool) -> list[Departure]:
        """The trains to send now; each is taken as sent. Links that are down get none."""
        for number, (link, at) in list(self._under_way.items()):
            if now_s - at > LOST_S:
                self._arrive(number, link)
        ready = np.flatnonzero((self._due <= now_s) & up & ~self._travelling)
        chosen = ready[np.argsort(self._due[ready], kind="stable")][:AT_ONCE]
        found = []
        for link in map(int, chosen):
            self._number = self._number % NUMBERS + 1
            self._under_way[self._number] = (link, now_s)
            self._travelling[link] = True
            self._due[link] = now_s + self._period_s[link]
            found.append(Departure(self._number, link, int(self.packets[link])))
        return found

    def arrived(
        self, number: int, sent_s: float, first_s: float, last_s: float
    ) -> tuple[int, float, float] | None:
        """(link, service rate in bit/s, delay in s beyond the least), after this train. None while there are too few
        to go by, for one in doubt, and for one that was given up."""
        if number not in self._under_way:
            return None
        link, departed_s = self._under_way[number]
        self._arrive(number, link)
        took, delay = max(last_s - first_s, 1e-6), first_s - sent_s
        self._last[link].append(took)
        best = min(self._last[link])
        self._baseline[link] = min(self._baseline[link], delay)
        self._seen[link] += 1
        if self._seen[link] < CALIBRATION or took > DOUBT * best + DOUBT_S:
            self._due[link] = departed_s + (last_s - sent_s) + SOON_S
            return None
        rate = (int(self.packets[link]) - 1) * self.packet_bytes * 8 / best
        beyond = float(delay - self._baseline[link])
        self.queue_bytes[link] = beyond * rate / 8
        return link, rate, beyond

    def forget(self) -> None:
        """Trains under way will not be heard of."""
        self._under_way.clear()
        self._travelling[:] = False

    def _arrive(self, number: int, link: int) -> None:
        del self._under_way[number]
        self._travelling[link] = False
