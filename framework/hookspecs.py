"""Every extension point: the hooks a plugin implements and the shapes of what it registers.

A plugin is a module named under the entry-point group `railweave`. It implements any of the hooks below with
`@hookimpl`. What it registers has every member of the Protocol of its kind; a missing one is refused when the
command starts. A class that inherits the Protocol, as in `class Mine(Router)`, need not write the members
that have a value or a body here.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pluggy
from numpy.typing import NDArray

from railweave.framework.model import (
    Endpoint,
    EntropyTable,
    Fabric,
    HealthSnapshot,
    IterationResult,
    Measurement,
    PacketFormat,
    RouteTable,
    Rule,
    RuleUpdate,
    Schedule,
)
from railweave.framework.model.arrays import ArrayNoun
from railweave.framework.model.events import ControllerEvent, RunEvent, TransportEvent
from railweave.framework.model.findings import Findings
from railweave.framework.parameters import Parameter, Value

hookspec = pluggy.HookspecMarker("railweave")
hookimpl = pluggy.HookimplMarker("railweave")


class Configurable(Protocol):
    """What every registered object has: one line on what it is, its options, and how it takes values."""

    summary: str
    parameters: tuple[Parameter, ...] = ()

    def configured(self, options: Mapping[str, Value]) -> Any:
        """The object to use with these (parsed, complete) options; asked once per run."""
        return self


class Topology(Configurable, Protocol):
    """Builds fabrics.

    `examples`: options of fabrics to try plugins on, from small to large: those of up to 256 GPUs for every
    check, the first of up to 16 for real runs, larger ones for time and memory. `axis_names`: what the
    coordinates of a GPU are called. `lossless`: whether its links wait instead of dropping, so that routes
    can deadlock. `notes`: what a user should know of the fabric that `build` made, a sentence each.
    """

    examples: tuple[Mapping[str, object], ...] = ({},)
    axis_names: tuple[str, ...] = ()
    lossless: bool = False
    notes: tuple[str, ...] = ()

    @abstractmethod
    def build(self, params: Mapping[str, Value]) -> Fabric:
        """The fabric. Pure; `params` are parsed and complete. Raises FabricError for what cannot exist."""


class Router(Configurable, Protocol):
    """Decides paths. It serves the fabrics whose kind is in `serves` (all kinds if that is empty) and whose
    `Fabric.capabilities` include everything in `requires`, such as ("rails", "lattice"); the words and their
    meanings are `railweave.framework.model.capabilities.MEANINGS`.

    `damped`: whether its choices follow scores. Measured scores are noisy, so a pair then leaves its path
    only for one better by a margin and after a dwell time. False for a router that only looks at what is
    down: its tables are taken whole, as its proofs (deadlock, restoration) want them.
    """

    serves: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    damped: bool = False

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """What `railweave plugin check` holds it to on a fabric it serves: `reroutes`, `equal-split`,
        `deadlock-free` (docs/plugins.md)."""
        return ("reroutes", "deadlock-free") if "lossless" in fabric.capabilities else ("reroutes",)

    @abstractmethod
    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """Choose paths: a table that answers for any pairs of GPUs; the pairs in use are requested in blocks.

        Called once the fabric is up, then on every published health change, off the packet path. Pure: equal
        arguments give equal tables. The table's version is `health.version`.

        Raises:
            UnsupportedFabricError: not a kind of fabric this router serves; says which are.
        An unreachable pair gets no path (an empty range); the caller reports it.
        """


Fact = int | float | str | Sequence[str]


@dataclass(frozen=True)
class Explanation:
    """Why a pair takes the paths it takes.

    `why`: the rule that decided, in a line. `facts`: what the decision rests on, by name, in the order to
    show; numbers, words, or lists of words. The paths themselves are in the table.
    """

    why: str
    facts: Mapping[str, Fact] = field(default_factory=dict)


NodeName = Callable[[int], str]
"""A node as the reader calls it: `rail 5`, or `rail 4` when counting from 0."""


@runtime_checkable
class ExplainingRouter(Protocol):
    """What a router has besides `routes` if it can give reasons (`railweave explain`). Optional: the paths of
    other routers are shown without a reason."""

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The reason behind the answer of `routes` for one pair. Pure. Nodes are called `name(node)`.

        Raises as `routes` does, and RouteError for a GPU that does not exist.
        """


class Collective(Configurable, Protocol):
    """Plans a collective and knows its arithmetic. `serves` and `requires` as for routers.

    `kind` is the operation in nccl-tests' words, whatever the algorithm: all-reduce, all-gather,
    reduce-scatter, all-to-all, broadcast or send-recv; any other word means that no physical limit is known.
    `same_result_everywhere`: whether `expected` is equal on all ranks, and so computed once.

    Before a run starts every method is called once: a mistake is refused with exit code 2.
    """

    kind: str
    serves: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    same_result_everywhere: bool = False

    @abstractmethod
    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """The DAG of transfers for `size_bytes` (nccl-tests' meaning) over the GPUs `ranks`, listed or
        compact. Pure."""

    @abstractmethod
    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """What each rank's data buffer holds before an iteration: small whole numbers, so that sums are
        exact. One array of elements of `schedule.dtype` per rank, of up to `schedule.buffer_bytes`; the rest
        is zero."""

    @abstractmethod
    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """What `rank` must hold afterwards, by plain arithmetic over `inputs`, from the start of its output
        buffer if the schedule writes to output buffers, else of its data buffer. It covers every byte that
        arrived there."""

    def busbw_factor(self, n_ranks: int) -> float:
        """busbw = algbw x this. Source: nccl-tests doc/PERFORMANCE.md."""
        return 1.0

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """What this algorithm takes on the healthy (scaled) fabric by its own formula, headers counted; None
        if it has none. A figure of the result (`model_us`); the verdict is judged by the schedule and its
        routes where the engine measures the latency of a packet."""
        return None


@dataclass(frozen=True, eq=False)
class LinkState(ArrayNoun):
    """What health keeps of every link between measurements, as arrays of n_links; the input of estimators.

    `queue_bytes` smoothed; `loss` the share of packets lost on the way; `service_bps` the last rate seen
    while backlogged, NaN before any; `probe_s` the last probe delay, NaN before any; `up`; `unknown` where a
    link was not measured since another one of its switch turned out slow: until it is, it counts for nothing.
    """

    queue_bytes: NDArray[np.float64]
    loss: NDArray[np.float64]
    service_bps: NDArray[np.float64]
    probe_s: NDArray[np.float64]
    up: NDArray[np.bool_]
    unknown: NDArray[np.bool_]


class Estimator(Configurable, Protocol):
    """Turns what is known of links into raw h-scores; smoothing and publishing are framework/health's."""

    @abstractmethod
    def scores(self, fabric: Fabric, state: LinkState, packet: PacketFormat) -> NDArray[np.float64]:
        """(n_links,), each in 0..1; anything else is refused. Pure. `fabric` has emulated (scaled) rates."""


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

    def start(
        self, endpoints: Sequence[Endpoint], packet: PacketFormat, log_path: str, job: int = 0, jobs: int = 1
    ) -> None:
        """Start the process for these ranks. `job`: the number of its job among `jobs` on the fabric, each of
        which has a process; they may share hosts, and no packet of one may pass for another's."""

    def fileno(self) -> int: ...

    def use_entropies(self, table: EntropyTable) -> None: ...

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


class Engine(Configurable, Protocol):
    """What carries the packets, or the model of them.

    `packets`: whether there are packets; then rules for all pairs of GPUs are planned, and the data that
    arrives is compared. A model routes only the pairs that send. `lacks`: what of an experiment it cannot
    carry out, and why, to be refused before anything starts: verbs of faults (`reorder`), with the kind of
    their object where that matters (`kill controller`), `program`, `pcap`, and `lab` (labs that stay up).
    """

    packets: bool = True
    lacks: Mapping[str, str] = {}

    def run(
        self,
        document: Mapping[str, object],
        emit: Callable[[RunEvent], None],
        directory: str | None = None,
        pcap: int | None = None,
    ) -> Findings:
        """Carry out the run of a plan's document to its end (framework/model/findings.py).

        `directory`: the absolute path of the run directory, for observers; None if the run keeps none.
        `pcap`: a descriptor for the packets of the plan's `pcap` links, if there are any.

        `emit` is called live with the run's events (framework/model/events.py). Everything the engine started
        is gone when this returns or raises (LabError, MachineError, TransportError, ControllerError,
        KeyboardInterrupt).
        """


class Report(Configurable, Protocol):
    """Writes something from a finished run into its run directory."""

    @abstractmethod
    def write(self, result: Mapping[str, Any], directory: str) -> None:
        """`result` is the documented JSON result, as in `directory`/result.json. Called once per run, by the
        process that called `run`; an exception becomes a note."""


class Workload(Collective, Protocol):
    """The messages of an application, as one schedule per iteration; used in place of a collective.

    `kind` is none of nccl-tests' operations, so no physical limit is known for it. Its docstring says what
    `size_bytes` means and what `expected` compares.
    """


class Benchmark(Configurable, Protocol):
    """Measures this machine (`railweave bench NAME`); each parameter is an option of that command.

    `in_lab`: whether `run` is called in the first process of a lab without a fabric: as root of private
    network, mount and process namespaces, with an empty /run, where it may make interfaces and start daemons;
    all of it ends when `run` returns. Else it is called in the command's own process.
    """

    in_lab: bool = False

    @abstractmethod
    def run(self, options: Mapping[str, Value], progress: Callable[[str], None]) -> Mapping[str, Any]:
        """Measure, and return the figures: numbers, words, and lists and mappings of them, by name.

        `options` are parsed and complete. `progress` shows the user a line; every two seconds is often
        enough. Raises MachineError for what this machine lacks.
        """


class Hooks:
    """The hooks. Each `register_*` fires once, when the command starts, and offers objects by name; a name
    taken twice raises PluginError, which names both holders.

    The `on_*` hooks observe a run. All but `on_run_end` fire in the process that holds the session: with the
    engine `emulation` that is the lab's first process, whose loop measures health 40 times a second, so an
    observer that takes longer than a few milliseconds delays the measurement it observes (a note says so).
    `on_run_end` and reports fire once per run, in the process that called `run`, after `result.json` is
    written. An exception becomes a note that names plugin, file and line, and the run goes on; printed lines
    become notes, too.
    """

    @hookspec
    def register_topologies(self, register: Callable[[str, Topology], None]) -> None:
        """Offer fabrics by name (`--topology NAME`)."""

    @hookspec
    def register_routers(self, register: Callable[[str, Router], None]) -> None:
        """Offer routers by name (`--router NAME`)."""

    @hookspec
    def register_collectives(self, register: Callable[[str, Collective], None]) -> None:
        """Offer collectives by name (`--collective NAME`)."""

    @hookspec
    def register_workloads(self, register: Callable[[str, Workload], None]) -> None:
        """Offer workloads by name (`--workload NAME`)."""

    @hookspec
    def register_estimators(self, register: Callable[[str, Estimator], None]) -> None:
        """Offer health estimators by name (`--estimator NAME`)."""

    @hookspec
    def register_controllers(self, register: Callable[[str, Controller], None]) -> None:
        """Offer OpenFlow controllers by name (`--controller NAME`)."""

    @hookspec
    def register_transports(self, register: Callable[[str, Transport], None]) -> None:
        """Offer transports by name (`transport:` in the experiment)."""

    @hookspec
    def register_engines(self, register: Callable[[str, Engine], None]) -> None:
        """Offer engines by name (`engine:` in the experiment)."""

    @hookspec
    def register_reports(self, register: Callable[[str, Report], None]) -> None:
        """Offer reports by name; all of them are written at the end of a run."""

    @hookspec
    def register_benchmarks(self, register: Callable[[str, Benchmark], None]) -> None:
        """Offer benchmarks by name (`railweave bench NAME`)."""

    @hookspec
    def on_run_start(self, experiment: Mapping[str, Any], directory: str | None) -> None:
        """A run begins; nothing is up yet. `experiment`: the resolved experiment, as in the result.
        `directory`: the absolute path of the run directory, which observers may write to; None if the run
        keeps none."""

    @hookspec
    def on_fabric_up(self, fabric: Fabric, endpoints: Sequence[Endpoint]) -> None:
        """The fabric is up, with emulated rates, and its first rules are installed; no traffic yet."""

    @hookspec
    def on_health(self, health: HealthSnapshot, measurement: Measurement) -> None:
        """New scores were published, from this latest measurement; `health.t_s` is the time."""

    @hookspec
    def on_reroute(
        self, table: RouteTable, pairs: NDArray[np.int64], pairs_changed: int, why: str, t_s: float
    ) -> None:
        """Changed routes were installed and are in use. `pairs`: the (src, dst) GPUs that moved,
        (pairs_changed, 2); `t_s`: seconds since the first iteration began."""

    @hookspec
    def on_iteration(self, result: IterationResult, t_s: float, job: int) -> None:
        """One iteration of the collective ended, at `t_s` seconds after the first began; `job`: of which of
        several jobs."""

    @hookspec
    def on_run_end(self, result: Mapping[str, Any], directory: str | None) -> None:
        """The run is over and its result written; `result` is the documented JSON result."""
