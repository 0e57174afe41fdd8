"""The optimiser's solution: the paths by source row and offset, how good they are proved to be, and their
cache."""

import hashlib
import os
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np

from railweave.framework.model.arrays import ArrayNoun, Int64
from railweave.plugins.ilp.problem import VERSION
from railweave.plugins.ilp.program import BELOW

UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


@dataclass(frozen=True, eq=False)
class Solution(ArrayNoun):
    """`value`: units on the busiest link when every ordered pair sends one; `bound`: no choice among these
    candidates has less (LP). `seconds`, `cpu_seconds`: what solving took; `limit_s`: what it was allowed.

    `wild` (R, n): per source row and offset the number of the choice of wild hops, -1 for pairs without a
    path; `vector` (axes, R, n): the displacement after them.
    """

    value: int
    bound: float
    seconds: float
    cpu_seconds: float
    limit_s: float
    wild: Int64
    vector: Int64

    @property
    def gap(self) -> float:
        """(value - bound) / bound; 0 where there is nothing to carry."""
        return (self.value - self.bound) / self.bound if self.bound > 0 else 0.0

    @property
    def proven(self) -> bool:
        """Whether nothing better exists over these candidates: loads are whole numbers."""
        return self.value <= ceil(self.bound - BELOW)

    @property
    def unreachable(self) -> int:
        """Pairs of one source row without a path, over all rows (the offset 0 is the source itself)."""
        return int((self.wild[:, 1:] < 0).sum())

    @property
    def report(self) -> str:
        """One line: value, bound, gap, whether proven, time."""
        proof = "proven optimal (loads are whole numbers)" if self.proven else "not proven optimal"
        return (
            f"busiest link {self.value}, LP bound {self.bound:.2f}, gap {self.gap:.2%}, {proof}; "
            f"solved in {self.seconds:.1f} s ({self.cpu_seconds:.1f} s of CPU)"
        )


def default_folder() -> Path:
    """`$XDG_CACHE_HOME/railweave/ilp`, or under `~/.cache`. Source: XDG base directory specification."""
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (home if home.is_absolute() else Path("~/.cache").expanduser()) / "railweave" / "ilp"


@dataclass(frozen=True)
class Cache:
    """Solutions by topology and fault in a folder, one file each; made when first written to."""

    folder: Path

    def path(self, key: str) -> Path:
        return self.folder / f"v{VERSION}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.npz"

    def load(self, key: str) -> Solution | None:
        """None if there is none, or a file that is damaged or of another problem: it is then solved again."""
        try:
            with self.path(key).open("rb") as file, np.load(file, allow_pickle=False) as stored:
                value, bound, seconds, cpu_seconds, limit_s = (float(x) for x in stored["figures"])
                wild, vector = stored["wild"], stored["vector"]
                fits = str(stored["key"]) == key and wild.ndim == 2 and vector.shape[1:] == wild.shape
        except UNREADABLE:
            return None
        return Solution(int(value), bound, seconds, cpu_seconds, limit_s, wild, vector) if fits else None

    def store(self, key: str, solution: Solution) -> None:
        """Written to a temporary file and moved into place, so that no reader sees half a file. Raises
        OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=".writing-", suffix=".npz")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez_compressed(
                    file,
                    key=np.array(key),
                    figures=np.array(
                        [
                            solution.value,
                            solution.bound,
                            solution.seconds,
                            solution.cpu_seconds,
                            solution.limit_s,
                        ]
                    ),
                    wild=solution.wild.astype(np.int32),
                    vector=solution.vector.astype(np.int32),
                )
            Path(name).replace(self.path(key))
        except BaseException:
            with suppress(FileNotFoundError):
                Path(name).unlink()
            raise
