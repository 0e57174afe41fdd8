"""A rail-only fabric as index arrays: which link leads from a GPU to its switches and back."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from railweave.framework.model import Fabric, PathBatch
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.model.capabilities import require
from railweave.framework.routing.batches import starts

INTERFACES = ("domains", "interfaces")
REQUIRES = (*INTERFACES, "isolated-rails")

NONE, D, R, RD, DR, DRD, RDR = range(7)
"""Kinds of paths: no path, over the domain, the rail, rail and domain ... (docs/glossary.md)."""
KINDS = ("none", "d", "r", "rd", "dr", "drd", "rdr")
LONGEST = 6
"""Links of a path at most: three crossings of two links."""
HOPS = np.array((0, 2, 2, 4, 4, 6, 6))
"""By kind."""


@dataclass(frozen=True)
class RailLinks:
    """(places,) link ids each: up leads from the GPU there to its switch, down from the switch to the GPU.

    Place (d, g) of the grid of domains and rails has number d * rails + g. Where a GPU stands at every place,
    that is its id, too. A place without a GPU has the link n_links each time, which counts as dead
    (`Scores.dead`): domains of unequal size are a full grid that has lost some of its GPUs.
    """

    domains: int
    rails: int
    d_up: Int32
    d_down: Int32
    r_up: Int32
    r_down: Int32

    @classmethod
    def of(cls, fabric: Fabric, router: str) -> Self:
        """Raises UnsupportedFabricError for fabrics without all of `INTERFACES`."""
        require(fabric, router, INTERFACES)
        domain, rail = fabric.group("domain"), fabric.group("rail")
        assert domain is not None and rail is not None, "required above"
        d, g = fabric.gpu_coordinates.T
        links = np.full((4, domain.size, rail.size), fabric.n_links, np.int32)
        links[:, d, g] = [*_between(fabric, domain.first + d), *_between(fabric, rail.first + g)]
        return cls(domain.size, rail.size, *links.reshape(4, -1))

    @cached_property
    def _rail(self) -> Int64:
        """(places,): the rail of every place."""
        return np.tile(np.arange(self.rails), self.domains)

    @cached_property
    def _turning_links(self) -> tuple[Int32, Int32, Int32, Int32]:
        """(2 places,) each, by place + places x (1 if the path begins by rail): the hops of a dr- or rd-path.

        Up from the source and down to the GPU where it turns; up from there and down to the destination.
        """
        return (
            np.concatenate((self.d_up, self.r_up)),
            np.concatenate((self.d_down, self.r_down)),
            np.concatenate((self.r_up, self.d_up)),
            np.concatenate((self.r_down, self.d_down)),
        )

    @cached_property
    def halves(self) -> tuple[Int64, Int64, Int64, Int64]:
        """(places,) each: d_up, d_down, r_up, r_down as halves of a crossing; `up | down` are two links in a
        row."""
        halves = np.zeros((4, len(self.d_up), 2), np.int32)
        for number, link in enumerate((self.d_up, self.d_down, self.r_up, self.r_down)):
            halves[number, :, number % 2] = link
        d_up, d_down, r_up, r_down = halves.view(np.int64)[..., 0]
        return d_up, d_down, r_up, r_down

    def hops(self, src: Int64, dst: Int64, kind: Int64, via: Int64) -> Int32:
        """(P, 4 or 6): the links of each pair's path, -1 behind its end; `via` is the rail of a drd-path, or
        the domain of an rdr-path."""
        hops = self._padded(src, dst, kind, via)
        hops[np.arange(hops.shape[1]) >= HOPS.take(kind)[:, None]] = -1
        return hops

    def batch(self, src: Int64, dst: Int64, kind: Int64, via: Int64) -> PathBatch:
        """The paths of these kinds; unreachable where it is none."""
        padded, length = self._padded(src, dst, kind, via), HOPS.take(kind)
        # Every crossing of a switch is two hops: read from the matrix as one number of 8 bytes.
        crossings = padded.view(np.int64)
        used = np.empty(crossings.shape, bool)
        for which in range(crossings.shape[1]):
            used[:, which] = length > 2 * which
        reachable = kind != NONE
        return PathBatch.in_row(
            src,
            dst,
            starts(length),
            crossings[used].view(np.int32),
            reachable=None if reachable.all() else reachable,
        )

    def _padded(self, src: Int64, dst: Int64, kind: Int64, via: Int64) -> Int32:
        """(P, 4 or 6): as `hops`, with anything behind the end. Most pairs turn once, so all rows are first
        filled as if they did."""
        up, to_turn, from_turn, down = self._turning_links
        by_rail = kind == RD
        offset = by_rail * len(self.d_up)
        aside = self._rail.take(dst) - self._rail.take(src)
        turn = np.where(by_rail, dst - aside, src + aside) + offset
        long = np.flatnonzero(kind >= DRD)
        hops = np.empty((len(src), LONGEST if long.size else LONGEST - 2), np.int32)
        hops[:, 0], hops[:, 1] = up.take(src + offset), to_turn.take(turn)
        hops[:, 2], hops[:, 3] = from_turn.take(turn), down.take(dst + offset)
        for which, leave, arrive in ((D, self.d_up, self.d_down), (R, self.r_up, self.r_down)):
            rows = np.flatnonzero(kind == which)
            hops[rows, 0], hops[rows, 1] = leave[src[rows]], arrive[dst[rows]]
        for which, crossings in ((DRD, self.over), (RDR, self.through)) if long.size else ():
            rows = np.flatnonzero(kind == which)
            hops[rows] = crossings(src[rows], dst[rows], via[rows]).view(np.int32)
        return hops

    def over(self, src: Int64, dst: Int64, via: Int64) -> Int64:
        """(P, 3): the crossings of drd-paths."""
        turns = src + via - self._rail.take(src), dst + via - self._rail.take(dst)
        return _crossings(src, dst, turns, self.halves[:2], self.halves[2:])

    def through(self, src: Int64, dst: Int64, via: Int64) -> Int64:
        """(P, 3): the crossings of rdr-paths, which change rails in domain `via`."""
        turns = via * self.rails + self._rail.take(src), via * self.rails + self._rail.take(dst)
        return _crossings(src, dst, turns, self.halves[2:], self.halves[:2])


def _crossings(
    src: Int64, dst: Int64, turns: tuple[Int64, Int64], outer: tuple[Int64, Int64], inner: tuple[Int64, Int64]
) -> Int64:
    """(P, 3): by the `outer` switch to the first turn, by the `inner` one to the second, by `outer` to dst.

    `outer`, `inner`: the halves (up, down) of `RailLinks.halves`.
    """
    (out, back), (up, down), (inner_up, inner_down) = turns, outer, inner
    crossings = np.empty((len(src), 3), np.int64)
    crossings[:, 0] = up.take(src) | down.take(out)
    crossings[:, 1] = inner_up.take(out) | inner_down.take(back)
    crossings[:, 2] = up.take(back) | down.take(dst)
    return crossings


def whole(hops: Int32, dead: Bool) -> Bool:
    """(P,): whether no link of the path is dead."""
    padded = np.append(dead, False)  # -1, behind the end of a path, finds the False
    return np.asarray(~padded[hops].any(axis=1), np.bool_)


def _between(fabric: Fabric, switch: Int32) -> tuple[Int32, Int32]:
    """The links from each GPU to `switch[gpu]` and back; the lowest ids where cables are parallel."""
    up = np.empty(fabric.n_gpus, np.int32)
    leaving = np.flatnonzero(fabric.link_src < fabric.n_gpus)
    leaving = leaving[fabric.link_dst[leaving] == switch[fabric.link_src[leaving]]][::-1]
    up[fabric.link_src[leaving]] = leaving
    return up, up ^ 1
