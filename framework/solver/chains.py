"""A bound of an iteration: what waits for what, and the link that is busy longest meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.model.arrays import ArrayNoun, Bool, Float, Int32, Int64, distinct, spread
from railweave.framework.model.expansion import expanded
from railweave.framework.model.routes import starts
from railweave.framework.solver.network import Network
from railweave.framework.solver.prediction import least_seconds
from railweave.framework.solver.quotient import NetworkState, network_of

MOST_WAITS = 100_000
"""Steps of a schedule and what they wait for, at most: some 5 ms an arrangement. Larger schedules mostly have
a symmetry with which simulating them takes no longer."""


@dataclass(frozen=True, eq=False, slots=True)
class Chains(ArrayNoun):
    """What waits for what in a schedule, each repetition by itself: N steps in waves. A step waits for
    steps of earlier waves alone.

    `is_transfer`, `src`, `dst`, `size`, `seconds` (N,) as of the entries of a schedule. `wave` (W+1,): where
    each begins. `before_start` (N+1,) into `before`: the steps that each waits for.
    """

    is_transfer: Bool
    src: Int32
    dst: Int32
    size: Int64
    seconds: Float
    wave: Int64
    before_start: Int64
    before: Int64

    @classmethod
    def of(cls, schedule: Schedule) -> "Chains | None":
        """None where following them would take too long."""
        repeat = schedule.repeat.astype(np.int64)
        of_entry = np.repeat(np.arange(schedule.n_entries), np.diff(schedule.after_start))
        waits_for = np.bincount(of_entry, repeat[schedule.after], schedule.n_entries)
        if repeat @ (waits_for + np.diff(schedule.chained_start) + 1) > MOST_WAITS:
            return None
        steps = expanded(schedule, np.ones(schedule.n_entries, bool))
        n, before, count = steps.n_entries, steps.after, np.diff(steps.after_start)
        later = np.repeat(np.arange(n), count)
        follows, start = np.argsort(before, kind="stable"), starts(np.bincount(before, minlength=n))
        waits, ready, waves = count.copy(), np.flatnonzero(count == 0), list[Int64]()
        while ready.size:
            waves.append(ready)
            after = later[follows[spread(start[ready], np.diff(start)[ready])]]
            np.subtract.at(waits, after, 1)
            ready = distinct(after[waits[after] == 0])
        order, place = np.concatenate([np.empty(0, np.int64), *waves]), np.empty(n, np.int64)
        place[order] = np.arange(n)
        return cls(
            steps.is_transfer[order],
            steps.src[order],
            steps.dst[order],
            steps.size[order],
            steps.seconds[order],
            starts(np.array([len(wave) for wave in waves], np.int64)),
            starts(count[order]),
            place[before[spread(steps.after_start[order], count[order])]],
        )

    def times(self, wait_s: Float, takes_s: Float) -> tuple[Float, Float]:
        """(N,) twice, if nothing shared links: when each step begins at the earliest, and for how long the
        iteration goes on after its end. (N,): how long each waits before it begins, and takes then."""
        begins_s, goes_on_s = wait_s.copy(), np.zeros(len(wait_s))
        ends_s, in_all_s, count = wait_s + takes_s, wait_s + takes_s, np.diff(self.before_start)
        waves = [
            (slice(first, last), self.before[self.before_start[first] : self.before_start[last]])
            for first, last in zip(self.wave[1:-1].tolist(), self.wave[2:].tolist(), strict=True)
        ]
        for steps, before in waves:
            where = self.before_start[steps] - self.before_start[steps.start]
            begins_s[steps] += np.maximum.reduceat(ends_s[before], where)
            ends_s[steps] = begins_s[steps] + takes_s[steps]
        for steps, before in reversed(waves):
            np.maximum.at(goes_on_s, before, np.repeat(in_all_s[steps] + goes_on_s[steps], count[steps]))
        return begins_s, goes_on_s


def bound_seconds(
    schedules: Sequence[Schedule],
    fabric: Fabric,
    state: NetworkState,
    packet: PacketFormat,
    chains: Sequence[Chains | None],
) -> Float:
    """(jobs,): declared seconds that no iteration of each job is faster than, as `iteration_seconds` has it;
    inf where a transfer has no path that is up. `chains`: of each schedule.

    The longest chain of steps, as if each had its links to itself; and by link, what it needs for all that
    crosses it, between the earliest moment at which any of that begins and what has to follow the last: the
    bound by one machine of job shops (Carlier, The one-machine sequencing problem, 1982).
    """
    least_s = least_seconds(schedules, fabric, state, packet)
    network, numbers = None, state.paths.src * fabric.n_gpus + state.paths.dst
    for i, steps in enumerate(chains):
        if least_s[i] < inf and steps is not None and len(steps.size):
            network = network or network_of(fabric, state)
            sends = np.flatnonzero(steps.is_transfer)
            number = steps.src[sends].astype(np.int64) * fabric.n_gpus + steps.dst[sends]
            pair = np.searchsorted(numbers, number)
            least_s[i] = max(least_s[i], _bound_s(steps, network, sends, pair, packet))
    return least_s


def _bound_s(steps: Chains, network: Network, sends: Int64, pair: Int64, packet: PacketFormat) -> float:
    """As `bound_seconds`, of one job, whose steps `sends` use these pairs."""
    n_pairs, n_links = network.n_pairs, network.n_links
    of_hop = np.repeat(np.arange(n_pairs), network.hops)
    link_s, bit_s = np.zeros(n_links), np.zeros(n_pairs)
    np.divide(1.0, network.capacity_bps, out=link_s, where=network.capacity_bps > 0)
    np.maximum.at(bit_s, of_hop, network.use * link_s[network.link])
    wait_s, takes_s = np.zeros(len(steps.size)), steps.seconds.copy()
    bits = 8.0 * packet.wire_bytes_of(steps.size[sends])
    wait_s[sends], takes_s[sends] = network.delay_s[pair], bits * bit_s[pair]
    begins_s, goes_on_s = steps.times(wait_s, takes_s)
    least_s = np.full((2, n_pairs), inf)
    around_s = np.full((2, n_links), inf)
    for of_pair, of_link, times_s in zip(least_s, around_s, (begins_s, goes_on_s), strict=True):
        np.minimum.at(of_pair, pair, times_s[sends])
        np.minimum.at(of_link, network.link, of_pair[of_hop])
    sent_bits = np.bincount(pair, bits, n_pairs)
    busy_s = np.bincount(network.link, network.use * sent_bits[of_hop], n_links) * link_s
    by_link = np.where(busy_s > 0, around_s.sum(axis=0) + busy_s, 0.0)
    return float(max((begins_s + takes_s + goes_on_s).max(), by_link.max(initial=0.0)))
