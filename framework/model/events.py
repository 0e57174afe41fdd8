"""What happens during a run: one frozen class per kind of event, carried by `processes/channel.py`.

Run events are what an engine reports while it runs, and what `events.jsonl` and `on_event` receive.
Controller and transport events are what `Controller.events()` and `Transport.events()` return.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, dataclass_transform

import numpy as np

from railweave.framework.model.arrays import ArrayNoun, Float, Int64
from railweave.framework.model.traffic import IterationResult, RankOutcome


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True)
class Event:
    """`kind`: the event's name in JSON, given as a class argument. Subclasses are frozen dataclasses."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, *, kind: str = "", eq: bool = True) -> None:
        cls.kind = kind
        dataclass(frozen=True, eq=eq)(cls)

    def to_document(self) -> dict[str, Any]:
        """`kind` and the fields in their order, without any that is None: a line of events.jsonl."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {"kind": self.kind, **{name: value for name, value in values if value is not None}}


# -- run events: what an engine reports live -------------------------------------------------------------
class RunEvent(Event):
    """`t_s`, where an event has it: seconds on the run's clock, which starts with the first iteration.
    `job`: which job of the experiment it belongs to."""

    job: int = field(default=0, kw_only=True)


class PhaseStarted(RunEvent, kind="phase"):
    """bring-up, up, run or tear-down has begun; `seconds`: how long the phase before it took, if known;
    `rate_scale`: emulated over declared rates, of the phase `up`."""

    name: str
    text: str | None = None
    seconds: float | None = None
    rate_scale: float | None = None


class Progress(RunEvent, kind="progress"):
    """`done` of `total` transfers of an iteration are complete. Not written to events.jsonl."""

    iteration: int
    done: int
    total: int


class IterationEnded(RunEvent, kind="iteration"):
    """An iteration took `seconds` (emulated); `wrong` elements of its result differ from the arithmetic; None
    where nothing is compared. `alone`: True where other jobs of the experiment did not run yet. `end_s`: when
    it ended, on the run's clock."""

    iteration: int
    seconds: float
    wrong: int | None
    alone: bool | None = None
    end_s: float | None = None


class FaultInjected(RunEvent, kind="fault"):
    """`text`: the fault as written in the experiment."""

    t_s: float
    text: str


class CircuitsConnected(RunEvent, kind="circuits"):
    """Light passes over circuits that were connected anew. `fault`: as written, what connected them; "" where
    they were set before the run. `summary`: what is connected; `circuits` on `switches` OCS. `connect_s`:
    declared seconds that it takes; `since_s`: when it began, on the run's clock."""

    t_s: float
    fault: str
    summary: str
    circuits: int
    switches: int
    connect_s: float
    since_s: float


class HealthPublished(RunEvent, kind="health"):
    """New scores. `changes`: (old, new) by element (`rail:1`), by link where links belong to none."""

    t_s: float
    version: int
    changes: Mapping[str, tuple[float, float]]


class RoutesChanged(RunEvent, kind="reroute"):
    """Changed routes are in use. `why`: the scores that moved."""

    t_s: float
    version: int
    pairs_changed: int
    why: str


class Sampled(ArrayNoun, RunEvent, kind="sample", eq=False):
    """What was measured lately, at most four times a second of the wall clock. Not written to events.jsonl.

    `t_s`: the end of an interval of `dt_s`. Of links (n_links,): `queue_bytes` waiting at its end;
    `sent_bytes`, `sent_packets`, `lost` (packets, NaN if arrivals are not counted) during it; `link_score`.
    Of nodes: `element_score` (n_nodes,). `paused_s`: how long links were paused during it; empty where none
    is.
    """

    t_s: float
    dt_s: float
    queue_bytes: Float
    sent_bytes: Float
    sent_packets: Float
    lost: Float
    link_score: Float
    element_score: Float
    paused_s: Float = field(default_factory=lambda: np.empty(0))


class Note(RunEvent, kind="note"):
    """Something that a user should read."""

    text: str


class Printed(RunEvent, kind="printed"):
    """A rank of a program printed these lines; rank None: its launcher. Not written to events.jsonl."""

    rank: int | None
    text: str


# -- how a task in a lab of its own ends -------------------------------------------------------------------
class TaskEnded(Event, kind="result"):
    """The last message of a task; `result` is what it returns."""

    result: Any


class TaskFailed(Event, kind="error"):
    """The last message of a task that raised. `error`: the name of a class in framework/errors.py."""

    error: str
    message: str


class Answered(Event, kind="answer"):
    """What became of request `number` to a lab that is open; number 0 comes without one, once the lab is
    up, with its rate scale."""

    number: int
    outcome: TaskEnded | TaskFailed


# -- events of processes: controllers, transports, captures ------------------------------------------------
class ProcessReady(Event, kind="ready"):
    """The process takes commands from now on."""


class ProcessDied(Event, kind="died"):
    """The process ended by itself; the last event of every process. `why` quotes the end of its log."""

    why: str


# -- controller events: a switch is named by its datapath id -----------------------------------------------
class SwitchUp(Event, kind="switch_up"):
    """A switch has connected, perhaps again."""

    dpid: int


class SwitchDown(Event, kind="switch_down"):
    """The connection to a switch has ended."""

    dpid: int


class PortsDown(Event, kind="carriers"):
    """Follows every SwitchUp: the switch's ports that have no carrier; all its others have one."""

    dpid: int
    ports: tuple[int, ...]


class PortChanged(Event, kind="port"):
    """A port gained or lost its carrier."""

    dpid: int
    port: int
    up: bool


class RulesInstalled(Event, kind="installed"):
    """After `set_rules`, and after a switch that came back was made to agree: the connected switches hold
    exactly their rules, `rules` in all. `missing`: datapath ids of switches with rules that are not
    connected."""

    rules: int
    seconds: float
    missing: tuple[int, ...] = ()


class UpdateApplied(Event, kind="applied"):
    """Both phases of the RuleUpdate `version` are confirmed by every connected switch."""

    version: int
    rules: int
    seconds: float


class UpdateRetired(Event, kind="retired"):
    """What the RuleUpdate `version` had left behind is removed, `rules` rules in all."""

    version: int
    rules: int
    seconds: float


class RuleRefused(Event, kind="refused"):
    """A switch refused a rule."""

    dpid: int
    why: str


class PortCounts(ArrayNoun, Event, kind="ports", eq=False):
    """The answers of all switches to `poll_ports(number)`.

    `rows`: (n, 6) of dpid, port, received bytes, sent bytes, sent packets, age of the port in ms.
    """

    number: int
    rows: Int64


class TrainTimed(Event, kind="timed"):
    """Both ends of timed train `number` arrived; time.monotonic() at sending and at both arrivals."""

    number: int
    sent_s: float
    first_s: float
    last_s: float


# -- transport events: ProcessReady, Progress, ProcessDied, and these --------------------------------------
class IterationStarted(Event, kind="started"):
    """The first packets of an iteration leave."""

    iteration: int


class IterationFinished(Event, kind="finished"):
    """An iteration ended and its result was compared."""

    result: IterationResult


class IterationFailed(Event, kind="failed"):
    """An iteration was given up; the transport takes the next. `ranks`: the ranks to blame, if known.
    `error`: the name of a class in framework/errors.py."""

    why: str
    ranks: tuple[int, ...] = ()
    error: str = "TransportError"


class PathsCounted(ArrayNoun, Event, kind="paths", eq=False):
    """What senders have learnt of their packets since the last such event, by path: pairs of GPUs `src`,
    `dst` (P,) have the paths start[i]:start[i+1], in the order of the EntropyTable `version`, and `packets`
    (3, Q) as in PathCounts."""

    version: int
    src: Int64
    dst: Int64
    start: Int64
    packets: Float


# -- events of a program's ranks: Printed, and these -------------------------------------------------------
class IterationMarked(Event, kind="marked"):
    """Every rank has marked the end of an iteration; time.monotonic() of the last one."""

    at_s: float


class ProgramEnded(Event, kind="program"):
    """Every rank has ended, or one has failed. `outcomes`: of the ranks that have ended, in that order;
    `failed`: how the first that failed did, with its last lines, "" where none did. `cpu_s`: processor
    seconds of all; `at_s`: time.monotonic()."""

    outcomes: tuple[RankOutcome, ...]
    failed: str
    cpu_s: float
    at_s: float


class CaptureFinished(Event, kind="captured"):
    """A capture wrote `packets` and missed `dropped` because its memory was full."""

    packets: int
    dropped: int


EVENTS: tuple[type[Event], ...] = (
    PhaseStarted, Progress, IterationEnded, FaultInjected, CircuitsConnected, HealthPublished, RoutesChanged,
    Sampled, Note, TaskEnded, TaskFailed, Answered, ProcessReady, ProcessDied,
    SwitchUp, SwitchDown, PortsDown, PortChanged, RulesInstalled, UpdateApplied, UpdateRetired, RuleRefused,
    PortCounts, TrainTimed, IterationStarted, IterationFinished, IterationFailed, PathsCounted,
    CaptureFinished, Printed, IterationMarked, ProgramEnded,
)  # fmt: skip
"""Every kind of event, for the codec."""

ControllerEvent = (
    ProcessReady
    | SwitchUp
    | SwitchDown
    | PortsDown
    | PortChanged
    | RulesInstalled
    | UpdateApplied
    | UpdateRetired
    | RuleRefused
    | PortCounts
    | TrainTimed
    | ProcessDied
)
TransportEvent = (
    ProcessReady
    | IterationStarted
    | Progress
    | PathsCounted
    | IterationFinished
    | IterationFailed
    | ProcessDied
)
