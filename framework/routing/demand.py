"""Whether changed routes carry the traffic sooner: a score says how good a link is, not whether leaving it
pays."""

from collections.abc import Sequence
from typing import Self

import numpy as np

from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, Schedule
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.routing.batches import join, replaced, take
from railweave.framework.routing.damping import broken_pairs, mean_hops

MOST_PHASES = 16
"""Schedules of more phases than this count as one."""


class PairDemand:
    """What pairs of GPUs send each other: `amount[k, i]` bytes from `src[i]` to `dst[i]` in phase k. Phases
    follow each other, so their times add up; within one, everything is under way at once."""

    def __init__(self, src: Int64, dst: Int64, amount: Float) -> None:
        self.src, self.dst, self.amount = src, dst, amount

    @classmethod
    def of(cls, *schedules: Schedule) -> Self:
        """Of one schedule between GPUs; or of several that are carried out at once, which have one phase."""
        if len(schedules) > 1:
            columns = zip(*(schedule.pairs() for schedule in schedules), strict=True)
            src, dst, size = (np.concatenate(column) for column in columns)
            pairs, pair = np.unique(src * schedules[0].n_ranks + dst, return_inverse=True)
            total = np.bincount(pair, size, len(pairs)).astype(np.float64)
            return cls(*np.divmod(pairs, schedules[0].n_ranks), total[None])
        (schedule,) = schedules
        sent = np.flatnonzero(schedule.is_transfer)
        numbers = schedule.src[sent].astype(np.int64) * schedule.n_ranks + schedule.dst[sent]
        pairs, pair = np.unique(numbers, return_inverse=True)
        phases, phase = np.unique(schedule.phase[sent], return_inverse=True)
        if len(phases) > MOST_PHASES:
            phases, phase = phases[:1], np.zeros_like(phase)
        amount = schedule.size[sent] * schedule.repeat[sent]
        cells = np.bincount(phase * len(pairs) + pair, amount, len(phases) * len(pairs))
        src, dst = np.divmod(pairs, schedule.n_ranks)
        return cls(src, dst, cells.reshape(len(phases), len(pairs)).astype(np.float64))


class DemandGate:
    """Lets pairs that carry a demand leave unbroken paths only if that pays.

    What counts is the largest load / (capacity x score) of any link, summed over the phases: the time that
    the demand needs at the measured rates. `blocks`: the paths in use, whose pairs stay the same.
    """

    def __init__(self, fabric: Fabric, demand: PairDemand, blocks: Sequence[PathBatch]) -> None:
        self._fabric = fabric
        numbers = demand.src * fabric.n_gpus + demand.dst
        self._with_demand: list[Int64] = []
        column = [np.empty(0, np.int64)]
        for block in blocks:
            own = block.src * fabric.n_gpus + block.dst
            place = np.minimum(np.searchsorted(numbers, own), max(0, len(numbers) - 1))
            known = np.flatnonzero(numbers[place] == own) if len(numbers) else np.empty(0, np.int64)
            self._with_demand.append(known)
            column.append(place[known])
        self._amount = demand.amount[:, np.concatenate(column)]

    def refused(
        self,
        old: Sequence[PathBatch],
        new: Sequence[PathBatch],
        moved: Sequence[Bool],
        health: HealthSnapshot,
        margin: float,
    ) -> list[Bool]:
        """Of the pairs that `moved`, per block, those that had better stay on their `old` paths.

        Shorter paths are taken if that makes nothing slower, other ones only if the time falls by `margin`;
        each kind together, as one pair alone rarely changes the largest load.
        """
        before = join(*map(take, old, self._with_demand))
        after = join(*map(take, new, self._with_demand))
        leaves = np.concatenate([m[at] for m, at in zip(moved, self._with_demand, strict=True)])
        leaves &= ~broken_pairs(before, health)
        stays = np.zeros(len(leaves), bool)
        if leaves.any():
            shorter = mean_hops(after) < mean_hops(before) - EQUAL_WITHIN
            stays = leaves.copy()
            time = self._time(before, after, stays, health)
            for group, factor in ((leaves & shorter, 1.0), (leaves & ~shorter, margin)):
                without = self._time(before, after, stays & ~group, health) if group.any() else np.inf
                if without * factor <= time * (1 + EQUAL_WITHIN):
                    stays, time = stays & ~group, without
        refused, first = [], 0
        for block, at in zip(moved, self._with_demand, strict=True):
            refused.append(np.zeros(len(block), bool))
            refused[-1][at] = stays[first : first + len(at)]
            first += len(at)
        return refused

    def _time(self, before: PathBatch, after: PathBatch, stays: Bool, health: HealthSnapshot) -> float:
        """The time the demand needs, in bytes over bit/s, if the pairs that stay keep their old paths."""
        kept = np.flatnonzero(stays)
        batch = replaced(after, kept, take(before, kept))
        rate = self._fabric.capacity_bps * np.maximum(health.link_score, np.finfo(np.float64).tiny)
        path_pair, hop_path = batch.path_pair, batch.hop_path
        total = 0.0
        for amount in self._amount:
            share = (amount[path_pair] * batch.weight)[hop_path]
            total += float((np.bincount(batch.links, share, len(rate)) / rate).max(initial=0.0))
        return total
