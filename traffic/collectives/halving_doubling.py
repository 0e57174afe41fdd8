"""All-reduce by recursive halving and doubling."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.traffic.collectives.hierarchical import RAIL_FABRICS, level_links
from railweave.traffic.collectives.operations import AllReduce
from railweave.traffic.collectives.schedule_builder import ScheduleBuilder, Span, chunk_spans


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

    def add_transfers(
        self, builder: ScheduleBuilder, fabric: Fabric, ranks: Sequence[int], count: int
    ) -> None:
        n = len(ranks)
        power = 1 << n.bit_length() - 1
        folded = range(1, 2 * (n - power), 2)
        active = [*folded, *range(2 * (n - power), n)]
        received: list[list[int]] = [[] for _ in ranks]
        if folded:
            builder.phase("fold")
        for odd in folded:
            received[odd] = [builder.transfer(odd - 1, odd, (0, count), reduce=True, after=[])]
        held: list[Span] = [(0, count)] * power
        halved: list[tuple[int, list[Span]]] = []
        for distance in [1 << step for step in range(power.bit_length() - 1)]:
            held = [chunk_spans(span, 2)[i // distance % 2] for i, span in enumerate(held)]
            halved.append((distance, held))
        for verb, exchanges in (("halve", halved), ("double", halved[::-1])):
            halve = verb == "halve"
            for distance, held in exchanges:
                builder.phase(f"{verb}, {distance} apart")
                partners = [i ^ distance for i in range(power)]
                sent = [  # by each active rank once everything sent to it so far has arrived
                    builder.transfer(
                        rank, active[to], held[to if halve else i], reduce=halve, after=received[rank]
                    )
                    for i, (rank, to) in enumerate(zip(active, partners, strict=True))
                ]
                for rank, partner in zip(active, partners, strict=True):
                    received[rank].append(sent[partner])
        if folded:
            builder.phase("unfold")
        for odd in folded:
            builder.transfer(odd, odd - 1, (0, count), reduce=False, after=received[odd])

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """The longest message of every phase and the latency of its two links, one phase after another, on
        rail fabrics where all partners share a domain or a rail (powers of two of both). Source: as the
        class."""
        if fabric.kind not in RAIL_FABRICS or schedule.n_ranks != fabric.n_gpus:
            return None
        src, dst = fabric.gpu_coordinates[schedule.src], fabric.gpu_coordinates[schedule.dst]
        rates, latencies = np.zeros(schedule.n_transfers), np.zeros(schedule.n_transfers)
        for axis, (_, rate, latency_s) in enumerate(level_links(fabric)):
            shared = src[:, axis] == dst[:, axis]
            rates[shared], latencies[shared] = rate, 2 * latency_s
        if not np.all(rates > 0):
            return None
        bits = 8 * np.array([packet.wire_bytes(size) for size in schedule.size.tolist()])
        seconds = bits / rates + latencies
        phases = range(len(schedule.phase_names))
        return sum((float(seconds[schedule.phase == phase].max()) for phase in phases), 0.0)
