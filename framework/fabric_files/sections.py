"""railweave's own format: nodes by kind, cables in sections that share their attributes (docs/fabrics.md)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from operator import eq
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from railweave.framework.errors import ExperimentError, FabricError
from railweave.framework.experiment.settings import FilePlace, Key, LayeredSettings
from railweave.framework.fabric_files.cables import AUTO, FROM, NONE, TO, CableKind, Cables, Pair
from railweave.framework.fabric_files.checking import validated
from railweave.framework.fabric_files.node_patterns import (
    MOST_NODES,
    Names,
    check_kind,
    is_number,
    is_option,
    places_of,
)
from railweave.framework.model import CircuitSwitches, Fabric, NodeGroup
from railweave.framework.parameters import Parameter

VERSION = "1"
MOST_CABLES = 1 << 22
"""Cables of a file at most."""
MOST_PARALLEL = 4096
"""Parallel cables of one line at most."""
TOGETHER = 1 << 12
"""Lines of cables looked up at once where all of them are two names and nothing else."""
SHOWN = 20
"""Errors of one section that are reported, the first."""
RATE = Parameter("rate", "1b/s", "rate", "", 1)
LATENCY = Parameter("latency", 0.0, "time", "", 0)
T = TypeVar("T")


def _parsed(parameter: Parameter) -> BeforeValidator:
    def parse(value: object) -> object:
        try:
            return parameter.parse(value, written=True)
        except ExperimentError as error:
            raise ValueError(str(error).removeprefix(f"{parameter.name}: ")) from None

    return BeforeValidator(parse)


Word = Annotated[str, Field(pattern=r"^[^\s#]+$", strict=True)]
Both = BeforeValidator(lambda value: value if isinstance(value, list | tuple) else [value, value])
"""Of a pair of values, one for each direction of a cable: a list of two, or one value for both."""


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Nodes(_StrictModel):
    """Nodes of one kind: a full grid of `shape`, or those `at` some places (of a grid as large as needed)."""

    prefix: str = ""
    shape: Annotated[str, BeforeValidator(str)] = ""
    at: Annotated[str, Field(strict=True)] = ""


class Attributes(_StrictModel):
    """What the cables of a section have in common: one value, or one for each direction."""

    kind: Annotated[Pair[Word], Both] = ("link", "link")
    rate: Annotated[Pair[Annotated[float, _parsed(RATE)]], Both]
    latency: Annotated[Pair[Annotated[float, _parsed(LATENCY)]], Both] = (0.0, 0.0)
    element: Annotated[Pair[Word], Both] = (AUTO, AUTO)
    wavelength: Annotated[Pair[Annotated[int, Field(ge=-1, lt=1 << 16)]], Both] = (-1, -1)
    ocs: Annotated[Pair[Annotated[str, Field(strict=True, pattern=r"^[^\s#]*$")]], Both] = ("", "")
    usable: Annotated[Pair[bool], Both] = (True, True)
    lossless: Annotated[Pair[bool], Both] | None = None

    def variant(self) -> CableKind:
        return CableKind(*(getattr(self, name) for name in Attributes.model_fields))


class Section(Attributes):
    cables: Annotated[str, Field(strict=True)]
    count: Annotated[int, Field(ge=1, le=MOST_PARALLEL)] = 1


class Document(_StrictModel):
    fabric: int
    name: Word = "file"
    axes: tuple[Word, ...] = ()
    lossless: bool = False
    traits: tuple[Word, ...] = ()
    options: Mapping[str, object] = Field(default_factory=dict)
    ocs: tuple[Word, ...] = ()
    circuits: Mapping[str, object] | None = None
    nodes: Mapping[str, Nodes]
    links: tuple[Section, ...]


TOP_KEYS = tuple(Document.model_fields)
_ATTRIBUTES = TypeAdapter(Attributes)


def read(settings: LayeredSettings) -> Fabric:
    """The fabric of a file. Raises ExperimentError that lists everything wrong with its line."""
    document = validated(settings, TypeAdapter(Document))
    groups, names = _groups(settings, document)
    cables = Cables()
    for number, section in enumerate(document.links):
        _add(settings, cables, names, number, section)
    for name, value in document.options.items():
        if not is_option(value):
            settings.report(("options", name), f"expects a number or a word (got {value!r}).")
    settings.check()
    traits = {*document.traits, "lossless"} if document.lossless else set(document.traits)
    try:
        if len(document.axes) not in (0, len(groups[0].shape)):
            raise FabricError(f"axes: {len(document.axes)} names for {len(groups[0].shape)} coordinates.")
        return cables.fabric(
            document.name,
            groups,
            {name: node for name, node in names.ids.items() if node >= names.switches},
            ocs_names=document.ocs,
            params=dict(document.options),
            traits=tuple(traits),
            axis_names=document.axes,
            circuits=None if document.circuits is None else CircuitSwitches.from_document(document.circuits),
        )
    except FabricError as error:
        raise ExperimentError(f"{settings.source}: {error}") from error


def _groups(settings: LayeredSettings, document: Document) -> tuple[list[NodeGroup], Names]:
    groups: list[NodeGroup] = []
    kinds = list(document.nodes)
    if kinds[:1] != ["gpu"]:
        where: Key = ("nodes", kinds[0]) if kinds else ("nodes",)
        settings.report(
            where, "the first kind of nodes must be gpu. Describe the GPUs first, as `gpu: {shape: 4x4}`."
        )
    for kind, nodes in document.nodes.items():
        try:
            prefix = nodes.prefix or kind[0]
            check_kind(kind, prefix)
            first = groups[-1].first + groups[-1].size if groups else 0
            groups.append(_group(kind, first, prefix, nodes))
            if first + groups[-1].size > MOST_NODES:
                raise FabricError(f"with these there are more than {MOST_NODES} nodes. Lower the shapes.")
            if kind == "gpu" and groups[0].size < 2:
                raise FabricError("a fabric has 2 GPUs or more.")
        except FabricError as error:
            settings.report(("nodes", kind), str(error))
    settings.check()
    try:
        return groups, Names(groups)
    except FabricError as error:
        settings.report(("nodes",), str(error))
        settings.check()
        raise


def _group(kind: str, first: int, prefix: str, nodes: Nodes) -> NodeGroup:
    if not nodes.shape and not nodes.at:
        raise FabricError("give its shape, such as 4x4, or the places of its nodes as `at: 0.0-3 1.0-1`.")
    lengths = [int(n) if is_number(n) else 0 for n in nodes.shape.split("x")]
    if nodes.shape and not 0 < prod(lengths) <= MOST_NODES:
        raise FabricError(
            f"shape {nodes.shape!r} is no list of lengths such as 16 or 4x4, of {MOST_NODES} nodes at most."
        )
    if not nodes.at:
        return NodeGroup(kind, first, tuple(lengths), prefix)
    group = NodeGroup.at(kind, first, places_of(nodes.at), prefix)
    return replace(group, shape=tuple(lengths), places=group.all_coordinates) if nodes.shape else group


def _add(settings: LayeredSettings, cables: Cables, names: Names, number: int, section: Section) -> None:
    """Add the cables of one section; errors are reported at their lines."""
    key = ("links", number, "cables")
    start = settings.marks.get(key, FilePlace(0, 1))
    first = start.line + ("\n" in section.cables)
    reported = 0
    try:
        section_variant = cables.variant(_checked(section.variant(), names))
    except FabricError as error:
        settings.report(("links", number), str(error))
        return
    further: dict[tuple[str, ...], tuple[int, int]] = {}
    a, b, which, lines = cables.a, cables.b, cables.which, section.cables.split("\n")
    for begin in range(0, len(lines), TOGETHER):
        some = lines[begin : begin + TOGETHER]
        if section.count == 1 and (plain := _plain_ends(names.ids, some)):
            a += plain[0]
            b += plain[1]
            which += [section_variant] * len(some)
            continue
        for line, text in enumerate(some, first + begin):
            words = text.split("#", 1)[0].split()
            if not words:
                continue
            try:
                extra = tuple(words[2:])
                if extra not in further:
                    further[extra] = _variant_of(cables, names, section, section_variant, extra)
                variant, count = further[extra]
                for near, far in _pairs(names, words, MOST_CABLES // count - len(a) // count):
                    a.extend([near] * count)
                    b.extend([far] * count)
                    which.extend([variant] * count)
            except FabricError as error:
                settings.report(key, str(error), mark=FilePlace(line, start.column))
                reported += 1
                if reported == SHOWN:
                    return


def _plain_ends(ids: Mapping[str, int], lines: list[str]) -> tuple[list[int], list[int]] | None:
    """The first and the second ends of cables, where every line is two different nodes and nothing else."""
    rows = [line.split() for line in lines]
    try:
        a, b = [ids[name] for name, _ in rows], [ids[name] for _, name in rows]
    except (KeyError, ValueError):
        return None
    return None if any(map(eq, a, b)) else (a, b)


def _pairs(names: Names, words: list[str], most: int) -> Iterator[tuple[int, int]]:
    """Every node of the first pattern with every one of the second."""
    if len(words) < 2:
        raise FabricError(f"{words[0]!r} is no cable; write both of its ends, such as g0.0 r0.")
    first, second = names.ids.get(words[0]), names.ids.get(words[1])
    if first is not None and second is not None and first != second and most > 0:
        return iter([(first, second)])  # most lines of large files
    firsts, seconds = names.matching(words[0]), names.matching(words[1])
    if len(firsts) * len(seconds) > most:
        raise FabricError(f"{words[0]} {words[1]}: with these there are more than {MOST_CABLES} cables.")
    if (common := np.intersect1d(firsts, seconds)).size:
        name = next(n for n, i in names.ids.items() if i == common[0])
        raise FabricError(f"joins {name} with itself. Write two different nodes.")
    return ((x, y) for x in firsts.tolist() for y in seconds.tolist())


def _variant_of(
    cables: Cables, names: Names, section: Section, section_variant: int, words: tuple[str, ...]
) -> tuple[int, int]:
    """The variant and the count of a line with more words than its ends: `x2`, `rate=200Gb/s`."""
    count, changes = section.count, dict[str, Any]()
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and word[:1] == "x" and is_number(word[1:]) and 1 <= int(word[1:]) <= MOST_PARALLEL:
            count = int(word[1:])
        elif equals and name in Attributes.model_fields and name not in changes:
            changes[name] = value
        else:
            keys = ", ".join(f"{n}=" for n in Attributes.model_fields)
            raise FabricError(f"{word!r} is not read here. Behind the ends stand x2 (two cables) or {keys}.")
    if not changes:
        return section_variant, count
    try:
        line = validated(LayeredSettings("", {"rate": "1b/s"} | changes), _ATTRIBUTES)
    except ExperimentError as error:
        raise FabricError(" ".join(str(error).split("\n"))) from None
    attributes = section.model_copy(update={name: getattr(line, name) for name in changes})
    return cables.variant(_checked(attributes.variant(), names)), count


def _checked(variant: CableKind, names: Names) -> CableKind:
    for word in variant.element:
        if word not in (AUTO, NONE, FROM, TO) and names.ids.get(word, -1) < names.switches:
            raise FabricError(
                f"element {word!r} is no switch. Write from, to, none or the name of a switch: whose health "
                "the link counts for."
            )
    return variant
