"""The engine `packet` as plans and commands see it."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from railweave.framework.errors import ExperimentError, NotInstalledError
from railweave.framework.experiment.plan import Plan
from railweave.framework.experiment.ramp import MARK_PARAMETERS, ramp_of
from railweave.framework.experiment.wants import chooses, controls
from railweave.framework.hookspecs import Callers, Engine, Estimate
from railweave.framework.model import PacketFormat
from railweave.framework.model.events import RunEvent
from railweave.framework.model.findings import Findings
from railweave.framework.parameters import Parameter, Value
from railweave.framework.parameters.units import size as size_text
from railweave.framework.runs.computed import computed
from railweave.plugins.packet.buffers import BUFFER_SOURCE, Buffers
from railweave.plugins.packet.machine import called
from railweave.plugins.packet.packet_run import PacketRun

PROGRAM_BYTES, PAIR_BYTES, ENTRY_BYTES, HOP_BYTES, LINK_BYTES, PACKET_BYTES = (
    150_000_000, 1_000, 250, 35, 500, 110,
)  # fmt: skip
"""Memory of the program with numba, and of each pair in use, entry of the listed schedule, hop of the paths,
link, and packet in flight with its events."""
START_S, EVENTS_PER_S = 2.0, 3.3e6
"""Wall-clock seconds of a run without packets whose code is compiled, and events a second of one core
(`railweave bench packet`, docs/packets.md)."""


class PacketEngine(Engine):
    """Computes a run in this process, packet by packet, on a clock of its own."""

    summary = "packets in queues with marks, losses and choice of paths, on a simulated clock; no lab"
    parameters: tuple[Parameter, ...] = (
        *MARK_PARAMETERS,
        Parameter(
            "marks_at", "enqueue", "text",
            "a packet is marked by the queue that it finds, or by what waits behind it as it leaves",
            choices=("enqueue", "dequeue"),
        ),
        Parameter(
            "switching", "auto", "text",
            "a switch sends a packet on once all is there, or 64 bytes of it if the next link is no faster, "
            "or links are token buckets, as on a lab, which it leaves at once; auto: the first, or with "
            "packet-latency the last",
            choices=("auto", "store-and-forward", "cut-through", "token-buckets"),
        ),
        Parameter(
            "packet_latency", 0.0, "time",
            "what a lab's switches and transport add to a packet from a GPU to the next, on the run's clock; "
            "with it links, NICs and acknowledgements are by default those of a lab",
            minimum=0,
        ),
        Parameter(
            "buffer", 0, "bytes",
            "room of a switch's queue for each port and priority; what finds it full is dropped; 0: no limit "
            "(a lab's queues hold all windows)",
            minimum=0,
        ),
        Parameter(
            "queue", "fifo", "text",
            "packets of data wait as they came, or pairs take turns, a packet each, as flows of fluid share "
            "links; slower to compute",
            choices=("fifo", "fair"),
        ),
        Parameter(
            "trimming", False, "bool",
            "a packet that finds a queue full goes on without its payload, before data, and its receiver "
            "asks for it again; with buffer",
        ),
        Parameter(
            "adaptive", "off", "text",
            "switches choose among the paths of a pair, for every packet or every flowlet: the next link "
            "with the shortest queue",
            choices=("off", "packet", "flowlet"),
        ),
        Parameter(
            "gap", 500e-9, "time", "declared time without a packet after which a flowlet ends", minimum=0
        ),
        Parameter(
            "ties", "drawn", "text",
            "which of equally short queues an adaptive switch takes: a drawn one, or the first by the link's "
            "number",
            choices=("id", "drawn"),
        ),
        Parameter(
            "buffer_model", "port", "text",
            "ports have buffers of their own, or the data of all ports of a switch shares one of the size "
            f"buffer; 0 is then {BUFFER_SOURCE}",
            choices=("port", "shared"),
        ),
        Parameter(
            "alpha", 1.0, "factor",
            "a queue, or with pfc a port that does not pause, may have that many times what is free of a "
            "shared buffer",
            minimum=0.001,
        ),
        Parameter(
            "pfc", False, "bool",
            "a port pauses the data of its link where it holds more than xoff, instead of dropping it (IEEE "
            "802.1Qbb); buffer is then its room",
        ),
        Parameter(
            "xoff", 256 << 10, "bytes",
            "what a port holds before it pauses its link (at 400 Gb/s the time of DCQCN's 24.47 KB at 40)",
            minimum=0,
        ),
        Parameter(
            "xon", "auto", "bytes", "down to which a paused link goes on; auto: two packets below xoff",
            minimum=0, word="auto",
        ),
        Parameter(
            "headroom", "auto", "bytes",
            "room above xoff; auto: twice the latency at the rate, three packets, and the response time",
            minimum=0, word="auto",
        ),
        Parameter("response", 0.0, "time", "time until a pause that has come is obeyed", minimum=0),
        Parameter(
            "window", "transport", "text",
            "what a pair may have in flight: as the transport does, or ideal: its bandwidth-delay product "
            "and eight packets",
            choices=("transport", "ideal"),
        ),
        Parameter(
            "ack_every", "auto", "count",
            "packets that an acknowledgement waits for at most; marked ones and the last of a message are "
            "acknowledged at once; auto: 4, or with packet-latency as the transport asks",
            minimum=1, maximum=256, word="auto",
        ),
        Parameter(
            "nic", "auto", "text",
            "a NIC fetches packets of its pairs in turn, or queues what their windows allow (fifo), as on a "
            "lab; auto: in turn, or with packet-latency fifo",
            choices=("auto", "in-turn", "fifo"),
        ),
    )  # fmt: skip
    packets, predicts = False, True
    lacks: Mapping[str, str] = {
        "reorder": "links keep the order of packets",
        "duplicate": "links carry every packet once",
        "kill controller": "it needs no controller",
        "kill switch without back": "it has no processes: it takes the switch's links down until `back`",
        "program": "it has no hosts to run them on",
        "pcap": "its packets have sizes, but no bytes",
        "probe_s": "nothing times its trains",
        "lab": "it computes a run and keeps nothing up",
    }

    def configured(self, options: Mapping[str, Value]) -> Engine:
        ramp_of(options)
        if options["trimming"] and options["pfc"]:
            raise ExperimentError(
                "trimming and pfc: queues that pause are never full, so nothing is trimmed. Leave one out."
            )
        if options["trimming"] and not options["buffer"] and options["buffer_model"] == "port":
            raise ExperimentError(
                "trimming: queues have no limit, so no packet finds one full. Give --buffer, such as 128K."
            )
        if options["packet_latency"] and options["switching"] not in ("auto", "token-buckets"):
            raise ExperimentError(
                f"switching {options['switching']}: a lab, whose packet_latency is given, has token buckets. "
                "Leave one of them out."
            )
        Buffers.of(options, PacketFormat())
        return self

    def run(
        self,
        plan: Plan,
        observers: Callers,
        emit: Callable[[RunEvent], None],
        directory: str | None = None,
        pcap: int | None = None,
    ) -> Findings:
        return computed(plan, PacketRun(plan, emit), observers, emit, directory)

    def estimate(self, plan: Plan) -> Estimate:
        """Events of all iterations: one a packet and link, two where links have latency and packets wait, and
        those of acknowledgements.
        Memory: also a byte for each packet of the largest iteration, which says whether it arrived.
        Raises NotInstalledError without numba, ExperimentError where no packet fits into a queue, or buffers
        are too small for pauses, PluginError for a chooser or control that cannot be compiled."""
        options = plan.experiment.engine.options
        if find_spec("numba") is None:
            raise NotInstalledError(
                "the engine packet computes with numba, which is not installed. "
                "Install it: pip install 'railweave[fluid]'."
            )
        largest, room = plan.packet.full_packet_bytes + plan.packet.RETH, int(str(options["buffer"]))
        if 0 < room < largest:
            raise ExperimentError(
                f"buffer {size_text(room)}: no packet of {largest} bytes fits into it. Raise it, or lower "
                "path_mtu."
            )
        check_buffers(plan)
        functions_of(plan)
        events, kept, entries = 0.0, 0.0, 0
        hops = _mean_hops(plan)
        per_hop = 3 if plan.fabric.latency_s.any() else 2
        for job in plan.jobs:
            most = 0.0
            for schedule in job.schedules:
                sent = schedule.is_transfer
                packets = float(schedule.in_all(plan.packet.packets_of)[sent].sum())
                events += packets * hops * per_hop * (job.experiment.iterations or 1)
                most = max(most, packets)
                entries = max(entries, int(schedule.repeat.sum(dtype=np.int64)))
            kept += most
        pairs = sum(len(paths.src) for paths in plan.first_paths)
        in_paths = sum(len(paths.links) for paths in plan.first_paths)
        memory = PROGRAM_BYTES + PAIR_BYTES * pairs + ENTRY_BYTES * entries + HOP_BYTES * in_paths
        memory += LINK_BYTES * plan.fabric.n_links + PACKET_BYTES * _in_flight(plan, pairs)
        return Estimate(memory + int(kept), START_S + events / EVENTS_PER_S, events=round(events))


def functions_of(plan: Plan) -> Any:
    """The chooser and the control of the user's, compiled (machine.py); a run then finds them compiled."""
    experiment = plan.experiment
    chooser = plan.chooser if chooses(experiment) else None
    control = plan.control if controls(experiment) else None
    return called(chooser, control, (experiment.chooser.name, experiment.control.name))


def check_buffers(plan: Plan) -> None:
    """Raises ExperimentError where ports have too little room for pauses."""
    Buffers.of(plan.experiment.engine.options, plan.packet).records(plan.fabric, plan.packet)


def _mean_hops(plan: Plan) -> float:
    """Links of a path in use, on average."""
    paths = sum(len(batch.weight) for batch in plan.first_paths)
    return sum(len(batch.links) for batch in plan.first_paths) / max(paths, 1)


def _in_flight(plan: Plan, pairs: int) -> int:
    """Packets at most: a window of each pair, but no more than it sends."""
    packets = sum(
        float(schedule.in_all(plan.packet.packets_of).max(initial=0.0))
        for job in plan.jobs
        for schedule in job.schedules[-1:]
    )
    return int(pairs * min(64.0, packets))
