"""Traffic patterns: how much each GPU sends to each other, what that puts on the links of a fabric in its
present health, and its throughput relative to the healthy fabric."""

import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError, did_you_mean
from railweave.framework.hookspecs import Router
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.routing.loads import LinkLoads, between, everywhere, loads_of
from railweave.framework.routing.router_calls import ask_for_live_links

ALL_TO_ALL, PERMUTATION = "all-to-all", "permutation"
PATTERNS = (ALL_TO_ALL, PERMUTATION)


@dataclass(frozen=True, eq=False)
class Pattern:
    """`amount[i]` `unit`s go from `src[i]` to `dst[i]`. All-to-all is `uniform`, without its n(n-1) pairs:
    every ordered pair exchanges 1 unit, and the arrays are empty."""

    name: str
    unit: str
    src: Int64
    dst: Int64
    amount: Float
    uniform: bool = False


@dataclass(frozen=True, slots=True)
class KindLoads:
    """Loads of the links of one kind, in the demand's unit; `down` links carry nothing and are left out."""

    kind: str
    links: int
    down: int
    most: float
    least: float
    mean: float


@dataclass(frozen=True, eq=False)
class LoadReport(LinkLoads):
    """What `demand` puts on the links of `fabric`: its loads, and `busy_s` (n_links,), the load over the rate
    left, for bytes: s.

    `ratio`: throughput relative to the same demand on the healthy fabric, if all pairs progress equally: the
    busiest link's time there over its time here; 0 with unreachable pairs. `ratio_of_routed`: the same
    without the unreachable pairs. `moved`: pairs with another path than on the healthy fabric.
    """

    fabric: Fabric
    demand: Pattern
    busy_s: Float
    kinds: tuple[KindLoads, ...]
    ratio: float
    ratio_of_routed: float
    moved: int


def tables_asked(health: HealthSnapshot) -> int:
    """How many times `report` routes the demand: twice for a damaged fabric, which is compared with the
    healthy one."""
    return 1 + _damaged(health)


def report(
    name: str,
    router: Router,
    fabric: Fabric,
    health: HealthSnapshot,
    demand: Pattern,
    watch: Callable[[int], None] = lambda pairs: None,
) -> LoadReport:
    """The loads of `demand` by `router`'s paths under `health`; `watch` is called with the number of pairs
    done.

    A link of score h passes h times its declared rate.

    Raises PluginError for a router that breaks its contract.
    """
    states = [HealthSnapshot.healthy(fabric), health] if _damaged(health) else [health]
    tables = [ask_for_live_links(router, name, fabric, state, watch) for state in states]
    demanded = everywhere(fabric.n_gpus) if demand.uniform else between(demand.src, demand.dst, demand.amount)
    (healthy, *damaged), moved = loads_of(fabric, tables, demanded)
    now = damaged[0] if damaged else healthy
    rate = fabric.capacity_bps * health.link_score
    busy = np.divide(now.load * 8, rate, out=np.zeros(fabric.n_links), where=rate > 0)
    before = float((healthy.load * 8 / fabric.capacity_bps).max())
    routed = before / float(busy.max()) if busy.any() else 0.0
    kinds = tuple(
        _of_kind(kind, now.load[fabric.link_kind == i], health.down[fabric.link_kind == i])
        for i, kind in enumerate(fabric.kinds)
    )
    return LoadReport(
        **vars(now),
        fabric=fabric,
        demand=demand,
        busy_s=busy,
        kinds=kinds,
        ratio=0.0 if len(now.unreachable) else routed,
        ratio_of_routed=routed,
        moved=moved,
    )


def _damaged(health: HealthSnapshot) -> bool:
    return bool((health.link_score < 1).any() or (health.element_score < 1).any())


def _of_kind(kind: str, load: Float, down: np.ndarray) -> KindLoads:
    live = load[~down]
    figures = (float(live.max()), float(live.min()), float(live.mean())) if live.size else (0.0, 0.0, 0.0)
    return KindLoads(kind, len(load), int(down.sum()), *figures)


def pattern(text: str, fabric: Fabric, seed: int) -> Pattern:
    """The demand called `text`: all-to-all, permutation (drawn by `seed`, no GPU sends to itself), or a
    matrix file.

    Raises ExperimentError for text that is neither a pattern nor a file, and for files without a demand.
    """
    if text == ALL_TO_ALL:
        none = np.empty(0, np.int64)
        return Pattern(text, "units", none, none, np.empty(0), uniform=True)
    if text == PERMUTATION:
        src = np.arange(fabric.n_gpus)
        return Pattern(f"{text} (seed {seed})", "units", src, derangement(len(src), seed), np.ones(len(src)))
    path = Path(text)
    if not path.is_file():
        raise ExperimentError(
            f"--pattern {text}: neither a pattern ({', '.join(PATTERNS)}) nor a "
            f"file.{did_you_mean(text, PATTERNS)} Check the path."
        )
    matrix = read_matrix(path, fabric)
    np.fill_diagonal(matrix, 0)
    src, dst = np.nonzero(matrix)
    if not len(src):
        raise ExperimentError(f"{path}: no GPU sends anything to another. Give at least one amount above 0.")
    return Pattern(text, "bytes", src, dst, matrix[src, dst])


def derangement(n: int, seed: int) -> Int64:
    """(n,): a permutation without fixed points, all equally likely; equal seeds give equal ones. n is 2 or
    more."""
    rng = np.random.default_rng(seed)
    while True:  # one permutation in e has no fixed point, whatever n
        drawn = rng.permutation(n)
        if not (drawn == np.arange(n)).any():
            return drawn


def read_matrix(path: Path, fabric: Fabric) -> Float:
    """(n_gpu, n_gpu), bytes, [src, dst], from .npy or CSV, with the diagonal of the file.

    Raises ExperimentError for unreadable files, wrong shapes and negative amounts.
    """
    n = fabric.n_gpus
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an empty file is a warning to numpy
            if path.suffix == ".npy":
                with path.open("rb") as file:
                    loaded = np.load(file, allow_pickle=False)
            else:
                loaded = np.loadtxt(path, delimiter=",", ndmin=2, dtype=np.float64)
        if not isinstance(loaded, np.ndarray) or loaded.dtype.kind not in "iufb":
            raise ValueError("it does not hold plain numbers")
    except (ValueError, OSError, EOFError, UserWarning, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ExperimentError(
            f"{path}: cannot be read as a matrix: {reason}. Write CSV of numbers without a header, or .npy."
        ) from None
    matrix = np.array(cast(NDArray[np.float64], loaded), np.float64)
    if matrix.shape != (n, n):
        raise ExperimentError(
            f"{path}: {' x '.join(map(str, matrix.shape))} numbers; this {fabric.kind} has {n} GPUs, so the "
            f"matrix is {n} x {n}, bytes from row to column."
        )
    bad = np.argwhere(~((matrix >= 0) & np.isfinite(matrix)))
    if len(bad):
        row, column = (int(i) for i in bad[0])
        raise ExperimentError(
            f"{path}: {matrix[row, column]:g} bytes from {fabric.node_name(row)} to "
            f"{fabric.node_name(column)} (row {row + 1}, column {column + 1}). An amount is a number, 0 or "
            "more."
        )
    return matrix
