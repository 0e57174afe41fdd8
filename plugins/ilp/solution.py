"""The optimiser's solution: the paths by source row and offset, and how good they are proved to be."""

from dataclasses import dataclass
from math import ceil

from railweave.framework.model.arrays import ArrayNoun, Int64
from railweave.plugins.ilp.program import BELOW


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
