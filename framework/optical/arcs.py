"""All-to-all exchanges on rings and lines, coloured: lightpaths of one colour and direction share no link."""

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
    src, dst, up, colour = (
        [np.empty(0, np.int64)],
        [np.empty(0, np.int64)],
        [np.empty(0, bool)],
        [np.empty(0, np.int64)],
    )
    used = [0, 0]
    chords = 0

    def walk(corners: Int64, upwards: bool) -> None:
        """Add the polygons of which each row of `corners` (polygons, sides) is one, walked in one
        direction."""
        shape = corners.shape
        ahead = np.roll(corners, -1, axis=1)
        a, b = (corners, ahead) if upwards else (ahead, corners)
        src.append(a.ravel())
        dst.append(b.ravel())
        up.append(np.full(corners.size, upwards))
        colour.append(np.repeat(used[upwards] + np.arange(shape[0]), shape[1]))
        used[upwards] += shape[0]

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
        else:
            walk(np.array([[first, second]]), chords % 2 == 0)
            chords += 1
        left = np.concatenate((near, far))
    return Arcs(np.concatenate(src), np.concatenate(dst), np.concatenate(up), np.concatenate(colour))


def colour_intervals(low: Int64, high: Int64, demand: Int64) -> list[Int64]:
    """For each interval (low, high) of a line its `demand` colours, ascending; intervals that overlap share
    none.

    As many colours are used as the demand at the busiest place, which is the minimum: intervals are taken
    from the left and get the lowest free colours. Intervals that only touch do not overlap.
    """
    order = np.lexsort((high, low))
    free: list[int] = []
    fresh = 0
    ends: list[tuple[int, int]] = []
    colours: list[Int64] = [np.empty(0, np.int64)] * len(low)
    lows, highs, demands = low.tolist(), high.tolist(), demand.tolist()
    for i in order.tolist():
        while ends and ends[0][0] <= lows[i]:
            _, done = heappop(ends)
            for colour in colours[done].tolist():
                heappush(free, colour)
        own = [heappop(free) for _ in range(min(demands[i], len(free)))]
        missing = demands[i] - len(own)
        own.extend(range(fresh, fresh + missing))
        fresh += missing
        colours[i] = np.array(own, np.int64)
        heappush(ends, (highs[i], i))
    return colours


def interval_load(low: Int64, high: Int64, demand: Int64, places: int) -> Int64:
    """(places,): the demand over each place p, between points p and p + 1 of a line."""
    weight = demand.astype(np.float64)
    rise = np.bincount(low, weight, places + 1) - np.bincount(high, weight, places + 1)
    return np.cumsum(rise)[:places].astype(np.int64)
