"""All-reduce by recursive halving and doubling."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.model.arrays import Int32
from railweave.traffic.collectives.entries import Entries, columns
from railweave.traffic.collectives.hierarchical import RAIL_FABRICS, level_links
from railweave.traffic.collectives.operations import AllReduce
from railweave.traffic.collectives.ring_blocks import none_ready


class HalvingDoublingAllReduce(AllReduce):
    """Recursive halving of what a pair of ranks has yet to reduce, then recursive doubling of what it has
    reduced: 2 log2 p steps over the largest power of two p <= n.

    Partners are 1, 2, 4, ... apart, so the largest messages go to the nearest ranks. The n - p ranks beyond
    the power of two are folded in: of the first 2 (n - p), each even one gives its buffer to the odd one
    after it, rests, and gets the result back. Source: Thakur, Rabenseifner and Gropp, "Optimization of
    collective communication operations in MPICH", 2005, section 4.5.
    """

    summary = "recursive halving and doubling, 2 log2 n steps; other numbers of ranks are folded; any fabric"
    name = "halving-doubling-all-reduce"

    def add_transfers(self, entries: Entries, fabric: Fabric, ranks: Sequence[int], count: int) -> None:
        n = len(ranks)
        power = 1 << n.bit_length() - 1
        folded = np.arange(1, 2 * (n - power), 2)
        active = np.append(folded, np.arange(2 * (n - power), n))
        ready = none_ready(n)[:, 0]
        if folded.size:
            entries.phase("fold")
            ready[folded] = entries.add(folded - 1, folded, length=count, reduce=True)
        place, first, last = np.arange(power), np.zeros(power, np.int64), np.full(power, count)
        halved = []
        for step in range(power.bit_length() - 1):
            middle, upper = first + (last - first) // 2, (place >> step & 1).astype(bool)
            first, last = np.where(upper, middle, first), np.where(upper, last, middle)
            halved.append((1 << step, first, last - first))
        for verb, exchanges in (("halve", halved), ("double", halved[::-1])):
            for distance, first, length in exchanges:
                entries.phase(f"{verb}, {distance} apart")
                partner = place ^ distance
                block = partner if verb == "halve" else place
                sent = entries.add(  # by each active rank once everything sent to it so far has arrived
                    active,
                    active[partner],
                    first=first[block],
                    length=length[block],
                    reduce=verb == "halve",
                    after=columns(ready[active]),
                )
                ready[active] = entries.wait(active, columns(ready[active], sent[partner]))
        if folded.size:
            entries.phase("unfold")
            entries.add(folded, folded - 1, length=count, after=columns(ready[folded]))

    def symmetries(self, fabric: Fabric, ranks: Sequence[int]) -> Int32:
        """Of a power of two: every rank and the one 1, 2, 4, ... apart change places."""
        n = len(ranks)
        apart = 1 << np.arange(n.bit_length() - 1 if n & (n - 1) == 0 else 0)
        return (np.arange(n) ^ apart[:, None]).astype(np.int32)

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """The longest message of every phase and the latency of its two links, one phase after another, on
        rail fabrics where all partners share a domain or a rail (powers of two of both). Source: as the
        class."""
        if fabric.kind not in RAIL_FABRICS or schedule.n_ranks != fabric.n_gpus:
            return None
        sent = schedule.is_transfer
        src, dst = (fabric.gpu_coordinates[ends[sent]] for ends in (schedule.src, schedule.dst))
        rates, latencies = np.zeros(len(src)), np.zeros(len(src))
        for axis, (_, rate, latency_s) in enumerate(level_links(fabric)):
            shared = src[:, axis] == dst[:, axis]
            rates[shared], latencies[shared] = rate, 2 * latency_s
        if not np.all(rates > 0):
            return None
        seconds = 8 * packet.wire_bytes_of(schedule.size[sent]) / rates + latencies
        phases, phase = range(len(schedule.phase_names)), schedule.phase[sent]
        return sum((float(seconds[phase == number].max()) for number in phases), 0.0)
