"""A router as somebody else writes it: the packets of a pair take all its shortest paths in turn."""

from __future__ import annotations

import numpy as np

from railweave.framework.hookspecs import hookimpl
from railweave.framework.model import PathBatch, RouteTable


class EveryPath:
    summary = "all shortest paths that are up, in equal shares"
    parameters = serves = requires = ()
    damped = True

    def configured(self, options):
        return self

    def promises(self, fabric):
        return ("reroutes",)

    def routes(self, fabric, health):
        def resolve(src, dst):
            away = {int(d): self._distances(fabric, health, int(d)) for d in np.unique(dst)}
            every = [
                self._paths(fabric, health, away[b], a, b)
                for a, b in zip(src.tolist(), dst.tolist(), strict=True)
            ]
            paths = [path for several in every for path in several]
            return PathBatch(
                src,
                dst,
                np.cumsum([0, *(len(several) for several in every)]),
                np.array([1 / len(several) for several in every for _ in several]),
                np.cumsum([0, *map(len, paths)]),
                np.array([link for path in paths for link in path], np.int32),
            )

        return RouteTable("every-path", health.version, fabric.n_gpus, resolve)

    def _distances(self, fabric, health, target):
        """Hops from every node that reaches the target."""
        away, waiting = {target: 0}, [target]
        for node in waiting:
            for out in fabric.out_links(node).tolist():
                neighbour, back = int(fabric.link_dst[out]), out ^ 1
                if neighbour not in away and fabric.usable[back] and not health.down[back]:
                    away[neighbour] = away[node] + 1
                    waiting.append(neighbour)
        return away

    def _paths(self, fabric, health, away, node, target):
        if node == target or node not in away:
            return [[]] if node == target else []
        return [
            [link, *rest]
            for link in fabric.out_links(node).tolist()
            if fabric.usable[link] and not health.down[link]
            if away.get(int(fabric.link_dst[link]), np.inf) == away[node] - 1
            for rest in self._paths(fabric, health, away, int(fabric.link_dst[link]), target)
        ]


@hookimpl
def register_routers(register):
    register("every-path", EveryPath())
