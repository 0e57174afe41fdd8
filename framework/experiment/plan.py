"""Plans of runs from files, options, keywords and documents.

`load_plan` reads a file and options, `plan_from_keys` the keywords of a script. `plan.document()` travels as
plain data; `from_document` makes the same plan of it in another process. Everything wrong is reported at
once.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple, cast

from railweave.framework.experiment.draft import Draft
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.run_plan import Plan
from railweave.framework.experiment.settings import LayeredSettings
from railweave.framework.experiment.sources import from_file, lay_over_keys
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric
from railweave.framework.registry import Registers

__all__ = [
    "Plan",
    "Routed",
    "build_fabric",
    "build_routed",
    "from_document",
    "load_plan",
    "plan_from_keys",
    "routed_from_keys",
]


def load_plan(
    path: Path | None,
    overrides: Mapping[str, object] | None,
    registers: Registers,
    labels: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of an experiment file with options laid over it; no file means all defaults.

    `overrides`: dotted keys such as "size", "router", "topology.rails", "health.step". `labels`: what the
    user called them, for messages (`--rails`). The router is asked for its first routes, which are checked
    too. Raises ExperimentError that lists everything wrong at once.
    """
    return Draft(from_file(path, overrides, labels), registers).routed_plan()


def plan_from_keys(
    keys: Mapping[str, object],
    registers: Registers,
    *,
    base: Path | Mapping[str, object] | None = None,
    written: bool = False,
) -> Plan:
    """The plan of keys as a script gives them, laid over an experiment file or other keys if there are any.
    `written`: a person wrote all numbers, in a file that is no experiment.

    `keys`: those of the experiment file, nested (`health={"dwell": "1s"}`) or dotted; and the parameters of
    the chosen plugins by their own names (`domains=8`), as on the command line. None is a key that is not
    there. No fault is injected unless keys or file name one.

    Raises ExperimentError that lists everything wrong at once, also for an object where only the name of a
    plugin can be used: the lab is another process and loads plugins by their entry points.
    """
    settings = from_file(base if isinstance(base, Path) else None)
    settings.written = settings.written or written
    for layer in (base, keys) if isinstance(base, Mapping) else (keys,):
        for kind, plugin in lay_over_keys(settings, layer, registers).items():
            settings.labels[(kind,)] = kind
            settings.report((kind,), _OBJECT.format(type=type(plugin).__name__, kind=kind))
    settings.value.setdefault("faults", [])
    return Draft(settings, registers).routed_plan()


_OBJECT = (
    "a {type} object cannot be run, because the lab is another process and loads plugins by their entry "
    "points. Give the name of a registered {kind}; `railweave plugins` lists them and `railweave plugin new` "
    "writes one."
)


def from_document(document: Mapping[str, object], registers: Registers) -> Plan:
    """The plan that gave this document, in another process or at another time."""
    return Draft(LayeredSettings("the experiment's document", deepcopy(dict(document))), registers).plan()


def build_fabric(
    name: str,
    options: Mapping[str, object],
    labels: Mapping[str, str],
    registers: Registers,
    note: Callable[[str], None] = lambda text: None,
) -> Fabric:
    """A fabric alone; `note` gets what a user should know of it. Raises ExperimentError that lists everything
    wrong."""
    overrides = {"topology": name, **{f"topology.{k}": v for k, v in options.items()}}
    draft = Draft(from_file(None, overrides, labels), registers)
    _, fabric = draft.topology()
    draft.settings.check()
    assert fabric is not None
    for text in draft.settings.notes:
        note(text)
    return fabric


class Routed(NamedTuple):
    """A fabric, a router that serves it, the name of that router, and faults resolved in the fabric."""

    fabric: Fabric
    name: str
    router: Router
    faults: tuple[ResolvedFault, ...]


def build_routed(overrides: Mapping[str, object], labels: Mapping[str, str], registers: Registers) -> Routed:
    """A fabric, a router and faults without a lab, for `explain` and `loads`; no fault unless one is named,
    and `at=` may be left out.

    `overrides` and `labels` as for `load_plan`. Raises ExperimentError that lists everything wrong.
    """
    return _routed(from_file(None, overrides, labels), {}, registers)


def routed_from_keys(keys: Mapping[str, object], registers: Registers) -> Routed:
    """What `build_routed` gives, of keys as `plan_from_keys` takes them: `faults`, `topology` and `router`,
    which may also be a Fabric and a configured Router, and the parameters of the two by their own names."""
    settings = from_file(None)
    return _routed(settings, lay_over_keys(settings, keys, registers), registers)


def _routed(settings: LayeredSettings, objects: Mapping[str, object], registers: Registers) -> Routed:
    for key in settings.value:
        if key not in ("topology", "router", "faults"):
            settings.report((key,), "changes no route. Leave it out.")
        elif key in objects:
            settings.report((key,), f"is a {type(objects[key]).__name__} already, and takes no options.")
    faults = settings.value.setdefault("faults", [])
    texts = [faults] if isinstance(faults, str) else faults
    if isinstance(texts, list | tuple):
        settings.value["faults"] = [
            f if f == "none" or str(f).startswith("at=") else f"at=0s {f}" for f in texts
        ]
    draft = Draft(settings, registers)
    topology, router = objects.get("topology"), objects.get("router")
    fabric = topology if isinstance(topology, Fabric) else draft.topology()[1]
    if router is None:
        router, name = draft.plugin("router", fabric), draft.chosen("router")
    else:
        name = type(router).__name__
        if fabric is not None:
            draft.must_serve("router", name, cast(Router, router), fabric)
    resolved = draft.faults(fabric, 1 << 60)
    settings.check()
    assert fabric is not None and router is not None
    return Routed(fabric, name, cast(Router, router), resolved)
