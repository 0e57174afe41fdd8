"""Fabrics as files: railweave's own format, GraphML and InfraGraph, and what each leaves out."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from railweave.framework.drawing import graphml
from railweave.framework.errors import FabricError
from railweave.framework.experiment import yaml_reader
from railweave.framework.fabric_files import infragraph_writing, sections
from railweave.framework.fabric_files.cables import AUTO, FROM, NONE, TO
from railweave.framework.fabric_files.node_patterns import Names, is_option
from railweave.framework.model import Fabric, NodeGroup
from railweave.framework.model.arrays import Int32, Int64

FORMATS = ("railweave", "graphml", "infragraph")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z_.+/-]*|[0-9.]+[A-DF-Za-df-z][A-Za-z/]*")
_NOT_PLAIN = {"true", "false", "null", "yes", "no", "on", "off"}


def text_of(fabric: Fabric, form: str = FORMATS[0]) -> tuple[str, tuple[str, ...]]:
    """The text of a file, and what it leaves out of the fabric, a sentence each.

    Raises FabricError for a fabric that railweave's own format cannot hold.
    """
    match form:
        case "graphml":
            return graphml(fabric), ()
        case "infragraph":
            return infragraph_writing.text_of(fabric)
    kinds = [group.kind for group in fabric.groups]
    if len(set(kinds)) < len(kinds):
        raise FabricError(f"{fabric.kind}: two groups of nodes of one kind ({', '.join(kinds)}) in one file.")
    text = "\n".join(_lines(fabric)) + "\n"
    if sections.read(yaml_reader.parse(text, "the file")) != fabric:
        raise FabricError(f"{fabric.kind}: a file of it reads back as another fabric. Please report this.")
    return text, ()


def _lines(fabric: Fabric) -> Iterator[str]:
    yield f"fabric: {sections.VERSION}"
    yield f"name: {_scalar(fabric.kind)}"
    for key, words in (("axes", fabric.axis_names), ("ocs", fabric.ocs_names)):
        if words:
            yield f"{key}: {_list(words)}"
    if "lossless" in fabric.traits:
        yield "lossless: true"
    if traits := [word for word in fabric.traits if word != "lossless"]:
        yield f"traits: {_list(traits)}"
    if fabric.params:
        yield "options:"
        yield from (f"  {_scalar(name)}: {_scalar(value)}" for name, value in fabric.params.items())
    if fabric.circuits is not None:
        yield f"circuits: {json.dumps(fabric.circuits.document())}"
    yield "nodes:"
    for group in fabric.groups:
        yield f"  {group.kind}: {{prefix: {_scalar(group.prefix)}, {_places(group)}}}"
    yield "links:"
    yield from _sections(fabric)


def _places(group: NodeGroup) -> str:
    if group.places is None:
        return f"shape: {'x'.join(map(str, group.shape))}"
    smallest = tuple((group.places.max(axis=0) + 1).tolist())
    shape = "" if smallest == group.shape else f"shape: {'x'.join(map(str, group.shape))}, "
    return f'{shape}at: "{" ".join(_runs(group.places))}"'


def _runs(places: Int32) -> Iterator[str]:
    """Places as words, neighbours along the last axis as one."""
    rows = places.tolist()
    for _, run in groupby(enumerate(rows), lambda entry: (entry[1][:-1], entry[1][-1] - entry[0])):
        run_ = [row for _, row in run]
        low, high = run_[0][-1], run_[-1][-1]
        last = str(low) if low == high else f"{low}-{high}"
        yield ".".join([*map(str, run_[0][:-1]), last])


def _sections(fabric: Fabric) -> Iterator[str]:
    """A section for every run of cables that differ in their ends and optical switches alone."""
    names = list(Names(fabric.groups).ids)
    element = _elements(fabric, names)
    columns: dict[str, Sequence[object]] = {
        "kind": [fabric.kinds[kind] for kind in fabric.link_kind],
        "rate": [sections.RATE.written(rate) for rate in fabric.capacity_bps.tolist()],
        "latency": [sections.LATENCY.written(latency) for latency in fabric.latency_s.tolist()],
        "element": element,
        "wavelength": fabric.wavelength.tolist(),
        "usable": fabric.usable.tolist(),
        "lossless": fabric.lossless.tolist(),
    }
    ocs = ["" if number < 0 else fabric.ocs_names[number] for number in fabric.ocs]
    own_ocs = [f" ocs={name}" if name else "" for name in ocs]
    usual = {"latency": sections.LATENCY.written(0.0), "element": AUTO, "wavelength": -1, "usable": True}
    usual["lossless"] = "lossless" in fabric.traits
    near, far = fabric.link_src[0::2].tolist(), fabric.link_dst[0::2].tolist()
    keys = list(zip(*columns.values(), strict=True))

    def shared(cable: int) -> tuple[tuple[object, ...], tuple[object, ...], tuple[str, ...]]:
        two = ocs[2 * cable : 2 * cable + 2]
        return keys[2 * cable], keys[2 * cable + 1], tuple(two) if two[0] != two[1] else ()

    for (forward, backward, two_ocs), run in groupby(range(fabric.n_links // 2), shared):
        mark = "  - "
        for name, x, y in zip(columns, forward, backward, strict=True):
            if x != y or x != usual.get(name):
                yield f"{mark}{name}: {_scalar(x) if x == y else _list((x, y))}"
                mark = "    "
        if two_ocs:
            yield f"{mark}ocs: {_list(two_ocs)}"
        yield "    cables: |"
        inline = [""] * len(ocs) if two_ocs else own_ocs
        words = (f"{names[near[c]]} {names[far[c]]}{inline[2 * c]}" for c in run)
        for line, same in groupby(words):
            count = len(list(same))
            yield f"      {line}" + (f" x{count}" if count > 1 else "")


def _elements(fabric: Fabric, names: Sequence[str]) -> list[str]:
    """(n_links,): whose health each link counts for, as a file has it."""
    first, second = np.repeat(fabric.link_src[0::2], 2), np.repeat(fabric.link_dst[0::2], 2)
    auto: Int64 = np.where(second >= fabric.n_gpus, second, np.where(first >= fabric.n_gpus, first, -1))
    rows = np.stack((auto, first, second, fabric.link_element), axis=1).tolist()
    return [{-1: NONE, b: TO, a: FROM, usual: AUTO}.get(node) or names[node] for usual, a, b, node in rows]


def _list(words: Sequence[object]) -> str:
    return f"[{', '.join(map(_scalar, words))}]"


def _scalar(value: object) -> str:
    """A value that the reader gives back as it was; text in quotes unless it is a plain word."""
    if not is_option(value):
        raise FabricError(f"the option {value!r} of the topology is no text or number, which files hold.")
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_PLAIN:
        return value
    return json.dumps(value, ensure_ascii=False)
