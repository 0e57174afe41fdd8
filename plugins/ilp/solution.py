"""The optimiser's solution: the paths by source row and offset, how good they are proved to be, and their
cache."""

import hashlib
import os
import zipfile
from dataclasses import dataclass, fields
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from railweave.framework.model.arrays import ArrayNoun, Int64
from railweave.plugins.ilp.problem import VERSION

BELOW = 1e-6
"""How far a bound may lie above a whole number and still allow that number: rounding errors of the prices."""

UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


@dataclass(frozen=True, eq=False)
class Solution(ArrayNoun):
    """`value`: units on the busiest link when every ordered pair sends one; `bound`: no choice among these
    candidates has less (LP). `seconds`, `cpu_seconds`: what solving took; `complete`: whether the solver
    ended before its time did. If not, the answer depends on how busy the machine was.

    `wild` (R, n): per source row and offset the number of the choice of wild hops, -1 for pairs without a
    path; `vector` (axes, R, n): the displacement after them.
    """

    value: int
    bound: float
    seconds: float
    cpu_seconds: float
    complete: bool
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
    def report(self) -> str:
        """One line: value, bound, gap, whether proven, time."""
        proof = "proven optimal (loads are whole numbers)" if self.proven else "not proven optimal"
        return (
            f"busiest link {self.value}, LP bound {self.bound:.2f}, gap {self.gap:.2%}, {proof}; "
            f"solved in {self.seconds:.1f} s ({self.cpu_seconds:.1f} s of CPU)"
            + ("" if self.complete else "; cut short by its time limit, so not kept")
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
                values = {field.name: stored[field.name] for field in fields(Solution)}
                fits = str(stored["key"]) == key and values["vector"].shape[1:] == values["wild"].shape
        except UNREADABLE:
            return None
        return Solution(**{name: x if x.ndim else x.item() for name, x in values.items()}) if fits else None

    def store(self, key: str, solution: Solution) -> None:
        """Written elsewhere and moved into place, so that no reader sees half a file. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self.folder, prefix=".writing-") as folder:
            temporary = Path(folder) / "solution.npz"
            np.savez_compressed(temporary, key=np.array(key), **vars(solution))
            temporary.replace(self.path(key))
