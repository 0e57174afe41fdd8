"""An all-gather on an optical ring as lightpaths: who sends which item when, which way round, on which wavelength."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import RouteError
from railweave.framework.model.arrays import Bool, Float, Int32, Int64, equal_by_value, readonly


@dataclass(frozen=True, eq=False)
class LightpathPlan:
    """Arrays of R rows, ordered by step; a row is one item on one lightpath.

    `step` 0..; `src`, `dst` positions on the ring; `item` the node that contributed it; `up` whether the path
    goes by ascending positions; `wavelength`; `spread`: the items of this pair change wavelength from step to
    step, so that a route that may not change has to use all wavelengths in equal shares. A step is a barrier.
    `stage_steps`: steps of each stage, named by `stage_names`.
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

    def __post_init__(self) -> None:
        for name in ("step", "src", "dst", "item", "wavelength"):
            object.__setattr__(self, name, readonly(getattr(self, name), np.int32))
        for name in ("up", "spread"):
            object.__setattr__(self, name, readonly(getattr(self, name), np.bool_))
        if np.any(np.diff(self.step) < 0) or (len(self.step) and int(self.step[-1]) >= self.n_steps):
            raise RouteError(f"{self.algorithm}: lightpaths must come in the order of their steps.")

    def __eq__(self, other: object) -> bool:
        return equal_by_value(self, other)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of_table(
        cls, algorithm: str, nodes: int, wavelengths: int, stages: Sequence[tuple[str, int]], table: Int64
    ) -> LightpathPlan:
        """From a table (7, R) of step, src, dst, item, up, wavelength, spread in any order, and (name, steps) of
        each stage."""
        order = np.lexsort(table[3::-1])
        step, src, dst, item, up, wavelength, spread = table[:, order].astype(np.int32)
        return cls(
            algorithm, nodes, wavelengths, tuple(name for name, _ in stages), tuple(count for _, count in stages),
            step, src, dst, item, up.astype(bool), wavelength, spread.astype(bool),
        )  # fmt: skip

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
        ahead = np.where(self.up, self.dst - self.src, self.src - self.dst).astype(np.int64)
        return ahead % self.nodes

    @property
    def step_items(self) -> Int64:
        """(steps,): the most items that one lightpath carries in each step."""
        key = self._lightpath_keys()
        _, first, count = np.unique(key, return_index=True, return_counts=True)
        most = np.zeros(self.n_steps, np.int64)
        np.maximum.at(most, self.step[first], count)
        return most

    @property
    def item_times(self) -> int:
        """How often the time of one item on one wavelength has to be waited for: what the data takes."""
        return int(self.step_items.sum())

    @property
    def wavelengths_used(self) -> int:
        return len(np.unique(self.wavelength))

    def _lightpath_keys(self) -> Int64:
        """(R,): equal for rows that share step, pair, direction and wavelength."""
        key = self.step.astype(np.int64)
        for column, size in (
            (self.src, self.nodes),
            (self.dst, self.nodes),
            (self.up, 2),
            (self.wavelength, self.wavelengths),
        ):
            key = key * size + column
        return key


def check_wavelengths(plan: LightpathPlan) -> None:
    """Nothing, if no two lightpaths use one wavelength of one directed link in one step.

    Raises RouteError naming the step, the wavelength and both lightpaths, or a wavelength that is not there.
    """
    outside = np.flatnonzero((plan.wavelength < 0) | (plan.wavelength >= plan.wavelengths))
    if outside.size:
        row = int(outside[0])
        raise RouteError(
            f"{plan.algorithm}: {_path_name(plan, row)} uses wavelength {plan.wavelength[row]} of {plan.wavelengths}."
        )
    _, rows = np.unique(plan._lightpath_keys(), return_index=True)
    n = plan.nodes
    start = np.where(plan.up[rows], plan.src[rows], -plan.src[rows] % n).astype(np.int64)
    end = start + plan.hops[rows]
    medium = (plan.step[rows].astype(np.int64) * 2 + plan.up[rows]) * plan.wavelengths + plan.wavelength[rows]
    order = np.lexsort((start, medium))
    rows, start, end, medium = rows[order], start[order], end[order], medium[order]
    # Arcs of one medium in the order of their starts: each must end before the next begins, the last before the
    # first comes round again.
    first = np.searchsorted(medium, medium, side="left")
    last = np.searchsorted(medium, medium, side="right") - 1
    place = np.arange(len(rows))
    follower = np.where(place == last, first, place + 1)
    limit = start[follower] + np.where(place == last, n, 0)
    clash = np.flatnonzero(end > limit)
    if clash.size:
        a, b = int(rows[clash[0]]), int(rows[follower[clash[0]]])
        raise RouteError(
            f"{plan.algorithm}: in step {plan.step[a]} {_path_name(plan, a)} and {_path_name(plan, b)} share a "
            f"link on wavelength {plan.wavelength[a]}."
        )


def check_all_gather(plan: LightpathPlan) -> None:
    """Nothing, if every node ends with every item, gets each once, and sends only what it has by then.

    Raises RouteError naming node, item and step.
    """
    n = plan.nodes
    arrived = np.full((n, n), np.iinfo(np.int32).max, np.int32)
    np.fill_diagonal(arrived, -1)
    target = plan.dst.astype(np.int64) * n + plan.item
    _, first, count = np.unique(target, return_index=True, return_counts=True)
    twice = np.flatnonzero((count > 1) | (plan.dst[first] == plan.item[first]))
    if twice.size:
        row = int(first[twice[0]])
        raise RouteError(
            f"{plan.algorithm}: node {plan.dst[row]} gets item {plan.item[row]} although it has it or gets it again."
        )
    arrived[plan.dst, plan.item] = plan.step
    early = np.flatnonzero(arrived[plan.src, plan.item] >= plan.step)
    if early.size:
        row = int(early[0])
        raise RouteError(
            f"{plan.algorithm}: node {plan.src[row]} sends item {plan.item[row]} in step {plan.step[row]} before it has it."
        )
    missing = np.argwhere(arrived == np.iinfo(np.int32).max)
    if missing.size:
        raise RouteError(
            f"{plan.algorithm}: node {missing[0, 0]} never gets item {missing[0, 1]} ({len(missing)} such)."
        )


def link_items(plan: LightpathPlan) -> Float:
    """(2, nodes, wavelengths): items that cross each directed link in all.

    [0, i, v]: from i up to i + 1 on wavelength v; [1, i, v]: from i down to i - 1. Rows to be spread count in
    equal shares on all wavelengths.
    """
    n, w = plan.nodes, plan.wavelengths
    items = np.zeros((2, n, w))
    for way, chosen in ((0, plan.up), (1, ~plan.up)):
        for rows, per_wavelength in ((chosen & ~plan.spread, False), (chosen & plan.spread, True)):
            start = plan.src[rows].astype(np.int64) if way == 0 else -plan.src[rows].astype(np.int64) % n
            end = start + plan.hops[rows]
            column = (
                np.zeros(len(start), np.int64) if per_wavelength else plan.wavelength[rows].astype(np.int64)
            )
            rise = np.zeros((2 * n + 1, w))
            np.add.at(rise, (start, column), 1.0)
            np.add.at(rise, (end, column), -1.0)
            over = np.cumsum(rise, axis=0)[: 2 * n].reshape(2, n, w).sum(axis=0)
            if per_wavelength:
                over = np.repeat(over[:, :1] / w, w, axis=1)
            items[way] += over if way == 0 else over[-np.arange(n) % n]
    return items


def _path_name(plan: LightpathPlan, row: int) -> str:
    return f"lightpath {plan.src[row]} -> {plan.dst[row]} ({'up' if plan.up[row] else 'down'})"
