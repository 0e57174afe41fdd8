"""The engine `fluid` as plans and commands see it."""

from collections.abc import Callable, Mapping

from railweave.framework.experiment.plan import Plan, from_document
from railweave.framework.fluid.fluid_run import FluidRun
from railweave.framework.hookspecs import Engine
from railweave.framework.model.events import RunEvent
from railweave.framework.model.findings import Findings
from railweave.framework.parameters import Parameter
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.runs.recorder import Recorder
from railweave.framework.runs.session import Session

NO_PACKETS = "it has no packets, only flows"


class FluidEngine(Engine):
    """Computes a run in this process: flows share links by max-min fairness, on a clock of their own."""

    summary = "flows that share links by max-min fairness, on a simulated clock; no packets, no lab"
    parameters: tuple[Parameter, ...] = ()
    packets = False
    lacks: Mapping[str, str] = {
        "reorder": NO_PACKETS,
        "duplicate": NO_PACKETS,
        "corrupt": NO_PACKETS,
        "loss": "it does not model losses yet",
        "kill controller": "it needs no controller",
        "program": "it has no hosts to run them on",
        "pcap": NO_PACKETS,
        "lab": "it computes a run and keeps nothing up",
    }

    def run(
        self,
        document: Mapping[str, object],
        emit: Callable[[RunEvent], None],
        directory: str | None = None,
        pcap: int | None = None,
    ) -> Findings:
        registers = load_plugins()
        return self.carry_out(from_document(document, registers), registers, emit, directory)

    def carry_out(
        self, plan: Plan, registers: Registers, emit: Callable[[RunEvent], None], directory: str | None
    ) -> Findings:
        """Shape: runs/parts.py, InProcess."""
        run = FluidRun(plan)
        recorder = Recorder(plan.fabric, registers, emit, run.clock.now_s)
        recorder.observers.fire("on_run_start", experiment=plan.document(), directory=directory)
        with Session(plan, run, recorder) as session:
            session.iterate()
            recorder.phase("tear-down")
            return session.findings()
