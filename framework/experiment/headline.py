"""An experiment in one line: what runs, on what, by what."""

from collections.abc import Collection, Mapping

from railweave.framework.model import Fabric
from railweave.framework.parameters import units

LONGEST = 60
"""Characters of a word of the experiment, which may be any text."""


def headline(fabric: Fabric, document: Mapping[str, object], chosen: Collection[str] = ()) -> str:
    """`rail-only, 16 GPUs · router hscore · all-reduce of 1M · engine emulation · oracle`.

    `document`: of the experiment, as a file or a result has it. `chosen`: kinds of plugins that the user left
    to us; the router among them is named with the option that takes another.
    """
    words = [f"{fabric.kind}, {fabric.n_gpus} GPUs"]
    if router := _name(document, "router"):
        other = f" (chosen; --router {router} or another)" if "router" in chosen else ""
        words.append(f"router {router}{other}")
    if work := _work(document):
        words.append(work)
    if engine := _name(document, "engine"):
        words.append(f"engine {engine}")
    if document.get("feedback") is False:
        words.append("no feedback: measured health changes no route")
    elif document.get("oracle") is True:
        words.append("oracle: the router is told the truth, nothing is measured for it")
    return " · ".join(words)


def _work(document: Mapping[str, object]) -> str:
    jobs, program = document.get("jobs"), document.get("program")
    if isinstance(jobs, list | tuple) and jobs:
        return f"{len(jobs)} jobs"
    if program:
        words = program if isinstance(program, str) else " ".join(map(str, program))  # type: ignore[call-overload]
        return f"program {words[:LONGEST]}"
    traffic, size = _name(document, "workload") or _name(document, "collective"), document.get("size")
    size_text = units.size(size) if isinstance(size, int) else str(size or "")[:LONGEST]
    return f"{traffic} of {size_text}" if traffic and size_text else traffic


def _name(document: Mapping[str, object], kind: str) -> str:
    """What a section is called, however it is written."""
    section = document.get(kind)
    name = section.get("name", "") if isinstance(section, Mapping) else section or ""
    return str(name)[:LONGEST]
