"""Calls a router, a stranger's as well: reports contract violations as errors that name it, with file and
line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from railweave.framework.errors import (
    PluginError,
    RailweaveError,
    RouteError,
    blaming,
    defined_at,
    type_name,
)
from railweave.framework.hookspecs import Router
from railweave.framework.model import Demand, Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.model.routes import UNSTAMPED
from railweave.framework.routing.table_checks import pair_name


def ask(
    router: Router,
    name: str,
    fabric: Fabric,
    health: HealthSnapshot,
    demand: Demand | None = None,
    *,
    error: type[RailweaveError] = RouteError,
) -> RouteTable:
    """The router's table under its registered name; its answers, which come late, are guarded in the same
    way. `demand` is for routers that want it.

    Raises `error`, naming the router and the place in its code, if it raises anything but an error of ours,
    or does not answer with a RouteTable for this fabric. What it refuses on purpose (UnsupportedFabricError)
    passes.
    """
    where = f"router {name}: routes() of a {fabric.kind} fabric"
    with blaming(where, error):
        table = unguarded(router, fabric, health, demand)
    if not isinstance(table, RouteTable):
        raise error(f"{where} returns {type_name(table)} instead of a RouteTable.")
    if table.n_gpus != fabric.n_gpus:
        raise error(f"{where} returns a table of {table.n_gpus} GPUs for a fabric of {fabric.n_gpus}.")

    def guarded(src: Int64, dst: Int64) -> PathBatch:
        with placed(router), blaming(f"{where}: its table", error):
            batch = table.resolve(src, dst)
        if not isinstance(batch, PathBatch):
            raise error(f"{where}: its table answers with {type_name(batch)} instead of a PathBatch.")
        return batch

    version = health.version if table.version == UNSTAMPED else table.version
    return replace(table, router=name, version=version, resolve=guarded)


@contextmanager
def placed(router: Router) -> Iterator[None]:
    """Errors in paths name the place in the router's code as well."""
    try:
        yield
    except RouteError as error:
        place = f"The router is at {defined_at(router.routes)}."
        if type(error) is not RouteError or place in str(error):
            raise
        raise RouteError(f"{error} {place}") from error


def unguarded(
    router: Router, fabric: Fabric, health: HealthSnapshot, demand: Demand | None = None
) -> RouteTable:
    """What the router answers, whatever it raises."""
    return router.routes(fabric, health, *([demand] if wants_demand(router) else []))


def wants_demand(router: Router) -> bool:
    """Whether `routes` takes what is sent; a stranger's need not say."""
    return bool(getattr(router, "wants_demand", False))


def ask_for_live_links(
    router: Router,
    name: str,
    fabric: Fabric,
    health: HealthSnapshot,
    answered: Callable[[int], None] = lambda pairs: None,
) -> RouteTable:
    """As `ask`, with PluginError, which paths over links that do not exist or are down raise too.

    `answered` is called with the number of pairs, batch by batch. Whether the links join into paths is for
    `checks.check_batch` to say.
    """
    table = ask(router, name, fabric, health, error=PluginError)

    def resolve(src: Int64, dst: Int64) -> PathBatch:
        try:
            batch = table.paths(src, dst)
        except RouteError as error:
            raise PluginError(str(error)) from error
        links = batch.links
        outside = np.flatnonzero((links < 0) | (links >= fabric.n_links))
        if outside.size:
            raise PluginError(
                f"router {name} gave a path over link {links[outside[0]]}; the fabric's links are "
                f"0..{fabric.n_links - 1}."
            )
        dead = np.flatnonzero(health.down[links])
        if dead.size:
            pair = batch.path_pair[batch.hop_path[dead[0]]]
            ends, link = pair_name(fabric, src[pair], dst[pair]), fabric.link_name(int(links[dead[0]]))
            raise PluginError(f"router {name} leads {ends} over {link}, which is down.")
        answered(len(src))
        return batch

    return replace(table, resolve=resolve)
