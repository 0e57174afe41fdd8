"""An all-gather on an optical ring as lightpaths: who sends which item when, in which direction, on which
wavelength."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from railweave.framework.model.arrays import ArrayNoun, Bool, Int32, Int64, spread
from railweave.framework.model.routes import starts


@dataclass(frozen=True, eq=False)
class LightpathPlan(ArrayNoun):
    """Arrays of R rows, ordered by step; a row is one item on one lightpath.

    `step` 0..; `src`, `dst` positions on the ring; `item` the node that contributed it; `up` whether the path
    runs by ascending positions; `wavelength`; `spread`: the items of this pair change wavelength from step to
    step, so a fixed route has to use all wavelengths in equal shares. A step is a barrier. `stage_steps`:
    steps of each stage, named by `stage_names`.
    """

    algorithm: str
    nodes: int
    wavelengths: int
    stage_names: tuple[str, ...]
    stage_steps: tuple[int, ...]
    step: Int32
    src: Int32
    dst: Int32
    item: Int32
    up: Bool
    wavelength: Int32
    spread: Bool

    @classmethod
    def of_table(
        cls, algorithm: str, nodes: int, wavelengths: int, stages: Sequence[tuple[str, int]], table: Int64
    ) -> LightpathPlan:
        """From a table (7, R) of step, src, dst, item, up, wavelength, spread in any order, and (name, steps)
        of each stage."""
        names, steps = zip(*stages, strict=True)
        return cls(algorithm, nodes, wavelengths, names, steps, *table[:, np.lexsort(table[3::-1])])

    @property
    def n_steps(self) -> int:
        return sum(self.stage_steps)

    @property
    def stage(self) -> Int64:
        """(R,): the stage of each row."""
        return np.searchsorted(np.cumsum(self.stage_steps), self.step, side="right")

    @property
    def hops(self) -> Int64:
        """(R,): cables crossed."""
        return np.where(self.up, self.dst - self.src, self.src - self.dst).astype(np.int64) % self.nodes

    @property
    def step_items(self) -> Int64:
        """(steps,): the most items that one lightpath carries in each step."""
        _, first, count = np.unique(self.lightpath_keys(), return_index=True, return_counts=True)
        most = np.zeros(self.n_steps, np.int64)
        np.maximum.at(most, self.step[first], count)
        return most

    @property
    def item_times(self) -> int:
        """Length of the schedule in item-times (one item on one wavelength), without reconfiguration."""
        return int(self.step_items.sum())

    @property
    def shared_item_times(self) -> float:
        """The same as the router optree sends it, whose pairs go over all their wavelengths in equal shares
        (`spread` ones over all there are): the sum over the steps of the items on the busiest link."""
        n, w = self.nodes, self.wavelengths
        pair, first, shared = self.shares()
        place = np.searchsorted(pair, self.row_pair)
        count = np.diff(first)[place]
        row, wavelength = np.repeat(np.arange(len(place)), count), shared[spread(first[place], count)]
        hops = self.hops[row]
        nth = spread(np.zeros_like(hops), hops)
        row, wavelength = np.repeat(row, hops), np.repeat(wavelength, hops)
        cable = (self.src[row] + np.where(self.up[row], nth, -nth)) % n
        load = np.zeros((self.n_steps, 2, n, w))
        np.add.at(load, (self.step[row], self.up[row].astype(np.int64), cable, wavelength), 1 / count[row])
        return float(load.reshape(self.n_steps, -1).max(axis=1).sum()) if self.n_steps else 0.0

    @property
    def row_pair(self) -> Int64:
        """(R,): the pair of each row, src * nodes + dst."""
        return self.src.astype(np.int64) * self.nodes + self.dst

    def shares(self) -> tuple[Int64, Int64, Int64]:
        """The pairs that exchange (A,), src * nodes + dst, ascending; (A + 1,) where the wavelengths of each
        begin among the last, over which it goes in equal shares: its own, or all where one is `spread`."""
        w = self.wavelengths
        mixed = np.unique(self.row_pair[self.spread])
        assigned = np.unique(self.row_pair * w + self.wavelength)
        assigned = assigned[~np.isin(assigned // w, mixed)]
        use = np.sort(np.concatenate((assigned, (mixed[:, None] * w + np.arange(w)).ravel())))
        pair, count = np.unique(use // w, return_counts=True)
        return pair, starts(count), use % w

    def lightpath_keys(self) -> Int64:
        """(R,): equal for rows that share step, pair, direction and wavelength."""
        columns = (self.step, self.src, self.dst, self.up.astype(np.int32), self.wavelength)
        sizes = (self.n_steps, self.nodes, self.nodes, 2, self.wavelengths)
        return np.asarray(np.ravel_multi_index(columns, sizes), np.int64)
