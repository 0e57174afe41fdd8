"""Every extension point: the hooks a plugin implements and the shapes of what it registers.

A plugin is a module named under the entry-point group `railweave`. It implements any of the hooks below with
`@hookimpl`. All registered objects carry `summary` (one line) and `parameters` (their options); an object with
options is asked `configured(options)` once per run and answers with the object to use.
"""

from __future__ import annotations

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
from railweave.framework.parameters import Parameter, Value

hookspec = pluggy.HookspecMarker("railweave")
hookimpl = pluggy.HookimplMarker("railweave")


class Configurable:
    """Convenience base of registered objects without options."""

    summary: str = ""
    parameters: tuple[Parameter, ...] = ()

    def configured(self, options: Mapping[str, Value]) -> Any:
        """The object to use with these (parsed, complete) options."""
        return self


class Topology(Protocol):
    """Builds fabrics. `build` is pure; `params` are parsed and complete. Raises FabricError."""

    summary: str
    parameters: tuple[Parameter, ...]

    def build(self, params: Mapping[str, Value]) -> Fabric: ...


class Router(Protocol):
    """Decides paths. `serves` names the fabric kinds it can route.

    `damped`: whether its choices follow scores. Measured scores are noisy, so a pair then leaves its path only for
    one better by a margin and after a dwell time. False for a router that only looks at what is down: its tables
    are taken whole, as its proofs (deadlock, restoration) want them.

    A router may have `promises(fabric) -> tuple[str, ...]` besides: what `railweave plugin check` holds it to
    (`reroutes`, `equal-split`, `deadlock-free`); see docs/plugins.md.
    """

    summary: str
    parameters: tuple[Parameter, ...]
    serves: tuple[str, ...]
    damped: bool

    def configured(self, options: Mapping[str, Value]) -> Router: ...

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """Choose paths for every ordered pair of GPUs.

        Called once the fabric is up, then on every published health change, off the packet path. Pure: equal
        arguments give equal tables. The table's version is `health.version`.

        Raises:
            UnsupportedFabricError: not a kind of fabric this router serves; says which are.
        A pair that is cut off gets no path (an empty range); the caller reports it.
        """
        ...


Fact = int | float | str | Sequence[str]


@dataclass(frozen=True)
class Explanation:
    """Why a pair goes the way it does.

    `why`: the rule that decided, in a line. `facts`: what it was made of, by name and in the order of telling;
    numbers, words, or lists of words. The paths themselves are the table's.
    """

    why: str
    facts: Mapping[str, Fact] = field(default_factory=dict)


NodeName = Callable[[int], str]
"""How the reader calls a node: `rail 5`, or `rail 4` where one counts from 0."""


@runtime_checkable
class ExplainingRouter(Protocol):
    """What a router has besides `routes` if it can say why (`railweave explain`). Optional: the others get their
    paths shown without a reason."""

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The reason behind what `routes` answers for one pair. Pure. Nodes are spoken of by `name(node)`.

        Raises as `routes` does, and RouteError for a GPU that is not there.
        """
        ...


class Collective(Protocol):
    """Plans a collective and knows its arithmetic. `serves` names fabric kinds; empty serves all.

    `kind` is the operation in nccl-tests' words, whatever the algorithm: all-reduce, all-gather, all-to-all, ...
    """

    summary: str
    kind: str
    parameters: tuple[Parameter, ...]
    serves: tuple[str, ...]

    def configured(self, options: Mapping[str, Value]) -> Collective: ...

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """The DAG of transfers for `size_bytes` (nccl-tests' meaning) over the GPUs `ranks`. Pure."""
        ...

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """What each rank's data buffer holds before an iteration: small whole numbers, so that sums are exact."""
        ...

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """What `rank` must hold afterwards, by plain arithmetic over `inputs`."""
        ...

    def busbw_factor(self, n_ranks: int) -> float:
        """busbw = algbw x this. Source: nccl-tests doc/PERFORMANCE.md."""
        ...

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """What this algorithm takes on the healthy (scaled) fabric by its own formula, headers counted; None if
        it has none."""
        ...


@dataclass(frozen=True)
class LinkState:
    """What health keeps of every link between measurements, as arrays of n_links; the input of estimators.

    `queue_bytes` smoothed; `loss` smoothed share of packets; `service_bps` the last rate seen while backlogged,
    NaN before any; `probe_s` the last probe delay, NaN before any; `up`.
    """

    queue_bytes: NDArray[np.float64]
    loss: NDArray[np.float64]
    service_bps: NDArray[np.float64]
    probe_s: NDArray[np.float64]
    up: NDArray[np.bool_]


class Estimator(Protocol):
    """Turns what is known of links into raw h-scores. Pure; smoothing and publishing are framework/health's."""

    summary: str
    parameters: tuple[Parameter, ...]

    def configured(self, options: Mapping[str, Value]) -> Estimator: ...

    def scores(self, fabric: Fabric, state: LinkState, packet: PacketFormat) -> NDArray[np.float64]:
        """(n_links,) in 0..1. `fabric` has emulated (scaled) rates."""
        ...


@dataclass(frozen=True)
class Event:
    """Something a controller or transport reports. `kind` and its data:

    controller: ready {}; switch_up {dpid}; carriers {dpid, down} behind it, the ports without one; switch_down
    {dpid}; port {dpid, port, up}; applied {version, rules, seconds}; installed {rules, seconds, missing} after a
    resync; refused {dpid, why}; died {why}; ports {number, rows}, all switches'
    answers to `poll_ports(number)`: (n, 6) int64 of dpid, port, received bytes, sent bytes, sent packets, age of the
    port in ms; timed {number, sent_s, first_s, last_s} when both ends of a timed train have come.
    transport: ready {}; started {iteration}; progress {iteration, done, total}; finished {result};
    failed {why, ranks}; died {why}.
    """

    kind: str
    data: dict[str, Any] = field(default_factory=dict)


class Controller(Protocol):
    """Drives a controller process from outside it. Never blocks: results come as events."""

    summary: str
    parameters: tuple[Parameter, ...]

    def start(self, listeners: Sequence[int], log_path: str) -> None:
        """Start the process. `listeners`: descriptors of listening TCP sockets to which switches connect."""
        ...

    def fileno(self) -> int: ...

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """The whole intent: every switch is read back and made to hold exactly these. Also after a restart."""
        ...

    def apply(self, update: RuleUpdate) -> None:
        """Install, then switch over, each phase behind barriers (`applied` follows); `remove` is held back until
        `retire(update.version)`."""
        ...

    def retire(self, version: int) -> None:
        """Remove what update `version` left behind for packets that were under way."""
        ...

    def send_train(self, switch: int, port: int, packets: int, size_bytes: int, timed: int = 0) -> None:
        """Send back-to-back packets out of a port, to measure its link. They match no rule beyond it, but for the
        first and last of train number `timed` (1..65535) if rules there send addressing.TRAIN_SEEN to the controller:
        `timed` follows with time.monotonic() at sending and at both arrivals."""
        ...

    def poll_ports(self, number: int) -> None:
        """Ask every switch for the counters of its ports; `ports` follows. In order with `send_train`."""
        ...

    def events(self) -> list[Event]: ...

    def pid(self) -> int: ...

    def stop(self) -> None: ...


class Capture(Protocol):
    """A capture of links that is under way."""

    def stop(self) -> int:
        """Write everything and end; how many packets were missed because memory was full."""
        ...


class Transport(Protocol):
    """Drives a sender process from outside it. Never blocks: results come as events."""

    summary: str
    parameters: tuple[Parameter, ...]

    def start(self, endpoints: Sequence[Endpoint], packet: PacketFormat, log_path: str) -> None: ...

    def fileno(self) -> int: ...

    def use_entropies(self, table: EntropyTable) -> None: ...

    def begin(
        self, collective: str, options: Mapping[str, Value], schedule: Schedule, iteration: int, seed: int
    ) -> None:
        """Run one iteration; `finished` or `failed` follows."""
        ...

    def capture(self, links: Sequence[tuple[str, str, str]], file: int, log_path: str) -> Capture:
        """Write the packets of (namespace path, interface, label) into the open descriptor `file`, as pcapng."""
        ...  # fmt: skip

    def events(self) -> list[Event]: ...

    def pid(self) -> int: ...

    def stop(self) -> None: ...


class Engine(Protocol):
    """What carries the packets, or the model of them."""

    summary: str
    parameters: tuple[Parameter, ...]

    def run(
        self, document: Mapping[str, object], tell: Callable[[dict[str, Any]], None], pcap: int | None = None
    ) -> Mapping[str, Any]:
        """Carry out the run of a plan's document to its end; give its findings (see framework/results.py).

        `pcap`: a descriptor for the packets of the plan's `pcap` links, if there are any.

        `tell` is called live with events: phase, progress, iteration, fault, health, reroute, note. Everything the
        engine started is gone when this returns or raises (LabError, MachineError, TransportError,
        ControllerError, KeyboardInterrupt).
        """
        ...


class Report(Protocol):
    """Writes something from a finished run into its run directory. `result` is the documented JSON result."""

    summary: str
    parameters: tuple[Parameter, ...]

    def write(self, result: Mapping[str, Any], directory: str) -> None: ...


class Workload(Collective, Protocol):
    """The messages of an application, as one schedule per iteration; used where a collective is.

    `kind` is none of nccl-tests' operations, so no physical limit is known for it; what `size_bytes` means, and
    what `expected` compares, its docstring says.
    """


Register = Callable[[str, Any], None]


class Hooks:
    """The hooks. Each `register_*` fires once, when the command starts, and offers objects by name; a name
    taken twice raises PluginError, which names both holders. Observers fire during a run, in the lab."""

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
    def on_fabric_up(self, fabric: Fabric, endpoints: Sequence[Endpoint]) -> None:
        """The fabric is up and its first rules are installed; no traffic yet."""

    @hookspec
    def on_health(self, health: HealthSnapshot, measurement: Measurement) -> None:
        """New scores were published, from this latest measurement."""

    @hookspec
    def on_reroute(self, table: RouteTable, pairs_changed: int, why: str) -> None:
        """Changed routes were installed and are in use."""

    @hookspec
    def on_iteration(self, result: IterationResult) -> None:
        """One iteration of the collective ended."""

    @hookspec
    def on_run_end(self, result: Mapping[str, Any]) -> None:
        """The run is over; `result` is the documented JSON result."""
