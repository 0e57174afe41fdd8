"""Routes on tori from the offline optimiser."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from railweave.framework.errors import ExperimentError, FabricError
from railweave.framework.hookspecs import Explanation, NodeName
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter, Value
from railweave.plugins.dor.decision import check_pair, signed
from railweave.plugins.dor.lattice import AXES, SERVES, Lattice
from railweave.plugins.dor.paths import batch_of
from railweave.plugins.dor.router import check_health, dimension_order
from railweave.plugins.ilp.cache import Cache, default_folder, problem_key
from railweave.plugins.ilp.solution import Solution
from railweave.plugins.ilp.solve import LIMIT_S, sequence_around, solve
from railweave.plugins.ilp.symmetry import Symmetry, offset
from railweave.plugins.ilp.ways import signs_of, ways_of
from railweave.plugins.wfr.sequences import Sequence

ON, OFF = "on", "off"


@dataclass(frozen=True)
class Problem:
    """A torus with its dead links moved to their canonical place, and the shape of paths to choose from."""

    lattice: Lattice
    sequence: Sequence
    symmetry: Symmetry
    n_links: int

    @property
    def key(self) -> str:
        return problem_key(self.lattice, self.sequence, self.symmetry)


class OptimisedRouting:
    """One static path per pair, chosen so that all-to-all loads the busiest link least.

    Candidates: the shortest wild-first paths that live, in one sequence for all pairs, so that the channel classes
    of `wfr` keep it free of deadlock. Solved once per topology and fault, up to translation, and kept on disk.
    Source: Zu et al., "Resiliency at Scale", NSDI'24 (offline optimiser).
    """

    summary = "tori: paths that load the busiest link least in all-to-all, optimised offline and cached"
    parameters: tuple[Parameter, ...] = (
        Parameter("cache", ON, "text", "on: keep solutions in the user's cache folder; off; or a folder"),
        Parameter(
            "time_limit", LIMIT_S, "time", "for the solver; a longer one improves what is cached", minimum=1
        ),
    )
    serves: tuple[str, ...] = SERVES
    damped: bool = False

    def __init__(self, cache: Cache | None = None, limit_s: float = LIMIT_S) -> None:
        self._cache, self._limit_s = cache, limit_s
        self._solved: dict[str, Solution] = {}

    def configured(self, options: Mapping[str, Value]) -> OptimisedRouting:
        """Raises ExperimentError for an empty folder name."""
        where = str(options["cache"]).strip()
        if not where:
            raise ExperimentError("cache: it takes on, off, or a folder.")
        folder = default_folder() if where == ON else Path(where).expanduser()
        return OptimisedRouting(None if where == OFF else Cache(folder), float(options["time_limit"]))

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Free of deadlock; and one failure cuts off nobody the fabric joins, unless one axis is all there is."""
        return ("deadlock-free", "reroutes") if len(fabric.groups[0].shape) > 1 else ("deadlock-free",)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that looks up the paths of the pairs it is asked about.

        Raises UnsupportedFabricError for other fabrics and for faults that leave too many pairs to choose for,
        HealthError for a snapshot of another fabric, MachineError where a solver is needed and not installed.
        """
        problem = self.problem(fabric, health)
        solution = self._solution(problem)
        lattice, sequence = problem.lattice, problem.sequence
        row, signs = problem.symmetry.rows(lattice), signs_of(sequence)

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            source, place = row[src], offset(lattice, src, dst)
            number = solution.wild[source, place]
            reachable = number >= 0
            ways = ways_of(lattice, sequence, signs[number], solution.vector[:, source, place], src)
            return batch_of(lattice.rings, src, dst, ways, None if reachable.all() else reachable)

        return RouteTable("ilp", health.version, fabric.n_gpus, resolve)

    def solution(self, fabric: Fabric, health: HealthSnapshot) -> Solution:
        """What `routes` looks up, with value, bound, gap and `report`. Raises as `routes` does."""
        return self._solution(self.problem(fabric, health))

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The sequence, wild hops and displacement chosen, and how good the choice of all is. Raises RouteError
        for a GPU that is not there, otherwise as `routes` does."""
        check_pair(fabric, src, dst)
        problem = self.problem(fabric, health)
        solution, lattice = self._solution(problem), problem.lattice
        source = int(problem.symmetry.rows(lattice)[src])
        place = int(offset(lattice, np.array([src]), np.array([dst]))[0])
        number = int(solution.wild[source, place])
        if src == dst:
            return Explanation("same GPU")
        if number < 0:
            return Explanation(
                f"cut off: no {problem.sequence} path lives", {"sequence": str(problem.sequence)}
            )
        hops = zip(problem.sequence.wild, signs_of(problem.sequence)[number], strict=True)
        wild = " ".join(f"{AXES[axis]}{'+' if sign > 0 else '-'}" for axis, sign in hops if sign)
        vector = tuple(int(hop) for hop in solution.vector[:, source, place])
        return Explanation(
            f"chosen together with all other pairs: {solution.report}",
            {"sequence": str(problem.sequence), "wild_hops": wild or "none", "displacement": signed(vector),
             "busiest_link": solution.value, "lp_bound": round(solution.bound, 4)},
        )  # fmt: skip

    def problem(self, fabric: Fabric, health: HealthSnapshot) -> Problem:
        """What there is to solve; equal keys for faults that are translations of each other."""
        lattice = Lattice.of(fabric, "ilp")
        check_health(fabric, health)
        if fabric.capacity_bps.min() != fabric.capacity_bps.max():
            raise FabricError(
                f"router ilp: the links of this {fabric.kind} differ in rate, and it counts them as equal. "
                "Use `--router wfr`, or one link_rate."
            )
        axes = len(lattice.shape)
        dead = [int(health.down[np.unique(lattice.steps[2 * a : 2 * a + 2])].sum()) for a in range(axes)]
        sequence = sequence_around(dimension_order(lattice.shape), dead)
        return Problem(lattice, sequence, Symmetry.of(lattice, health.down), fabric.n_links)

    def _solution(self, problem: Problem) -> Solution:
        """From memory, from disk, or solved; solved again if it is not proven and there is more time now."""
        key = problem.key
        found = self._solved.get(key)
        if found is None and self._cache is not None:
            found = self._cache.load(key)
        if found is None or not (found.proven or found.limit_s >= self._limit_s):
            found = solve(problem.lattice, problem.sequence, problem.symmetry, problem.n_links, self._limit_s)
            if self._cache is not None:
                _keep(self._cache, key, found)
        self._solved[key] = found
        return found


def _keep(cache: Cache, key: str, solution: Solution) -> None:
    """A full or read-only disk costs the next run time, not this run its routes."""
    try:
        cache.store(key, solution)
    except OSError as error:
        warnings.warn(
            f"router ilp: the solution is not kept in {cache.folder} ({error}). Free or change the folder (option "
            "cache), or say cache=off.",
            RuntimeWarning,
            stacklevel=2,
        )
