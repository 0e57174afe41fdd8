"""Which plugins an experiment takes where it names none."""

from collections.abc import Collection, Mapping
from typing import Any

from railweave.framework.experiment.schema import KEYS, Choice, Experiment
from railweave.framework.hookspecs import MadeForRouter
from railweave.framework.model import Fabric
from railweave.framework.model.capabilities import why_unserved
from railweave.framework.registry import Registers


def choice_of(
    request: Experiment, named: Collection[str], registers: Registers, kind: str, fabric: Fabric | None
) -> Choice:
    """The choice of a plugin of this kind: the first of the defaults that serves the fabric, unless it is
    among the keys `named`."""
    choice: Choice = getattr(request, kind)
    if fabric is None or kind in named or not KEYS[kind].otherwise:
        return choice
    offered, names = registers[kind], (choice.name, *KEYS[kind].otherwise)
    made_for: Mapping[str, object] = {}
    if kind == "router":
        made_for = _made_for(request, named, registers)
        names = (str(made_for.get("name", "")), *_routers(fabric, names, registers["topology"]))
    served_by = [name for name in names if name in offered and not why_unserved(offered[name], fabric)]
    if not served_by:
        return choice
    options = {key: value for key, value in made_for.items() if key != "name"}
    return Choice(name=served_by[0], options=options if served_by[0] == names[0] else {})


def chooser_for(named: Collection[str], router: object) -> str:
    """The chooser that the router's paths are made for, unless one is named; empty for none."""
    return "" if "chooser" in named else str(getattr(router, "chooser", "") or "")


def _routers(fabric: Fabric, names: tuple[str, ...], topologies: Mapping[str, Any]) -> tuple[str, ...]:
    """These names, behind the topology's own router. Switches of a fabric from a file may have equal paths:
    `spray` takes all, unless rails are isolated."""
    if fabric.kind in topologies:
        return (topologies[fabric.kind].router, *names)
    if len(fabric.groups) == 1:
        return names
    at = 1 if "isolated-rails" in fabric.capabilities else 0
    return (*names[:at], "spray", *names[at:])


def _made_for(request: Experiment, named: Collection[str], registers: Registers) -> Mapping[str, object]:
    """The router that the traffic is made for, by name and options; empty where there is none."""
    if request.program or request.jobs:
        return {}
    kind = "workload" if request.workload else "collective"
    offered, name = registers[kind], request.traffic.name
    traffic = offered[name] if kind in named and name in offered else None
    if isinstance(traffic, MadeForRouter) and isinstance(traffic.router, Mapping):
        return traffic.router
    return {}
