"""Asking a router, whoever wrote it: what it raises or forgets becomes an error that names it."""

from __future__ import annotations

from dataclasses import replace

from railweave.framework.errors import RailweaveError, RouteError
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64

MEND = "Run `railweave plugin check` on it."


def ask(router: Router, name: str, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
    """The router's table under its registered name; its answers, which come late, are guarded in the same way.

    Raises RouteError naming the router if it raises anything but an error of ours, or does not answer with a
    RouteTable for this fabric. What it refuses on purpose (UnsupportedFabricError and the like) passes.
    """
    try:
        table = router.routes(fabric, health)
    except RailweaveError:
        raise
    except Exception as error:
        raise _failed(name, fabric, error) from error
    if not isinstance(table, RouteTable):
        raise RouteError(
            f"router {name} gives {_kind(table)} for a {fabric.kind} fabric instead of a RouteTable. {MEND}"
        )
    if table.n_gpus != fabric.n_gpus:
        raise RouteError(
            f"router {name} gives a table of {table.n_gpus} GPUs for a {fabric.kind} of {fabric.n_gpus}. {MEND}"
        )
    resolve = table.resolve

    def guarded(src: Int64, dst: Int64) -> PathBatch:
        try:
            batch = resolve(src, dst)
        except RailweaveError:
            raise
        except Exception as error:
            raise _failed(name, fabric, error) from error
        if not isinstance(batch, PathBatch):
            raise RouteError(f"router {name}: its table answers with {_kind(batch)}, not a PathBatch. {MEND}")
        return batch

    return replace(table, router=name, resolve=guarded)


def _failed(name: str, fabric: Fabric, error: Exception) -> RouteError:
    return RouteError(
        f"router {name} fails on a {fabric.kind} fabric with {type(error).__name__}: {error}. {MEND}"
    )


def _kind(thing: object) -> str:
    return "nothing" if thing is None else f"a {type(thing).__name__}"
