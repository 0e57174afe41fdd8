"""The operations of collectives as nccl-tests defines them: sizes, inputs, results and bus bandwidth.

An operation is the base class of the algorithms that carry it out. An algorithm names itself, adds its
transfers and, where it has a formula, gives its closed form: what it takes on a healthy fabric, in seconds,
with the headers of every packet, and None where the fabric gives no formula. Bandwidth terms are those of the
source; where links have a latency, it counts once for every step that must wait for the one before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.hookspecs import Collective
from railweave.framework.model import Fabric, HealthSnapshot, PacketFormat, Schedule
from railweave.framework.model.arrays import Int32
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.arithmetic import (
    count_of,
    exact_inputs,
    nonzero_input,
    reduced,
)
from railweave.traffic.collectives.entries import Entries, rotations
from railweave.traffic.collectives.slow_ranks import BY_HEALTH

SHARD_STEP = 16
"""Shards are multiples of this many bytes, as in nccl-tests, so that all shards are equal."""


class Operation(Collective):
    """Base of every collective. `name` is that on the command line and of its schedules; `requires`:
    capabilities of the fabric (framework/model/capabilities.py); every rank's buffer has `regions` of the
    size of the operation; fewer than `least_ranks`, 1 or 2, are refused."""

    summary = ""
    name = ""
    regions = 1
    least_ranks = 1

    def configured(self, options: Mapping[str, Value]) -> Self:
        """The algorithm with these options, which are named as the arguments of its constructor."""
        return type(self)(**options)

    def check(self, fabric: Fabric, ranks: Sequence[int]) -> None:
        """Raise ExperimentError or UnsupportedFabricError for ranks on which the algorithm cannot run."""
        if len(ranks) < self.least_ranks:
            raise ExperimentError(
                f"{self.name} of {len(ranks)} rank: it needs {self.least_ranks} or more, a sender and a "
                "receiver. Add a rank."
            )

    def element_count(self, size_bytes: int, itemsize: int, n_ranks: int) -> int:
        """Elements of the operation's array: `size_bytes`, rounded down."""
        return size_bytes // itemsize

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        """Add all transfers for `count` elements, 1 or more, over `ranks`, 2 or more."""
        raise NotImplementedError

    def symmetries(self, fabric: Fabric, ranks: Sequence[int]) -> Int32:
        """(g, n_ranks): permutations of the ranks that may lead from every transfer to one that is alike."""
        return rotations(fabric, ranks)

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """The transfers of one run, compact; none for 0 elements or 1 rank. Raises as `check`."""
        return self.planned(fabric, ranks, size_bytes, (dtype, redop), self.add_transfers)

    def planned(
        self,
        fabric: Fabric,
        ranks: Sequence[int],
        size_bytes: int,
        kind: tuple[str, str],
        add: Callable[[Entries, Fabric, Sequence[int], int], None],
    ) -> Schedule:
        """As `schedule`, of the transfers that `add` adds; `kind`: type and reduction."""
        self.check(fabric, ranks)
        (dtype, redop), n = kind, len(ranks)
        itemsize = np.dtype(dtype).itemsize
        count = self.element_count(size_bytes, itemsize, n)
        entries = Entries(n, itemsize)
        if count and n > 1:
            add(entries, fabric, ranks, count)
        symmetries = self.symmetries(fabric, ranks)
        return entries.build(
            self.name, count, dtype, redop, buffer_count=self.regions * count, symmetries=symmetries
        )


class AllReduce(Operation):
    """The size is one rank's buffer, rounded down to whole elements (nccl-tests)."""

    kind = "all-reduce"
    same_result_everywhere = True

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(count,) per rank, in rank order: numbers of its own, whose reduction over all ranks is exact."""
        return exact_inputs(schedule, count_of(schedule), seed)

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): the reduction of all inputs, the same for every rank."""
        return reduced(schedule.redop, inputs)

    def busbw_factor(self, n_ranks: int) -> float:
        """2 (n - 1) / n. Source: nccl-tests doc/PERFORMANCE.md, "AllReduce"."""
        return 2 * (n_ranks - 1) / n_ranks


class ByHealth(AllReduce):
    """An all-reduce that may know the health of links: then slow ranks do less."""

    parameters: tuple[Parameter, ...] = (BY_HEALTH,)

    def __init__(self, by_health: bool = False) -> None:
        self.wants_health = by_health

    def schedule(
        self,
        fabric: Fabric,
        ranks: Sequence[int],
        size_bytes: int,
        dtype: str,
        redop: str,
        health: HealthSnapshot | None = None,
    ) -> Schedule:
        """As of Operation; by `health`, if it is given and there is something slow."""
        if health is None or not (health.down.any() or (health.link_score < 1).any()):
            return super().schedule(fabric, ranks, size_bytes, dtype, redop)
        kind, add = (dtype, redop), partial(self.add_by_health, health=health)
        return self.planned(fabric, ranks, size_bytes, kind, add)

    def add_by_health(
        self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int, health: HealthSnapshot
    ) -> None:
        """As `add_transfers`, for links of this health."""
        raise NotImplementedError


class Sharded(Operation):
    """Base of the operations on arrays of one shard (or slice) per rank, each a multiple of SHARD_STEP
    bytes."""

    def element_count(self, size_bytes: int, itemsize: int, n_ranks: int) -> int:
        return shard_bytes(size_bytes, n_ranks) // itemsize * n_ranks

    def busbw_factor(self, n_ranks: int) -> float:
        """(n - 1) / n. Source: nccl-tests doc/PERFORMANCE.md, "AllGather", "ReduceScatter" and "AlltoAll"."""
        return (n_ranks - 1) / n_ranks


class AllGather(Sharded):
    """The size is the whole array, one shard per rank (nccl-tests). It is gathered in place: rank r's shard
    stands at r x shard in its own buffer from the start. `redop` does not matter."""

    kind = "all-gather"
    same_result_everywhere = True

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(count,) per rank: its own shard, without a 0 in it, and 0 in the places of the others."""
        n, count = schedule.n_ranks, count_of(schedule) // schedule.n_ranks
        buffers = np.zeros((n, n, count), schedule.dtype)
        for rank in range(n):
            buffers[rank, rank] = nonzero_input(schedule, rank, count, seed)
        return list(buffers.reshape(n, n * count))

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): all shards in the order of ranks, the same for every rank."""
        count = len(inputs[0]) // schedule.n_ranks
        return np.concatenate([buffer[r * count : (r + 1) * count] for r, buffer in enumerate(inputs)])


class ReduceScatter(Sharded):
    """The size is the whole array, and every rank has its own version of it; each rank is left with one shard
    of the reduction (nccl-tests). It is done in place: every rank's buffer begins with its own shard, where
    the result will stand, and continues with those of the ranks after it, in a cycle. `redop` is applied to
    all versions."""

    kind = "reduce-scatter"

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """As of Operation; transfers are added for arrays in the order of ranks, and may not cross a
        shard."""
        in_rank_order = super().schedule(fabric, ranks, size_bytes, dtype, redop)
        n = in_rank_order.n_ranks
        shard = max(1, in_rank_order.size_bytes // n)

        src, dst = in_rank_order.src.astype(np.int64), in_rank_order.dst.astype(np.int64)
        spans = in_rank_order.spans
        if spans is not None:
            spans = replace(spans, shard_bytes=shard, n_shards=n, src_first=src, dst_first=dst)

        def own_shard_first(offset: NDArray[np.int64], rank: NDArray[np.int64]) -> NDArray[np.int64]:
            return (offset // shard - rank) % n * shard + offset % shard

        return replace(
            in_rank_order,
            src_offset=own_shard_first(in_rank_order.src_offset, src),
            dst_offset=own_shard_first(in_rank_order.dst_offset, dst),
            spans=spans,
        )

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(count,) per rank: its version of the array, its own shard first."""
        versions = exact_inputs(schedule, count_of(schedule), seed)
        return [np.roll(v, -rank * (len(v) // schedule.n_ranks)) for rank, v in enumerate(versions)]

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count / n,): shard `rank` reduced over all versions."""
        n = schedule.n_ranks
        shard = len(inputs[0]) // n
        return reduced(
            schedule.redop, [buffer[(rank - r) % n * shard :][:shard] for r, buffer in enumerate(inputs)]
        )


class AllToAll(Sharded):
    """The size is what one rank sends, its slice for itself included (nccl-tests). Every rank's buffer has
    `regions` of that size: first what it receives, in the order of senders; then what it sends, in the order
    of receivers; a third where it relays slices. A rank's slice for itself crosses no link and stands in its
    place from the start. `redop` does not matter."""

    kind = "all-to-all"
    regions = 2

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(2 count,) per rank: 0 but for its own slice, then what it sends, without a 0 in it."""
        n, length = schedule.n_ranks, count_of(schedule) // schedule.n_ranks
        buffers = np.zeros((n, 2, n, length), schedule.dtype)
        for rank in range(n):
            buffers[rank, 1] = nonzero_input(schedule, rank, n * length, seed).reshape(n, length)
            buffers[rank, 0, rank] = buffers[rank, 1, rank]
        return list(buffers.reshape(n, 2 * n * length))

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): the slice for `rank` of every sender, in their order."""
        length = len(inputs[0]) // (2 * schedule.n_ranks)
        start = (schedule.n_ranks + rank) * length
        return np.concatenate([buffer[start : start + length] for buffer in inputs])


def shard_bytes(size_bytes: int, n_ranks: int) -> int:
    """Bytes of each rank's shard of an array of `size_bytes`, rounded down to SHARD_STEP."""
    return size_bytes // n_ranks // SHARD_STEP * SHARD_STEP


def longest_s(fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float:
    """Seconds of the largest message at the slowest link."""
    return packet.wire_bytes(int(schedule.size.max(initial=0))) * 8 / float(fabric.capacity_bps.min())
