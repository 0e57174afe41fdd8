"""Traffic patterns: how much each GPU sends to each other."""

import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError, did_you_mean
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Float, Int64

ALL_TO_ALL, PERMUTATION = "all-to-all", "permutation"
PATTERNS = (ALL_TO_ALL, PERMUTATION)


@dataclass(frozen=True, eq=False)
class Demand:
    """`amount[i]` `unit`s go from `src[i]` to `dst[i]`. All-to-all is `uniform`, without its n(n-1) pairs:
    every ordered pair exchanges 1 unit, and the arrays are empty."""

    name: str
    unit: str
    src: Int64
    dst: Int64
    amount: Float
    uniform: bool = False


def pattern(text: str, fabric: Fabric, seed: int) -> Demand:
    """The demand called `text`: all-to-all, permutation (drawn by `seed`, no GPU sends to itself), or a
    matrix file.

    Raises ExperimentError for text that is neither a pattern nor a file, and for files without a demand.
    """
    if text == ALL_TO_ALL:
        none = np.empty(0, np.int64)
        return Demand(text, "units", none, none, np.empty(0), uniform=True)
    if text == PERMUTATION:
        src = np.arange(fabric.n_gpus)
        return Demand(f"{text} (seed {seed})", "units", src, derangement(len(src), seed), np.ones(len(src)))
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
    return Demand(text, "bytes", src, dst, matrix[src, dst])


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
