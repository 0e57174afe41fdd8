"""All-to-all: one message for every pair of ranks, or in two levels inside the HB domains and along the
rails."""

from collections.abc import Sequence
from itertools import product

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.hierarchical import OnRails
from railweave.traffic.collectives.operations import AllToAll
from railweave.traffic.collectives.schedule_builder import ScheduleBuilder

PHASES = ("all-to-all domain", "all-to-all rail")
MOST_WAITS = 1 << 22
"""The most dependencies of a schedule; unpipelined, every message of a rail waits for all messages of its
sender."""


class DirectAllToAll(AllToAll):
    """Every rank sends every other rank its slice at once, beginning with the rank after it; the routes do
    the rest.

    Source: NCCL's all-to-all, one group of sends and receives.
    """

    summary = "one message for every pair of ranks, all at once; any fabric"
    name = "direct-all-to-all"

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        n, one = len(ranks), count // len(ranks)
        builder.phase("all-to-all")
        for distance, src in product(range(1, n), range(n)):
            dst = (src + distance) % n
            first = (n + dst) * one
            builder.transfer(src, dst, (first, first + one), to=src * one, reduce=False, after=[])


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

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        grid = self.grid(fabric, ranks)
        (domains, rails), n, one = grid.shape, len(ranks), count // len(ranks)
        waits = domains * rails * (domains - 1) * rails * 2 * domains * (rails - 1)
        if waits > MOST_WAITS and not self._pipelined:
            raise ExperimentError(
                f"all-to-all over {domains} domains of {rails}: the barrier between its phases makes {waits} "
                f"dependencies, more than {MOST_WAITS}. Use fewer GPUs, pipelined=true, or "
                "`direct-all-to-all`."
            )
        rank_at: list[list[int]] = grid.tolist()
        arrival: dict[tuple[int, int, int], int] = {}
        part: list[list[int]] = [[] for _ in ranks]

        def send(src: int, dst: int, slice_: int, to: int, after: Sequence[int] = ()) -> int:
            span = slice_ * one, (slice_ + 1) * one
            return builder.transfer(src, dst, span, to=to * one, reduce=False, after=after)

        if rails > 1:
            builder.phase(PHASES[0])
        for distance, d, k in product(range(1, rails), range(domains), range(rails)):
            via = (k + distance) % rails
            src, dst = rank_at[d][k], rank_at[d][via]
            for away in range(domains):
                to = (d + away) % domains
                place = 2 * n + to * rails + k if away else src
                arrival[dst, to, k] = sent = send(src, dst, n + rank_at[to][via], place)
                part[src].append(sent)
                part[dst].append(sent)
        if domains > 1:
            builder.phase(PHASES[1])
        for away, d, k in product(range(1, domains), range(domains), range(rails)):
            to = (d + away) % domains
            src, dst = rank_at[d][k], rank_at[to][k]
            for origin in range(rails):
                own = origin == k
                place = n + dst if own else 2 * n + to * rails + origin
                after = part[src]
                if self._pipelined:
                    after = [] if own else [arrival[src, to, origin]]
                send(src, dst, place, rank_at[d][origin], after)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """Equation 21: D (K - 1) slices at the slowest d link, then K (D - 1) at the slowest r link; None if
        pipelined."""
        return None if self._pipelined else super().closed_form_s(fabric, schedule, packet)
