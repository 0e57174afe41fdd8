"""From colours to steps and wavelengths: as few steps as w wavelengths allow, a pair on one wavelength if
possible."""

import numpy as np

from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.optical.arcs import colour_intervals

Slots = tuple[Int64, Int64, Bool]
"""(step, wavelength, spread) of each row; rows are the items of the pairs in turn."""


def regular_slots(lane: Int64, colour: Int64, count: Int64, w: int) -> Slots:
    """Slots where all pairs of a lane (a group and direction) have as many items, and a colour each.

    With C colours of I items, full rounds of w colours give each colour one wavelength for I steps. The r
    colours left over take turns: their items fill the wavelengths of the steps that follow. In all ceil(C I /
    w) steps.
    """
    colours = np.zeros(int(lane.max(initial=-1)) + 1, np.int64)
    np.maximum.at(colours, lane, colour + 1)
    row, nth = _items(count)
    rounds, rest = (colours[lane] // w)[row], (colours[lane] % w)[row]
    items, own = count[row], colour[row]
    turn = nth * rest + (own - rounds * w)
    regular = own < rounds * w
    step = np.where(regular, (own // w) * items + nth, rounds * items + turn // w)
    wavelength = np.where(regular, own % w, turn % w)
    # a pair keeps its wavelengths where the turns divide evenly, or where one step is enough
    spread = ~regular & (items > 1) & (rest * items > w) & (w % np.maximum(rest, 1) > 0)
    return step, wavelength, spread


def line_slots(group: Int64, src: Int64, dst: Int64, count: Int64, w: int) -> Slots:
    """Slots on lines: pairs of several groups, each group on its own segment.

    Where all senders of a group hold equally many items the pairs are coloured, and a pair keeps its
    wavelength if that costs no step; else the items are coloured one by one, which needs the fewest steps.
    """
    _, group = np.unique(group, return_inverse=True)
    up, groups = dst > src, int(group.max(initial=-1)) + 1
    lane = group * 2 + up
    most, least = np.zeros(groups, np.int64), np.full(groups, count.max(initial=0))
    np.maximum.at(most, group, count)
    np.minimum.at(least, group, count)
    even = (most == least)[group]
    low, high, demand = np.minimum(src, dst), np.maximum(src, dst), np.where(even, 1, count)
    colours: list[Int64] = [np.empty(0, np.int64)] * len(count)
    for chosen in (up, ~up):
        intervals = colour_intervals(low[chosen], high[chosen], demand[chosen])
        for pair, own in zip(np.flatnonzero(chosen).tolist(), intervals, strict=True):
            colours[pair] = own

    row, _ = _items(count)
    step, wavelength = np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
    spread, paired = np.zeros(len(row), bool), even[row]
    if paired.any():
        first = np.array([colours[pair][0] for pair in np.flatnonzero(even).tolist()], np.int64)
        step[paired], wavelength[paired], spread[paired] = regular_slots(lane[even], first, count[even], w)
    if not paired.all():
        single = ~paired
        number = np.concatenate([colours[pair] for pair in np.flatnonzero(~even).tolist()])
        step[single], wavelength[single] = number // w, number % w
        needed = np.zeros(2 * groups, np.int64)
        np.maximum.at(needed, lane[row[single]], number + 1)
        spread[single] = (needed > w)[lane[row[single]]]
    return step, wavelength, spread & (w > 1)


def _items(count: Int64) -> tuple[Int64, Int64]:
    """(pair, number of the item within the pair) of every row."""
    pair = np.repeat(np.arange(len(count)), count)
    return pair, np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
