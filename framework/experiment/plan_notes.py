"""What a user should know of the traffic of a plan, although nothing is wrong with it."""

from collections.abc import Iterator, Sequence

from railweave.framework.model import Fabric, Schedule
from railweave.framework.parameters import units

HOP_S = 1e-6
"""What switches, cables and NICs of real fabrics add to a message, in order of magnitude: one that is sent in
less is governed by it."""


def notes_of_traffic(fabric: Fabric, schedules: Sequence[Schedule]) -> Iterator[str]:
    """Of sizes that send nothing, and of messages so small that latencies would decide, where all are 0."""
    if any(schedule.size_bytes == 0 for schedule in schedules):
        yield "size 0: nothing is sent, so there is no time to measure"
    if fabric.latency_s.any():
        return
    slowest_bps = float(fabric.capacity_bps.min())
    small = [
        units.size(schedule.size_bytes)
        for schedule in schedules
        if schedule.n_transfers and 8 * int(schedule.size.max()) / slowest_bps < HOP_S
    ]
    if small:
        yield (
            f"every latency of this fabric is 0, and messages of size {', '.join(small)} are sent in less "
            f"than {units.time(HOP_S)}: their times are a lower bound. Declare latencies, such as "
            "--rail-latency 1us, for others"
        )
