"""Traffic patterns: who sends how much to whom."""

from __future__ import annotations

import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Float, Int64
from railweave.framework.problems import did_you_mean

ALL_TO_ALL, PERMUTATION = "all-to-all", "permutation"
PATTERNS = (ALL_TO_ALL, PERMUTATION)


@dataclass(frozen=True, eq=False)
class Demand:
    """`amount[i]` `unit`s go from `src[i]` to `dst[i]`. All-to-all is kept as `uniform` without its n(n-1) pairs:
    every ordered pair wants 1 unit then, and the arrays are empty."""

    name: str
    unit: str
    src: Int64
    dst: Int64
    amount: Float
    uniform: bool = False


def pattern(text: str, fabric: Fabric, seed: int) -> Demand:
    """The demand called `text`: all-to-all, permutation (drawn by `seed`, nobody sends to itself), or a matrix file.

    Raises ExperimentError for a word that is neither a pattern nor a file, and for files that hold no demand.
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
            f"--pattern {text}: neither a pattern ({', '.join(PATTERNS)}) nor a file.{did_you_mean(text, PATTERNS)} "
            "Check the path."
        )
    matrix = read_matrix(path, fabric)
    np.fill_diagonal(matrix, 0)
    src, dst = np.nonzero(matrix)
    if not len(src):
        raise ExperimentError(
            f"{path}: nobody sends anything to another GPU. Give at least one amount above 0."
        )
    return Demand(text, "bytes", src, dst, matrix[src, dst])


def derangement(n: int, seed: int) -> Int64:
    """(n,): a permutation without fixed points, all equally likely; equal seeds give equal ones. n is 2 or more."""
    rng = np.random.default_rng(seed)
    while True:  # one permutation in e has no fixed point, whatever n
        drawn = rng.permutation(n)
        if not (drawn == np.arange(n)).any():
            return drawn


def read_matrix(path: Path, fabric: Fabric) -> Float:
    """(n_gpu, n_gpu), bytes, [src, dst], from .npy or CSV; the diagonal as it stands there.

    Raises ExperimentError that says what the file holds instead.
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
            f"{path}: cannot be read as a matrix: {reason}. Write CSV of numbers without a head, or .npy."
        ) from None
    matrix = np.array(cast(NDArray[np.float64], loaded), np.float64)
    if matrix.shape != (n, n):
        raise ExperimentError(
            f"{path}: {' x '.join(map(str, matrix.shape))} numbers; this {fabric.kind} has {n} GPUs, so the matrix is "
            f"{n} x {n}, bytes from row to column."
        )
    bad = np.argwhere(~((matrix >= 0) & np.isfinite(matrix)))
    if len(bad):
        row, column = (int(i) for i in bad[0])
        raise ExperimentError(
            f"{path}: {matrix[row, column]:g} bytes from {fabric.node_name(row)} to {fabric.node_name(column)} (row "
            f"{row + 1}, column {column + 1}). An amount is a number, 0 or more."
        )
    return matrix
