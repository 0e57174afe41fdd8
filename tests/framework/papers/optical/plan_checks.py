"""Checks of lightpath plans by arrays, fast enough for 1,024 nodes; test_plan.py holds them against
`oracle`."""

from __future__ import annotations

import numpy as np

from railweave.framework.errors import RouteError
from railweave.framework.model.arrays import Float
from railweave.framework.papers.optical.closed_forms import ring_wavelengths
from railweave.framework.papers.optical.lightpath_plan import LightpathPlan


def wavelengths_used(plan: LightpathPlan) -> int:
    return len(np.unique(plan.wavelength))


def line_wavelengths(nodes: int) -> int:
    """Wavelengths per direction for everyone to send to everyone on a line, along it: Lemma 1."""
    return nodes * nodes // 4


def stage_wavelengths(nodes: int, arity: int, *, published: bool = True) -> tuple[int, ...]:
    """Wavelengths that each stage of an m-ary tree needs, in whole numbers, groups of ceil(size / m).

    Stage 1: one ring of m per position in a group. Later: one line of m per position in a subgroup, times the
    items that each node holds by then. Source: the proof of Theorem 1. Exact where N is a power of m; real
    uneven groups may need less.
    """
    needs: list[int] = []
    size, held = nodes, 1
    while size > 1:
        fan = min(arity, size)
        group = -(-size // fan)
        each = ring_wavelengths(fan, published=published) if not needs else line_wavelengths(fan)
        needs.append(group * each * held)
        size, held = group, held * fan
    return tuple(needs)


def check_wavelengths(plan: LightpathPlan) -> None:
    """Nothing, if no two lightpaths use one wavelength of one directed link in one step.

    Raises RouteError naming the step, the wavelength and both lightpaths, or a wavelength that is not there.
    """
    outside = np.flatnonzero((plan.wavelength < 0) | (plan.wavelength >= plan.wavelengths))
    if outside.size:
        row = int(outside[0])
        raise RouteError(
            f"{plan.algorithm}: {_path_name(plan, row)} uses wavelength {plan.wavelength[row]} of "
            f"{plan.wavelengths}."
        )
    _, rows = np.unique(plan.lightpath_keys(), return_index=True)
    n = plan.nodes
    start = np.where(plan.up[rows], plan.src[rows], -plan.src[rows] % n).astype(np.int64)
    end = start + plan.hops[rows]
    medium = (plan.step[rows].astype(np.int64) * 2 + plan.up[rows]) * plan.wavelengths + plan.wavelength[rows]
    order = np.lexsort((start, medium))
    rows, start, end, medium = rows[order], start[order], end[order], medium[order]
    # arcs of one medium, ordered by start: each must end before the next begins, the last before the first
    # begins again
    first = np.searchsorted(medium, medium, side="left")
    last = np.searchsorted(medium, medium, side="right") - 1
    place = np.arange(len(rows))
    follower = np.where(place == last, first, place + 1)
    limit = start[follower] + np.where(place == last, n, 0)
    clash = np.flatnonzero(end > limit)
    if clash.size:
        a, b = int(rows[clash[0]]), int(rows[follower[clash[0]]])
        raise RouteError(
            f"{plan.algorithm}: in step {plan.step[a]} {_path_name(plan, a)} and {_path_name(plan, b)} share "
            f"a link on wavelength {plan.wavelength[a]}."
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
            f"{plan.algorithm}: node {plan.dst[row]} gets item {plan.item[row]} although it has it or gets "
            "it again."
        )
    arrived[plan.dst, plan.item] = plan.step
    early = np.flatnonzero(arrived[plan.src, plan.item] >= plan.step)
    if early.size:
        row = int(early[0])
        raise RouteError(
            f"{plan.algorithm}: node {plan.src[row]} sends item {plan.item[row]} in step {plan.step[row]} "
            "before it has it."
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
