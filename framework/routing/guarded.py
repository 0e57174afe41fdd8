"""A router asked with care: what breaks the contract is laid at its door, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from railweave.framework.errors import PluginError, RailweaveError, RouteError
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64

_T = TypeVar("_T")


def guarded_table(
    name: str,
    router: Router,
    fabric: Fabric,
    health: HealthSnapshot,
    watch: Callable[[int], None] = lambda pairs: None,
) -> RouteTable:
    """The router's table, which raises PluginError for links that are not there or down, and for anything that the
    router raises without meaning to; `watch` is told the number of pairs answered, batch by batch.

    Whether the links join into paths is not looked at; see `checks.check_table`.
    """
    table = guarded(name, lambda: router.routes(fabric, health))
    if not isinstance(table, RouteTable):
        raise PluginError(
            f"router {name} returned {type(table).__name__} instead of a RouteTable. Mend its `routes`, or use another."
        )

    def resolve(src: Int64, dst: Int64) -> PathBatch:
        batch = guarded(name, lambda: table.paths(src, dst))
        if not isinstance(batch, PathBatch):
            raise PluginError(f"router {name} answered with {type(batch).__name__} instead of a PathBatch.")
        links = batch.links
        if len(links) and not 0 <= int(links.min()) <= int(links.max()) < fabric.n_links:
            raise PluginError(
                f"router {name} gave a path over link {links[(links < 0) | (links >= fabric.n_links)][0]}; the fabric's "
                f"links are 0..{fabric.n_links - 1}."
            )
        dead = np.flatnonzero(health.down[links])
        if dead.size:
            path = int(np.searchsorted(batch.hop_start, dead[0], side="right")) - 1
            pair = int(np.searchsorted(batch.pair_start, path, side="right")) - 1
            ends = f"{fabric.node_name(int(src[pair]))} -> {fabric.node_name(int(dst[pair]))}"
            link = fabric.link_name(int(links[dead[0]]))
            raise PluginError(f"router {name} leads {ends} over {link}, which is down.")
        watch(len(src))
        return batch

    return RouteTable(name, table.version, fabric.n_gpus, resolve)


def guarded(name: str, ask: Callable[[], _T]) -> _T:
    """What `ask` gives; PluginError naming the router for what a plugin must not raise."""
    try:
        return ask()
    except RouteError as error:
        raise PluginError(f"router {name} broke its contract: {error}") from error
    except RailweaveError:
        raise
    except Exception as error:
        raise PluginError(
            f"router {name} failed with {type(error).__name__}: {error}. Repair it, or use another."
        ) from error
