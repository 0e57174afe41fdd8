"""Routers that each break one rule; all else is the built-in `shortest`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from railweave.framework.errors import UnsupportedFabricError
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Value
from railweave.framework.routing.batches import starts
from railweave.plugins.shortest.router import Shortest

Change = Callable[[Fabric, PathBatch], PathBatch]


class Sound(Router):
    """Fewest hops on the kinds it serves."""

    summary = "fewest hops"
    parameters = ()
    damped = False
    name = "broken"

    def __init__(
        self, serves: tuple[str, ...] = ("rail-only",), promised: tuple[str, ...] | None = None
    ) -> None:
        self.serves = serves
        if promised is not None:
            self.promises = lambda fabric: promised

    def configured(self, options: Mapping[str, Value]) -> Any:
        return self

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        if fabric.kind not in self.serves:
            raise UnsupportedFabricError(f"it serves {', '.join(self.serves)}, not {fabric.kind}.")
        return replace(Shortest().routes(fabric, health), router=self.name)


class Changed(Sound):
    """The sound table with its answers changed."""

    def __init__(self, change: Change, **others: Any) -> None:
        super().__init__(**others)
        self._change = change

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        table = super().routes(fabric, health)
        return replace(table, resolve=lambda src, dst: self._change(fabric, table.resolve(src, dst)))


def answers(
    paths_of: Callable[[Fabric, int, tuple[int, ...]], list[tuple[int, ...]]], weights: Any = None
) -> Change:
    """A change of each pair's only path, given its source, into others."""

    def change(fabric: Fabric, batch: PathBatch) -> PathBatch:
        paths = [
            paths_of(fabric, int(batch.src[i]), batch.paths(i)[0].links) if batch.paths(i) else []
            for i in range(len(batch.src))
        ]
        flat = [path for some in paths for path in some]
        weight = [w for some in paths for w in (weights or [1 / len(some)] * len(some) if some else [])]
        return PathBatch(
            batch.src, batch.dst, starts(np.array([len(some) for some in paths], np.int64)),
            np.array(weight, np.float64), starts(np.array([len(path) for path in flat], np.int64)),
            np.array([link for path in flat for link in path], np.int32),
        )  # fmt: skip

    return change


def back_and_forth(fabric: Fabric, src: int, links: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The first hop, its way back, and on: a loop."""
    return [(links[0], links[0] ^ 1, *links)] if src == 2 else [links]


def jump(fabric: Fabric, src: int, links: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Without the second link."""
    return [links[:1] + links[2:]] if len(links) > 2 else [links]


def short(fabric: Fabric, src: int, links: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Without the last link."""
    return [links[:-1]] if len(links) > 2 else [links]


def unknown_link(fabric: Fabric, src: int, links: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [(*links[:-1], fabric.n_links)]


def missing(fabric: Fabric, src: int, links: tuple[int, ...]) -> list[tuple[int, ...]]:
    """No path from GPU 1 to a switch's far side."""
    return [] if src == 1 and len(links) > 2 else [links]


def doubled(fabric: Fabric, src: int, links: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The same path twice; harmless, but for its weights."""
    return [links, links]


class BlindToDeath(Sound):
    """Takes links that are down."""

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        table = super().routes(fabric, HealthSnapshot.healthy(fabric))
        return replace(table, version=health.version)


class GivesUp(Sound):
    """No way around anything: a pair whose healthy path is broken has none."""

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        table = super().routes(fabric, HealthSnapshot.healthy(fabric))

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            batch = table.resolve(src, dst)
            hops = np.full((len(src), max(1, int(np.diff(batch.hop_start).max(initial=1)))), -1)
            within = np.arange(len(batch.links)) - batch.hop_start[batch.hop_path]
            hops[batch.hop_path, within] = batch.links
            alive = ~(health.down[hops] & (hops >= 0)).any(axis=1)
            return PathBatch.single(src, dst, hops, reachable=alive)

        return replace(table, version=health.version, resolve=resolve)


class Moody(Sound):
    """Another link among equals at every call: the first rail, then the second."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = 0

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        self._asked += 1
        down = health.down.copy()
        if self._asked % 2 and not down.any():
            down[int(fabric.out_links(0)[0])] = True
        return super().routes(fabric, replace(health, down=down))


class Meddler(Sound):
    """Leaves a note in the fabric it is given."""

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        fabric.params["seen"] = True
        return super().routes(fabric, health)


class Raises(Sound):
    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        raise ZeroDivisionError("division by zero")


class RaisesLate(Sound):
    """Only when it is asked for paths."""

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        def resolve(src: Int64, dst: Int64) -> PathBatch:
            raise KeyError("g0.0")

        return replace(super().routes(fabric, health), resolve=resolve)


class Nothing(Sound):
    def routes(self, fabric: Fabric, health: HealthSnapshot) -> Any:
        return None


class ServesAnything(Sound):
    """Names one kind and routes them all."""

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        return replace(Shortest().routes(fabric, health), router=self.name)


class OtherName(Sound):
    """Its table carries the name of another router."""

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        return replace(super().routes(fabric, health), router="other")


class OldVersion(Sound):
    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        return replace(super().routes(fabric, health), version=-1)
