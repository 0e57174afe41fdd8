"""All-to-all exchanges on rings and lines, coloured, and from colours to steps and wavelengths.

Lightpaths of one colour and direction share no link. As few steps as w wavelengths allow, a pair on one
wavelength if possible.
"""

import itertools
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from railweave.framework.model.arrays import Bool, Int64


@dataclass(frozen=True, eq=False)
class Arcs:
    """Directed arcs between points 0..n-1 of a ring: `src`, `dst`; `up` whether it runs by ascending points
    (mod n); `colour`, counted per direction from 0. All (A,)."""

    src: Int64
    dst: Int64
    up: Bool
    colour: Int64


def ring_exchange(points: int) -> Arcs:
    """An arc for every ordered pair of points on a ring, in ceil(floor(n^2 / 4) / 2) colours: the minimum.

    The pairs are split into polygons whose corners follow each other round the ring. The sides of a polygon,
    walked once round, do not overlap: one colour per direction. Two opposite points are removed at a time:
    with the points on either side of their chord they form quadrilaterals, an odd point left over forms a
    triangle, and without one the chord itself is a polygon of two sides, which one direction can serve alone.
    Source: Bermond, Coudert and Yu, "On DRC-covering of K_n by cycles", 2003 (cycles of 3 and 4 suffice).
    """
    parts, used = [np.empty((4, 0), np.int64)], [0, 0]

    def walk(corners: Int64, upwards: bool) -> None:
        """Add the polygons of which each row of `corners` (polygons, sides) is one, walked in one
        direction."""
        ahead = np.roll(corners, -1, axis=1)
        a, b = (corners, ahead) if upwards else (ahead, corners)
        colour = np.broadcast_to(used[upwards] + np.arange(len(corners))[:, None], corners.shape)
        parts.append(np.stack((a, b, np.full(corners.shape, upwards), colour)).reshape(4, -1))
        used[upwards] += len(corners)

    left = np.arange(points)
    while len(left) > 1:
        half = (len(left) - 2) // 2
        first, near, second, far = left[0], left[1 : 1 + half], left[1 + half], left[2 + half :]
        quads = np.stack((np.full(half, first), near, np.full(half, second), far[:half]), axis=1)
        for upwards in (True, False):
            walk(quads, upwards)
        if len(far) > half:
            for upwards in (True, False):
                walk(np.array([[first, second, far[half]]]), upwards)
        else:  # the chords take turns
            walk(np.array([[first, second]]), (points - len(left)) % 4 == 0)
        left = np.concatenate((near, far))
    src, dst, up, colour = np.concatenate(parts, axis=1)
    return Arcs(src, dst, up.astype(bool), colour)


def colour_intervals(low: Int64, high: Int64, demand: Int64) -> list[Int64]:
    """For each interval (low, high) of a line its `demand` colours, ascending; intervals that overlap share
    none.

    As many colours are used as the demand at the busiest place, which is the minimum: intervals are taken
    from the left and get the lowest free colours. Intervals that only touch do not overlap.
    """
    order = np.lexsort((high, low))
    free: list[int] = []
    fresh = itertools.count()
    ends: list[tuple[int, int]] = []
    colours: list[Int64] = [np.empty(0, np.int64)] * len(low)
    lows, highs, demands = low.tolist(), high.tolist(), demand.tolist()
    for i in order.tolist():
        while ends and ends[0][0] <= lows[i]:
            for colour in colours[heappop(ends)[1]].tolist():
                heappush(free, colour)
        colours[i] = np.array([heappop(free) if free else next(fresh) for _ in range(demands[i])], np.int64)
        heappush(ends, (highs[i], i))
    return colours


def interval_load(low: Int64, high: Int64, demand: Int64, places: int) -> Int64:
    """(places,): the demand over each place p, between points p and p + 1 of a line."""
    weight = demand.astype(np.float64)
    rise = np.bincount(low, weight, places + 1) - np.bincount(high, weight, places + 1)
    return np.cumsum(rise)[:places].astype(np.int64)


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
    row, nth = every_item(count)
    rounds, rest = (colours[lane] // w)[row], (colours[lane] % w)[row]
    items, item_colour = count[row], colour[row]
    turn = nth * rest + (item_colour - rounds * w)
    regular = item_colour < rounds * w
    step = np.where(regular, (item_colour // w) * items + nth, rounds * items + turn // w)
    wavelength = np.where(regular, item_colour % w, turn % w)
    # a pair keeps its wavelengths where the turns divide evenly, or where one step is enough
    spread = ~regular & (items > 1) & (rest * items > w) & (w % np.maximum(rest, 1) > 0)
    return step, wavelength, spread


def line_slots(group: Int64, src: Int64, dst: Int64, count: Int64, w: int) -> Slots:
    """Slots on lines: pairs of several groups, each group on its own segment.

    Where all senders of a group hold equally many items the pairs are coloured, and a pair keeps its
    wavelength if that costs no step; else the items are coloured one by one, which needs the fewest steps.
    """
    _, group = np.unique(group, return_inverse=True)
    up = dst > src
    lane = group * 2 + up
    # Of every group with a pair (sender, items), how many different numbers of items there are.
    even = (np.bincount(np.unique(np.stack((group, count)), axis=1)[0]) == 1)[group]
    low, high, demand = np.minimum(src, dst), np.maximum(src, dst), np.where(even, 1, count)
    aside = np.where(up, 0, high.max(initial=0))  # the directions share no fibre: two lines side by side
    colour = np.concatenate([np.empty(0, np.int64), *colour_intervals(low + aside, high + aside, demand)])

    paired, single = np.repeat(even, count), np.repeat(lane, count)[np.repeat(~even, count)]
    step, wavelength, spread = (np.zeros(len(paired), kind) for kind in (np.int64, np.int64, bool))
    of_pairs = np.repeat(even, demand)
    step[paired], wavelength[paired], spread[paired] = regular_slots(
        lane[even], colour[of_pairs], count[even], w
    )
    step[~paired], wavelength[~paired] = np.divmod(colour[~of_pairs], w)
    needed = np.zeros(lane.max(initial=0) + 1, np.int64)
    np.maximum.at(needed, single, colour[~of_pairs] + 1)
    spread[~paired] = needed[single] > w
    return step, wavelength, spread & (w > 1)


def every_item(count: Int64) -> tuple[Int64, Int64]:
    """(pair, number of the item within the pair) of every row."""
    pair = np.repeat(np.arange(len(count)), count)
    return pair, np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
