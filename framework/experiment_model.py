"""The keys of the experiment file, their defaults and limits, and how the file and the options become one."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from railweave.framework.errors import ExperimentError
from railweave.framework.health.options import Aggregate, HealthOptions
from railweave.framework.parameters import Parameter, Value
from railweave.framework.problems import Settings, did_you_mean
from railweave.framework.sizes import SIZE, canonical, parse_sizes
from railweave.framework.yamlmarks import Key, read

KINDS = {
    "topology": "rail-only",
    "router": "hscore",
    "collective": "all-reduce",
    "workload": "",
    "estimator": "delay",
    "controller": "ryu",
    "transport": "rocev2",
    "engine": "emulation",
}
"""Keys that choose a plugin, and the plugin chosen by default; a workload takes the collective's place."""

DEFAULT_FAULT = "at=iter:4 degrade rail:1 to=20%"
DTYPES = ("float32", "float16", "int32", "int8")
REDOPS = ("sum", "prod", "max", "min")
SOURCES = ("queue", "counters", "probe")
PATH_MTUS = ("256", "512", "1024", "2048", "4096")

_HEALTH = HealthOptions()
PARAMETERS = {
    p.name: p
    for p in (
        Parameter("name", "", "text", "what you call this experiment"),
        SIZE,
        Parameter("dtype", "float32", "text", "type of the elements", choices=DTYPES),
        Parameter("redop", "sum", "text", "what a reduction does", choices=REDOPS),
        Parameter("iterations", 12, "count", "how often the collective runs", minimum=1, maximum=100_000),
        Parameter("path_mtu", "4096", "text", "payload bytes of a full packet", choices=PATH_MTUS),
        Parameter("measure", SOURCES[0], "text", "where the health of links is measured", choices=SOURCES),
        Parameter("feedback", True, "bool", "let measured health change the routes"),
        Parameter("oracle", False, "bool", "tell the router the truth instead of what was measured"),
        Parameter("seed", 1, "count", "seed of everything drawn at random", minimum=0, maximum=10**9),
        Parameter(
            "health.step", _HEALTH.step, "ratio", "publish in steps of this", minimum=0.001, maximum=0.5
        ),
        Parameter("health.smoothing", _HEALTH.smoothing_s, "time", "time constant", minimum=0, maximum=3600),
        Parameter("health.margin", _HEALTH.margin, "factor", "times better", minimum=1, maximum=1000),
        Parameter("health.dwell", _HEALTH.dwell_s, "time", "a route stays so long", minimum=0, maximum=3600),
        Parameter("health.interval", 0.025, "time", "between measurements", minimum=0.001, maximum=60),
        Parameter("health.aggregate", _HEALTH.aggregate, "text", "links to rail", choices=("mean", "min")),
    )
}
_SCALE = Parameter("rate_scale", 1.0, "factor", "how much slower the emulated fabric is", minimum=1e-12)
_TIMEOUT = Parameter("timeout", 1.0, "time", "longest time of one iteration", minimum=0.001)


def _convert(parameter: Parameter, given: object, or_word: str = "") -> Value:
    if or_word and given == or_word:
        return or_word
    expects = parameter.expects + (f", or {or_word}" if or_word else "")
    if isinstance(given, dict | list | tuple):
        kind = "a mapping" if isinstance(given, dict) else "a list"
        raise ExperimentError(f"expects {expects} (got {kind}).")
    try:
        return parameter.parse(given)
    except ExperimentError:
        hint = did_you_mean(given, parameter.choices)
        raise ExperimentError(f"expects {expects} (got {given!r}).{hint}") from None


def _checked(parameter: Parameter, or_word: str = "") -> BeforeValidator:
    def check(given: object) -> Value:
        try:
            return _convert(parameter, given, or_word)
        except ExperimentError as error:
            raise PydanticCustomError("refused", "{why}", {"why": str(error)}) from None

    return BeforeValidator(check)


def _sized(given: object) -> Value:
    """Bytes, or the text of a sweep."""
    try:
        return canonical(given) if isinstance(given, str) and ":" in given else _convert(SIZE, given)
    except ExperimentError as error:
        raise PydanticCustomError("refused", "{why}", {"why": str(error)}) from None


def _fault_texts(given: object) -> object:
    """`none`, one text, or a list of texts."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple):
        raise PydanticCustomError(
            "refused",
            "{why}",
            {"why": f"expects a list of faults such as {DEFAULT_FAULT!r}, or none (got {given!r})."},
        )
    if [t for t in texts if t == "none"] and len(texts) > 1:
        raise PydanticCustomError(
            "refused", "{why}", {"why": "holds none beside others. Keep one or the other."}
        )
    return tuple(t for t in texts if t != "none")


def _listed(given: object) -> object:
    return [given] if isinstance(given, str) else given


def _choice(default: str) -> BeforeValidator:
    """A plugin by name, or by a mapping of its options with or without the name; `NAME:FILE` is the plugin NAME
    with its option `file`."""

    def check(given: object) -> object:
        if isinstance(given, Choice) or (given is None and not default):
            return given
        if isinstance(given, str):
            given = {"name": given}
        if not isinstance(given, dict):
            why = f"expects a name such as {default}, or a mapping of name and options (got {given!r})."
            raise PydanticCustomError("refused", "{why}", {"why": why})
        options = {k: v for k, v in given.items() if k != "name"}
        name = given.get("name", default)
        if name == "":
            raise PydanticCustomError("refused", "{why}", {"why": "has options but no name, such as ptdp."})
        if isinstance(name, str) and ":" in name:
            plugin, _, file = name.partition(":")
            if options.get("file", file) != file:
                why = (
                    f"names the file {file!r} after the colon and {options['file']!r} as an option. Give one."
                )
                raise PydanticCustomError("refused", "{why}", {"why": why})
            return {"name": plugin, "options": {**options, "file": file}}
        return {"name": name, "options": options}

    return BeforeValidator(check)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Choice(_Frozen):
    """A plugin and its options; complete and parsed once a plan holds it."""

    name: str
    options: Mapping[str, object] = Field(default_factory=dict)


class Health(_Frozen):
    """How measurements become published scores (see HealthOptions). Times are emulated seconds.

    `interval`: time between two measurements of every link.
    """

    step: Annotated[float, _checked(PARAMETERS["health.step"])] = _HEALTH.step
    smoothing: Annotated[float, _checked(PARAMETERS["health.smoothing"])] = _HEALTH.smoothing_s
    margin: Annotated[float, _checked(PARAMETERS["health.margin"])] = _HEALTH.margin
    dwell: Annotated[float, _checked(PARAMETERS["health.dwell"])] = _HEALTH.dwell_s
    interval: Annotated[float, _checked(PARAMETERS["health.interval"])] = 0.025
    aggregate: Annotated[Aggregate, _checked(PARAMETERS["health.aggregate"])] = _HEALTH.aggregate

    def options(self) -> HealthOptions:
        return HealthOptions(self.step, self.smoothing, self.margin, self.dwell, self.aggregate)


class Experiment(_Frozen):
    """Every key of the experiment file. Units: bytes, seconds (emulated), shares 0..1.

    `workload`: what the GPUs do instead of a collective. `size`: bytes, or a sweep of sizes as text.
    `rate_scale`: emulated rate over declared rate, or auto. `timeout`: the longest one iteration may take, or
    auto. `faults`: texts as framework/faults.py reads them. `pcap`: names of links to capture.
    """

    name: Annotated[str, _checked(PARAMETERS["name"])] = ""
    topology: Annotated[Choice, _choice(KINDS["topology"])] = Choice(name=KINDS["topology"])
    router: Annotated[Choice, _choice(KINDS["router"])] = Choice(name=KINDS["router"])
    collective: Annotated[Choice, _choice(KINDS["collective"])] = Choice(name=KINDS["collective"])
    workload: Annotated[Choice | None, _choice(KINDS["workload"])] = None
    size: Annotated[int | str, BeforeValidator(_sized)] = 1 << 20
    dtype: Annotated[str, _checked(PARAMETERS["dtype"])] = "float32"
    redop: Annotated[str, _checked(PARAMETERS["redop"])] = "sum"
    iterations: Annotated[int, _checked(PARAMETERS["iterations"])] = 12
    faults: Annotated[tuple[str, ...], BeforeValidator(_fault_texts)] = (DEFAULT_FAULT,)
    feedback: Annotated[bool, _checked(PARAMETERS["feedback"])] = True
    oracle: Annotated[bool, _checked(PARAMETERS["oracle"])] = False
    health: Health = Health()
    estimator: Annotated[Choice, _choice(KINDS["estimator"])] = Choice(name=KINDS["estimator"])
    measure: Annotated[str, _checked(PARAMETERS["measure"])] = SOURCES[0]
    controller: Annotated[Choice, _choice(KINDS["controller"])] = Choice(name=KINDS["controller"])
    transport: Annotated[Choice, _choice(KINDS["transport"])] = Choice(name=KINDS["transport"])
    engine: Annotated[Choice, _choice(KINDS["engine"])] = Choice(name=KINDS["engine"])
    rate_scale: Annotated[float | Literal["auto"], _checked(_SCALE, "auto")] = "auto"
    path_mtu: Annotated[int, _checked(PARAMETERS["path_mtu"])] = 4096
    timeout: Annotated[float | Literal["auto"], _checked(_TIMEOUT, "auto")] = "auto"
    pcap: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    seed: Annotated[int, _checked(PARAMETERS["seed"])] = 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """Every size that is run, `iterations` times each, ascending."""
        return parse_sizes(self.size)

    @property
    def traffic(self) -> Choice:
        """What the GPUs do: the workload if there is one, else the collective."""
        return self.workload or self.collective

    def document(self) -> dict[str, object]:
        """Plain data that reads back as this experiment: base units, every option spelt out."""
        document: dict[str, object] = {}
        for key in type(self).model_fields:
            value = getattr(self, key)
            if key == ("collective" if self.workload else "workload"):
                continue
            if isinstance(value, Choice):
                value = {"name": value.name, **value.options}
            elif isinstance(value, Health):
                value = value.model_dump()
            document[key] = list(value) if isinstance(value, tuple) else value
        return document


def settings(
    path: Path | None,
    overrides: Mapping[str, object] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Settings:
    """The file's mapping with `overrides` (dotted keys) laid over it; `labels` names the options they came by.

    Raises ExperimentError when the file cannot be read at all.
    """
    found = Settings.of(read(path)) if path else Settings("the options", {})
    _one_spelling(found)
    for key in sorted(overrides or {}, key=lambda k: k.count(".")):
        label = (labels or {}).get(key, f"--set {key}")
        _override(found, tuple(key.split(".")), (overrides or {})[key], label)
    return found


def from_mapping(document: Mapping[str, object], source: str) -> Settings:
    found = Settings(source, deepcopy(dict(document)))
    _one_spelling(found)
    return found


def _one_spelling(found: Settings) -> None:
    """`fault:` (as the option is called) is `faults:`, and a bare plugin name is a mapping."""
    if "fault" in found.value and "faults" not in found.value:
        found.value["faults"] = found.value.pop("fault")
        moved = {k: m for k, m in found.marks.items() if k[0] == "fault"}
        found.marks.update({("faults", *k[1:]): m for k, m in moved.items()})
    for kind in KINDS:
        if isinstance(found.value.get(kind), str):
            found.value[kind] = {"name": found.value[kind]}


def _override(found: Settings, key: Key, value: object, label: str) -> None:
    if key == ("fault",):
        key = ("faults",)
    if len(key) == 1 and key[0] in KINDS:
        kind = str(key[0])
        section = found.value.get(kind)
        if isinstance(section, dict):
            options = [k for k in section if k != "name"]
            if options and section.get("name", KINDS[kind]) != value:
                before = section.get("name", KINDS[kind])
                found.notes.append(
                    f"{label} {value}: options of {kind} {before} in {found.source} are left aside."
                )
                found.drop(key)
        else:
            found.drop(key)
        key = (kind, "name")
    found.override(key, value, label)


def experiment(found: Settings) -> tuple[Experiment, frozenset[str]]:
    """The experiment of these settings, and the top keys that are wrong (reported, at their defaults here)."""
    value = found.value
    broken: set[str] = set()
    while True:
        try:
            return Experiment.model_validate(value), frozenset(broken)
        except ValidationError as error:
            wrong = {str(detail["loc"][0]) for detail in error.errors()}
            for detail in error.errors():
                _translate(found, detail)
            broken |= wrong
            value = {k: v for k, v in value.items() if k not in wrong}


def _translate(found: Settings, detail: ErrorDetails) -> None:
    """Report one of pydantic's findings in our words."""
    key: Key = tuple(part for part in detail["loc"] if part != "options")
    match detail["type"]:
        case "refused":
            message = detail["msg"]
        case "extra_forbidden" if len(key) == 1 and key[0] in ("out", "json", "quiet", "verbose"):
            message = f"belongs to the command, not to the experiment. Give it as --{key[0]}."
        case "extra_forbidden":
            model = Health if key[0] == "health" else Experiment
            keys = list(model.model_fields)
            message = f"there is no such key.{did_you_mean(key[-1], keys)} Keys are: {', '.join(keys)}."
        case "model_type":
            message = f"expects a mapping of {', '.join(Health.model_fields)} (got {detail['input']!r})."
        case "string_type":
            message = f"expects a word (got {detail['input']!r})."
        case _:
            message = f"{detail['msg']} (got {detail['input']!r})."
    found.report(key, message)


def options_of(
    found: Settings, kind: str, choice: Choice, parameters: tuple[Parameter, ...]
) -> dict[str, Value] | None:
    """The complete, parsed options of a chosen plugin; None when some are wrong, each of them reported."""
    known = {p.name: p for p in parameters}
    complete: dict[str, Value] = {p.name: p.default for p in parameters}
    before = len(found.problems)
    for name, given in choice.options.items():
        if name not in known:
            allowed = ", ".join(known) or "none"
            found.report(
                (kind, name),
                f"{kind} {choice.name} has no option {name!r}; it takes: {allowed}.{did_you_mean(name, known)}",
            )
            continue
        try:
            complete[name] = _convert(known[name], given)
        except ExperimentError as error:
            found.report((kind, name), str(error))
    return complete if len(found.problems) == before else None
