"""What carries a run: engines, and the processes that the lab's engine drives."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from railweave.framework.hookspecs.configurable import Configurable
from railweave.framework.model import (
    Endpoint,
    EntropyTable,
    Fabric,
    PacketFormat,
    PathBatch,
    Rule,
    RuleUpdate,
    Schedule,
)
from railweave.framework.model.arrays import Float
from railweave.framework.model.events import ControllerEvent, RunEvent, TransportEvent
from railweave.framework.model.findings import Findings
from railweave.framework.model.senders import Senders
from railweave.framework.parameters import Value


class Controller(Configurable, Protocol):
    """Drives a controller process from outside it. Never blocks: results come as events
    (framework/model/events.py)."""

    def start(self, listeners: Sequence[int], log_path: str) -> None:
        """Start the process. `listeners`: descriptors of listening TCP sockets to which switches connect."""

    def fileno(self) -> int: ...

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """All rules: every switch is read back and made to hold exactly these. Also after a restart."""

    def apply(self, update: RuleUpdate) -> None:
        """Install, then switch over, each phase behind barriers (UpdateApplied follows); `remove` is held
        back until `retire(update.version)`."""

    def retire(self, version: int) -> None:
        """Remove the old rules that update `version` kept for packets in flight."""

    def send_train(self, switch: int, port: int, packets: int, size_bytes: int, timed: int = 0) -> None:
        """Send back-to-back packets out of a port, to measure its link. They match no rule beyond it, but for
        the first and last of train number `timed` (1..65535) if rules there send addressing.TRAIN_SEEN to the
        controller: TrainTimed follows with time.monotonic() at sending and at both arrivals."""

    def poll_ports(self, number: int) -> None:
        """Ask every switch for the counters of its ports; PortCounts follows. In order with `send_train`."""

    def events(self) -> list[ControllerEvent]: ...

    def pid(self) -> int: ...

    def stop(self) -> None: ...


class Capture(Protocol):
    """A running capture of links."""

    def stop(self) -> int:
        """Write everything and end; returns how many packets were missed because memory was full."""


class Transport(Configurable, Protocol):
    """Drives a sender process from outside it. Never blocks: results come as events
    (framework/model/events.py)."""

    def senders(
        self, fabric: Fabric, paths: PathBatch, packet: PacketFormat, window_bits: Float | None = None
    ) -> Senders:
        """How the senders of these pairs behave (framework/model/senders.py): for engines that
        compute, and for what lost packets are expected to cost in a lab.

        `fabric` has the rates in use. `window_bits` (P,): windows in place of the transport's, for which they
        then wait as long as they would for theirs. Pure: nothing is started."""

    def start(
        self, endpoints: Sequence[Endpoint], packet: PacketFormat, log_path: str, job: int = 0, jobs: int = 1
    ) -> None:
        """Start the process for these ranks. `job`: the number of its job among `jobs` on the fabric, each of
        which has a process; they may share hosts, and no packet of one may pass for another's."""

    def fileno(self) -> int: ...

    def use_entropies(self, table: EntropyTable) -> None: ...

    def retry(self) -> None:
        """Links that were down are up again: senders that wait for an answer had better ask at once."""

    def begin(
        self, collective: str, options: Mapping[str, Value], schedule: Schedule, iteration: int, seed: int
    ) -> None:
        """Run one iteration; IterationFinished or IterationFailed follows."""

    def capture(self, links: Sequence[tuple[str, str, str]], file: int, log_path: str) -> Capture:
        """Write the packets of (namespace path, interface, label) into the open descriptor `file`, as pcapng.

        Returns once every link is captured.
        """

    def events(self) -> list[TransportEvent]: ...

    def pid(self) -> int: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will take of this machine; None where that is not known.

    `seconds` of wall clock, bring-up included, at `rate_scale`; `events`: how many will be computed at most.
    """

    memory_bytes: int | None = None
    seconds: float | None = None
    rate_scale: float | None = None
    events: int | None = None


class Callers(Protocol):
    """The observers that a run calls (framework/registry.py, Registers)."""

    def callers(self, hook: str) -> Iterable[tuple[str, Callable[..., Any]]]:
        """(plugin, function) of every plugin that has this hook."""


class Engine(Configurable, Protocol):
    """What carries the packets, or the model of them.

    `packets`: whether there are packets; then rules for all pairs of GPUs are planned, and the data that
    arrives is compared. A model routes only the pairs that send, and a switch that is killed there is one
    whose links are down. `predicts`: whether it computes runs in the process that asks, so that it can say
    what a run on another engine should take (`--predict`, `what-if`, reports). `lacks`: what of an experiment
    it cannot carry out, and why, to be refused before anything starts: verbs of faults (`reorder`), with the
    kind of their object where that matters (`kill controller`, `kill switch without back`), `program`,
    `pcap`, `trace`, `chooser` (paths packet by packet), `control` (congestion control other than `window`),
    evidence that estimators need (`probe_s`), and `lab`
    (labs that stay up).

    A `plan` is checked, and has everything decided (framework/experiment/plan.py, Plan).
    """

    packets: bool = True
    predicts: bool = False
    lacks: Mapping[str, str] = {}

    def estimate(self, plan: Any) -> Estimate:
        """What the run of a plan will take; nothing is started. Runs that need more memory than there is are
        refused."""
        return Estimate()

    def run(
        self,
        plan: Any,
        observers: Callers,
        emit: Callable[[RunEvent], None],
        directory: str | None = None,
        pcap: int | None = None,
    ) -> Findings:
        """Carry out the run of a plan to its end (framework/model/findings.py).

        `observers`: those to call, for an engine that runs in this process; others load the installed ones.
        `directory`: the absolute path of the run directory, for observers; None if the run keeps none.
        `pcap`: a descriptor for the packets of the plan's `pcap` links, if there are any.

        `emit` is called live with the run's events (framework/model/events.py). Everything the engine started
        is gone when this returns or raises (LabError, MachineError, TransportError, ControllerError,
        KeyboardInterrupt).
        """
