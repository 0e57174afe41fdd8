"""The engine `fluid` as plans and commands see it."""

from collections.abc import Callable, Mapping

from railweave.framework.experiment.plan import Plan
from railweave.framework.hookspecs import Callers, Engine, Estimate
from railweave.framework.model.events import RunEvent
from railweave.framework.model.findings import Findings
from railweave.framework.parameters import Parameter
from railweave.framework.runs.computed import computed
from railweave.plugins.fluid.fluid_run import FluidRun

PROGRAM_BYTES, ENTRY_BYTES, PAIR_BYTES, HOP_BYTES, LINK_BYTES = 60_000_000, 250, 200, 35, 400
"""Memory of the program, and of each entry of a schedule, pair in use, hop of its paths, and link; measured
with all-to-alls of 256 and 1,024 ranks on rail-only fabrics and tori, and 65,536 GPUs."""
NO_PACKETS = "it has no packets, only flows"


class FluidEngine(Engine):
    """Computes a run in this process: flows share links by max-min fairness, on a clock of their own."""

    summary = "flows that share links by max-min fairness, on a simulated clock; no packets, no lab"
    parameters: tuple[Parameter, ...] = (
        Parameter("symmetry", True, "bool", "transfers that symmetries make alike are computed once"),
        Parameter(
            "numba",
            "auto",
            "text",
            "compiled code for the solver (extra `fluid`): same times; auto: where it pays",
            choices=("auto", "on", "off"),
        ),
        Parameter(
            "packet_latency",
            0.0,
            "time",
            "what a lab's switches and transport add to a message from GPU to GPU, on the run's clock; "
            "with it acknowledgements count",
            minimum=0,
        ),
    )
    packets, predicts = False, True
    lacks: Mapping[str, str] = {
        "reorder": NO_PACKETS,
        "duplicate": NO_PACKETS,
        "kill controller": "it needs no controller",
        "kill switch without back": "it has no processes: it takes the switch's links down until `back`",
        "program": "it has no hosts to run them on",
        "pcap": NO_PACKETS,
        "chooser": NO_PACKETS,
        "control": "its flows take their fair share at once",
        "probe_s": "nothing times its trains",
        "paths": NO_PACKETS,
        "lab": "it computes a run and keeps nothing up",
    }

    def run(
        self,
        plan: Plan,
        observers: Callers,
        emit: Callable[[RunEvent], None],
        directory: str | None = None,
        pcap: int | None = None,
    ) -> Findings:
        return computed(plan, FluidRun(plan, emit), observers, emit, directory)

    def estimate(self, plan: Plan) -> Estimate:
        """Every iteration that differs from the others is computed once: those of a size, and again after
        each fault and the reroute that answers it."""
        schedules = [schedule for job in plan.jobs for schedule in job.schedules]
        states = 1 + 2 * len(plan.faults)
        entries = sum(schedule.n_entries for schedule in schedules)
        transfers = sum(schedule.n_transfers for schedule in schedules)
        pairs = sum(len(paths.src) for paths in plan.first_paths)
        hops = sum(len(paths.links) for paths in plan.first_paths)
        memory = ENTRY_BYTES * entries + PAIR_BYTES * pairs + HOP_BYTES * hops
        memory += LINK_BYTES * plan.fabric.n_links
        if plan.faults:  # fewer things are alike then, and the states before and after are there
            memory *= 2
        memory += PROGRAM_BYTES
        return Estimate(memory, events=transfers * states)
