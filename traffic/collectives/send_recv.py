"""Send and receive between neighbours."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives import closed_forms
from railweave.traffic.collectives.arithmetic import dtype_of, nonzero_input
from railweave.traffic.collectives.operations import Operation, check_ranks
from railweave.traffic.collectives.schedule_builder import ScheduleBuilder


class SendRecv(Operation):
    """Every rank sends its buffer to the next one and receives that of the one before it, in the cycle of
    ranks.

    The size is one rank's buffer, rounded down to whole elements (nccl-tests, sendrecv). Every rank's memory
    has two of them: what it receives, then what it sends. `redop` does not matter.
    """

    summary = "every rank to the next and from the one before, at once; any fabric"
    kind = name = "send-recv"
    regions = 2

    def check(self, fabric: Fabric, ranks: Sequence[int]) -> None:
        check_ranks(fabric, ranks)
        if len(ranks) == 1:
            raise ExperimentError(
                "send-recv of 1 rank: it needs 2 or more, a sender and a receiver. Add a rank."
            )

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        builder.phase("send-recv")
        for rank in range(len(ranks)):
            builder.transfer(rank, (rank + 1) % len(ranks), (count, 2 * count), to=0, reduce=False, after=[])

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """(2 count,) per rank: 0, then what it sends, without a 0 in it."""
        kind, n = dtype_of(schedule.dtype), schedule.n_ranks
        count = schedule.size_bytes // kind.itemsize
        buffers = np.zeros((n, 2 * count), kind)
        for rank in range(n):
            buffers[rank, count:] = nonzero_input(schedule.dtype, n, rank, count, seed)
        return list(buffers)

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """(count,): what the rank before sent."""
        buffer = inputs[(rank - 1) % schedule.n_ranks]
        return buffer[len(buffer) // 2 :]

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """One step, on rings."""
        return closed_forms.ring_s(fabric, schedule, packet, 1)
