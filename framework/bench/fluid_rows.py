"""Experiments that `bench fluid` runs, and the two small ones of `--quick`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

TREE_1024 = {"topology": "fat-tree", "k": 16, "router": "ecmp"}


@dataclass(frozen=True, slots=True)
class FluidCase:
    """One experiment: its name; keys of it, as `rw.run` takes them; seconds and megabytes it should take;
    whether SimGrid can be asked for it, too. `algorithm`: makes the MSCCL file that is its collective."""

    name: str
    keys: Mapping[str, object]
    goal_s: float
    goal_mb: float | None = None
    peer: bool = False
    algorithm: Callable[[], str] | None = None


def permutation(sizes: str = "equal") -> dict[str, object]:
    collective = {"name": "permutation", "sizes": sizes}
    return {"collective": collective, "size": 2_000_000, "iterations": 1}


def all_reduce(domains: int, rails: int) -> dict[str, object]:
    shape = {"domains": domains, "rails": rails}
    return {"topology": "rail-only", **shape, "router": "hscore", "collective": "all-reduce", "size": "1G"}


QUICK = (
    FluidCase("permutation 128 fat-tree", TREE_1024 | permutation() | {"k": 8}, 1, peer=True),
    FluidCase("all-reduce 16x16", all_reduce(16, 16) | {"iterations": 2}, 1),
)
