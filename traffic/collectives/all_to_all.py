"""All-to-all: one message for every pair of ranks, or in two levels inside the HB domains and along the
rails."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.entries import Entries, Parts, Turns, columns
from railweave.traffic.collectives.hierarchical import Grid, OnRails
from railweave.traffic.collectives.operations import AllToAll

PHASES = ("all-to-all domain", "all-to-all rail")


class DirectAllToAll(AllToAll):
    """Every rank sends every other rank its slice at once, beginning with the rank after it; the routes do
    the rest.

    Source: NCCL's all-to-all, one group of sends and receives.
    """

    summary = "one message for every pair of ranks, all at once; any fabric"
    name = "direct-all-to-all"

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        n, length = len(ranks), count // len(ranks)
        entries.phase("all-to-all")
        distance, src = np.indices((n - 1, n)).reshape(2, -1)
        dst = (src + distance + 1) % n
        entries.add(src, dst, first=(n + dst) * length, to=src * length, length=length)


class HierarchicalAllToAll(OnRails, AllToAll):
    """Every rank gives each GPU of its domain the slices for that GPU's whole rail (D slices), then each GPU
    sends along its rail what it holds for every other domain (K slices each, its own among them).

    A message is one slice. A rank enters the second phase when its part of the first is complete; pipelined,
    each slice is passed on as soon as it has arrived. Source: rail-only paper, appendix D and equation 21
    (the text's first shard of xD is yD).
    """

    summary = (
        "all-to-all in the domains, then along the rails, without the spines (rail-only paper, equation 21)"
    )
    name, alternative = "all-to-all", "direct-all-to-all"
    regions = 3
    parameters: tuple[Parameter, ...] = (
        Parameter("pipelined", False, "bool", "pass each slice on as soon as it has arrived"),
    )

    def __init__(self, pipelined: bool = False) -> None:
        self._pipelined = pipelined

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        slices = _SliceTransfers(entries, self.grid(fabric, ranks), count // len(ranks))
        (slices.one_by_one if self._pipelined else slices.in_rows)()

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Equation 21: D (K - 1) slices at the slowest d link, then K (D - 1) at the slowest r link; None if
        pipelined."""
        return None if self._pipelined else super().closed_form_s(fabric, schedule, packet)


class _SliceTransfers:
    """Adds the slices of `length` elements: from GPU k of a domain to its GPU `via`, for that GPU and for
    those of its rail; then from a GPU along its rail, what it has from every GPU of its domain, which
    the third region holds: that of GPU k of the domain for domain `to` at to x rails + k."""

    def __init__(self, entries: Entries, grid: Grid, length: int) -> None:
        self._entries, self._grid, self._length = entries, grid, length
        self._n = grid.size
        self._domains, self._rails = grid.shape

    def one_by_one(self) -> None:
        """Pass each slice on as soon as it has arrived."""
        n, (domains, rails), length = self._n, self._grid.shape, self._length
        arrival = np.full((n, domains, rails), -1)
        if rails > 1:
            self._entries.phase(PHASES[0])
            d, k, via, away = self._in_domains(domains)
            src, dst, to = self._grid[d, k], self._grid[d, via], (d + away) % domains
            place = np.where(away > 0, 2 * n + to * rails + k, src)
            first = n + self._grid[to, via]
            sent = self._entries.add(src, dst, first=first * length, to=place * length, length=length)
            arrival[dst, to, k] = sent
        if domains > 1:
            self._entries.phase(PHASES[1])
            d, k, to, origin = self._on_rails(rails)
            src, dst, own_slice = self._grid[d, k], self._grid[to, k], origin == k
            self._entries.add(
                src,
                dst,
                first=np.where(own_slice, n + dst, 2 * n + to * rails + origin) * length,
                to=self._grid[d, origin] * length,
                length=length,
                after=columns(np.where(own_slice, -1, arrival[src, to, origin])),
            )

    def in_rows(self) -> None:
        """Begin on the rails when a rank's part in its domain is complete."""
        n, (domains, rails), length = self._n, self._grid.shape, self._length
        entered = None
        if rails > 1:
            self._entries.phase(PHASES[0])
            d, k, via, others = self._in_domains(2 if domains > 1 else 1)
            src, dst = self._grid[d, k], self._grid[d, via]
            cycle = np.arange(2 * domains) % domains
            from_, to = self._lists(
                n + self._grid[cycle].T, 2 * n + cycle * rails + np.arange(rails)[:, None]
            )
            repeat = np.where(others, domains - 1, 1)
            sent = self._entries.add(
                src,
                dst,
                first=np.where(others, 0, n + dst) * length,
                to=np.where(others, 0, src) * length,
                length=length,
                repeat=repeat,
                lag=repeat,
                turns=Turns(from_[via] + d + 1, to[k] + d + 1, others),
            )
            if domains > 1:
                part = np.argsort(np.concatenate((src, dst)), kind="stable") % len(sent)
                entered = self._entries.wait(np.arange(n), columns(sent[part].reshape(n, -1)))
        if domains > 1:
            self._entries.phase(PHASES[1])
            d, k, to, part = self._on_rails(3)
            repeat = np.choose(part, (k, np.ones_like(k), rails - 1 - k))
            d, k, to, part, repeat = (array[repeat > 0] for array in (d, k, to, part, repeat))
            src, dst, own_slice = self._grid[d, k], self._grid[to, k], part == 1
            by_origin = np.arange(domains)[:, None] * rails + np.arange(rails)
            from_, at = self._lists(2 * n + by_origin, self._grid)
            first = np.where(part == 2, k + 1, 0)
            self._entries.add(
                src,
                dst,
                first=np.where(own_slice, n + dst, 0) * length,
                to=np.where(own_slice, self._grid[d, k], 0) * length,
                length=length,
                after=None if entered is None else columns(entered[src]),
                repeat=repeat,
                lag=repeat,
                turns=Turns(from_[to] + first, at[d] + first, ~own_slice),
            )

    def _in_domains(self, parts: int) -> tuple[Int64, Int64, Int64, Int64]:
        """(domain, sender's place, receiver's place, part) of all messages of the first phase, in order."""
        distance, d, k, part = np.indices((self._rails - 1, self._domains, self._rails, parts)).reshape(4, -1)
        return d, k, (k + distance + 1) % self._rails, part

    def _on_rails(self, parts: int) -> tuple[Int64, Int64, Int64, Int64]:
        """(sender's domain, rail, receiver's domain, part) of all messages of the second phase, in order."""
        away, d, k, part = np.indices((self._domains - 1, self._domains, self._rails, parts)).reshape(4, -1)
        return d, k, (d + away + 1) % self._domains, part

    def _lists(self, *slices: Int64) -> list[Int64]:
        """Where lists of slices, (lists, length) each, begin."""
        return [self._entries.lists(Parts(s * self._length, np.full_like(s, self._length))) for s in slices]
