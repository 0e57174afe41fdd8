"""Solutions on disk, by topology and fault; a file that cannot be read is treated as absent."""

import hashlib
import os
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from railweave.framework.routing.torus.lattice import Lattice
from railweave.framework.routing.torus.sequences import Sequence
from railweave.plugins.ilp.solution import Solution
from railweave.plugins.ilp.symmetry import Symmetry

VERSION = 1
"""Raise it when candidates, their numbering or the canonical place of a fault change."""

UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


def default_folder() -> Path:
    """`$XDG_CACHE_HOME/railweave/ilp`, or under `~/.cache`. Source: XDG base directory specification."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path("~/.cache").expanduser()
    return base / "railweave" / "ilp"


def problem_key(lattice: Lattice, sequence: Sequence, symmetry: Symmetry) -> str:
    """The problem as text: equal for faults that are translations of each other, different for all else."""
    single = [
        bool((lattice.steps[2 * a] == lattice.steps[2 * a + 1]).any()) for a in range(len(lattice.shape))
    ]
    return (
        f"railweave ilp {VERSION}; shape {lattice.shape}; twist {lattice.twist.tolist()}; single cable "
        f"{single}; "
        f"sequence {sequence}; down {symmetry.fault.tolist()}"
    )


@dataclass(frozen=True)
class Cache:
    """Solutions in a folder, one file each; made when first written to."""

    folder: Path

    def path(self, key: str) -> Path:
        return self.folder / f"v{VERSION}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.npz"

    def load(self, key: str) -> Solution | None:
        """None if there is none, or a file that is damaged or of another problem: it is then solved again."""
        try:
            with self.path(key).open("rb") as file, np.load(file, allow_pickle=False) as stored:
                if str(stored["key"]) != key:
                    return None
                value, bound, seconds, cpu_seconds, limit_s = (float(x) for x in stored["figures"])
                wild, vector = stored["wild"], stored["vector"]
        except UNREADABLE:
            return None
        if wild.ndim != 2 or vector.shape[1:] != wild.shape:
            return None
        return Solution(int(value), bound, seconds, cpu_seconds, limit_s, wild, vector)

    def store(self, key: str, solution: Solution) -> None:
        """Written to a temporary file and moved into place, so that no reader sees half a file. Raises
        OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        figures = np.array(
            [solution.value, solution.bound, solution.seconds, solution.cpu_seconds, solution.limit_s]
        )
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=".writing-", suffix=".npz")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez_compressed(
                    file,
                    key=np.array(key),
                    figures=figures,
                    wild=solution.wild.astype(np.int32),
                    vector=solution.vector.astype(np.int32),
                )
            Path(name).replace(self.path(key))
        except BaseException:
            with suppress(FileNotFoundError):
                Path(name).unlink()
            raise
