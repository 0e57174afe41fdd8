"""Times of hierarchical all-gathers and all-to-alls, and lower bounds for any algorithm."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Float, Int64

EXHAUSTIVE_GPUS = 20
"""The largest number of GPUs whose subsets are all tried."""


@dataclass(frozen=True, slots=True)
class Grid:
    """x GPUs in each of y HB domains; C_F and C_S are a GPU's bytes per second into its domain and its
    rail."""

    x: int
    y: int
    domain_bytes_per_s: float
    rail_bytes_per_s: float

    def __post_init__(self) -> None:
        if self.x < 1 or self.y < 1:
            raise ExperimentError(f"{self.y} domains of {self.x} GPUs: both must be 1 or more.")

    @property
    def gpus(self) -> int:
        return self.x * self.y


def ag_time_s(size_bytes: float, grid: Grid) -> float:
    """AGtime(D, x, y, C_F, C_S) = (y-1) D / (x y C_S) + (x-1) D / (x C_F), in seconds. Source: equation 1.

    Along the rails first, then inside the domains; a reduce-scatter is the reverse and takes equally long.
    """
    return float(gather_s(size_bytes, grid.x, grid.y, grid.domain_bytes_per_s, grid.rail_bytes_per_s))


def gather_s(size: ArrayLike, x: ArrayLike, y: ArrayLike, domain: float, rail: float) -> Float:
    """Equation 1 for many candidates at once; arrays that broadcast."""
    size, x, y = np.asarray(size, float), np.asarray(x, float), np.asarray(y, float)
    return np.asarray((y - 1) * size / (x * y * rail) + (x - 1) * size / (x * domain))


def rail_phase_bytes(size_bytes: float, grid: Grid) -> float:
    """What each GPU receives over its rail in an all-gather: (y-1) D / (x y). Source: section 3.2."""
    return (grid.y - 1) * size_bytes / grid.gpus


def domain_phase_bytes(size_bytes: float, grid: Grid) -> float:
    """What each GPU receives inside its domain in an all-gather: (x-1) D / x. Source: section 3.2."""
    return (grid.x - 1) * size_bytes / grid.x


@dataclass(frozen=True, slots=True)
class AllToAllTimes:
    """Seconds of an all-to-all of D bytes per pair: any-to-any network, rail-only, and how much slower that
    is."""

    full_s: float
    rail_only_s: float

    @property
    def slowdown(self) -> float:
        """y (x-1) C_S / (x (y-1) C_F), near C_S / C_F. The paper prints the inverse (equation 22)."""
        return self.rail_only_s / self.full_s - 1 if self.full_s else 0.0


def all_to_all_s(size_bytes: float, grid: Grid) -> AllToAllTimes:
    """Equations 20 (any-to-any: the slower of both networks) and 21 (domain with shard y D, then rail, x
    D)."""
    x, y = grid.x, grid.y
    inside = (x - 1) * size_bytes / grid.domain_bytes_per_s
    outside = x * (y - 1) * size_bytes / grid.rail_bytes_per_s
    return AllToAllTimes(max(inside, outside), y * inside + outside)


def bound_s(grid: Grid, size_bytes: float, *, rail_only: bool) -> float:
    """No all-gather of an array of `size_bytes` is faster than this, in seconds. Source: equations 8 and 9.

    Over all sets A of GPUs with complement A': the maximum of max(|A|, |A'|) shards over the capacity that
    leaves the narrower of the two. R full rows (domains) and C full columns (rails) inside a set take x R C_F
    and, on rail-only, y C C_S off that capacity. For given R and C the smallest set is the worst, so only (R,
    C) are tried: x y steps.
    """
    rows, columns = np.meshgrid(np.arange(grid.y), np.arange(grid.x if rail_only else 1), indexing="ij")
    size = np.maximum(rows * grid.x + columns * grid.y - rows * columns, 1)
    worst = _ratios(grid, size, rows, columns)[size < grid.gpus].max(initial=0.0)
    return float(worst) * (size_bytes / grid.gpus)


def bound_by_search_s(grid: Grid, size_bytes: float, *, rail_only: bool) -> float:
    """The same by trying all 2^(x y) - 2 sets. Raises ExperimentError past EXHAUSTIVE_GPUS GPUs."""
    n = grid.gpus
    if n > EXHAUSTIVE_GPUS:
        raise ExperimentError(f"{n} GPUs have too many subsets to try; the limit is {EXHAUSTIVE_GPUS}.")
    sets = np.arange(1, 2**n - 1, dtype=np.int64)
    size = np.sum([(sets >> i) & 1 for i in range(n)], axis=0)
    row, column = (1 << grid.x) - 1, sum(1 << (i * grid.x) for i in range(grid.y))
    rows = _full(sets, [row << (i * grid.x) for i in range(grid.y)])
    columns = _full(sets, [column << j for j in range(grid.x if rail_only else 0)])
    return float(_ratios(grid, size, rows, columns).max(initial=0.0)) * size_bytes / n


def _full(sets: Int64, masks: list[int]) -> Int64:
    """How many of the masks lie in each set."""
    return np.asarray(sum((sets & mask) == mask for mask in masks), np.int64)


def _ratios(grid: Grid, size: Int64, rows: Int64, columns: Int64) -> Float:
    """max(|A|, |A'|) over the bytes per second that leave A: the inner part of equations 8 and 9."""
    fast, slow = grid.domain_bytes_per_s, grid.rail_bytes_per_s
    leaves = (fast + slow) * size - grid.x * rows * fast - grid.y * columns * slow
    ratios: Float = np.maximum(size, grid.gpus - size) / leaves
    return ratios
