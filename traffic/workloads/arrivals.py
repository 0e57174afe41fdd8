"""Messages that arrive at random: `--workload arrivals`."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.entries import Entries, columns
from railweave.traffic.workloads.replay import ReplayedWorkload
from railweave.traffic.workloads.simccl_order import places


class PoissonArrivals(ReplayedWorkload):
    """`messages` between ranks drawn uniformly, which arrive as a Poisson process and have Pareto sizes.

    `size` is the mean size. They arrive so fast that all ranks together send `load` times what the slowest
    link of each GPU carries, without headers. A message waits for a computation of its sender that takes
    as long as its arrival is away, so only engines that model computations carry it out. A rank's messages to
    one other follow one another. Source: the flow arrivals and sizes of Alizadeh et al., "pFabric", SIGCOMM
    2013, section 5, as a Pareto distribution instead of a measured one.
    """

    summary = (
        "messages of Pareto sizes that arrive as a Poisson process, between ranks drawn at random (seed)"
    )
    kind = "arrivals"
    parameters: tuple[Parameter, ...] = (
        Parameter("messages", 1000, "count", "messages in an iteration", minimum=1, maximum=1 << 24),
        Parameter("load", 0.5, "factor", "what is sent over what the GPUs' slowest links carry", 1e-6, 1e6),
        Parameter(
            "shape", 1.5, "factor", "exponent of the sizes' tail: their mean needs more than 1", 1.01, 100
        ),
        Parameter("seed", 1, "count", "seed of the draw", minimum=0, maximum=2**63 - 1),
    )

    def __init__(self, messages: int = 1000, load: float = 0.5, shape: float = 1.5, seed: int = 1) -> None:
        self._messages, self._load, self._shape, self._seed = messages, load, shape, seed

    def drawn(self, n_ranks: int, count: float, rate: float) -> tuple[Int64, Int64, Int64, Float]:
        """(src, dst, elements, seconds of arrival), (messages,) each: `count` elements on average, and `rate`
        messages a second."""
        rng, n = np.random.default_rng(self._seed), self._messages
        src = rng.integers(0, n_ranks, n)
        dst = (src + rng.integers(1, n_ranks, n)) % n_ranks
        least = count * (self._shape - 1) / self._shape
        sizes = least * (1 - rng.random(n)) ** (-1 / self._shape)
        arrival_s = np.cumsum(rng.exponential(1 / rate, n))
        return src, dst, np.maximum(np.rint(sizes), 1).astype(np.int64), arrival_s

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """A computation and a transfer for each message, by arrival. Raises ExperimentError for 1 rank."""
        itemsize, n = np.dtype(dtype).itemsize, len(ranks)
        if n == 1:
            raise ExperimentError(
                "arrivals of 1 rank: it needs 2 or more, senders and receivers. Add a rank."
            )
        count, number = size_bytes // itemsize, np.arange(self._messages)
        slowest = np.full(fabric.n_nodes, np.inf)
        used = np.flatnonzero(fabric.usable)
        np.minimum.at(slowest, fabric.link_src[used], fabric.capacity_bps[used])
        entries, buffer_count = Entries(n, itemsize), 0
        if count:
            entries.phase("arrivals")
            rate = self._load * float(slowest[np.asarray(ranks)].sum()) / (8 * count * itemsize)
            src, dst, length, arrival_s = self.drawn(n, count, rate)
            first, to, buffer_count = places(src, dst, length, np.full_like(src, -1))
            arrived = entries.add(src, src, seconds=arrival_s, slot=number)
            slot = len(number) + number
            entries.add(src, dst, first=first, to=to, length=length, after=columns(arrived), slot=slot)
        return entries.build("arrivals", count, dtype, redop, buffer_count=buffer_count)
