"""Faults, and when they fire: `at=TIME|iter:N[+TIME] VERB OBJECT [key=value ...]`.

`at=iter:4 degrade rail:1 to=20%` fires before iteration 4, `at=iter:4+1s ...` a second later; iterations,
rails and everything else count from 0.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from railweave.framework.errors import ExperimentError, FaultError, did_you_mean
from railweave.framework.experiment.circuit_board import CircuitBoard, Reconnection
from railweave.framework.experiment.fault_targets import find_link, links_and_node
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import ArrayNoun, Int64
from railweave.framework.parameters import Parameter, Value
from railweave.framework.parameters import resolve as resolve_options

EXAMPLE = "at=iter:4 degrade rail:1 to=20%"


@dataclass(frozen=True, slots=True)
class Verb:
    """What a fault does. `parameters` must be written, `options` have defaults.

    `objects`: the processes it is done to; links where there are none, in words `takes`.
    """

    summary: str
    parameters: tuple[Parameter, ...] = ()
    options: tuple[Parameter, ...] = ()
    objects: tuple[str, ...] = ()
    takes: str = "links"


SMALLEST = 1e-6
"""Least share of a fault: less is none. A link at a millionth of its rate is as good as down."""
_AT = Parameter("at", 0.0, "time", "when it fires", minimum=0)
_AFTER = Parameter("the time behind the +", 0.0, "time", "when it fires in an iteration", minimum=0)
_WAY = Parameter(
    "way",
    "both",
    "text",
    "packets that leave the object (out), reach it (in), or both",
    choices=("out", "in", "both"),
)
_BACK = Parameter(
    "back", "500ms", "time", "start the switch again after this time", minimum=0.01, maximum=3600
)
_CONNECT = Parameter(
    "time", "25us", "time", "declared, until light passes; that of the fabric where left out", minimum=0
)
_PORT = Parameter("port", 0, "count", "of the OCS; the first free one where left out", minimum=0)
_ONLY_WRITTEN = (_BACK.name, _CONNECT.name, _PORT.name)
"""Options without a default of their own."""


def _share(name: str, default: float, help_text: str) -> tuple[Parameter, ...]:
    return (Parameter(name, default, "ratio", help_text, minimum=SMALLEST),)


VERBS: Mapping[str, Verb] = {
    "degrade": Verb(
        "run at a share of the declared rate",
        _share("to", 0.2, "share of the declared rate that is left"),
        (_WAY,),
    ),
    "loss": Verb("lose packets at random", _share("rate", 0.01, "share of packets lost"), (_WAY,)),
    "corrupt": Verb(
        "damage packets at random; the receiving port drops them",
        _share("rate", 0.01, "share of packets damaged"),
        (
            _WAY,
            Parameter(
                "icrc", "no", "bool", "only the ICRC is wrong: switches pass the packet, the rank drops it"
            ),
        ),
    ),
    "reorder": Verb(
        "let packets overtake queued ones", _share("rate", 0.05, "share of packets that overtake")
    ),
    "duplicate": Verb("send packets twice", _share("rate", 0.01, "share of packets sent twice")),
    "down": Verb("remove the carrier of the whole cable"),
    "up": Verb("restore the carrier of the whole cable"),
    "flap": Verb(
        "remove and restore the carrier repeatedly; ends up",
        options=(
            Parameter(
                "period", 1.0, "time", "down for half of it, up for the other", minimum=0.1, maximum=3600
            ),
            Parameter("times", 3, "count", "how often", minimum=1, maximum=100),
        ),
    ),
    "restore": Verb("undo degrade, loss, corrupt, reorder, duplicate and down"),
    "kill": Verb("kill -9 the process", options=(_BACK,), objects=("controller", "switch")),
    "start": Verb("start the killed switch again", objects=("switch",)),
    "replace": Verb(
        "let a spare take its place: links are healthy, circuits dark until they are connected",
        options=(_CONNECT,),
        takes="what has spares: `cube:0.0.1`, `gpu:0.1`, `domain:0`",
    ),
    "reconnect": Verb(
        "move the circuit, where A is plugged in, to another port of its OCS",
        options=(_PORT, _CONNECT),
        takes="`link:A->B` over an OCS",
    ),
}


SET_CIRCUITS = ("replace", "reconnect")
"""Verbs that connect circuits anew."""


@dataclass(frozen=True)
class Fault:
    """One fault as written. Fires `at_s` seconds into the run (emulated clock), or `after_s` seconds after
    the beginning of `at_iteration`.

    `kind` and `name` are the object: ("rail", "1"), ("link", "g0.0->r1"), ("controller", ""). `options` are
    parsed: `to` and `rate` as shares in 0..1, times in s.
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


@dataclass(frozen=True, eq=False, kw_only=True)
class ResolvedFault(ArrayNoun, Fault):
    """A fault with its object resolved in a fabric.

    `links`: ids, ascending, each direction for itself; empty where a process is meant. `process`:
    "controller", "switch" or "". `node`: the node whose switch or element is meant, or -1. `circuits`: those
    that it connects anew, None where it connects none.
    """

    links: Int64
    process: str = ""
    node: int = -1
    circuits: Reconnection | None = None


def parse(text: str) -> Fault:
    """The fault that `text` describes. Raises FaultError naming the wrong part and what is allowed."""
    try:
        return _parsed(text.split())
    except (ExperimentError, FaultError) as error:
        raise FaultError(f"{text!r}: {error}") from None


def _parsed(words: list[str]) -> Fault:
    if len(words) < 3:
        raise FaultError(f"a fault reads `at=TIME|iter:N VERB OBJECT [key=value ...]`, as in {EXAMPLE!r}.")
    at_s, at_iteration, after_s = _when(words[0])
    _, verb, target, *written = words
    if verb not in VERBS:
        raise FaultError(
            f"there is no verb {verb!r}; it takes: {', '.join(VERBS)}.{did_you_mean(verb, VERBS)}"
        )
    kind, _, name = target.partition(":")
    _check_object(verb, kind, name)
    options = _options(verb, written)
    one_way = options.get("way", "both") != "both"
    if kind == "controller" and "back" in options:
        raise FaultError("a killed controller is started again at once. Leave back= out.")
    if kind == "link" and one_way:
        raise FaultError(f"{target} is one direction as it is. Leave way= out, or swap the ends of the link.")
    if kind == "ocs" and one_way:
        raise FaultError(
            "an ocs lies in the middle of its links, both directions enter and leave it. "
            "Name the links of one direction instead: link:FROM->TO."
        )
    return Fault(" ".join(words), at_s, at_iteration, verb, kind, name, options, after_s)


def _check_object(verb: str, kind: str, name: str) -> None:
    objects = VERBS[verb].objects
    if kind == "controller" and name:
        raise FaultError(f"there is one controller. Write `controller` without {name!r}.")
    if kind != "controller" and not name:
        raise FaultError(
            f"{kind!r} names no object. Write KIND:NAME, such as rail:1, gpu:1.2, nic:1.2, link:g0.0->r1 or "
            "switch:r1; or controller."
        )
    if objects and kind not in objects:
        takes = " or ".join("switch:NAME" if o == "switch" else o for o in objects)
        raise FaultError(f"{verb} takes {takes}, not {kind!r}. To take links away: down.")
    if kind == "controller" and not objects:
        raise FaultError(f"{verb} is done to links; the controller can only be killed: kill controller.")


def _when(word: str) -> tuple[float | None, int | None, float]:
    """(at_s, at_iteration, after_s) of `at=TIME`, `at=iter:N` or `at=iter:N+TIME`."""
    match = re.fullmatch(
        r"at=(?:iter:(?P<iteration>\d+)(?:\+(?P<after>.*))?|(?!iter:)(?P<time>.+))", word, re.ASCII
    )
    if not match:
        raise FaultError(
            f"begin with when it fires: at=TIME, or at=iter:N with a whole number, as in {EXAMPLE!r} "
            f"(got {word!r})."
        )
    if match["iteration"] is None:
        return float(_AT.parse(match["time"])), None, 0.0
    after_s = 0.0 if match["after"] is None else float(_AFTER.parse(match["after"]))
    return None, int(match["iteration"]), after_s


def _options(verb: str, words: list[str]) -> dict[str, Value]:
    needed, optional = VERBS[verb].parameters, VERBS[verb].options
    written: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name in written:
            raise FaultError(f"{name}= is given twice. Keep one.")
        written[name] = value
    values = resolve_options(verb, (*needed, *optional), written)
    for parameter in needed:
        if parameter.name not in written:
            raise FaultError(
                f"{verb} needs {parameter.name}= ({parameter.help}), such as "
                f"{parameter.name}={parameter.default:.0%}."
            )
    return {k: v for k, v in values.items() if k in written or k not in _ONLY_WRITTEN}


def steps(fault: Fault) -> tuple[Fault, ...]:
    """The simple faults that a fault is made of, in the order of their times: of most, itself.

    A flap is downs and ups, a switch killed with `back` is the kill and a start. The steps of steps are the
    same again, so an experiment can be stored with all faults taken apart.
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


def resolve(
    fault: Fault, fabric: Fabric, *, processes: bool = True, board: CircuitBoard | None = None
) -> ResolvedFault:
    """The fault with its links or process. Raises FaultError when the fabric has no such object.

    `processes` false: there are none, as on a model, and to kill a switch takes its links down. `board`: the
    circuits as earlier faults left them, by default as the fabric has them; the fault changes it.
    """
    if fault.verb in SET_CIRCUITS:
        return _connected(fault, fabric, board)
    links, node, process = np.empty(0, np.int64), -1, "controller"
    if fault.kind != "controller":
        try:
            links, node = links_and_node(fabric, fault.kind, fault.name)
        except FaultError as error:
            raise FaultError(f"{fault.text!r}: {error}") from None
        process = "switch" if processes and VERBS[fault.verb].objects else ""
    match fault.options.get("way"):
        case "out":
            links = links[fabric.link_src[links] == node]
        case "in":
            links = links[fabric.link_dst[links] == node]
    return ResolvedFault(**vars(fault), links=links[:0] if process else links, process=process, node=node)


def _connected(fault: Fault, fabric: Fabric, board: CircuitBoard | None) -> ResolvedFault:
    """A fault that connects circuits anew."""
    try:
        board = board or CircuitBoard(fabric)
        if fault.verb == "replace":
            circuits = board.replace(fault.kind, fault.name)
        elif fault.kind != "link":
            raise FaultError(
                f"reconnect takes link:FROM->TO, a circuit from one of its ends, not {fault.kind!r}."
            )
        else:
            port = fault.options.get(_PORT.name)
            circuits = board.reconnect(find_link(fabric, fault.name), None if port is None else int(port))
    except FaultError as error:
        raise FaultError(f"{fault.text!r}: {error}") from None
    if (connect_s := fault.options.get(_CONNECT.name)) is not None:
        circuits = replace(circuits, connect_s=float(connect_s))
    return ResolvedFault(**vars(fault), links=circuits.links, circuits=circuits)
