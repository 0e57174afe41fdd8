"""Which links get timed trains when, and what the arrival times of trains say about links. Pure of
clocks."""

import numpy as np

from railweave.framework.health.rate_filter import RateFilter
from railweave.framework.lab.switching.controller_link import Train
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float

TRAIN_S = 0.06
"""Seconds for which a train keeps a healthy link busy: ten times the jitter of a few milliseconds."""

SHARE = 0.01
"""Part of the time in which trains are under way on a healthy fabric: what measuring may cost."""

AT_ONCE = 128
"""Most trains that go together: a synchronous collective waits once for all of them, and more would keep the
controller and the switches busy for longer than a train takes."""

PACKETS, MOST = 6, 16
"""Packets of a train, and the most on a fast link."""

SMALLEST_BYTES, LARGEST_BYTES = 512, 9000
"""Bytes of a train's packets: shorter ones would overtake data, longer ones than the largest do not fit a
link of the lab."""

JITTER_S, DELAY_S = 0.005, 0.03
"""Standard deviation, in seconds, of the arrival of a packet at the controller, and the mean delay of what
comes by way of a busy one, which serves switches in turn."""

SOON_S = 0.2
"""Seconds after which another train follows one that leaves the rate in doubt."""

LOST_S = 10.0
"""Seconds after which a train has passed or is lost."""

NUMBERS = 65535
"""Numbers of trains, 1 to this, as they fit into 16 bits of a header; then they begin anew."""


class TrainTiming:
    """Sends trains over many links at the same time, in turns, and evaluates the latest trains of each.

    A train's packets queue one behind the other, so between the arrivals of the first and the last packet the
    link served the bytes in between: their quotient is its service rate, whatever constant delay the emulator
    adds to both. Jitter adds or subtracts milliseconds, so several trains must agree. The delay of the first
    packet above the minimum of its link is its waiting time. `turn_s`: how long until every link had a train.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric, n = fabric, fabric.n_links
        fill_bytes = TRAIN_S * fabric.capacity_bps / 8
        self.size_bytes = np.clip(fill_bytes / PACKETS, SMALLEST_BYTES, LARGEST_BYTES).astype(int)
        self.packets = np.clip(np.round(fill_bytes / self.size_bytes), PACKETS, MOST).astype(int)
        self._timed_bits = (self.packets - 1) * self.size_bytes * 8
        """From the first packet of a train to the last, which is the time between their arrivals."""
        busy_s = self.packets * self.size_bytes * 8 / fabric.capacity_bps
        longest_s, group = float(busy_s.max(initial=TRAIN_S)), np.arange(n) // AT_ONCE
        every_s = longest_s / SHARE
        self.turn_s = every_s * (int(group.max(initial=0)) + 1)
        self._due = group * every_s + (longest_s - busy_s) / 2  # short trains in the middle of long ones
        self._again = np.full(n, np.inf)  # when links in doubt get another one
        self._rates = RateFilter(fabric.capacity_bps, fabric.link_element, DELAY_S)
        self._under_way: dict[int, tuple[int, float]] = {}
        self._number = 0
        self._least_delay_s = np.full(n, np.inf)
        self.queue_bytes: Float = np.zeros(n)

    def departures(self, now_s: float, up: Bool) -> list[Train]:
        """The trains to send now, all of which the caller sends. Links that are down get none."""
        self._under_way = {
            number: train for number, train in self._under_way.items() if now_s - train[1] <= LOST_S
        }
        free = (np.minimum(self._due, self._again) <= now_s) & up
        free[[link for link, _ in self._under_way.values()]] = False
        trains = []
        for link in np.flatnonzero(free).tolist():
            self._number = self._number % NUMBERS + 1
            self._under_way[self._number] = (link, now_s)
            train = int(self.packets[link]), int(self.size_bytes[link]), self._number
            trains.append(Train.over(self._fabric, link, *train))
        self._again[free] = np.inf
        over = np.maximum(0.0, np.floor((now_s - self._due[free]) / self.turn_s) + 1)
        self._due[free] += over * self.turn_s  # in step with the others of its group
        return trains

    def arrived(
        self, number: int, sent_s: float, first_s: float, last_s: float
    ) -> tuple[int, float, float] | None:
        """(link, service rate in bit/s, delay in s above the minimum) after this train. None while the
        rate is in doubt, and for one that was given up."""
        if number not in self._under_way:
            return None
        link, departed_s = self._under_way.pop(number)
        delay_s = first_s - sent_s
        self._least_delay_s[link] = min(self._least_delay_s[link], delay_s)
        at, took, none = np.array([link]), np.array([last_s - first_s]), np.zeros(1)
        jitter_s2 = np.array([2 * JITTER_S**2])
        self._rates.add(at, none + first_s, none + last_s, self._timed_bits[at], took, none, jitter_s2, none)
        if self._rates.doubtful[link]:
            soon_s = departed_s + (last_s - sent_s) + SOON_S
            self._again[link] = np.ceil(soon_s / SOON_S) * SOON_S  # in step with others in doubt
            return None
        rate = float(self._rates.rate_bps[link])
        waited_s = float(delay_s - self._least_delay_s[link])
        self.queue_bytes[link] = waited_s * rate / 8
        return link, rate, waited_s

    def forget(self) -> None:
        """No report about trains under way will come."""
        self._under_way.clear()
