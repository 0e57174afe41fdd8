"""How fast routes are decided, beside networkx in the same run; and the figures of the routing core."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

from railweave.framework.errors import MachineError, RunFailedError
from railweave.framework.health.registry import RailRegistry
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers
from railweave.framework.routing.batches import pair_chunks
from railweave.framework.routing.loads import all_to_all_loads
from railweave.framework.scores_file import SupposedScores
from railweave.framework.supposed_health import supposed

CHUNK = 1 << 12
"""Pairs asked for together; their arrays stay in the processor's cache."""
WALKS = 3
SOURCES = 8
"""Sources that networkx is measured on; its time for all is scaled from them."""
PAIRS = 100
"""Pairs that networkx is asked for one by one."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The fabrics of one benchmark: rail-only domains x rails, a torus shape, GPUs for the decisions."""

    rail_only: tuple[int, int] = (64, 64)
    torus: str = "16x16x16"
    decisions: tuple[int, int] = (32, 32)
    registries: tuple[int, ...] = (256, 4096)
    lookups: int = 200_000


QUICK = Sizes((4, 4), "4x4x4", (4, 4), (16, 64), 2_000)


def routes(
    registers: Registers, sizes: Sizes | None = None, tell: Callable[[str], None] = lambda what: None
) -> dict[str, Any]:
    """All figures. Times in s, memory in MB (10^6 bytes) as numpy and Python allocate it, beyond what stood before.

    Raises MachineError without networkx, RunFailedError where its paths have another length than ours.
    """
    sizes = sizes or Sizes()
    nx = networkx()
    rails, torus = _fabric(registers, "rail-only", sizes.rail_only), _torus(registers, sizes.torus)
    hscore, dor = registers["router"]["hscore"], registers["router"]["dor"]
    tell("rail-only: hscore beside networkx")
    of_rails = against_networkx(nx, rails, hscore)
    tell("torus: dor beside networkx")
    of_torus = against_networkx(nx, torus, dor)
    tell("hscore decisions")
    decided = decisions(_fabric(registers, "rail-only", sizes.decisions), hscore)
    tell("best-fit lookups")
    lookups = {f"k{k}_per_s": best_fit_rate(k, sizes.lookups) for k in sizes.registries}
    tell("all-to-all loads of dor")
    return {
        "rail_only": of_rails,
        "torus": of_torus,
        "hscore_decisions": decided,
        "best_fit": lookups,
        "dor_all_to_all_loads": dor_loads(torus, dor),
    }


def networkx() -> ModuleType:
    """The module; MachineError that says how to get it."""
    try:
        import networkx as nx  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise MachineError(
            "networkx is not installed; it is what the routes are measured against. "
            "Install it: pip install 'railweave[dev]', or pip install networkx."
        ) from None
    module: ModuleType = nx
    return module


def against_networkx(nx: ModuleType, fabric: Fabric, router: Router) -> dict[str, Any]:
    """All ordered pairs of a healthy fabric: ours, and networkx's breadth-first paths on `SOURCES` sources, scaled.

    A path of ours is link ids, which rules are made of. networkx gives nodes: `networkx_nodes_s` is that alone,
    `networkx_links_s` with the edge of every hop looked up, `networkx_pairwise_s` asking for pair after pair. The
    lengths of all paths from the sampled sources are compared.
    """
    n = fabric.n_gpus
    table = router.routes(fabric, HealthSnapshot.healthy(fabric))
    walks = [_timed(lambda: _walk(table)) for _ in range(WALKS)]
    ours_s = statistics.median(seconds for seconds, _ in walks)
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(
        zip(fabric.link_src.tolist(), fabric.link_dst.tolist(), range(fabric.n_links), strict=True),
        weight="link",
    )
    sources = range(0, n, max(1, n // SOURCES))
    nodes_s = links_s = 0.0
    for src in sources:
        seconds, paths = _timed(lambda src=src: nx.single_source_shortest_path(graph, src))  # type: ignore[misc]
        nodes_s += seconds
        seconds, links = _timed(lambda paths=paths: _as_links(graph.adj, paths, n))  # type: ignore[misc]
        links_s += seconds
        _compare_lengths(fabric, table, src, {dst: len(path) for dst, path in links.items()})
    drawn = np.random.default_rng(1).integers(0, n, (PAIRS, 2)).tolist()
    pairwise_s, _ = _timed(lambda: [nx.shortest_path(graph, a, b) for a, b in drawn])
    scale, pairs = n / len(sources), n * (n - 1)
    figures = {
        "networkx_nodes_s": nodes_s * scale,
        "networkx_links_s": (nodes_s + links_s) * scale,
        "networkx_pairwise_s": pairwise_s / PAIRS * pairs,
    }
    return {
        "gpus": n,
        "pairs": pairs,
        "hops": walks[0][1],
        "router": table.router,
        "ours_s": ours_s,
        **figures,
        "ratio_nodes": figures["networkx_nodes_s"] / ours_s,
        "ratio_links": figures["networkx_links_s"] / ours_s,
        "ratio_pairwise": figures["networkx_pairwise_s"] / ours_s,
        "networkx_measured": f"{len(sources)} of {n} sources and {PAIRS} pairs, scaled to all",
    }


def decisions(fabric: Fabric, router: Router) -> dict[str, Any]:
    """Every ordered pair decided under uneven scores (0.05 to 1 in steps, drawn by seed 1); all paths are kept."""
    rng = np.random.default_rng(1)
    scores = {
        node: float(rng.integers(1, 21)) / 20 for group in fabric.groups[1:] for node in range(group.first, group.first + group.size)
    }  # fmt: skip
    health = supposed(fabric, SupposedScores(nodes=scores))

    def decide() -> list[PathBatch]:
        table = router.routes(fabric, health)
        return [table.paths(src, dst) for src, dst in pair_chunks(table.n_gpus, CHUNK)]

    return {
        "pairs": fabric.n_gpus * (fabric.n_gpus - 1),
        "seconds": statistics.median(_timed(decide)[0] for _ in range(WALKS)),
        "memory_mb": _peak_mb(decide),
        "goal_s": 1.0,
        "goal_mb": 200.0,
    }


def best_fit_rate(rails: int, lookups: int) -> float:
    """Best-fit lookups a second in a registry of `rails` rails, one after the other."""
    rng = np.random.default_rng(1)
    registry = RailRegistry(rng.random(rails).tolist())
    asked = rng.random(lookups).tolist()

    def look() -> None:
        for m in asked:
            registry.best_fit(m)

    return lookups / statistics.median(_timed(look)[0] for _ in range(WALKS))


def dor_loads(fabric: Fabric, router: Router) -> dict[str, Any]:
    """The load of every link when all pairs exchange one unit, by paths walked one and all."""
    table = router.routes(fabric, HealthSnapshot.healthy(fabric))
    seconds, found = _timed(lambda: all_to_all_loads(fabric, table, chunk=CHUNK))
    memory = _peak_mb(lambda: all_to_all_loads(fabric, table, chunk=CHUNK))
    return {
        "pairs": fabric.n_gpus * (fabric.n_gpus - 1), "seconds": seconds, "memory_mb": memory,
        "max_load": float(found.load.max()), "goal_s": 10.0, "goal_mb": 2000.0,
    }  # fmt: skip


def _fabric(registers: Registers, name: str, size: tuple[int, int]) -> Fabric:
    return _built(registers, name, {"domains": size[0], "rails": size[1]})


def _torus(registers: Registers, shape: str) -> Fabric:
    return _built(registers, "torus", {"shape": shape})


def _built(registers: Registers, name: str, options: Mapping[str, object]) -> Fabric:
    topology = registers["topology"][name]
    built: Fabric = topology.build(resolve(f"topology {name}", topology.parameters, options))
    return built


def _walk(table: RouteTable) -> int:
    """Hops of all pairs' paths."""
    return sum(len(table.paths(src, dst).links) for src, dst in pair_chunks(table.n_gpus, CHUNK))


def _as_links(edges: Any, paths: Mapping[int, list[int]], n_gpus: int) -> dict[int, list[int]]:
    return {
        dst: [edges[a][b]["link"] for a, b in pairwise(path)] for dst, path in paths.items() if dst < n_gpus
    }


def _compare_lengths(fabric: Fabric, table: RouteTable, src: int, theirs: Mapping[int, int]) -> None:
    dst = np.delete(np.arange(fabric.n_gpus), src)
    ours = np.diff(table.paths(np.full(len(dst), src), dst).hop_start)
    other = np.flatnonzero(ours != [theirs[int(d)] for d in dst])
    if other.size:
        pair = f"{fabric.node_name(src)} -> {fabric.node_name(int(dst[other[0]]))}"
        raise RunFailedError(
            f"{pair}: router {table.router} takes {ours[other[0]]} hops, networkx {theirs[int(dst[other[0]])]}. "
            "The two cannot be compared."
        )


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def _peak_mb(work: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
