"""Many ranks that send to one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Schedule
from railweave.traffic.collectives.arithmetic import count_of, nonzero_input
from railweave.traffic.collectives.patterns import AtOnce, PatternMessages


class Incast(AtOnce):
    """Every rank but the first sends its buffer to the first, all at once. The size is what each sends, as of
    send-recv."""

    summary = "every rank to the first one, at once; any fabric"
    kind = name = "incast"
    least_ranks = 2

    def messages(self, n_ranks: int, count: int) -> PatternMessages:
        src = np.arange(1, n_ranks)
        first = np.full(n_ranks - 1, (n_ranks - 1) * count)
        length = np.full(n_ranks - 1, count)
        return PatternMessages(src, 0 * src, first, (src - 1) * count, length, n_ranks * count)

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """((n_ranks - 1) count + own,) per rank: 0 where it may receive, then what it sends, without a 0 in
        it."""
        count, n = count_of(schedule), schedule.n_ranks
        own = [nonzero_input(schedule, rank, count, seed) for rank in range(n)]
        return [np.pad(array, ((n - 1) * count, 0)) for array in own]

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """((n_ranks - 1) count,): at the first rank what the others sent, in their order; nothing at
        those."""
        count, n = count_of(schedule), schedule.n_ranks
        if rank:
            return inputs[rank][: (n - 1) * count]
        return np.concatenate([inputs[sender][(n - 1) * count :] for sender in range(1, n)])
