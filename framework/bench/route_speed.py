"""How fast routes are decided, against networkx in the same run; and the figures of the routing core."""

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

from railweave.framework.analysis.assumed_health import AssumedScores, assumed_health
from railweave.framework.errors import MachineError, RunFailedError
from railweave.framework.experiment.plan import build_fabric
from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import publish
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.registry import Registers
from railweave.framework.routing.batches import pair_chunks
from railweave.framework.routing.loads import all_to_all_loads
from railweave.framework.routing.rails.links import RailLinks
from railweave.framework.routing.rails.scores import Scores
from railweave.framework.routing.reroute import RoutesInUse
from railweave.framework.routing.route_control import RouteControl

CHUNK = 1 << 15
"""Pairs requested together: enough that numpy's cost per call vanishes, few enough that the caches hold
their arrays."""
WALKS = 3
"""Measurements of each, of which medians are shown; ours and networkx's take turns."""
REACTIONS = 7
"""Reactions to one changed score, each of a loop of its own; medians are shown."""
SOURCES = 8
"""Sources that networkx is measured on; its time for all is scaled from them."""
PAIRS = 100
"""Pairs that networkx searches one by one."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The fabrics of one benchmark: rail-only domains x rails, a torus shape, GPUs for the decisions."""

    rail_only: tuple[int, int] = (64, 64)
    torus: str = "16x16x16"
    decisions: tuple[int, int] = (32, 32)
    registries: tuple[int, ...] = (256, 4096)
    lookups: int = 200_000
    in_use: tuple[int, int] = (64, 64)


QUICK = Sizes((4, 4), "4x4x4", (4, 4), (16, 64), 2_000, (4, 4))


def routes(registers: Registers, sizes: Sizes, report: Callable[[str], None]) -> dict[str, Any]:
    """All figures. Times in s, memory in MB (10^6 bytes) as numpy and Python allocate it, beyond what stood
    before.

    Raises MachineError without networkx, RunFailedError where its paths have another length than ours.
    """
    try:
        import networkx as nx
    except ImportError:
        raise MachineError(
            "networkx is not installed; it is what the routes are measured against. "
            "Install it: pip install 'railweave[dev]', or pip install networkx."
        ) from None
    rails = _rail_only(registers, sizes.rail_only)
    torus = build_fabric("torus", {"shape": sizes.torus}, {}, registers)
    hscore, dor, shortest = (registers["router"][name] for name in ("hscore", "dor", "shortest"))
    report("rail-only: hscore and shortest against networkx")
    of_rails = against_networkx(nx, rails, hscore, shortest)
    report("torus: dor and shortest against networkx")
    of_torus = against_networkx(nx, torus, dor, shortest)
    report("hscore decisions")
    decided = decisions(_rail_only(registers, sizes.decisions), hscore)
    report("best-fit lookups")
    lookups = {f"k{k}_per_s": best_fit_rate(registers, k, sizes.lookups) for k in sizes.registries}
    report("all-to-all loads of dor")
    loads = dor_loads(torus, dor)
    report("pairs in use: one changed score")
    return {
        "rail_only": of_rails,
        "torus": of_torus,
        "hscore_decisions": decided,
        "best_fit": lookups,
        "dor_all_to_all_loads": loads,
        "pairs_in_use": pairs_in_use(_rail_only(registers, sizes.in_use), hscore),
    }


def against_networkx(nx: ModuleType, fabric: Fabric, router: Router, *others: Router) -> dict[str, Any]:
    """All ordered pairs of a healthy fabric: ours, and networkx's breadth-first paths on `SOURCES` sources,
    scaled.

    Ours is the table and every path as link ids, which rules are made of; of `others` only time and ratio are
    reported. networkx returns nodes: `networkx_nodes_s` is that alone, `networkx_links_s` with the link of
    every hop looked up in one dict, its fastest route to the same answer; `networkx_pairwise_s` searches pair
    after pair. The lengths of all paths from the sampled sources are compared.
    """
    n, health, routers = fabric.n_gpus, HealthSnapshot.healthy(fabric), (router, *others)
    sources = range(0, n, max(1, n // SOURCES))
    graph, networkx_works = _networkx(nx, fabric, sources)
    tables = [own_router.routes(fabric, health) for own_router in routers]
    for src in sources:
        lengths = {dst: len(path) - 1 for dst, path in nx.single_source_shortest_path(graph, src).items()}
        for table in tables:
            _compare_lengths(fabric, table, src, lengths)

    def ours(own_router: Router) -> None:
        _walk(own_router.routes(fabric, health))

    works: list[Callable[[], Any]] = [*networkx_works, *(partial(ours, own_router) for own_router in routers)]
    with _own_objects_set_aside():
        rounds = [[_timed(work)[0] for work in works] for _ in range(WALKS)]
    medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
    nodes_s, links_s = (seconds * n / len(sources) for seconds in medians[:2])
    pairwise_s = medians[2] / PAIRS * n * (n - 1)
    ours_s, *others_s = medians[3:]
    figures = {
        "gpus": n,
        "pairs": n * (n - 1),
        "hops": _walk(tables[0]),
        "router": tables[0].router,
        "ours_s": ours_s,
        "networkx_nodes_s": nodes_s,
        "networkx_links_s": links_s,
        "networkx_pairwise_s": pairwise_s,
        "ratio_nodes": nodes_s / ours_s,
        "ratio_links": links_s / ours_s,
        "ratio_pairwise": pairwise_s / ours_s,
        "networkx_measured": f"{len(sources)} of {n} sources and {PAIRS} pairs, scaled to all",
    }
    for table, seconds in zip(tables[1:], others_s, strict=True):
        figures |= {f"{table.router}_s": seconds, f"{table.router}_ratio_links": links_s / seconds}
    return figures


def _networkx(nx: ModuleType, fabric: Fabric, sources: Sequence[int]) -> tuple[Any, list[Callable[[], None]]]:
    """networkx's graph of a fabric, and its three works: nodes, links, and pair after pair."""
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(
        zip(fabric.link_src.tolist(), fabric.link_dst.tolist(), range(fabric.n_links), strict=True),
        weight="link",
    )
    link_of = nx.get_edge_attributes(graph, "link")
    drawn = np.random.default_rng(1).integers(0, fabric.n_gpus, (PAIRS, 2)).tolist()

    def nodes() -> None:
        for src in sources:
            nx.single_source_shortest_path(graph, src)

    def links() -> None:
        for src in sources:
            _as_links(link_of, nx.single_source_shortest_path(graph, src), fabric.n_gpus)

    def pair_after_pair() -> None:
        for a, b in drawn:
            nx.shortest_path(graph, a, b)

    return graph, [nodes, links, pair_after_pair]


def decisions(fabric: Fabric, router: Router) -> dict[str, Any]:
    """Every ordered pair decided under uneven scores (0.05 to 1 in steps, drawn by seed 1); all paths are
    kept."""
    rng = np.random.default_rng(1)
    scores = {node: float(rng.integers(1, 21)) / 20 for node in range(fabric.n_gpus, fabric.n_nodes)}
    health = assumed_health(fabric, AssumedScores(nodes=scores))

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


def best_fit_rate(registers: Registers, rails: int, lookups: int) -> float:
    """Best-fit lookups a second among `rails` rails: a binary search each in the snapshot's sorted scores."""
    rng = np.random.default_rng(1)
    fabric = _rail_only(registers, (1, rails))
    first = fabric.n_gpus + 1
    uneven = AssumedScores(nodes={first + rail: float(rng.random()) for rail in range(rails)})
    scores = Scores.of(fabric, assumed_health(fabric, uneven), RailLinks.of(fabric, "hscore"))
    thresholds = rng.random(lookups)
    return lookups / statistics.median(
        _timed(lambda: scores.at_or_below(thresholds))[0] for _ in range(WALKS)
    )


def dor_loads(fabric: Fabric, router: Router) -> dict[str, Any]:
    """The load of every link when all pairs exchange one unit, by paths walked one and all."""
    table = router.routes(fabric, HealthSnapshot.healthy(fabric))
    seconds, loads = _timed(lambda: all_to_all_loads(fabric, table, chunk=CHUNK))
    return {
        "pairs": fabric.n_gpus * (fabric.n_gpus - 1),
        "seconds": seconds,
        "memory_mb": _peak_mb(lambda: all_to_all_loads(fabric, table, chunk=CHUNK)),
        "max_load": float(loads.load.max()),
        "goal_s": 10.0,
        "goal_mb": 2000.0,
    }


def pairs_in_use(fabric: Fabric, router: Router) -> dict[str, Any]:
    """What one changed score costs where each GPU sends to four others: rail 0 falls to 0.4 of its rate.

    The partners: the next and the previous domain on the same rail, and two drawn by seed 1 for all GPUs
    alike. `routes_s`: routes, checks and damping of all these pairs; `rules_s`: with the update of the rules
    as well. `one_pass_s`: copying the arrays of their paths once, the least that anything which reads them
    all can take.
    """
    n, rails, options = fabric.n_gpus, fabric.groups[0].shape[1], HealthOptions()
    drawn = np.random.default_rng(1).permutation(np.setdiff1d(np.arange(1, n), (rails, n - rails)))[:2]
    src = np.repeat(np.arange(n), 4)
    dst = (src + np.tile([rails, n - rails, *drawn], n)) % n
    raw = np.ones(fabric.n_links)
    raw[fabric.element_links(n + fabric.groups[1].size)] = 0.4
    healthy = HealthSnapshot.healthy(fabric, margin=options.margin)
    health = publish(fabric, healthy, raw, np.ones(fabric.n_links, bool), t_s=1.0, options=options)
    assert health is not None, "a rail at 0.4 is news"
    figures: dict[str, Any] = {"pairs": len(src)}
    for name, kind in (("routes", RoutesInUse), ("rules", RouteControl)):
        loops = [kind(fabric, router, options, "hscore", (src, dst)) for _ in range(REACTIONS + 1)]
        with _own_objects_set_aside():
            figures[f"{name}_s"] = statistics.median(
                _timed(partial(x.react, health, 1.0))[0] for x in loops[1:]
            )
        figures[f"{name}_mb"] = _peak_mb(partial(loops[0].react, health, 1.0))
    paths = RoutesInUse(fabric, router, options, "hscore", (src, dst)).paths
    arrays = (paths.src, paths.dst, paths.pair_start, paths.weight, paths.hop_start, paths.links)
    one_pass_s = statistics.median(_timed(lambda: [x.copy() for x in arrays])[0] for _ in range(REACTIONS))
    return figures | {
        "one_pass_s": one_pass_s,
        "routes_in_passes": figures["routes_s"] / one_pass_s,
        "goal_routes_s": 0.02,
        "goal_rules_s": 0.15,
        "goal_mb": 50.0,
    }


def _rail_only(registers: Registers, size: tuple[int, int]) -> Fabric:
    return build_fabric("rail-only", {"domains": size[0], "rails": size[1]}, {}, registers)


def _walk(table: RouteTable) -> int:
    """Hops of all pairs' paths."""
    return sum(len(table.paths(src, dst).links) for src, dst in pair_chunks(table.n_gpus, CHUNK))


def _as_links(
    link_of: Mapping[tuple[int, int], int], paths: Mapping[int, list[int]], n_gpus: int
) -> dict[int, list[int]]:
    return {dst: [link_of[hop] for hop in pairwise(path)] for dst, path in paths.items() if dst < n_gpus}


def _compare_lengths(fabric: Fabric, table: RouteTable, src: int, theirs: Mapping[int, int]) -> None:
    dst = np.delete(np.arange(fabric.n_gpus), src)
    ours = np.diff(table.paths(np.full(len(dst), src), dst).hop_start)
    other = np.flatnonzero(ours != [theirs[int(d)] for d in dst])
    if other.size:
        pair = f"{fabric.node_name(src)} -> {fabric.node_name(int(dst[other[0]]))}"
        raise RunFailedError(
            f"{pair}: router {table.router} takes {ours[other[0]]} hops, networkx "
            f"{theirs[int(dst[other[0]])]}. "
            "The two cannot be compared."
        )


@contextmanager
def _own_objects_set_aside() -> Iterator[None]:
    """Keeps the garbage collector from scanning our objects whenever networkx makes many small ones."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


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
