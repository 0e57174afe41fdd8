"""When what jobs send ends on given paths: a score says how good a link is, not whether leaving it pays."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from railweave.framework.health.loss import passes_at_loss, speed_at_loss
from railweave.framework.health.outlook import Outage
from railweave.framework.health.waits import Bursts, Sending, lost_share
from railweave.framework.model import Fabric, HealthSnapshot, PacketFormat, PathBatch, Schedule
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.model.senders import Senders
from railweave.framework.routing.batches import join, take
from railweave.framework.routing.demand import JobDemand
from railweave.framework.solver.chains import bound_seconds
from railweave.framework.solver.prediction import iteration_seconds, loads
from railweave.framework.solver.quotient import NetworkState

SAME_TIME = 2e-3
"""Predicted times that differ by less, relative to them, are equal: ends of flows are batched."""
Prospects = Sequence[tuple[float, HealthSnapshot]]
"""Snapshots to expect, each with its share of the time (health/outlook.py)."""
Seconds = Callable[[Sequence[Schedule], Fabric, NetworkState, PacketFormat], Float]
"""(jobs,): how long an iteration of each job takes, declared."""


class Forecast:
    """When a demand ends on paths that its pairs may take, at the rates and latencies of the links and their
    measured scores.

    An iteration is simulated as the engine `fluid` does it: flows share links whose capacity is rate x score.
    Routers asked about several snapshots often give one answer, so what was computed of the same prospects
    is kept. `blocks`: the pairs in use, in the blocks in which paths are given.
    """

    def __init__(self, fabric: Fabric, demand: JobDemand, blocks: Sequence[PathBatch]) -> None:
        self._fabric, self._demand = fabric, demand
        numbers = demand.pairs(fabric.n_gpus)
        self.with_demand: list[Int64] = []
        """Of each block, the positions of the pairs that send something."""
        sending, places, first = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        for block in blocks:
            of_block = block.src * fabric.n_gpus + block.dst
            positions = np.flatnonzero(np.isin(of_block, numbers))
            self.with_demand.append(positions)
            sending.append(of_block[positions])
            places.append(first + positions)
            first += len(of_block)
        place = np.concatenate(places)[np.argsort(np.concatenate(sending), kind="stable")]
        self._places = None if np.array_equal(place, np.arange(first)) else place
        """Of all blocks, the pairs that send something, by (src, dst); None if these are all, as they are."""
        self._known: tuple[Prospects, dict[tuple[Seconds, bytes], Float]] = ((), {})

    def seconds(self, blocks: Sequence[PathBatch], prospects: Prospects) -> Float:
        """(jobs,): of an iteration of each job on these paths, in declared seconds; inf where it never ends.
        Over several prospects the mean, weighted by the iterations that fit into each one's share of time."""
        return self._mean_once(iteration_seconds, blocks, prospects)

    def busy_s(self, blocks: Sequence[PathBatch]) -> Float:
        """(n_links,): for how long every link is busy with what an iteration of all jobs sends over it on
        these paths, at its full rate."""
        paths, packet = self._paths(blocks), self._demand.packet
        numbers, bits = paths.src * self._fabric.n_gpus + paths.dst, np.zeros(len(paths.src))
        for schedule in self._demand.schedules:
            src, dst, _ = schedule.pairs()
            bits[np.searchsorted(numbers, src * self._fabric.n_gpus + dst)] += schedule.wire_bits(packet)
        return loads(paths, bits, self._fabric.n_links) / self._fabric.capacity_bps

    def pays_to_wait(
        self,
        outage: Outage,
        slower: float,
        waiting: Sequence[PathBatch],
        leaving: Sequence[PathBatch],
        moved: Sequence[Bool],
    ) -> bool:
        """Whether pairs had better wait for links that are expected back, on the paths `waiting`, than leave
        them. `leaving`: then the pairs `moved` (P,) of each block have other paths, on which iterations are
        `slower` by this factor. False where it is not stated how senders behave.

        Who waits loses the time of the outage. Who leaves gets on meanwhile, but what is under way when the
        links are back takes its time on the other paths, and all that depends on it waits. A pair without an
        answer for too long fails.
        """
        senders = self._demand.senders(self._paths(waiting))
        if senders is None or outage.most_s >= senders.dead_after_s.min(initial=np.inf):
            return False
        return outage.lasts_s < slower * self._under_way_s(leaving, moved)

    def _under_way_s(self, blocks: Sequence[PathBatch], moved: Sequence[Bool]) -> float:
        """For how long what the pairs `moved` (P,) of each block may have under way at once keeps these paths
        busy, in declared seconds."""
        paths, moves = self._paths(blocks), self._of_sending(np.concatenate(moved))
        senders, longest_s = self._demand.senders(paths), 0.0
        assert senders is not None
        for phase in self._phases(paths):
            bits = np.zeros(len(paths.src))
            bits[phase.pairs] = np.minimum(phase.bits, senders.window_bits[phase.pairs])
            on_links = loads(paths, np.where(moves, bits, 0.0), self._fabric.n_links)
            longest_s = max(longest_s, float((on_links / self._fabric.capacity_bps).max()))
        return longest_s

    def least(self, blocks: Sequence[PathBatch], prospects: Prospects) -> Float:
        """(jobs,): a bound that no iteration is faster than, at a small part of the cost."""
        return self._mean_once(self._bound, blocks, prospects)

    def _bound(
        self, schedules: Sequence[Schedule], fabric: Fabric, state: NetworkState, packet: PacketFormat
    ) -> Float:
        return bound_seconds(schedules, fabric, state, packet, self._demand.chains)

    def _mean_once(self, seconds: Seconds, blocks: Sequence[PathBatch], prospects: Prospects) -> Float:
        if self._known[0] is not prospects:
            self._known = prospects, {}
        means, paths = self._known[1], self._paths(blocks)
        content = blake2b(digest_size=16)
        for array in (paths.pair_start, paths.hop_start, paths.links, paths.weight):
            content.update(array.tobytes())
        if (key := (seconds, content.digest())) not in means:
            means[key] = self._mean(seconds, paths, prospects)
        return means[key]

    def _paths(self, blocks: Sequence[PathBatch]) -> PathBatch:
        """Those of the pairs that send something, by (src, dst)."""
        paths = join(*blocks)
        return paths if self._places is None else take(paths, self._places)

    def _of_sending(self, pairs: Bool) -> Bool:
        """What is said of all pairs, of those that send something, as `_paths` has them."""
        return pairs if self._places is None else pairs[self._places]

    def _mean(self, seconds: Seconds, paths: PathBatch, prospects: Prospects) -> Float:
        demand, per_second = self._demand, np.zeros(len(self._demand.schedules))
        for share, health in prospects:
            states = self._states(paths, health, waiting=seconds != self._bound)
            taken_s = (
                chance * seconds(demand.schedules, self._fabric, state, demand.packet)
                for chance, state in states
                if chance > 0
            )
            with np.errstate(divide="ignore"):
                per_second += share / sum(taken_s)
        with np.errstate(divide="ignore"):
            return np.asarray(1 / per_second)

    def _states(
        self, paths: PathBatch, health: HealthSnapshot, *, waiting: bool
    ) -> list[tuple[float, NetworkState]]:
        """What links pass, and, where messages are `waiting`, for how long they do for what links lose, and
        where packets are whole; each with its share of the iterations. A wait that comes seldom is long, and
        delays what its mean would not."""
        capacity_bps = np.where(health.down, 0.0, self._fabric.capacity_bps * health.link_score)
        lossy = bool(health.loss.any())
        senders = self._demand.senders(paths) if waiting or lossy else None
        phases, later_s = list[Bursts](), np.empty(0)
        if waiting and senders is not None:
            phases = self._phases(paths)
            later_s = self._later_s(paths, capacity_bps, senders, phases)
        if not lossy:
            return [(1.0, NetworkState(paths, capacity_bps, pair_s=later_s))]
        kept = np.where(health.loss < 1, speed_at_loss(health.loss), 1.0)
        at_rate_bps = np.minimum(capacity_bps / kept, self._fabric.capacity_bps)
        packet_bits = 8.0 * self._demand.packet.full_packet_bytes
        passes_bps, wait_s = passes_at_loss(at_rate_bps, health.loss, packet_bits)
        if senders is None:
            return [(1.0, NetworkState(paths, passes_bps, wait_s=wait_s))]
        arriving = _arriving(paths, health.loss)
        if not waiting:
            return [(1.0, NetworkState(arriving, passes_bps))]
        sending = Sending(self._fabric, paths, at_rate_bps, senders, packet_bits)
        lost = sending.expected_waits(health.loss, phases)
        return [
            (1 - lost.chance, NetworkState(arriving, passes_bps, pair_s=later_s + lost.again_s)),
            (lost.chance, NetworkState(arriving, passes_bps, pair_s=later_s + lost.if_asked_s())),
        ]

    def _phases(self, paths: PathBatch) -> list[Bursts]:
        """The phases of the demand, their pairs by position in `paths`."""
        n = self._fabric.n_gpus
        numbers = paths.src * n + paths.dst
        return [
            phase._replace(pairs=np.searchsorted(numbers, phase.pairs)) for phase in self._demand.phases(n)
        ]

    def _later_s(
        self, paths: PathBatch, capacity_bps: Float, senders: Senders, phases: Sequence[Bursts]
    ) -> Float:
        """(P,): by how much a message of each pair is later on its latest path than rates say: switches
        receive a packet, or all of a shorter message, before they send it on, and paths get whole packets,
        however small their shares."""
        packet, largest_bits = self._demand.packet, np.zeros(len(paths.src))
        for places, in_a_row, bits in phases:
            largest_bits[places] = np.maximum(largest_bits[places], bits / in_a_row)
        bit_s = np.divide(1.0, capacity_bps, out=np.zeros_like(capacity_bps), where=capacity_bps > 0)
        of_hop, slowest_s, latest_s = bit_s[paths.links], np.zeros(len(paths.weight)), 0 * largest_bits
        np.maximum.at(slowest_s, paths.hop_path, of_hop)
        others_s = np.bincount(paths.hop_path, of_hop, len(paths.weight)) - slowest_s
        packet_bits = 8.0 * packet.full_packet_bytes
        n_packets = np.ceil((largest_bits - 8 * packet.RETH) / packet_bits)
        share = paths.weight * n_packets[paths.path_pair]
        whole_s = (np.ceil(np.round(share, 9)) - share) * packet_bits * slowest_s
        stored_bits = np.minimum(senders.stored_bits, largest_bits)[paths.path_pair]
        np.maximum.at(latest_s, paths.path_pair, whole_s + stored_bits * others_s)
        return latest_s


def _arriving(paths: PathBatch, loss: Float) -> PathBatch:
    """With the share of each path in what arrives as its weight: what one loses is sent again over all."""
    arrives = paths.weight * (1 - lost_share(paths, loss[paths.links]))
    of_pair = np.bincount(paths.path_pair, arrives, len(paths.src))
    return replace(paths, weight=arrives / of_pair[paths.path_pair])


def gain(before_s: Float, after_s: Float) -> float:
    """How many times sooner the jobs (J,) end: the geometric mean over those whose time differs, 1 if none
    does.

    Jobs that a change leaves alone do not dilute what others gain.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(before_s == after_s, 1.0, before_s / after_s)
        differs = np.abs(np.log(ratio)) > SAME_TIME
        return float(np.exp(np.log(ratio[differs]).mean())) if differs.any() else 1.0
