"""Other names for the same experiment: permutations of nodes that leave fabric and router as they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from railweave.framework.experiment.fault_targets import find_link
from railweave.framework.model import Fabric, PathBatch
from tests.laws.experiments import Draw, place_of

Ids = np.ndarray[Any, Any]
HIERARCHICAL = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "pipelined-all-reduce")
"""Collectives whose pairs are in one domain or on one rail, so that each has one shortest path."""
NEIGHBOURLY = ("multi-ring-all-reduce",)
PODS = ("fat-tree", "fat-tree-k4")


@dataclass(frozen=True, eq=False)
class Relabelling:
    """`node` (n_nodes,): the new id of each node."""

    fabric: Fabric
    node: Ids

    def __post_init__(self) -> None:
        fabric = self.fabric
        before, after = (
            sorted(
                zip(
                    ids[fabric.link_src],
                    ids[fabric.link_dst],
                    fabric.capacity_bps,
                    fabric.latency_s,
                    strict=True,
                )
            )
            for ids in (np.arange(fabric.n_nodes), self.node)
        )
        assert before == after, "the permutation changes the fabric"

    def element(self, text: str) -> str:
        """`rail:1` or `link:g0.0->r1`, by its new name."""
        fabric, (kind, _, name) = self.fabric, text.partition(":")
        if kind == "link":
            a, arrow, b = name.partition("#")[0].partition("->")
            ends = (fabric.node_name(int(self.node[fabric.node_ids[end]])) for end in (a, b))
            hash_, number = name.partition("#")[1:]
            renamed = arrow.join(ends) + hash_ + number
            find_link(fabric, renamed)
            return f"link:{renamed}"
        group = fabric.groups[0] if kind in ("nic", "gpu") else fabric.group(kind)
        assert group is not None, text
        node = next(n for n in range(group.first, group.first + group.size) if place_of(fabric, n) == name)
        return f"{kind}:{place_of(fabric, int(self.node[node]))}"

    def fault(self, text: str) -> str:
        words = text.split()
        return " ".join((*words[:2], self.element(words[2]), *words[3:]))

    def routes(self, paths: PathBatch, *, renamed: bool) -> set[tuple[float, ...]]:
        """The nodes of each path behind its weight, by their new names or as they are."""
        fabric, node = self.fabric, self.node if renamed else np.arange(self.fabric.n_nodes)
        routes = set()
        for first, end, weight in zip(paths.hop_start[:-1], paths.hop_start[1:], paths.weight, strict=True):
            links = paths.links[first:end]
            ends = node[fabric.link_src[links[:1]]].tolist() + node[fabric.link_dst[links]].tolist()
            routes.add((float(weight), *ends))
        return routes

    def ranks(self) -> str:
        """The GPUs in the order of the ranks that they were."""
        return "gpu:" + ",".join(place_of(self.fabric, int(g)) for g in self.node[: self.fabric.n_gpus])


Places = Callable[[str, Ids], Ids]
"""New coordinates (n, axes) of the nodes of a kind, of those they have."""


def _moved(fabric: Fabric, places: Places) -> Relabelling:
    node = np.arange(fabric.n_nodes)
    for group in fabric.groups:
        new = places(group.kind, group.all_coordinates.astype(np.int64).copy())
        node[group.first : group.first + group.size] = [group.node_at(tuple(map(int, p))) for p in new]
    return Relabelling(fabric, node)


def some_relabelling(draw: Draw, fabric: Fabric, router: str, collective: str) -> Relabelling | None:
    """One that keeps the order which the router states, where there is one for such traffic.

    `hscore` and `spray` prefer no domain and no rail. `shortest` prefers low ids: pairs with one shortest
    path do not notice, nor do routes up a fat tree when pods change places. Dimension order breaks ties by
    parity, so shifts along an even axis are even. Hashes prefer nothing, on average."""
    kinds = {group.kind for group in fabric.groups[1:]}
    if router in ("optree", "ilp"):  # both decide by the place on the ring or torus
        return None
    if fabric.kind in PODS:
        return _pods(draw, fabric)
    if {"domain", "rail"} <= kinds:
        if router == "shortest" and collective not in HIERARCHICAL:
            return None
        return _rails(draw, fabric)
    if kinds or fabric.groups[0].places is not None:
        return None
    if router == "shortest" and not _one_shortest_path(fabric, collective):
        return None
    return _shift(draw, fabric)


def _one_shortest_path(fabric: Fabric, collective: str) -> bool:
    shape = fabric.groups[0].shape
    return collective in NEIGHBOURLY or (len(shape) == 1 and (shape[0] % 2 == 1 or not fabric.usable.all()))


def _rails(draw: Draw, fabric: Fabric) -> Relabelling:
    """Of domains, rails and spines; of a fabric with domains of unequal size, what leaves it as it is."""
    if fabric.kind == "unequal-domains":
        domains, rails = np.array([0, *draw.permutation([1, 2])]), np.arange(4)
        rails[:2], rails[2:] = draw.permutation(2), 2 + draw.permutation(2)
    else:
        domains, rails = (draw.permutation(group.size) for group in fabric.groups[1:3])
    spines = draw.permutation(fabric.groups[3].size) if len(fabric.groups) > 3 else np.arange(0)

    def places(kind: str, old: Ids) -> Ids:
        columns = {"gpu": (domains, rails), "domain": (domains,), "rail": (rails,), "spine": (spines,)}[kind]
        return np.stack([column[old[:, axis]] for axis, column in enumerate(columns)], axis=1)

    return _moved(fabric, places)


def _pods(draw: Draw, fabric: Fabric) -> Relabelling:
    pods = draw.permutation(fabric.groups[0].shape[0])

    def places(kind: str, old: Ids) -> Ids:
        if kind != "core":
            old[:, 0] = pods[old[:, 0]]
        return old

    return _moved(fabric, places)


def _shift(draw: Draw, fabric: Fabric) -> Relabelling:
    """Along every axis; along the last of a twisted torus, as only that one wraps without a twist."""
    shape = fabric.groups[0].shape
    steps = [int(draw.integers(n)) for n in shape]
    steps = [step - step % 2 if n % 2 == 0 else step for step, n in zip(steps, shape, strict=True)]
    if fabric.kind == "twisted-torus":
        steps[:-1] = [0] * (len(shape) - 1)
    return _moved(fabric, lambda kind, old: (old + steps) % shape)
