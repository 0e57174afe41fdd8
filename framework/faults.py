"""What breaks during a run, and when: `at=TIME|iter:N[+TIME] VERB OBJECT [key=value ...]`.

`at=iter:4 degrade rail:1 to=20%` fires before iteration 4, `at=iter:4+1s ...` a second later; iterations, rails and
everything else count from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from railweave.framework.errors import ExperimentError, FaultError
from railweave.framework.fault_objects import hint, links_and_node
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Int64, equal_by_value, readonly
from railweave.framework.parameters import Parameter, Value, parse_time

EXAMPLE = "at=iter:4 degrade rail:1 to=20%"


@dataclass(frozen=True, slots=True)
class Verb:
    """What a fault does. `parameters` must be given, `options` have defaults (None: left out unless given).

    `objects`: the processes it is done to; links where there are none.
    """

    summary: str
    parameters: tuple[Parameter, ...] = ()
    options: tuple[Parameter, ...] = ()
    objects: tuple[str, ...] = ()

    @property
    def processes(self) -> bool:
        """Whether it is done to a process instead of to links."""
        return bool(self.objects)


SMALLEST = 1e-6
_WAY = Parameter(
    "way", "both", "text", "packets that leave the object (out), reach it (in), or both", choices=("out", "in", "both")
)  # fmt: skip
_BACK = Parameter(
    "back", "500ms", "time", "start the switch again after this time", minimum=0.01, maximum=3600
)


def _share(name: str, default: float, help_text: str) -> tuple[Parameter, ...]:
    return (Parameter(name, default, "ratio", help_text, minimum=SMALLEST),)


VERBS: Mapping[str, Verb] = {
    "degrade": Verb(
        "run at a share of the declared rate", _share("to", 0.2, "share of the declared rate that is left"), (_WAY,)
    ),
    "loss": Verb("drop packets at random", _share("rate", 0.01, "share of packets lost"), (_WAY,)),
    "reorder": Verb("let packets overtake those that wait", _share("rate", 0.05, "share of packets that overtake")),
    "duplicate": Verb("send packets twice", _share("rate", 0.01, "share of packets sent twice")),
    "down": Verb("take the carrier away"),
    "up": Verb("give the carrier back"),
    "flap": Verb(
        "take the carrier away and give it back, again and again",
        options=(
            Parameter("period", 1.0, "time", "down for half of it, up for the other", minimum=0.1, maximum=3600),
            Parameter("times", 3, "count", "how often", minimum=1, maximum=100),
        ),
    ),
    "restore": Verb("undo degrade, loss, reorder, duplicate and down"),
    "kill": Verb("kill -9 the process", options=(_BACK,), objects=("controller", "switch")),
    "start": Verb("start the killed switch again", objects=("switch",)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault as written. Fires `at_s` seconds into the run (emulated clock), or `after_s` seconds after the
    beginning of `at_iteration`.

    `kind` and `name` are the object: ("rail", "1"), ("link", "g0.0->r1"), ("controller", "").
    """

    text: str
    at_s: float | None
    at_iteration: int | None
    verb: str
    kind: str
    name: str
    options: Mapping[str, Value] = field(default_factory=dict)
    after_s: float = 0.0

    @property
    def target(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind


@dataclass(frozen=True, eq=False, slots=True)
class ResolvedFault:
    """A fault with its object found in a fabric.

    `links`: ids, ascending, each direction for itself; empty where a process is meant. `process`: "controller",
    "switch" or "". `node`: the node whose switch or element is meant, or -1.
    """

    fault: Fault
    links: Int64
    process: str = ""
    node: int = -1

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", readonly(self.links, np.int64))

    def __eq__(self, other: object) -> bool:
        return equal_by_value(self, other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def text(self) -> str:
        return self.fault.text

    @property
    def verb(self) -> str:
        return self.fault.verb

    @property
    def options(self) -> Mapping[str, Value]:
        """Parsed: `to` and `rate` as shares in 0..1, times in s."""
        return self.fault.options

    def counted_from(self, now_s: float) -> ResolvedFault:
        """The same, due `after_s` from `now_s` on the run's clock."""
        return replace(
            self, fault=replace(self.fault, at_s=now_s + self.fault.after_s, at_iteration=None, after_s=0.0)
        )


def parse(text: str) -> Fault:
    """The fault that `text` describes. Raises FaultError naming the part, what is allowed and the mend."""
    words = text.split()
    if len(words) < 3:
        raise FaultError(
            f"{text!r}: a fault reads `at=TIME|iter:N VERB OBJECT [key=value ...]`, as in {EXAMPLE!r}."
        )
    when, verb, target, *options = words
    at_s, at_iteration, after_s = _when(text, when)
    if verb not in VERBS:
        raise FaultError(
            f"{text!r}: there is no verb {verb!r}; it takes: {', '.join(VERBS)}.{hint(verb, VERBS)}"
        )
    kind, _, name = target.partition(":")
    _check_object(text, verb, kind, name, target)
    values = _options(text, verb, options)
    if kind == "controller" and "back" in values:
        raise FaultError(f"{text!r}: a killed controller is started again at once. Leave back= out.")
    if kind == "link" and values.get("way", "both") != "both":
        raise FaultError(
            f"{text!r}: {target} is one direction as it is. Leave way= out, or turn the link round."
        )
    if kind == "ocs" and values.get("way", "both") != "both":
        raise FaultError(
            f"{text!r}: an ocs lies in the middle of its links, both directions enter and leave it. "
            "Name the links of one direction instead: link:FROM->TO."
        )
    return Fault(" ".join(words), at_s, at_iteration, verb, kind, name, values, after_s)


def _check_object(text: str, verb: str, kind: str, name: str, target: str) -> None:
    objects = VERBS[verb].objects
    if kind == "controller":
        if name:
            raise FaultError(f"{text!r}: there is one controller. Write `controller` without {name!r}.")
    elif not name:
        raise FaultError(
            f"{text!r}: {target!r} names no object. Write KIND:NAME, such as rail:1, gpu:1.2, nic:1.2, "
            "link:g0.0->r1 or switch:r1; or controller."
        )
    if objects and kind not in objects:
        takes = " or ".join("switch:NAME" if o == "switch" else o for o in objects)
        raise FaultError(f"{text!r}: {verb} takes {takes}, not {target!r}. To cut links: down.")
    if kind == "controller" and not objects:
        raise FaultError(
            f"{text!r}: {verb} is done to links; the controller can only be killed: kill controller."
        )


def _when(text: str, word: str) -> tuple[float | None, int | None, float]:
    key, _, value = word.partition("=")
    if key != "at" or not value:
        raise FaultError(
            f"{text!r}: begin with when, at=TIME or at=iter:N, as in {EXAMPLE!r} (got {word!r})."
        )
    if value.startswith("iter:"):
        number, plus, later = value.removeprefix("iter:").partition("+")
        if not (number.isascii() and number.isdecimal()):
            raise FaultError(f"{text!r}: at=iter:N takes a whole number, 0 or more (got {number!r}).")
        after_s = _time(later) if plus else 0.0
        if after_s is None:
            raise FaultError(
                f"{text!r}: at=iter:N+TIME takes a time such as 500ms behind the + (got {later!r})."
            )
        return None, int(number), after_s
    at_s = _time(value)
    if at_s is None:
        raise FaultError(f"{text!r}: at= takes a time such as 2.5s or 300ms, or iter:N (got {value!r}).")
    return at_s, None, 0.0


def _time(given: str) -> float | None:
    """Seconds, or None for what is no time that can come."""
    try:
        seconds = parse_time(given)
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _options(text: str, verb: str, words: list[str]) -> dict[str, Value]:
    needed = {p.name: p for p in VERBS[verb].parameters}
    known = needed | {p.name: p for p in VERBS[verb].options}
    given: dict[str, Value] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in known:
            allowed = ", ".join(f"{n}=" for n in known) or "none"
            raise FaultError(f"{text!r}: {verb} has no option {word!r}; it takes: {allowed}.")
        if name in given:
            raise FaultError(f"{text!r}: {name}= is given twice. Keep one.")
        try:
            given[name] = known[name].parse(value)
        except ExperimentError as error:
            raise FaultError(f"{text!r}: {error}") from None
    for name, parameter in needed.items():
        if name not in given:
            raise FaultError(
                f"{text!r}: {verb} needs {name}= ({parameter.help}), such as {name}={parameter.default:.0%}."
            )
    defaults = {p.name: p.default for p in VERBS[verb].options if p is not _BACK}
    return {**defaults, **given}


def steps(fault: Fault) -> tuple[Fault, ...]:
    """The simple faults that a fault is made of, in the order of their times: of most, itself.

    A flap is downs and ups, a switch killed with `back` is the kill and a start. The steps of steps are the same
    again, so an experiment can be stored with all faults taken apart.
    """
    if fault.verb == "flap":
        half = float(fault.options["period"]) / 2
        return tuple(
            _step(fault, half * i, "up" if i % 2 else "down") for i in range(2 * int(fault.options["times"]))
        )
    if fault.verb == "kill" and "back" in fault.options:
        return (fault, _step(fault, float(fault.options["back"]), "start"))
    return (fault,)


def _step(fault: Fault, later_s: float, verb: str) -> Fault:
    if fault.at_iteration is None:
        when = f"{(fault.at_s or 0.0) + later_s:.9g}s"
    else:
        after_s = fault.after_s + later_s
        when = f"iter:{fault.at_iteration}" + (f"+{after_s:.9g}s" if after_s else "")
    return parse(f"at={when} {verb} {fault.target}")


def resolve(fault: Fault, fabric: Fabric) -> ResolvedFault:
    """The fault with its links or process. Raises FaultError when the fabric has no such object."""
    if fault.kind == "controller":
        return ResolvedFault(fault, np.empty(0, np.int64), "controller")
    try:
        links, node = links_and_node(fabric, fault.kind, fault.name)
    except FaultError as error:
        raise FaultError(f"{fault.text!r}: {error}") from None
    if VERBS[fault.verb].processes:
        return ResolvedFault(fault, np.empty(0, np.int64), "switch", node)
    match fault.options.get("way", "both"):
        case "out":
            links = links[fabric.link_src[links] == node]
        case "in":
            links = links[fabric.link_dst[links] == node]
    return ResolvedFault(fault, links, node=node)


def released(
    waiting: Sequence[ResolvedFault], due: Sequence[ResolvedFault], now_s: float
) -> tuple[list[ResolvedFault], list[ResolvedFault]]:
    """(what waits from now on, what fires now) once those of `waiting` that are `due` have come to their turn.

    Those that count from an iteration's beginning, which is now, wait for the rest of their time.
    """
    left = list(waiting)
    for fault in due:
        left.remove(fault)
    later = [fault.counted_from(now_s) for fault in due if fault.fault.after_s]
    return left + later, [fault for fault in due if not fault.fault.after_s]
