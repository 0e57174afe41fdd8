"""What breaks during a run, and when: `at=TIME|iter:N VERB OBJECT [key=value ...]`.

`at=iter:4 degrade rail:1 to=20%` fires before iteration 4; iterations, rails and everything else count from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np

from railweave.framework.errors import ExperimentError, FaultError
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Int64, equal_by_value, readonly
from railweave.framework.parameters import Parameter, Value, parse_time

EXAMPLE = "at=iter:4 degrade rail:1 to=20%"


@dataclass(frozen=True, slots=True)
class Verb:
    """What a fault does. `processes`: whether it is done to a process instead of to links."""

    summary: str
    parameters: tuple[Parameter, ...] = ()
    processes: bool = False


VERBS: Mapping[str, Verb] = {
    "degrade": Verb(
        "run at a share of the declared rate",
        (Parameter("to", 0.2, "ratio", "share of the declared rate that is left", minimum=1e-6),),
    ),
    "loss": Verb("drop packets at random", (Parameter("rate", 0.01, "ratio", "share of packets lost"),)),
    "down": Verb("take the carrier away"),
    "up": Verb("give the carrier back"),
    "restore": Verb("undo degrade, loss and down"),
    "kill": Verb("kill -9 the process", processes=True),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault as written. Fires `at_s` seconds into the run (emulated clock), or before `at_iteration`.

    `kind` and `name` are the object: ("rail", "1"), ("link", "g0.0->r1"), ("controller", "").
    """

    text: str
    at_s: float | None
    at_iteration: int | None
    verb: str
    kind: str
    name: str
    options: Mapping[str, Value] = field(default_factory=dict)

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
        """Parsed: `to` and `rate` as shares in 0..1."""
        return self.fault.options


def parse(text: str) -> Fault:
    """The fault that `text` describes. Raises FaultError naming the part, what is allowed and the mend."""
    words = text.split()
    if len(words) < 3:
        raise FaultError(
            f"{text!r}: a fault reads `at=TIME|iter:N VERB OBJECT [key=value ...]`, as in {EXAMPLE!r}."
        )
    when, verb, target, *options = words
    at_s, at_iteration = _when(text, when)
    if verb not in VERBS:
        raise FaultError(
            f"{text!r}: there is no verb {verb!r}; it takes: {', '.join(VERBS)}.{_hint(verb, VERBS)}"
        )
    kind, _, name = target.partition(":")
    if kind == "controller":
        if name:
            raise FaultError(f"{text!r}: there is one controller. Write `controller` without {name!r}.")
    elif not name:
        raise FaultError(
            f"{text!r}: {target!r} names no object. Write KIND:NAME, such as rail:1, gpu:1.2, link:g0.0->r1 or "
            "switch:r1; or controller."
        )
    if VERBS[verb].processes and kind not in ("controller", "switch"):
        raise FaultError(
            f"{text!r}: {verb} takes controller or switch:NAME, not {target!r}. To cut links: down."
        )
    if kind == "controller" and not VERBS[verb].processes:
        raise FaultError(
            f"{text!r}: {verb} is done to links; the controller can only be killed: kill controller."
        )
    return Fault(" ".join(words), at_s, at_iteration, verb, kind, name, _options(text, verb, options))


def _when(text: str, word: str) -> tuple[float | None, int | None]:
    key, _, value = word.partition("=")
    if key != "at" or not value:
        raise FaultError(
            f"{text!r}: begin with when, at=TIME or at=iter:N, as in {EXAMPLE!r} (got {word!r})."
        )
    if value.startswith("iter:"):
        number = value.removeprefix("iter:")
        if not (number.isascii() and number.isdecimal()):
            raise FaultError(f"{text!r}: at=iter:N takes a whole number, 0 or more (got {number!r}).")
        return None, int(number)
    try:
        seconds = parse_time(value)
    except (ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise FaultError(f"{text!r}: at= takes a time such as 2.5s or 300ms, or iter:N (got {value!r}).")
    return seconds, None


def _options(text: str, verb: str, words: list[str]) -> dict[str, Value]:
    parameters = {p.name: p for p in VERBS[verb].parameters}
    options: dict[str, Value] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in parameters:
            allowed = ", ".join(f"{n}=" for n in parameters) or "none"
            raise FaultError(f"{text!r}: {verb} has no option {word!r}; it takes: {allowed}.")
        if name in options:
            raise FaultError(f"{text!r}: {name}= is given twice. Keep one.")
        try:
            options[name] = parameters[name].parse(value)
        except ExperimentError as error:
            raise FaultError(f"{text!r}: {error}") from None
    for name, parameter in parameters.items():
        if name not in options:
            raise FaultError(
                f"{text!r}: {verb} needs {name}= ({parameter.help}), such as {name}={parameter.default:.0%}."
            )
    return options


def resolve(fault: Fault, fabric: Fabric) -> ResolvedFault:
    """The fault with its links or process. Raises FaultError when the fabric has no such object."""
    if fault.kind == "controller":
        return ResolvedFault(fault, np.empty(0, np.int64), "controller")
    if fault.kind == "switch":
        node = _switch(fault, fabric)
        if VERBS[fault.verb].processes:
            return ResolvedFault(fault, np.empty(0, np.int64), "switch", node)
        return ResolvedFault(fault, _touching(fabric, node), node=node)
    if fault.kind == "link":
        try:
            return ResolvedFault(fault, np.array([find_link(fabric, fault.name)]))
        except FaultError as error:
            raise FaultError(f"{fault.text!r}: {error}") from None
    if fault.kind == "ocs":
        return ResolvedFault(fault, np.flatnonzero(fabric.ocs == _ocs(fault, fabric)))
    node = _member(fault, fabric)
    links = _touching(fabric, node) if fault.kind == "gpu" else fabric.element_links(node)
    return ResolvedFault(fault, links if links.size else _touching(fabric, node), node=node)


def find_link(fabric: Fabric, name: str) -> int:
    """The id of the link called `name` (as `Fabric.link_name` says it: FROM->TO, `#n` for parallel ones).

    Raises FaultError that says which end is unknown, or which links leave FROM.
    """
    ends, _, _ = name.partition("#")
    source, arrow, target = ends.partition("->")
    if not arrow:
        raise FaultError(f"{name!r} is not a link; write FROM->TO, such as {fabric.link_name(0)}.")
    for end in (source, target):
        if end not in fabric.node_ids:
            raise FaultError(f"link {name!r}: there is no node {end!r}.{_hint(end, fabric.node_ids)}")
    out = fabric.out_links(fabric.node_ids[source])
    names = {
        fabric.link_name(int(link)): int(link)
        for link in out
        if fabric.link_dst[link] == fabric.node_ids[target]
    }
    if name in names:
        return names[name]
    if names:
        many = f"{len(names)} parallel links join them" if len(names) > 1 else "one link joins them"
        raise FaultError(f"link {name!r}: {many}; write {' or '.join(names)}.")
    there = ", ".join(fabric.link_name(int(link)) for link in out[:8]) + (", ..." if len(out) > 8 else "")
    raise FaultError(f"link {name!r}: {source} has no link to {target}; its links are {there}.")


def _touching(fabric: Fabric, node: int) -> Int64:
    return np.flatnonzero((fabric.link_src == node) | (fabric.link_dst == node))


def _switch(fault: Fault, fabric: Fabric) -> int:
    if fault.name not in fabric.node_ids:
        hint = (
            _hint(fault.name, fabric.node_ids) or f" Names look like {fabric.node_name(fabric.n_nodes - 1)}."
        )
        raise FaultError(f"{fault.text!r}: there is no switch {fault.name!r}.{hint}")
    return fabric.node_ids[fault.name]


def _ocs(fault: Fault, fabric: Fabric) -> int:
    if not fabric.ocs_names:
        raise FaultError(f"{fault.text!r}: a {fabric.kind} fabric has no optical circuit switches (ocs).")
    if fault.name not in fabric.ocs_names:
        raise FaultError(
            f"{fault.text!r}: there is no ocs {fault.name!r}; there are {_listed(fabric.ocs_names)}."
            f"{_hint(fault.name, fabric.ocs_names)}"
        )
    return fabric.ocs_names.index(fault.name)


def _member(fault: Fault, fabric: Fabric) -> int:
    """The node of a group, by its coordinates: rail:1, gpu:1.2."""
    group = fabric.group(fault.kind)
    if group is None:
        kinds = [*(g.kind for g in fabric.groups), "link", "switch", *(["ocs"] if fabric.ocs_names else [])]
        raise FaultError(
            f"{fault.text!r}: a {fabric.kind} fabric has no {fault.kind}; it has: {', '.join(kinds)}."
            f"{_hint(fault.kind, kinds)}"
        )
    parts = fault.name.split(".")
    ranges = ".".join(f"0..{length - 1}" for length in group.shape)
    if len(parts) != len(group.shape) or not all(p.isascii() and p.isdecimal() for p in parts):
        raise FaultError(
            f"{fault.text!r}: {fault.target!r} is not a {fault.kind}; here they are {fault.kind}:{ranges}, "
            f"such as {fault.kind}:{'.'.join('0' for _ in group.shape)}."
        )
    place = tuple(int(p) for p in parts)
    if any(p >= length for p, length in zip(place, group.shape, strict=True)):
        raise FaultError(
            f"{fault.text!r}: there is no {fault.target}; this fabric has {fault.kind}:{ranges} (all count from 0)."
        )
    return group.first + int(np.ravel_multi_index(place, group.shape))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _hint(given: str, known: Mapping[str, object] | tuple[str, ...] | list[str]) -> str:
    near = get_close_matches(given, list(known), 1)
    return f" Did you mean {near[0]}?" if near else ""
