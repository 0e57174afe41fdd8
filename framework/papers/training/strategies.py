"""Strategies to split one training job over a cluster: all that the constraints allow."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import product
from typing import Generic, TypeVar

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Int64
from railweave.framework.papers.training.clusters import Cluster
from railweave.framework.papers.training.models import LanguageModel

N = TypeVar("N")


@dataclass(frozen=True)
class Degrees(Generic[N]):
    """Degrees of tensor (t), pipeline (p) and data (d) parallelism, samples in a microbatch (b), model chunks
    per stage (v), and the part of each degree inside an HB domain (th, ph, dh; the rest is across
    domains)."""

    t: N
    p: N
    d: N
    b: N
    v: N
    th: N
    ph: N
    dh: N


Strategy = Degrees[int]


@dataclass(frozen=True, slots=True)
class FixedDegrees:
    """Degrees that are fixed instead of searched; None is free."""

    t: int | None = None
    p: int | None = None
    d: int | None = None
    b: int | None = None
    v: int | None = None

    def allows(self, name: str, value: int) -> bool:
        return getattr(self, name) in (None, value)


class StrategyTable(Degrees[Int64]):
    """Strategies as columns, (n,) each; `at(i)` is one of them."""

    def __len__(self) -> int:
        return len(self.t)

    def at(self, i: int) -> Strategy:
        return Strategy(*(int(getattr(self, f.name)[i]) for f in fields(self)))

    @staticmethod
    def of(strategy: Strategy) -> "StrategyTable":
        return StrategyTable(*(np.array([getattr(strategy, f.name)]) for f in fields(strategy)))


def divisors(n: int) -> list[int]:
    """All of them, ascending."""
    low = [i for i in range(1, int(n**0.5) + 1) if n % i == 0]
    return low + [n // i for i in reversed(low) if i * i != n]


def candidates(model: LanguageModel, cluster: Cluster, batch: int, fixed: FixedDegrees) -> StrategyTable:
    """Every strategy that meets constraints 11 to 18, ascending by (t, p, d, b, v, th, ph, dh).

    Raises ExperimentError when there is none.
    """
    if batch < 1:
        raise ExperimentError(f"a batch of {batch} samples: it needs 1 or more.")
    rows = [
        (t, p, d, b, v, th, ph, dh)
        for t, p, d in _degrees(model, cluster, batch, fixed)
        for b in divisors(batch // d)
        if fixed.allows("b", b)
        for v in divisors(model.layers // p)
        if fixed.allows("v", v)
        for th, ph, dh in _inside(cluster.domain, t, p, d)
    ]
    if not rows:
        degrees = {f.name: getattr(fixed, f.name) for f in fields(fixed)}
        chosen = ", ".join(f"{name} = {value}" for name, value in degrees.items() if value is not None)
        raise ExperimentError(
            f"no strategy trains {model.name} on {cluster.gpus} GPUs in HB domains of {cluster.domain} with "
            f"batch {batch}{' and ' + chosen if chosen else ''}: t p d = {cluster.gpus}, with t a divisor of "
            f"the sequence ({model.sequence}) and the hidden size ({model.hidden}), p v of the layers "
            f"({model.layers}), d b of the batch, and {cluster.domain} a product of parts of t, p and d "
            "(constraints 11 to 18). Change the number of GPUs, the batch or the fixed degrees."
        )
    return StrategyTable(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def _degrees(
    model: LanguageModel, cluster: Cluster, batch: int, fixed: FixedDegrees
) -> Iterator[tuple[int, int, int]]:
    """(t, p, d) with t p d = N (11), t | s, t | h, p | l and d | B (18)."""
    for t in divisors(cluster.gpus):
        if model.sequence % t or model.hidden % t or not fixed.allows("t", t):
            continue
        for p in divisors(cluster.gpus // t):
            d = cluster.gpus // t // p
            if not (model.layers % p or batch % d) and fixed.allows("p", p) and fixed.allows("d", d):
                yield t, p, d


def _inside(domain: int, t: int, p: int, d: int) -> Iterator[tuple[int, int, int]]:
    """(th, ph, dh) with th ph dh = K (12), th | t, ph | p, dh | d (14 to 16)."""
    for th, ph in product(divisors(t), divisors(p)):
        dh, rest = divmod(domain, th * ph)
        if not rest and d % dh == 0:
            yield th, ph, dh
