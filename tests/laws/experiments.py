"""Experiments drawn from a generator: a fabric, a router that serves it, traffic and faults, as documents
that `rw.run` takes. Equal generators give equal documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from railweave.framework.experiment.fault_targets import links_and_node
from railweave.framework.model import Fabric
from railweave.framework.model.capabilities import why_unserved
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers, load_plugins

Draw = np.random.Generator
Document = dict[str, Any]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = ("dual-plane.yaml", "fat-tree-k4.yaml", "unequal-domains.yaml")
LARGEST = 32
"""GPUs of a fabric that is drawn."""
SHAPES = ("5", "8", "2x4", "3x3", "4x3", "4x4", "5x4", "2x2x2", "3x2x2", "4x2x2", "3x3x2", "3x3x3", "4x4x2")
TWISTED, ON_TWISTED = "4x4x8", ("x:0", "z:0", "all/4", "gpu:0-1.0-1.*")
"""The smallest twisted torus, and which of its 128 GPUs take part."""
RATES_BPS = (100e9, 200e9, 400e9, 800e9, 1.8e12, 3.6e12)
SHORTEST_LATENCY_S, LONGEST_LATENCY_S = 3e-8, 1e-5
FROM_FILES = ("msccl", "chakra", "simccl")
"""Traffic that needs a file."""
USUAL = ("all-reduce", "pipelined-all-reduce", "all-to-all", "direct-all-to-all", "ring-all-reduce")
ON_WHOLE_FABRICS = ("multi-ring-all-reduce",)
WITHOUT_LAWS = ("ilp",)
"""Routers that are drawn only when they are asked for: a solver takes seconds for a torus."""
SLICE_BYTES = 4096
QUIET: Document = {"feedback": False, "health": {"interval": 10.0}}
"""Without feedback, and nearly without samples, which would change nothing."""


@cache
def registers() -> Registers:
    """The installed plugins, loaded once a process."""
    return load_plugins()


def pick(draw: Draw, options: Sequence[Any]) -> Any:
    return options[int(draw.integers(len(options)))]


def chance(draw: Draw, share: float) -> bool:
    return bool(draw.random() < share)


# -- fabrics -----------------------------------------------------------------------------------------------
def _latency(draw: Draw) -> float:
    low, high = np.log(SHORTEST_LATENCY_S), np.log(LONGEST_LATENCY_S)
    return 0.0 if chance(draw, 0.25) else float(f"{np.exp(draw.uniform(low, high)):.3g}")


def _latencies(draw: Draw, *names: str) -> Document:
    """Of each kind of link; a third of the fabrics have none."""
    return {} if chance(draw, 0.33) else {name: _latency(draw) for name in names}


def _rail_only(draw: Draw) -> Document:
    domains = int(draw.integers(2, 6))
    rails = int(draw.integers(2, min(6, LARGEST // domains) + 1))
    domain_bps, rail_bps = pick(draw, RATES_BPS[2:]), pick(draw, RATES_BPS[:4])
    sizes = {"name": "rail-only", "domains": domains, "rails": rails}
    rates = {"domain_rate": domain_bps, "rail_rate": rail_bps} if chance(draw, 0.7) else {}
    return {**sizes, **rates, **_latencies(draw, "domain_latency", "rail_latency")}


def _rail_optimised(draw: Draw) -> Document:
    trunks = {"spines": int(draw.integers(1, 5)), "oversubscription": pick(draw, (0.5, 1.0, 1.0, 2.0, 4.0))}
    names = () if chance(draw, 0.5) else ("spine_latency",)
    return {**_rail_only(draw), **trunks, "name": "rail-optimised", **_latencies(draw, *names)}


def _fat_tree(draw: Draw) -> Document:
    rate = {"link_rate": pick(draw, RATES_BPS)}
    return {
        "name": "fat-tree",
        "k": 2 if chance(draw, 0.1) else 4,
        **rate,
        **_latencies(draw, "link_latency"),
    }


def _ring(draw: Draw) -> Document:
    ways = {"directions": 1} if chance(draw, 0.2) else {}
    lanes = {"wavelengths": int(draw.integers(2, 4))} if chance(draw, 0.4) else {}
    nodes = int(draw.integers(3, 17))
    return {"name": "ring", "nodes": nodes, **ways, **lanes, **_latencies(draw, "latency")}


def _torus(draw: Draw) -> Document:
    rate = {"link_rate": pick(draw, RATES_BPS)}
    return {"name": "torus", "shape": pick(draw, SHAPES), **rate, **_latencies(draw, "link_latency")}


def _twisted(draw: Draw) -> Document:
    return {"name": "twisted-torus", "shape": TWISTED, **_latencies(draw, "link_latency")}


def _from_file(draw: Draw) -> Document:
    """An example of the repository, half of the time with other rates and latencies."""
    text = (EXAMPLES / pick(draw, FILES)).read_text()
    if chance(draw, 0.5):
        content = yaml.safe_load(text)
        for section in content["links"]:
            section["rate"] = f"{pick(draw, RATES_BPS) / 1e9:g}Gb/s"
            section["latency"] = f"{_latency(draw):.12f}s"
        text = yaml.safe_dump(content, sort_keys=False, width=1000)
    return {"name": "file", "text": text}


KINDS = {
    "rail-only": _rail_only,
    "rail-optimised": _rail_optimised,
    "fat-tree": _fat_tree,
    "ring": _ring,
    "torus": _torus,
    "twisted-torus": _twisted,
    "file": _from_file,
}


ALL_KINDS = (*(kind for kind in KINDS if kind != "twisted-torus"),) * 3 + ("twisted-torus",)
"""Large ones less often."""


def some_topology(draw: Draw, kinds: Sequence[str] = ALL_KINDS) -> Document:
    """Options of a fabric of one of these kinds. `text` is the content of a file, which `runs.py` writes."""
    return KINDS[pick(draw, kinds)](draw)


def fabric_of(topology: Mapping[str, Any]) -> Fabric:
    """The fabric of such options."""
    from tests.laws.runs import written

    options = written({"topology": dict(topology)})["topology"]
    plugin = registers()["topology"][options.pop("name")]
    fabric: Fabric = plugin.build(resolve("topology", plugin.parameters, options))
    return fabric


# -- routers and traffic -----------------------------------------------------------------------------------
def routers_for(fabric: Fabric, only: str | None = None) -> list[str]:
    """The names of the routers that serve a fabric."""
    names = [name for name in registers()["router"] if name not in WITHOUT_LAWS] if only is None else [only]
    return [name for name in names if not why_unserved(registers()["router"][name], fabric)]


def some_router(draw: Draw, names: Sequence[str]) -> str:
    """One of these; mostly one that follows scores, if there is one."""
    following = [name for name in names if registers()["router"][name].damped]
    return str(pick(draw, following if following and chance(draw, 0.8) else names))


def some_collective(draw: Draw, fabric: Fabric, kind: str = "") -> Document:
    """A collective that serves the fabric, with options, and a size: half of the time slices of full packets,
    else any. On a large fabric some of the GPUs take part."""
    plugins = registers()["collective"]
    served = [name for name in plugins if name not in FROM_FILES and not why_unserved(plugins[name], fabric)]
    few: Document = {}
    if fabric.n_gpus > LARGEST:
        few = {"ranks": pick(draw, ON_TWISTED)}
        served = [name for name in served if name not in ON_WHOLE_FABRICS]
    name = kind or pick(draw, [name for name in served if name in USUAL] if chance(draw, 0.4) else served)
    options: Document = {}
    if name in ("pipelined-all-reduce", "tree-all-reduce"):
        options["chunks"] = int(draw.integers(1, 5))
    chunks = options.get("chunks", 1) * (2 if name == "tree-all-reduce" else 1)
    lanes = 2 * len(fabric.groups[0].shape) if name == "multi-ring-all-reduce" else 1
    slices = min(fabric.n_gpus, LARGEST) * chunks * lanes * pick(draw, (1, 4, 16, 64))
    size = slices * SLICE_BYTES
    if chance(draw, 0.5):
        size = 4 * int(np.exp(draw.uniform(np.log(2 * slices), np.log(size / 2))))  # none is empty
    return {"collective": {"name": name, **options}, "size": size, **few}


# -- faults ------------------------------------------------------------------------------------------------
def some_element(draw: Draw, fabric: Fabric) -> str:
    """A rail, domain, spine, NIC, GPU, cable or optical switch, as faults name it."""
    kinds = ["link", "link", *(group.kind for group in fabric.groups[1:])]
    if fabric.group("rail") is not None:
        kinds += ["nic", "rail", "rail"]
    if fabric.ocs_names:
        kinds.append("ocs")
    kind = pick(draw, kinds)
    if kind == "link":
        return f"link:{fabric.link_name(int(pick(draw, np.flatnonzero(fabric.usable))))}"
    if kind == "ocs":
        return f"ocs:{pick(draw, fabric.ocs_names)}"
    group = fabric.groups[0] if kind == "nic" else fabric.group(kind)
    assert group is not None
    return f"{kind}:{place_of(fabric, group.first + int(draw.integers(group.size)))}"


def place_of(fabric: Fabric, node: int) -> str:
    return ".".join(map(str, fabric.coordinates(node)))


def links_of(fabric: Fabric, element: str) -> np.ndarray[Any, Any]:
    kind, _, name = element.partition(":")
    return links_and_node(fabric, kind, name)[0]


def way_of(draw: Draw, element: str) -> str:
    """One direction of what has two, a third of the time."""
    if element.startswith(("link", "ocs")) or chance(draw, 0.65):
        return ""
    return f" way={pick(draw, ('out', 'in'))}"


def some_slowness(draw: Draw, element: str) -> str:
    """A degradation or a loss of an element, without its time. What is left of its speed is a twentieth or
    more, or nothing, since every second of the run's clock is sampled and costs time."""
    way = way_of(draw, element)
    if chance(draw, 0.4):
        rate = 1.0 if chance(draw, 0.15) else float(np.exp(draw.uniform(np.log(0.01), np.log(0.7))))
        return f"loss {element} rate={rate:.2%}{way}"
    return f"degrade {element} to={draw.uniform(0.05, 0.9):.1%}{way}"


def some_faults(draw: Draw, fabric: Fabric, iterations: int, *, by_time: bool = False) -> list[str]:
    """One to three faults of any kind, before iterations or within them, or `by_time` alone; the last may
    restore what came first."""
    faults = []
    for _ in range(int(draw.integers(1, 4))):
        later = "" if chance(draw, 0.5) else f"+{draw.uniform(0.05, 0.9):.2f}s"
        at = f"iter:{draw.integers(1, iterations)}{later}"
        if by_time:
            at = f"{draw.uniform(0, iterations):.2f}s"
        element = some_element(draw, fabric)
        verb = some_slowness(draw, element) if chance(draw, 0.7) else f"down {element}"
        faults.append(f"at={at} {verb}")
    if chance(draw, 0.4):
        at = f"{iterations - 1}s" if by_time else f"iter:{iterations - 1}"
        faults.append(f"at={at} restore {faults[0].split()[2]}")
    return faults
