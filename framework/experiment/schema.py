"""The keys of the experiment file, each declared once: type, unit, default, limits, help; and how one size or
a sweep of sizes is written.

Options of the command (`cli/_options.py`), messages, docs/experiment.md and the JSON schema for editors
(`reference.py`) are all read off `KEYS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_serializer

from railweave.framework.errors import ExperimentError
from railweave.framework.health.options import HealthOptions
from railweave.framework.parameters import Parameter, Unit
from railweave.framework.parameters.units import parse_bytes, size

DEFAULT_FAULT = "at=iter:4 degrade rail:1 to=20%"
SIZE = Parameter(
    "size", 1 << 20, "bytes",
    "Size of the collective in nccl-tests' meaning: 64K, 1M, 2G (binary). "
    "64K:4M:x2 and 64K:1M:+64K are sweeps.",
    minimum=0,
)  # fmt: skip
MOST_SEED = 10**9
"""The largest seed."""
MOST = 64
"""Sizes of one sweep at most: each is a schedule of its own."""


@dataclass(frozen=True, slots=True)
class Key:
    """What is declared of a key besides name, type and default.

    `shape`: one value of a unit; a size or a sweep of sizes; a plugin, by name or with its options; a
    command, as one text or its words; texts, one or a list; the section of numbers `health`; the options of
    `reports`, by name; selectors of ranks; jobs. `otherwise`: plugins taken in place of the default, the
    first that serves the fabric. `word`: accepted besides values of the unit.
    """

    help: str
    unit: Unit = "text"
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    word: str = ""
    metavar: str = ""
    shape: Literal["value", "size", "plugin", "command", "texts", "section", "reports", "ranks", "jobs"] = (
        "value"
    )
    otherwise: tuple[str, ...] = ()


def _plugin(help_text: str, otherwise: tuple[str, ...] = ()) -> Key:
    return Key(help_text, metavar="NAME", shape="plugin", otherwise=otherwise)


class Choice(BaseModel):
    """A plugin and its options; complete and parsed once a plan holds it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    options: Mapping[str, object] = Field(default_factory=dict)

    @model_serializer
    def document(self) -> dict[str, object]:
        return {"name": self.name, **self.options}


class Experiment(BaseModel):
    """Every key of the experiment file, in base units: bytes, seconds (emulated), shares 0..1.

    `size`: bytes, or a sweep of sizes as text. `faults`: texts as framework/experiment/faults.py reads them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    topology: Annotated[Choice, _plugin("Fabric; see `railweave topo list`, or file:FABRIC.yaml.")] = Choice(
        name="rail-only"
    )
    router: Annotated[
        Choice,
        _plugin(
            "Decides the paths; see `railweave routers`. Of files with switches: spray, not shortest.",
            otherwise=("dor", "shortest"),
        ),
    ] = Choice(name="hscore")
    collective: Annotated[
        Choice,
        _plugin(
            "Operation that the GPUs carry out; see `railweave plugins`.",
            otherwise=("multi-ring-all-reduce", "ring-all-reduce"),
        ),
    ] = Choice(name="all-reduce")
    workload: Annotated[
        Choice | None,
        _plugin(
            "Messages of an application in place of a collective: ptdp, kv, arrivals, chakra:DIR, "
            "simccl:FILE."
        ),
    ] = None
    program: Annotated[
        tuple[str, ...],
        Key(
            "Program that every rank runs in place of a collective: a command with its arguments.",
            metavar="COMMAND",
            shape="command",
        ),
    ] = ()
    launcher: Annotated[
        str,
        Key(
            "What starts a program's ranks: railweave itself, or mpirun.",
            choices=("direct", "mpi"),
            metavar="LAUNCHER",
        ),
    ] = "direct"
    ranks: Annotated[
        str,
        Key(
            "GPUs that take part: all, 8 (the first), domain:0-1, rail:0, gpu:0.0,1.2; all/2: every second.",
            shape="ranks",
            metavar="RANKS",
        ),
    ] = "all"
    directory: Annotated[str, Key("Directory that a program starts in.", metavar="DIR")] = "."
    environment: Annotated[
        tuple[str, ...],
        Key(
            "NAME=VALUE in the environment of a program. May be given several times.",
            metavar="NAME=VALUE",
            shape="texts",
        ),
    ] = ()
    size: Annotated[
        int | str,
        Key(SIZE.help, SIZE.unit, minimum=SIZE.minimum, shape="size"),
    ] = int(SIZE.default)
    dtype: Annotated[
        str, Key("Type of the elements.", choices=("float32", "float16", "int32", "int8"), metavar="TYPE")
    ] = "float32"
    redop: Annotated[
        str, Key("Operation of a reduction.", choices=("sum", "prod", "max", "min"), metavar="OP")
    ] = "sum"
    iterations: Annotated[
        int,
        Key("How often the collective runs, at each size.", "count", minimum=1, maximum=100_000, metavar="N"),
    ] = 12
    jobs: Annotated[
        tuple[Mapping[str, object], ...],
        Key(
            "Job among several on one fabric: 'ranks=domain:0-1 collective=all-to-all size=1M ...'. May be "
            "given several times.",
            metavar="'KEY=VALUE ...'",
            shape="jobs",
        ),
    ] = ()
    alone: Annotated[
        int,
        Key(
            "Iterations that each of several jobs first runs alone, to compare with.",
            "count",
            minimum=0,
            maximum=1000,
            metavar="N",
        ),
    ] = 2
    faults: Annotated[
        tuple[str, ...],
        Key(
            "Fault to inject: at=TIME|iter:N VERB OBJECT [key=value ...], or none. May be given several "
            "times.",
            metavar="FAULT",
            word="none",
            shape="texts",
        ),
    ] = (DEFAULT_FAULT,)
    feedback: Annotated[bool, Key("Measured health changes the routes.", "bool")] = True
    oracle: Annotated[
        bool, Key("The router gets the ground truth of the faults in place of measured health.", "bool")
    ] = False
    health: Annotated[HealthOptions, Key("Numbers of the health loop, below.", shape="section")] = (
        HealthOptions()
    )
    estimator: Annotated[Choice, _plugin("Turns measurements into h-scores.")] = Choice(name="delay")
    measure: Annotated[
        str,
        Key(
            "Where the health of links is measured. auto: queues, and trains where these say too little.",
            choices=("auto", "queue", "counters", "probe"),
            metavar="SOURCE",
        ),
    ] = "auto"
    controller: Annotated[Choice, _plugin("OpenFlow controller.")] = Choice(name="ryu")
    transport: Annotated[Choice, _plugin("Sends and acknowledges the packets.")] = Choice(name="rocev2")
    chooser: Annotated[
        Choice, _plugin("Which of its paths each packet of a pair takes; in-turn: exact shares.")
    ] = Choice(name="in-turn")
    control: Annotated[
        Choice, _plugin("Congestion control: how fast pairs send; window: as much as links hold.")
    ] = Choice(name="window")
    engine: Annotated[Choice, _plugin("Carries the packets.")] = Choice(name="emulation")
    rate_scale: Annotated[
        float | Literal["auto"],
        Key(
            "Emulated rate over declared rate; auto: as much as this machine carries.",
            "factor",
            minimum=1e-12,
            maximum=1000,
            word="auto",
            metavar="SCALE",
        ),
    ] = "auto"
    path_mtu: Annotated[
        int,
        Key(
            "Payload of a full packet, in bytes.",
            choices=("256", "512", "1024", "2048", "4096"),
            metavar="BYTES",
        ),
    ] = 4096
    timeout: Annotated[
        float | Literal["auto"],
        Key("Longest time of one iteration, or of a whole program.", "time", minimum=0.001, word="auto"),
    ] = "auto"
    pcap: Annotated[
        tuple[str, ...],
        Key(
            "Link (FROM->TO) to capture as pcapng. May be given several times.", metavar="LINK", shape="texts"
        ),
    ] = ()
    trace: Annotated[
        float | Literal["none"],
        Key(
            "Keep the load of every link in each such interval, if the engine knows it.",
            "time",
            minimum=1e-6,
            word="none",
            metavar="TIME",
        ),
    ] = "none"
    reports: Annotated[
        Mapping[str, Mapping[str, object]],
        Key("Options of reports, by the name of the report; every report is written.", shape="reports"),
    ] = Field(default_factory=dict)
    seed: Annotated[
        int, Key("Seed of everything drawn at random.", "count", minimum=0, maximum=MOST_SEED, metavar="N")
    ] = 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """Every size that is run, `iterations` times each, ascending."""
        return parse_sizes(self.size)

    @property
    def traffic(self) -> Choice:
        """The workload if there is one, else the collective."""
        return self.workload or self.collective

    def document(self) -> dict[str, object]:
        """Plain data that reads back as this experiment: base units, every option spelt out."""
        unused = {"collective", "workload", *OF_COLLECTIVES} if self.program else set(OF_PROGRAMS)
        if not self.program:
            unused |= {"collective" if self.workload else "workload"}
            unused |= {"ranks"} if self.ranks == "all" else set()
        if self.jobs:
            unused = set(OF_EACH_JOB)
        else:
            unused |= {"jobs", "alone"}
        plain = self.model_dump(mode="json", exclude=unused)
        return plain | {"health": self.health.document()}


KEYS: Mapping[str, Key] = {
    name: next(m for m in field.metadata if isinstance(m, Key))
    for name, field in Experiment.model_fields.items()
}
"""Every key of the file, in its order."""
OF_PROGRAMS = ("program", "launcher", "directory", "environment")
"""Keys that mean something with a program alone."""
OF_COLLECTIVES = ("size", "dtype", "redop", "iterations", "transport")
"""Keys that mean nothing with a program."""
TRAFFIC = ("collective", "workload", "program")
"""Keys that a job has one of."""
OF_EACH_JOB = (*TRAFFIC, "ranks", *OF_PROGRAMS[1:], *OF_COLLECTIVES[:-1], "timeout")
"""Keys that each of several jobs may have for itself."""
DEFAULTS: Mapping[str, Any] = {
    name: field.get_default(call_default_factory=True) for name, field in Experiment.model_fields.items()
}
PARAMETERS: Mapping[str, Parameter] = {
    name: Parameter(name, DEFAULTS[name], k.unit, k.help, k.minimum, k.maximum, k.choices, k.word)
    for name, k in KEYS.items()
    if k.shape in ("value", "size")
}
"""Keys that take one value of a unit; `size` a sweep of sizes, too."""
KINDS: Mapping[str, str] = {
    name: DEFAULTS[name].name if DEFAULTS[name] else "" for name, key in KEYS.items() if key.shape == "plugin"
}
"""Keys that choose a plugin, and the plugin chosen by default; a workload takes the collective's place."""


def parse_sizes(value: object) -> tuple[int, ...]:
    """The sizes in bytes, ascending. Raises ExperimentError saying what is wrong."""
    if not isinstance(value, str) or ":" not in value:
        return (_bytes(value),)
    parts = value.split(":")
    if len(parts) != 3:
        raise ExperimentError(f"expects FROM:TO:xFACTOR or FROM:TO:+STEP, such as 64K:4M:x2 (got {value!r}).")
    low, high, step = _bytes(parts[0]), _bytes(parts[1]), parts[2]
    if low > high:
        raise ExperimentError(f"begins at {parts[0]} and ends before it, at {parts[1]}. Swap them.")
    if step.startswith("x"):
        factor = int(step[1:]) if step[1:].isascii() and step[1:].isdecimal() else 0
        if factor < 2 or low == 0:
            raise ExperimentError(f"x takes a whole factor from 2 on, and a size above 0 (got {value!r}).")
        sizes = [low]
        while sizes[-1] * factor <= high and len(sizes) <= MOST:
            sizes.append(sizes[-1] * factor)
    elif step.startswith("+") and (add := _bytes(step[1:])) > 0:
        sizes = list(range(low, min(high, low + MOST * add) + 1, add))
    else:
        raise ExperimentError(f"steps by xFACTOR or +STEP, such as x2 or +64K (got {step!r}).")
    if len(sizes) > MOST:
        raise ExperimentError(f"holds more than {MOST} sizes (got {value!r}). Take larger steps.")
    return tuple(sizes)


def canonical(value: object) -> int | str:
    """A size in bytes, or the text of a sweep in bytes."""
    sizes = parse_sizes(value)
    return _respelt(value, parse_bytes) if isinstance(value, str) and ":" in value else sizes[0]


def spoken(value: int | str) -> int | str:
    """As a person writes it: `1M`, `64K:4M:x2`; reads back as the same value."""
    return _respelt(value, lambda text: size(int(text))) if isinstance(value, str) else size(value)


def _respelt(sweep: str, spelling: Callable[[str], object]) -> str:
    low, high, step = sweep.split(":")
    last = f"+{spelling(step[1:])}" if step.startswith("+") else step
    return f"{spelling(low)}:{spelling(high)}:{last}"


def _bytes(value: object) -> int:
    return int(SIZE.parse(value))
