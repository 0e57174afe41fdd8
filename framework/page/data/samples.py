"""The samples of a run, read with suspicion: what the file claims is checked before its arrays are read."""

import tokenize
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import fields
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Fabric
from railweave.framework.model.findings import PathsInUse
from railweave.framework.page.data.items import Arrays
from railweave.framework.runs.recorder import ROUTED_GPUS

MOST_BYTES = 2_000_000_000
"""Bytes of all arrays together, uncompressed, at most: a small archive may claim terabytes."""
MOST_NUMBER = 1e18
"""Largest number of a sample; a larger one is damage and counts as unknown."""
MOST_PATHS, MOST_HOPS = 100_000, 1_000_000
"""Of the routes of a file, paths and hops that a page takes."""
_NEEDED = ("t_s", "queue_bytes", "link_score", "element_score")
_SENT = ("sent_bytes", "sent_packets", "lost")
"""Of newer versions: all of them or none."""
_TIMED = {"job": "iu", "iteration": "iu", "gpu": "iu", "begin_s": "fiu", "end_s": "fiu"}
_DAMAGE = (
    OSError, ValueError, EOFError, RuntimeError, SyntaxError, MemoryError, OverflowError, TypeError,
    zipfile.BadZipFile, zlib.error, tokenize.TokenError,
)  # fmt: skip
"""What reading a damaged archive, or the header of an array in it, ends in."""


def read_samples(path: Path, fabric: Fabric) -> tuple[Arrays | None, str]:
    """The arrays of health.npz; or None, and why it was left out ("" where there is no such file)."""
    return _checked(path, lambda arrays: _wrong(arrays, fabric))


def read_paths(path: Path, fabric: Fabric) -> tuple[Arrays | None, str]:
    """Those of routes.npz; as `read_samples`."""
    return _checked(path, lambda arrays: _wrong_paths(arrays, fabric))


def read_rank_times(path: Path, fabric: Fabric) -> tuple[Arrays | None, str]:
    """Those of ranks.npz; as `read_samples`."""
    return _checked(path, lambda arrays: _wrong_rank_times(arrays, fabric))


def _checked(path: Path, wrong_of: Callable[[Arrays], str]) -> tuple[Arrays | None, str]:
    if path.exists() and not path.is_file():  # reading a pipe would wait
        return None, f"{path.name} is left out: it is no file."
    try:
        with zipfile.ZipFile(path) as archive:
            claimed = sum(_claimed_bytes(archive, name) for name in archive.namelist())
        if claimed > MOST_BYTES:
            return None, f"{path.name} is left out: it claims {claimed / 1e9:.3g} GB of samples."
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: _plain(array) for name, array in file.items()}
    except FileNotFoundError:
        return None, ""
    except _DAMAGE as error:
        return None, f"{path.name} is left out: {error or type(error).__name__}."
    wrong = wrong_of(arrays)
    return (None, f"{path.name} is left out: {wrong}.") if wrong else (arrays, "")


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Numbers of 8 bytes (4 where they are such), with NaN, not known, for numbers that are too large."""
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            numbers = array if array.dtype.itemsize == 4 else array.astype(np.float64)
        return np.where(np.abs(numbers) > MOST_NUMBER, np.nan, numbers)
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


def _claimed_bytes(archive: zipfile.ZipFile, name: str) -> int:
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file)
    return int(prod(shape)) * max(dtype.itemsize, 4 if dtype.kind == "f" else 8)


def _wrong(arrays: Arrays, fabric: Fabric) -> str:
    """What keeps the arrays from being samples of this fabric; "" if nothing does."""
    if absent := [name for name in _NEEDED if name not in arrays]:
        return f"it has no {', '.join(absent)}"
    if 0 < len(absent := [name for name in _SENT if name not in arrays]) < len(_SENT):
        return f"it has no {', '.join(absent)}"
    t_s, n = arrays["t_s"], len(np.atleast_1d(arrays["t_s"]))
    if any(array.dtype.kind not in "fiu" for array in arrays.values()):
        return "not all of it is numbers"
    if t_s.ndim != 1 or not np.isfinite(t_s).all() or (np.diff(t_s) < 0).any():
        return "its times are not in order"
    for name, array in arrays.items():
        width = fabric.n_nodes if name.startswith("element") else fabric.n_links
        if name != "t_s" and array.shape != (n, width):
            return f"{name} has the shape {array.shape}, and this fabric needs {(n, width)}"
    return ""


def _wrong_paths(arrays: Arrays, fabric: Fabric) -> str:
    """What keeps the arrays from being paths in this fabric; "" if nothing does."""
    if fabric.n_gpus > ROUTED_GPUS:
        return f"routes are kept of up to {ROUTED_GPUS} GPUs, and this fabric has {fabric.n_gpus}"
    if absent := [field.name for field in fields(PathsInUse) if field.name not in arrays]:
        return f"it has no {', '.join(absent)}"
    kinds = {"t_s": "fiu", "weight": "fiu"}
    if any(
        array.ndim != 1 or array.dtype.kind not in kinds.get(name, "iu") for name, array in arrays.items()
    ):
        return "not all of it is rows of numbers, and of whole ones"
    start, n = arrays["hop_start"], len(arrays["t_s"])
    fits = len(start) == n + 1 and {len(arrays[name]) for name in ("src", "dst", "weight")} == {n}
    if not fits or start[0] or start[-1] != len(arrays["links"]) or (np.diff(start) < 0).any():
        return "its ranges do not fit together"
    if n > MOST_PATHS or start[-1] > MOST_HOPS:
        return f"it has {n} paths of {start[-1]} hops, and a page takes {MOST_PATHS} of {MOST_HOPS} at most"
    for name, most in (("src", fabric.n_gpus), ("dst", fabric.n_gpus), ("links", fabric.n_links)):
        if len(array := arrays[name]) and not 0 <= array.min() <= array.max() < most:
            return f"{name} has numbers that this fabric does not"
    finite = np.isfinite(arrays["t_s"]).all() and np.isfinite(arrays["weight"]).all()
    return "" if finite else "not all of it is finite"


def _wrong_rank_times(arrays: Arrays, fabric: Fabric) -> str:
    """What keeps the arrays from being times of ranks of this fabric; "" if nothing does."""
    if absent := [name for name in _TIMED if name not in arrays]:
        return f"it has no {', '.join(absent)}"
    if any(arrays[name].ndim != 1 or arrays[name].dtype.kind not in kinds for name, kinds in _TIMED.items()):
        return "not all of it is rows of numbers, and of whole ones"
    if len({len(arrays[name]) for name in _TIMED}) > 1:
        return "its rows differ in length"
    begin_s, end_s, gpu = arrays["begin_s"], arrays["end_s"], arrays["gpu"]
    if not (np.isfinite(begin_s).all() and np.isfinite(end_s).all() and (begin_s <= end_s).all()):
        return "not all of its times are finite, and in order"
    if len(gpu) and not 0 <= gpu.min() <= gpu.max() < fabric.n_gpus:
        return "gpu has numbers that this fabric does not"
    return ""
