"""Collectives in two levels: rings inside the HB domains, and rings along the rails.

In all but the pipelined one a rank enters a phase when its part of the last phase is complete, and no byte
leaves its rail in a rail phase. Source: rail-only paper, section 3.2 and equation 1 (a reduce-scatter is an
all-gather in reverse).
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric, HealthSnapshot, PacketFormat, Schedule
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.arithmetic import count_of
from railweave.traffic.collectives.entries import Entries, Parts, parts_of
from railweave.traffic.collectives.operations import (
    AllGather,
    ByHealth,
    Operation,
    ReduceScatter,
)
from railweave.traffic.collectives.ring_blocks import Ready, Rings, add_rings, none_ready
from railweave.traffic.collectives.slow_ranks import add_around, parts_by, slow_members, speeds

CHUNKS = 4
"""Parts of the buffer: while one is on the rails, the next is in the domains."""
RAIL_FABRICS = ("rail-only", "rail-optimised")
"""Kinds of fabrics for which the closed forms over domains and rails hold."""
LEVELS = (("domain", "d"), ("rail", "r"))
"""Last word of a phase's name, and the kind of links that carry its transfers."""
PHASES = (
    ("reduce-scatter", "domain"),
    ("reduce-scatter", "rail"),
    ("all-gather", "rail"),
    ("all-gather", "domain"),
)
"""Of an all-reduce: what the rings do, and on which level."""

Grid = NDArray[np.int64]
"""(domains, rails): the rank at each place."""


class OnRails(Operation):
    """The part of an algorithm over domains and rails that does not depend on its operation; `alternative` is
    the collective for other ranks and fabrics. A rail is the GPUs of one number in their domains, whether or
    not they have a switch of their own."""

    requires: tuple[str, ...] = ("domains", "lattice")
    alternative = ""

    def grid(self, fabric: Fabric, ranks: Sequence[int]) -> Grid:
        """(domains, rails): the rank at each place. The ranks must be every GPU of some domains on some
        rails; anything else is refused. Raises as `check`."""
        if "domains" not in fabric.capabilities or len(fabric.groups[0].shape) != 2:
            raise UnsupportedFabricError(
                f"{self.name} (hierarchical) needs a fabric with GPUs at (domain, rail), not {fabric.kind}. "
                f"Use `--collective {self.alternative}`."
            )
        coordinates = fabric.gpu_coordinates[np.asarray(ranks)]
        domains, row = np.unique(coordinates[:, 0], return_inverse=True)
        rails, column = np.unique(coordinates[:, 1], return_inverse=True)
        grid = np.full((len(domains), len(rails)), -1, np.int64)
        grid[row, column] = np.arange(len(ranks))
        if np.any(grid < 0):
            d, k = np.argwhere(grid < 0)[0]
            raise ExperimentError(
                f"the ranks use rail {rails[k]} and domain {domains[d]} but not the GPU where they meet; a "
                f"hierarchical {self.name} needs the same rails in every domain. Add it, or use "
                f"`{self.alternative}`."
            )
        return grid

    def check(self, fabric: Fabric, ranks: Sequence[int]) -> None:
        self.grid(fabric, ranks)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Phases in the domains and on the rails, one after another, on rail fabrics: in each, the messages
        of the busiest sender, every one as long as the longest, at the slowest d or r link; and for each of
        the messages that wait for one another the latency of the two links of its path. D domains and K rails
        are those of the schedule.

        Source: rail-only paper, equation 1 for every all-gather and reduce-scatter (an all-reduce has two of
        each level, section 3.2), equation 21 for an all-to-all (appendix D)."""
        if fabric.kind not in RAIL_FABRICS:
            return None
        total_latency_s = sum(
            longest_chain(schedule, phase) * 2 * latency_s
            for level, _, latency_s in level_links(fabric)
            for phase, name in enumerate(schedule.phase_names)
            if latency_s > 0 and name.endswith(level)
        )
        return sum(by_level_s(fabric, schedule, packet)) + total_latency_s


class HierarchicalAllReduce(OnRails, ByHealth):
    """Reduce-scatter in the domain, reduce-scatter and all-gather of each shard along its rail, all-gather in
    the domain."""

    summary = (
        "reduce-scatter and all-gather in the domains and along the rails (rail-only paper, equation 1 twice)"
    )
    name, alternative = "all-reduce", "ring-all-reduce"

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        add_all_reduce(entries, self.grid(fabric, ranks), (0, count), none_ready(len(ranks)))

    def add_by_health(
        self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int, health: HealthSnapshot
    ) -> None:
        """Along every rail slow ranks keep out of the ring where that pays; and rails get shares of the
        buffer by how long each then takes."""
        grid, speed = self.grid(fabric, ranks), speeds(fabric, ranks, health, within="domain")
        rails = [slow_members(speed[members]) if len(grid) > 1 else (1.0, None) for members in grid.T]
        shards = parts_by(count, 1 / np.array([takes for takes, _ in rails]))
        domain = Rings(grid, shards.each, np.zeros(len(grid), np.int64))
        (before, level), (first, on), (second, _), (after, _) = PHASES
        ready = _add_phases(entries, [(before, level)], {level: domain}, none_ready(len(ranks)))
        for members, (_, out), start, length in zip(grid.T, rails, *map(np.ravel, shards), strict=True):
            span = int(start), int(length)
            if out is not None and out.any():
                ready = add_around(entries, members, out, span, ready, (f"{first} {on}", f"{second} {on}"))
            else:
                ring = Rings(members[None], parts_of([span[0]], [span[1]], len(grid)).each)
                ready = _add_phases(entries, PHASES[1:3], {on: ring}, ready)
        _add_phases(entries, [(after, level)], {level: domain}, ready)


class PipelinedAllReduce(HierarchicalAllReduce):
    """The same four phases for each chunk of the buffer on its own: chunk c is in phase p in time slot c + p,
    so d and r links work at the same time.

    A chunk waits for nothing but its own last phase. Within a slot the phases take turns step by step, so
    that a link has something to send while the next step of another phase is still on its way.
    """

    summary = "all-reduce with its phases overlapped: chunks follow one another through domains and rails"
    name = "pipelined-all-reduce"
    parameters: tuple[Parameter, ...] = (
        Parameter("chunks", CHUNKS, "count", "parts of the buffer that follow one another", 1, 4096),
    )

    def __init__(self, chunks: int = CHUNKS) -> None:
        super().__init__()
        self._chunks = chunks

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        grid = self.grid(fabric, ranks)
        chunks = parts_of(0, count, min(self._chunks, count))
        for slot, (first, length) in enumerate(zip(*chunks, strict=True)):
            add_all_reduce(entries, grid, (int(first), int(length)), none_ready(len(ranks)), slot=slot)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """The work of the busier level, and what no other chunk hides of the other one: with busier rails,
        one chunk's work in the domains (before the first chunk's rails and after the last one's); with busier
        domains, one chunk's work on the rails, which other chunks hide from 3 chunks on. None where links
        have a latency: other chunks hide an unknown part of it. Source: equation 1 of the rail-only paper,
        twice for each level; the overlap is ours."""
        if fabric.kind not in RAIL_FABRICS or fabric.latency_s.any():
            return None
        domain, rail = by_level_s(fabric, schedule, packet)
        chunks = max(1, min(self._chunks, count_of(schedule)))
        if rail >= domain:
            return rail + domain / chunks
        return domain + (rail / chunks if chunks < 3 else 0.0)


class _OfShards(OnRails):
    """The part that an all-gather and a reduce-scatter share; `phases` are theirs of PHASES."""

    phases: tuple[tuple[str, str], ...] = ()

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        """In a domain a chunk is the shards of a rail, along a rail one shard."""
        grid = self.grid(fabric, ranks)
        shard, domains = count // grid.size, len(grid)
        of_rails = Parts(grid.T * shard, np.full(grid.T.shape, shard))
        rings = {
            "domain": Rings(grid, Parts(*(array[None] for array in of_rails)), np.zeros(domains, np.int64)),
            "rail": Rings(grid.T, of_rails.each),
        }
        _add_phases(entries, self.phases, rings, none_ready(len(ranks)))


class HierarchicalAllGather(_OfShards, AllGather):
    """Each rail gathers the shards of its GPUs, then each domain the shards of all rails.

    In the domain a message is one shard: those of a rail lie apart in the array, which is in the order of
    ranks.
    """

    summary = "all-gather along the rails, then in the domains (rail-only paper, equation 1)"
    name, alternative = "all-gather", "ring-all-gather"
    phases = PHASES[2:]


class HierarchicalReduceScatter(_OfShards, ReduceScatter):
    """Each domain reduces to every GPU the shards of its rail, then each rail to every GPU its own shard: the
    hierarchical all-gather backwards."""

    summary = "reduce-scatter in the domains, then along the rails (rail-only paper, equation 1)"
    name, alternative = "reduce-scatter", "ring-reduce-scatter"
    phases = PHASES[:2]


def add_all_reduce(
    entries: Entries,
    grid: Grid,
    span: tuple[int, int],
    ready: Ready,
    *,
    name: str = "",
    slot: int | None = None,
) -> Ready:
    """Add the four phases for one span (first element, length) of the buffer: under one `name` if it is
    given, and phase i in time slot `slot` + i if slots are used. What must be complete before ranks go on."""
    first, length = span
    shards = parts_of([first], [length], grid.shape[1])
    rings = {
        "domain": Rings(grid, shards.each, np.zeros(len(grid), np.int64)),
        "rail": Rings(grid.T, parts_of(shards.first[0], shards.length[0], len(grid)).each),
    }
    return _add_phases(entries, PHASES, rings, ready, name=name, slot=slot)


def _add_phases(
    entries: Entries,
    phases: Sequence[tuple[str, str]],
    rings: Mapping[str, Rings],
    ready: Ready,
    *,
    name: str = "",
    slot: int | None = None,
) -> Ready:
    for i, (operation, level) in enumerate(phases):
        if rings[level].members.shape[1] > 1:
            entries.phase(name or f"{operation} {level}")
        at = None if slot is None else slot + i
        ready = add_rings(entries, rings[level], ready, reduce=operation == "reduce-scatter", slot=at)
    return ready


def level_links(fabric: Fabric) -> Iterator[tuple[str, float, float]]:
    """Of each level in LEVELS: its word, the rate of its slowest link and the longest latency."""
    for level, kind in LEVELS:
        of_kind = fabric.link_kind == fabric.kinds.index(kind)
        yield level, float(fabric.capacity_bps[of_kind].min()), float(fabric.latency_s[of_kind].max())


def by_level_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> list[float]:
    """Seconds of all phases of each level in LEVELS, without latencies."""
    levels = []
    for level, rate, _ in level_links(fabric):
        seconds = 0.0
        for phase, name in enumerate(schedule.phase_names):
            if name.endswith(level):
                sent = (schedule.phase == phase) & schedule.is_transfer
                messages = int(np.bincount(schedule.src[sent], schedule.repeat[sent]).max())
                seconds += messages * packet.wire_bytes(int(schedule.size[sent].max())) * 8 / rate
        levels.append(seconds)
    return levels


def longest_chain(schedule: Schedule, phase: int) -> int:
    """The most transfers of a phase that follow one another, each waiting for the one before."""
    chosen = (schedule.phase == phase) & schedule.is_transfer
    alone = np.where(
        np.diff(schedule.chained_start) > 0, -(-schedule.repeat // np.maximum(schedule.lag, 1)), 1
    )
    alone = np.where(chosen, alone, 0)
    waiting = np.repeat(np.arange(schedule.n_entries), np.diff(schedule.after_start))
    inside = chosen[waiting] & chosen[schedule.after]
    waiting, before = waiting[inside], schedule.after[inside]
    length, longer = np.zeros_like(alone), alone
    while (longer > length).any():
        length = longer
        longer = length.copy()
        np.maximum.at(longer, waiting, length[before] + alone[waiting])
    return int(length.max(initial=0))
