"""Routes on tori from the offline optimiser."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from railweave.framework.errors import ExperimentError, FabricError
from railweave.framework.hookspecs import Explanation, NodeName, Router
from railweave.framework.model import Fabric, HealthSnapshot, PathBatch, RouteTable
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter, Value
from railweave.framework.routing.torus.lattice import REQUIRES, Lattice
from railweave.framework.routing.torus.legs import batch_of, signed_text
from railweave.framework.routing.torus.wild_first import choices, vector_legs, wild_text
from railweave.plugins.ilp.problem import Problem
from railweave.plugins.ilp.solution import Cache, Solution, default_folder
from railweave.plugins.ilp.solve import LIMIT_S, solve

ON, OFF = "on", "off"


class OptimisedRouting(Router):
    """One static path per pair, chosen so that all-to-all loads the busiest link least.

    Candidates: the shortest wild-first paths that live, in one sequence for all pairs, so that the channel
    classes of `wfr` keep it free of deadlock. Solved once per topology and fault, up to translation, and kept
    on disk. Source: Zu et al., "Resiliency at Scale", NSDI'24 (offline optimiser).
    """

    summary = "tori: paths that load the busiest link least in all-to-all, optimised offline and cached"
    parameters: tuple[Parameter, ...] = (
        Parameter("cache", ON, "text", "on: keep solutions in the user's cache folder; off; or a folder"),
        Parameter("time_limit", LIMIT_S, "time", "for the solver; what it cuts short is not kept", minimum=1),
    )
    requires = REQUIRES

    def __init__(self, cache: Cache | None = None, limit_s: float = LIMIT_S) -> None:
        self._cache, self._limit_s = cache, limit_s
        self._solutions: dict[str, Solution] = {}

    def configured(self, options: Mapping[str, Value]) -> "OptimisedRouting":
        """Raises ExperimentError for an empty folder name."""
        where = str(options["cache"]).strip()
        if not where:
            raise ExperimentError("cache: it takes on, off, or a folder.")
        folder = default_folder() if where == ON else Path(where).expanduser()
        return OptimisedRouting(None if where == OFF else Cache(folder), float(options["time_limit"]))

    def promises(self, fabric: Fabric) -> tuple[str, ...]:
        """Free of deadlock; with several axes, one failure makes no pair unreachable that is joined."""
        return ("deadlock-free", "reroutes") if len(fabric.groups[0].shape) > 1 else ("deadlock-free",)

    def routes(self, fabric: Fabric, health: HealthSnapshot) -> RouteTable:
        """A table that looks up the paths of the pairs requested.

        Raises UnsupportedFabricError for other fabrics and for faults that leave too many pairs to choose
        for, HealthError for a snapshot of another fabric, MachineError where a solver is needed and not
        installed.
        """
        problem, solution = self._solved(fabric, health)
        lattice, sequence = problem.lattice, problem.sequence
        row, signs = problem.rows, np.array(choices(sequence), np.int64)

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            source, place = row[src], lattice.offset(src, dst)
            number = solution.wild[source, place]
            reachable = number >= 0
            legs = vector_legs(lattice, sequence, signs[number], solution.vector[:, source, place], src)
            return batch_of(lattice.rings, src, dst, legs, None if reachable.all() else reachable)

        return RouteTable("ilp", health.version, fabric.n_gpus, resolve)

    def solution(self, fabric: Fabric, health: HealthSnapshot) -> Solution:
        """What `routes` looks up, with value, bound, gap and `report`. Raises as `routes` does."""
        return self._solved(fabric, health)[1]

    def explain(
        self, fabric: Fabric, health: HealthSnapshot, src: int, dst: int, name: NodeName
    ) -> Explanation:
        """The sequence, wild hops and displacement chosen, and how good the choice of all is. Raises
        RouteError for a GPU that is not there, otherwise as `routes` does."""
        fabric.check_gpus(src, dst)
        problem, solution = self._solved(fabric, health)
        sequence = problem.sequence
        source, place = problem.rows[src], problem.lattice.offset(np.array([src]), np.array([dst]))[0]
        number = int(solution.wild[source, place])
        if src == dst:
            return Explanation("same GPU")
        if number < 0:
            return Explanation(f"unreachable: no {sequence} path lives", {"sequence": str(sequence)})
        return Explanation(
            f"chosen together with all other pairs: {solution.report}",
            {
                "sequence": str(sequence),
                "wild_hops": wild_text(sequence, choices(sequence)[number]),
                "displacement": signed_text(solution.vector[:, source, place]),
                "busiest_link": solution.value,
                "lp_bound": round(solution.bound, 4),
            },
        )

    def problem(self, fabric: Fabric, health: HealthSnapshot) -> Problem:
        """What there is to solve; equal keys for faults that are translations of each other."""
        lattice = Lattice.of(fabric, health, "ilp")
        if fabric.capacity_bps.min() != fabric.capacity_bps.max():
            raise FabricError(
                f"router ilp: the links of this {fabric.kind} differ in rate, and it counts them as equal. "
                "Use `--router wfr`, or one link_rate."
            )
        return Problem.of(lattice, health.down)

    def _solved(self, fabric: Fabric, health: HealthSnapshot) -> tuple[Problem, Solution]:
        """From memory, from disk, or solved. Only what a busy machine would find too is kept on disk."""
        problem = self.problem(fabric, health)
        key = problem.key
        solution = self._solutions.get(key) or (self._cache.load(key) if self._cache else None)
        if solution is None:
            solution = solve(problem, self._limit_s)
            if self._cache and solution.complete:
                # A full or read-only disk costs the next run time, not this run its routes.
                try:
                    self._cache.store(key, solution)
                except OSError as error:
                    warnings.warn(
                        f"router ilp: the solution is not kept in {self._cache.folder} ({error}). Free or "
                        "change the folder (option cache), or say cache=off.",
                        RuntimeWarning,
                        stacklevel=2,
                    )
        self._solutions[key] = solution
        return problem, solution
